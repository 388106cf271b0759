"""A case study: one question as a reader sees it before and after distillation (Hu et al. 2018, Figure 3)."""

import re

import numpy as np
from torch import nn

from helpers import metrics
from helpers.batches.sequences import Windows
from helpers.data.examples import Example
from helpers.decoding import Prediction
from helpers.models.encoders import load_tokenizer
from helpers.papers.ensemble import predict_with_attention
from helpers.presets.schema import Preset
from helpers.reading import answer, distributions, predict, windows_over

Span = tuple[int, int]


def choose(
    preset: Preset, readers: dict[str, nn.Module], name: str, examples: list[Example]
) -> tuple[Example, list[str]]:
    """Choose an example of the set ``name`` that distillation mended; return it with notes on the choice.

    Wrong is an F1 of 0, right one of 100. Where no question fits, choose among all that the reader by itself answers
    wrong; where it answers all right, take the first.
    """
    windows = windows_over(preset, examples)
    before, after = (answer(preset, [model], windows, together=True) for model in readers.values())
    f1_before, f1_after = (metrics.score(examples, predictions).f1 for predictions in (before, after))
    fits, broken = (f1_before == 0) & (f1_after == 100), (f1_before == 100) & (f1_after == 0)
    changes = (
        f"of the {len(examples):,} {name} questions distillation mended {fits.sum()} (an F1 of 0 before, of 100 after) "
        f"and broke {broken.sum()} (100 before, 0 after)"
    )
    for number in np.flatnonzero(fits):
        spans = {"gold": examples[number].span, "confusing": before[number].span}
        fits[number] = len(best_window(windows, number, spans)[1]) == 2
    rule = "chosen: of the questions mended, with both answers in one window, the one whose wrong answer was surest"
    if not fits.any():
        fits, rule = f1_before == 0, f"{rule} (there is none, so of all that were wrong before)"
    scores = np.where(fits, [prediction.score for prediction in before], -np.inf)
    return examples[int(scores.argmax())], [rule, changes]


def compare(preset: Preset, readers: dict[str, nn.Module], example: Example) -> dict:
    """Return what readers, with their attention (`keep_attention`), make of one question: a record's payload.

    It has the tokens of question and passage, and the places of the gold answer and of the first reader's, where that
    is wrong ("confusing") or no gold answer is known ("given"). Each reader has its answer, its attention (passage ×
    question) and its probability p1(k) p2(l | k) of both. One window is shown, without answers that stand elsewhere.
    """
    windows = windows_over(preset, [example])
    answers = {name: answer(preset, [model], windows, together=True)[0] for name, model in readers.items()}
    spans, first_answer = {"gold": example.span}, next(iter(answers.values()))
    if not example.answers or metrics.answer_f1(example, first_answer.text) == 0:
        spans["confusing" if example.answers else "given"] = first_answer.span
    window, places = best_window(windows, 0, spans)
    prefix, count = int(window.prefix_W[0]), int(window.first_count_W[0])
    tokens = load_tokenizer(preset.encoder).convert_ids_to_tokens(window.token_ids(0).tolist())
    views = {}
    for name, model in readers.items():
        logits, attention = predict_with_attention(model, window, preset.training.precision)
        start, end = distributions(window, logits)
        probabilities = {kind: round(float(start[first] * end[last]), 4) for kind, (first, last) in places.items()}
        table = attention.reshape(-1, count).round(3).tolist()
        views[name] = {"answer": answers[name].text, "attention": table, "probabilities": probabilities}
    return {
        "question": tokens[len(window.template.before) :][:count],
        "passage": tokens[prefix:][: int(window.count_W[0])],
        "answers": {kind: [first - prefix, last - prefix] for kind, (first, last) in places.items()},
        "gold": list(example.answers),
        "readers": views,
    }


def best_window(windows: Windows, example: int, spans: dict[str, Span | None]) -> tuple[Windows, dict[str, Span]]:
    """Choose the example's window that holds most of the spans, and among equals one that holds the first span.

    Spans are in characters of the passage. Returns the window, and first and last token of the spans in it.
    """
    held: dict[int, dict[str, Span]] = {}
    for window in map(int, np.flatnonzero(windows.example_W == example)):
        held[window], begin = {}, windows.prefix_W[window]
        for name, span in spans.items():
            first, last = map(int, windows.positions(window, span)) if span else (-1, -1)
            if begin <= first <= last < begin + windows.count_W[window]:
                held[window][name] = first, last
    number = max(held, key=lambda window: (len(held[window]), next(iter(spans)) in held[window]))
    return windows.select(np.array([number])), held[number]


def read(
    preset: Preset, model: nn.Module, example: Example, no_answer: bool
) -> tuple[Prediction, list[tuple[str, float]]]:
    """Answer a question; return the words of its passage too, each with the probability that the answer holds it.

    These come from the window that holds the answer: words that it leaves out have 0.
    """
    windows = windows_over(preset, [example])
    (prediction,) = answer(preset, [model], windows, no_answer)
    window, _ = best_window(windows, 0, {"answer": prediction.span})
    prefix, count = int(window.prefix_W[0]), int(window.count_W[0])
    logits = predict(model, window, precision=preset.training.precision)
    words = [*re.finditer(r"\S+", example.context)]
    characters = window.rows[0].chars[:, 0]
    word_of_token = np.searchsorted([word.start() for word in words], characters, side="right") - 1
    sides = (side[prefix:][:count] for side in distributions(window, logits))
    starts, ends = (np.bincount(word_of_token, side, len(words)) for side in sides)
    shares = np.clip(np.cumsum(starts) - np.cumsum(ends) + ends, 0, 1)  # started here or before, not ended before
    return prediction, [(word.group(), float(share)) for word, share in zip(words, shares, strict=True)]
