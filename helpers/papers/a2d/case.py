"""One question as two readers see it: attention and probabilities before and after distillation (A2D, Figure 3)."""

from __future__ import annotations

import numpy as np
from IPython.display import display
from torch import nn

from helpers.batches.sequences import Windows
from helpers.data.examples import DataError, Example
from helpers.models.attention import keep_attention
from helpers.models.pretrained import load_tokenizer
from helpers.papers.a2d import algorithm
from helpers.papers.a2d.runs import Distilled
from helpers.papers.a2d.trainings import joint_answers, loaded, question_sets
from helpers.presets.schema import Preset
from helpers.results import attention
from helpers.tasks import metrics
from helpers.tasks.spans import windows_over

RULE = (
    "of the {where} questions that the reader by itself answers wrong and the distilled one right, both answers in one "
    "window, the one where the former is surest of its wrong answer"
)
Pair = dict[str, nn.Module]  # the reader by itself and the distilled one, by name
Spans = dict[str, tuple[int, int] | None]  # by name, where an answer stands in the passage


def pair(preset: Preset, run: Distilled) -> Pair:
    """The ensemble's first member and its student, loaded."""
    readers = {"before": run.members[0], "after": run.students["A2D"]}
    return dict(zip(readers, map(keep_attention, loaded(preset, readers.values())), strict=True))


def candidates(preset: Preset) -> tuple[str, list[Example]]:
    """The questions that a case is chosen from: the adversarial ones, or the test questions where there are none."""
    sets = question_sets(preset)
    if "AddSent" in sets:
        return "AddSent", [example for example in sets["AddSent"] if example.id != example.group]
    return "Test", sets["Test"]


def choose(preset: Preset, readers: Pair) -> tuple[Example, str]:
    """A case by ``RULE``, and the rule in words. Where no question fits, of all that the reader by itself answers wrong
    the one it is surest of; where it answers all right, the first."""
    where, examples = candidates(preset)
    windows = windows_over(preset, examples)
    found = {name: joint_answers([model], preset, windows) for name, model in readers.items()}
    right = {name: metrics.score(examples, answers).f1 for name, answers in found.items()}
    spans = [{"gold": one.span, "confusing": given.span} for one, given in zip(examples, found["before"], strict=True)]
    mended = (right["before"] == 0) & (right["after"] == 100)
    fits = np.array([mended[n] and len(_best_window(windows, n, both)[1]) == 2 for n, both in enumerate(spans)])
    rule = RULE.format(where=where)
    if not fits.any():
        fits, rule = right["before"] == 0, rule + " (there is none, so of all that the former answers wrong)"
    sure = np.where(fits, [answer.score for answer in found["before"]], -np.inf)
    return examples[int(sure.argmax()) if fits.any() else 0], rule


def explain(preset: Preset, readers: Pair, example: Example) -> dict:
    """What both readers do with one question, as a record's payload: tokens, each reader's attention (passage ×
    question), and the gold answer and the confusing one, which is what the reader by itself wrongly answers ("given",
    where no gold answer is known), with each reader's probability p1(k) p2(l | k) of both.

    Of a long passage the window with both is shown, or else with the gold answer, or else with the given one; an answer
    that stands elsewhere is left out.
    """
    windows = windows_over(preset, [example])
    found = {name: joint_answers([model], preset, windows)[0] for name, model in readers.items()}
    given = found["before"]
    spans = {"gold": example.span}
    if not example.answers or metrics.f1(given.text, example.answers) == 0:
        spans["confusing" if example.answers else "given"] = given.span
    window, answers = _best_window(windows, 0, spans)
    windows = windows.select(np.array([window]))

    tokenizer, prefix = load_tokenizer(preset.encoder), int(windows.prefix_W[0])
    tokens = tokenizer.convert_ids_to_tokens(windows.token_ids(0).tolist())
    views = {}
    for name, model in readers.items():
        logits, attention = algorithm.ask(model, windows, preset.training.precision)
        start, end = algorithm.distributions(windows, logits)
        views[name] = {
            "answer": found[name].text,
            "attention": attention.reshape(-1, prefix - 2).round(3).tolist(),
            "probabilities": {
                which: round(float(start[first] * end[last]), 4) for which, (first, last) in answers.items()
            },
        }
    return {
        "question": tokens[1 : prefix - 1],
        "passage": tokens[prefix:-1],
        "answers": {which: [first - prefix, last - prefix] for which, (first, last) in answers.items()},
        "gold": list(example.answers),
        "readers": views,
    }


def browser(preset: Preset, readers: Pair, examples: list[Example], most: int = 200):
    """A widget to pick another question, or to type one's own about the passage shown, and see what both readers do."""
    import ipywidgets  # only notebooks that are open need it

    examples = examples[:most]
    names = [(f"{number}: {example.question}", number) for number, example in enumerate(examples)]
    picked = ipywidgets.Dropdown(options=names, description="question", layout={"width": "90%"})
    typed = ipywidgets.Text(
        description="or your own",
        placeholder="a question about the same passage, then Enter",
        continuous_update=False,
        layout={"width": "90%"},
    )
    shown = ipywidgets.Output()

    def show(_=None) -> None:
        example = examples[picked.value]
        if typed.value.strip():
            example = Example("typed", typed.value, example.context, (), None, "typed")
        shown.clear_output(wait=True)
        with shown:
            try:
                case = explain(preset, readers, example)
            except DataError as error:
                print(error)
                return
            print(example.context)
            print("; ".join(f"{name}: {view['answer']!r}" for name, view in case["readers"].items()))
            display(attention.draw(case))

    picked.observe(show, names="value")
    typed.observe(show, names="value")
    show()
    return ipywidgets.VBox([picked, typed, shown])


def _best_window(windows: Windows, example: int, spans: Spans) -> tuple[int, dict[str, tuple[int, int]]]:
    """The number of the example's window that holds most of the answers, before all the first, and where they are."""
    held = {
        int(window): {which: at for which, span in spans.items() if (at := _inside(windows, window, span))}
        for window in np.flatnonzero(windows.example_W == example)
    }
    return max(held.items(), key=lambda item: (len(item[1]), next(iter(spans)) in item[1]))


def _inside(windows: Windows, window: int, span: tuple[int, int] | None) -> tuple[int, int] | None:
    """The first and last position of a stretch of the passage in a window that holds all of it; else None."""
    if span is None:
        return None
    first, last = windows.positions(window, span)
    prefix = windows.prefix_W[window]
    return (int(first), int(last)) if prefix <= first <= last < prefix + windows.count_W[window] else None
