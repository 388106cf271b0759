"""One question as several readers see it: their answers, what they look at, and how sure they are."""

from typing import NamedTuple

import numpy as np
from torch import nn

from helpers.batches.sequences import Windows
from helpers.data.examples import Example
from helpers.models.pretrained import load_tokenizer
from helpers.presets.schema import Preset
from helpers.tasks import metrics
from helpers.tasks.logits import Logits
from helpers.tasks.spans import distributions, joint_answers, windows_over
from helpers.training.loop import outputs

Span = tuple[int, int]
Readers = dict[str, nn.Module]  # "before" and "after"
RULE = (
    "of the {where} questions that the reader by itself answers wrong and the distilled one right, both answers in one "
    "window, the one where the former is surest of its wrong answer"
)


class Case(NamedTuple):
    """A question, the rule by which it was chosen, what both readers do with it (``compare``), and how many of the
    questions that it was chosen from changed sides, in words."""

    example: Example
    rule: str
    payload: dict
    changes: str


def choose(preset: Preset, readers: Readers, where: str, examples: list[Example]) -> Case:
    """A case by ``RULE`` among the examples called ``where``. Where no question fits, of all that the reader by itself
    answers wrong the one it is surest of; where it answers all right, the first. Wrong is an F1 of 0, right one of
    100."""
    windows = windows_over(preset, examples)
    answered = {name: joint_answers(preset, [model], windows) for name, model in readers.items()}
    right = {name: metrics.score(examples, answers).f1 for name, answers in answered.items()}
    fits = (right["before"] == 0) & (right["after"] == 100)
    broken = (right["before"] == 100) & (right["after"] == 0)
    distinct = len({example.group for example in examples})
    several = f" ({distinct:,} with several passages each)" if distinct < len(examples) else ""
    changes = (
        f"of the {len(examples):,} {where} questions{several} distillation mended {fits.sum()} (an F1 of 0 before, of "
        f"100 after) and broke {broken.sum()} (100 before, 0 after)"
    )
    for number in np.flatnonzero(fits):
        spans = {"gold": examples[number].span, "confusing": answered["before"][number].span}
        fits[number] = len(best_window(windows, number, spans)[1]) == 2
    rule = RULE.format(where=where)
    if not fits.any():
        fits, rule = right["before"] == 0, rule + " (there is none, so of all that the former answers wrong)"
    sure = np.where(fits, [answer.score for answer in answered["before"]], -np.inf)
    example = examples[int(sure.argmax()) if fits.any() else 0]
    return Case(example, rule, compare(preset, readers, example), changes)


def read(model: nn.Module, windows: Windows, precision: str) -> tuple[Logits, np.ndarray]:
    """The logits of a reader that keeps its attention, and the attention: for every window its passage tokens ×
    question tokens, flat, float32."""
    asked, count = windows.first_count_W, windows.count_W
    attention: list[np.ndarray] = [np.empty(0)] * len(windows)

    def batches():
        for index, _, output in outputs(model, windows, precision=precision):
            for row, window in enumerate(index):
                attention[window] = output.attention[row, : count[window], : asked[window]].float().cpu().numpy()
            yield index, output.start_logits, output.end_logits

    logits = Logits.collect(windows, batches())
    return logits, np.concatenate([weights.ravel() for weights in attention])


def compare(preset: Preset, readers: Readers, example: Example) -> dict:
    """What two readers do with one question, as a record's payload: tokens, each reader's
    attention (passage × question), and the gold answer and the confusing one, which is what the first wrongly answers
    ("given", where no gold answer is known), with each reader's probability p1(k) p2(l | k) of both.

    Of a long passage the window with both is shown, or else with the gold answer, or else with the given one; an answer
    that stands elsewhere is left out.
    """
    windows = windows_over(preset, [example])
    answered = {name: joint_answers(preset, [model], windows)[0] for name, model in readers.items()}
    given = answered["before"]
    spans = {"gold": example.span}
    if not example.answers or metrics.f1(given.text, example.answers) == 0:
        spans["confusing" if example.answers else "given"] = given.span
    window, places = best_window(windows, 0, spans)
    windows = windows.select(np.array([window]))

    tokenizer, prefix, asked = load_tokenizer(preset.encoder), int(windows.prefix_W[0]), int(windows.first_count_W[0])
    tokens = tokenizer.convert_ids_to_tokens(windows.token_ids(0).tolist())
    before = len(windows.template.before)
    views = {}
    for name, model in readers.items():
        logits, attention = read(model, windows, preset.training.precision)
        start, end = distributions(windows, logits)
        views[name] = {
            "answer": answered[name].text,
            "attention": attention.reshape(-1, asked).round(3).tolist(),
            "probabilities": {
                which: round(float(start[first] * end[last]), 4) for which, (first, last) in places.items()
            },
        }
    return {
        "question": tokens[before : before + asked],
        "passage": tokens[prefix : prefix + int(windows.count_W[0])],
        "answers": {which: [first - prefix, last - prefix] for which, (first, last) in places.items()},
        "gold": list(example.answers),
        "readers": views,
    }


def best_window(windows: Windows, example: int, spans: dict[str, Span | None]) -> tuple[int, dict[str, Span]]:
    """The number of the example's window that holds most of the spans, before all the first, and the first and last
    position there of those that it holds whole."""
    held = {
        int(window): {which: at for which, span in spans.items() if (at := _inside(windows, window, span))}
        for window in np.flatnonzero(windows.example_W == example)
    }
    return max(held.items(), key=lambda item: (len(item[1]), next(iter(spans)) in item[1]))


def _inside(windows: Windows, window: int, span: Span | None) -> Span | None:
    if span is None:
        return None
    first, last = windows.positions(window, span)
    prefix = windows.prefix_W[window]
    return (int(first), int(last)) if prefix <= first <= last < prefix + windows.count_W[window] else None
