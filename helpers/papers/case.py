"""A case study: one question as a reader sees it before and after distillation (Hu et al. 2018, Figure 3)."""

from __future__ import annotations

import re

import numpy as np
from torch import nn

from helpers import metrics
from helpers.batches.sequences import Windows
from helpers.data.examples import Example
from helpers.decoding import Prediction, decode
from helpers.models.encoders import load_tokenizer
from helpers.papers.ensemble import predict_with_attention
from helpers.presets.schema import Preset
from helpers.reading import answer, distributions, predict, windows_over

Span = tuple[int, int]
Share = tuple[str, float]  # a word, and how likely the answer holds it
Readers = dict[str, nn.Module]  # such as "before" and "after", with their attention (`keep_attention`)


def choose(preset: Preset, readers: Readers, name: str, examples: list[Example]) -> tuple[Example, list[str]]:
    """Choose an example that distillation mended from the set ``name``; return it with notes on the choice.

    Wrong is an F1 of 0, right one of 100. Where no question fits, choose among all that the reader by itself answers
    wrong; where it answers all right, take the first.
    """
    windows = windows_over(preset, examples)
    answers = {key: answer(preset, [model], windows, together=True) for key, model in readers.items()}
    f1 = {key: metrics.score(examples, predictions).f1 for key, predictions in answers.items()}
    fits, broken = (f1["before"] == 0) & (f1["after"] == 100), (f1["before"] == 100) & (f1["after"] == 0)
    distinct = len({example.group for example in examples})
    several = f" ({distinct:,} with several passages each)" if distinct < len(examples) else ""
    changes = (
        f"of the {len(examples):,} {name} questions{several} distillation mended {fits.sum()} (an F1 of 0 before, of "
        f"100 after) and broke {broken.sum()} (100 before, 0 after)"
    )
    for number in np.flatnonzero(fits):
        spans = {"gold": examples[number].span, "confusing": answers["before"][number].span}
        fits[number] = len(best_window(windows, number, spans)[1]) == 2
    rule = (
        f"of the {name} questions that the reader by itself answers wrong and the distilled one right, both answers in "
        "one window, the one where the former is surest of its wrong answer"
    )
    if not fits.any():
        fits, rule = f1["before"] == 0, f"{rule} (there is none, so of all that the former answers wrong)"
    scores = np.where(fits, [prediction.score for prediction in answers["before"]], -np.inf)
    return examples[int(scores.argmax()) if fits.any() else 0], [f"chosen: {rule}", changes]


def compare(preset: Preset, readers: Readers, example: Example) -> dict:
    """Return what readers make of one question, the payload of a record of kind "case".

    It has the tokens of question and passage, and the places of the gold and the confusing answer. The confusing answer
    is the wrong one of the first reader, called "given" where no gold answer is known. Each reader has its answer, its
    attention (passage × question) and its probability p1(k) p2(l | k) of both. Of a long passage one window is shown,
    without answers that stand elsewhere.
    """
    windows = windows_over(preset, [example])
    answers = {name: answer(preset, [model], windows, together=True)[0] for name, model in readers.items()}
    spans, first_answer = {"gold": example.span}, next(iter(answers.values()))
    if not example.answers or metrics.f1(first_answer.text, example.answers) == 0:
        spans["confusing" if example.answers else "given"] = first_answer.span
    number, places = best_window(windows, 0, spans)
    window = windows.select(np.array([number]))
    prefix, count = int(window.prefix_W[0]), int(window.first_count_W[0])
    tokens = load_tokenizer(preset.encoder).convert_ids_to_tokens(window.token_ids(0).tolist())
    views = {}
    for name, model in readers.items():
        logits, attention = predict_with_attention(model, window, preset.training.precision)
        start, end = distributions(window, logits)
        views[name] = {
            "answer": answers[name].text,
            "attention": attention.reshape(-1, count).round(3).tolist(),
            "probabilities": {
                which: round(float(start[first] * end[last]), 4) for which, (first, last) in places.items()
            },
        }
    return {
        "question": tokens[len(window.template.before) :][:count],
        "passage": tokens[prefix:][: int(window.count_W[0])],
        "answers": {which: [first - prefix, last - prefix] for which, (first, last) in places.items()},
        "gold": list(example.answers),
        "readers": views,
    }


def best_window(windows: Windows, example: int, spans: dict[str, Span | None]) -> tuple[int, dict[str, Span]]:
    """Choose the example's window that holds most of the spans, and among equals one that holds the first span.

    Spans are in characters of the passage. Returns the window's number, and first and last token of the spans in it.
    """
    held: dict[int, dict[str, Span]] = {}
    for window in map(int, np.flatnonzero(windows.example_W == example)):
        held[window], begin = {}, windows.prefix_W[window]
        for name, span in spans.items():
            first, last = map(int, windows.positions(window, span)) if span else (-1, -1)
            if begin <= first <= last < begin + windows.count_W[window]:
                held[window][name] = first, last
    return max(held.items(), key=lambda item: (len(item[1]), next(iter(spans)) in item[1]))


def read(preset: Preset, model: nn.Module, example: Example, no_answer: bool) -> tuple[Prediction, list[Share]]:
    """Answer a question; return the words of its passage too, each with the probability that the answer holds it.

    These come from the window that holds the answer: words that it leaves out have 0.
    """
    windows = windows_over(preset, [example])
    logits = predict(model, windows, precision=preset.training.precision)
    limits = {"n_best": preset.answers.n_best, "max_answer_tokens": preset.answers.max_tokens}
    (prediction,) = decode(windows, logits, **limits, no_answer=no_answer)
    number, _ = best_window(windows, 0, {"answer": prediction.span})
    count = windows.count_W[number]
    begin = int(windows.lengths_W[:number].sum() + windows.prefix_W[number])
    words = [*re.finditer(r"\S+", example.context)]
    characters = windows.rows[number].chars[:, 0]
    word_of_token = np.searchsorted([word.start() for word in words], characters, side="right") - 1
    sides = [side[begin : begin + count] for side in distributions(windows, logits)]
    starts, ends = (np.bincount(word_of_token, side, len(words)) for side in sides)
    shares = np.clip(np.cumsum(starts) - np.cumsum(ends) + ends, 0, 1)  # started here or before, not ended before
    return prediction, [(word.group(), float(share)) for word, share in zip(words, shares, strict=True)]
