"""A case study: one question as a reader sees it before and after distillation (Hu et al. 2018, Figure 3)."""

import re

import numpy as np
from torch import nn

from helpers import metrics
from helpers.data.examples import Example
from helpers.extractive_qa import Prediction, answer, distributions, windows_over
from helpers.loop import batch_outputs
from helpers.models.attention import keep_attention
from helpers.models.encoders import load_tokenizer
from helpers.presets.schema import Preset
from helpers.sequences import Windows
from helpers.training import predict

Interval = tuple[int, int]


def choose_cases(
    preset: Preset, readers: dict[str, nn.Module], examples: list[Example]
) -> tuple[list[Example], list[str]]:
    """Choose the mended example with the surest wrong answer, and a typical one; return these with notes on the choice.

    Mended: F1 0 before and 100 after, both answers apart in one window. If there is none, choose among all with F1 0
    before, else take the first. Typical: a wrong answer of median sureness, left out where there is one example alone.
    """
    windows = windows_over(preset, examples)
    before, after = (answer(preset, [model], windows, together=True) for model in readers.values())
    f1_before, f1_after = (metrics.score(examples, predictions).f1 for predictions in (before, after))
    fits, broken = (f1_before == 0) & (f1_after == 100), (f1_before == 100) & (f1_after == 0)
    count = len({example.group for example in examples})
    size = f"{count:,} questions" + f" on {len(examples):,} passages" * (count < len(examples))
    changes = (
        f"of {size}, distillation turned {fits.sum()} wrong answers right (F1 from 0 to 100) "
        f"and {broken.sum()} right ones wrong: a case shows how a reader changes, not that it improves"
    )
    for number in np.flatnonzero(fits):
        spans = {"gold": examples[number].span, "confusing": before[number].span}
        places = best_window(windows, number, spans)[1].values()
        fits[number] = len(places) == 2 and max(first for first, _ in places) > min(last for _, last in places)
    rule = "this is the mended question whose wrong answer was surest, of those with both answers apart in one window"
    if not fits.any():
        fits = f1_before == 0
        choice = "this one has the surest wrong answer" if fits.any() else "this is the first, as no answer is wrong"
        rule = f"no mended question has both answers apart in one window; {choice}"
    scores = np.where(fits, [prediction.score for prediction in before], -np.inf)
    order = np.argsort(-scores, kind="stable")
    chosen = dict.fromkeys([order[0], order[fits.sum() // 2]])
    typical = ["typical: of the same questions the one whose wrong answer is of median sureness"] * (len(chosen) > 1)
    return [examples[int(number)] for number in chosen], [rule, changes, *typical]


def compare_readers(preset: Preset, readers: dict[str, nn.Module], example: Example) -> dict:
    """Return what readers make of one question: a record's payload.

    It has the tokens of question and passage, and the places of the gold answer and of the first reader's, where that
    is wrong ("confusing") or no gold answer is known ("predicted"). Each reader has its answer, its attention (passage
    × question), and its probability p1(k) p2(l | k) of both. One window is shown, without answers that stand elsewhere.
    The readers keep their attention from then on.
    """
    windows = windows_over(preset, [example])
    answers = {name: answer(preset, [model], windows, together=True)[0] for name, model in readers.items()}
    spans, first_answer = {"gold": example.span}, next(iter(answers.values()))
    if not example.answers or metrics.answer_f1(example, first_answer.text) == 0:
        spans["confusing" if example.answers else "predicted"] = first_answer.span
    window, places = best_window(windows, 0, spans)
    prefix, count, length = (int(n[0]) for n in (window.passage_start_W, window.question_len_W, window.passage_len_W))
    tokens = load_tokenizer(preset.encoder).convert_ids_to_tokens(window.token_ids(0).tolist())
    views = {}
    for name, model in readers.items():
        start, end = distributions(window, predict(model, window, precision=preset.training.precision))
        probabilities = {kind: round(float(start[first] * end[last]), 4) for kind, (first, last) in places.items()}
        ((_, _, output),) = batch_outputs(keep_attention(model), window, precision=preset.training.precision)
        views[name] = {
            "answer": answers[name].text,
            "attention": output.attention[0, :length, :count].float().cpu().numpy().round(3).tolist(),
            "probabilities": probabilities,
        }
    return {
        "question": tokens[len(window.template.before) :][:count],
        "passage": tokens[prefix:][:length],
        "answers": {kind: [first - prefix, last - prefix] for kind, (first, last) in places.items()},
        "gold": list(example.answers),
        "readers": views,
    }


def best_window(
    windows: Windows, example: int, spans: dict[str, Interval | None]
) -> tuple[Windows, dict[str, Interval]]:
    """Choose the example's window that holds most of the spans, and among equals one that holds the first span.

    Spans are in characters of the passage. Returns the window, and first and last token of the spans in it.
    """
    held: dict[int, dict[str, Interval]] = {}
    for window in map(int, np.flatnonzero(windows.example_W == example)):
        held[window], begin = {}, windows.passage_start_W[window]
        for name, span in spans.items():
            first, last = map(int, windows.positions(window, span)) if span else (-1, -1)
            if begin <= first <= last < begin + windows.passage_len_W[window]:
                held[window][name] = first, last
    number = max(held, key=lambda window: (len(held[window]), next(iter(spans)) in held[window]))
    return windows.select(np.array([number])), held[number]


def answer_with_words(
    preset: Preset, model: nn.Module, example: Example, no_answer: bool, null_threshold: float
) -> tuple[Prediction, list[tuple[str, float]]]:
    """Answer a question; return the words of its passage too, each with the probability that the answer holds it.

    Probabilities are those of an answer in the passage, from the window that holds it; words outside it have 0.
    ``no_answer`` and ``null_threshold`` are as in `extractive_qa.decode`.
    """
    windows = windows_over(preset, [example])
    (prediction,) = answer(preset, [model], windows, no_answer, null_threshold=null_threshold)
    window, _ = best_window(windows, 0, {"answer": prediction.span})
    prefix, count = int(window.passage_start_W[0]), int(window.passage_len_W[0])
    logits = predict(model, window, precision=preset.training.precision)
    words = [*re.finditer(r"\S+", example.context)]
    characters = window.rows[0].chars[:, 0]
    word_of_token = np.searchsorted([word.start() for word in words], characters, side="right") - 1
    sides = (side[prefix:][:count] for side in distributions(window, logits))
    starts, ends = (np.bincount(word_of_token, side / side.sum(), len(words)) for side in sides)
    shares = np.clip(np.cumsum(starts) - np.cumsum(ends) + ends, 0, 1)  # started here or before, not ended before
    return prediction, [(word.group(), float(share)) for word, share in zip(words, shares, strict=True)]
