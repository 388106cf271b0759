"""From logits to answers: the best spans of every question, over all windows at once.

The rules are those of the usual BERT and Hugging Face scripts: the ``n_best`` highest start and end logits
among a window's passage tokens are paired, pairs that run backwards or are too long are dropped, the rest is
pooled over the question's windows. Equal logits and equal scores go to the earlier window, then to the earlier
start, then to the earlier end.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, repeat

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from helpers.batches.sequences import Windows
from helpers.data.examples import DataError
from helpers.tasks.logits import Logits

CELLS = 1 << 16  # entries of the largest intermediate array; more no longer fit a core's cache

Candidate = namedtuple("Candidate", "text span score probability")  # one of a prediction's n best


@dataclass(slots=True)
class Prediction:
    """The answer to question ``id``: its text, its half-open character range of the context (None where the answer
    is "") and its score, the start plus end logit.

    ``best_text`` is the best span's text even where "no answer" won. ``null_difference`` is the null score minus
    the best span's: the higher, the less likely an answer (infinite where the passage has no span to offer).
    ``probability`` and ``n_best`` are computed for all questions together when first asked for.
    """

    id: str
    text: str
    span: tuple[int, int] | None
    score: float
    null_difference: float
    best_text: str
    _kept: _NBest = field(repr=False, compare=False)
    _row: int = field(repr=False, compare=False)

    @property
    def probability(self) -> float:
        """Share of the softmax over the kept spans and, if decoded with ``no_answer``, the empty answer."""
        return float(self._kept.probabilities[self._row, -1 if self.span is None else 0])

    @property
    def n_best(self) -> list[Candidate]:
        """The kept spans and, if decoded with ``no_answer``, the empty answer, best first."""
        return self._kept.candidates(self._row)


def decode(
    windows: Windows,
    logits: Logits,
    *,
    n_best: int = 20,
    max_answer_tokens: int = 30,
    no_answer: bool | np.ndarray = False,
    null_threshold: float = 0.0,
) -> list[Prediction]:
    """One answer for each of ``windows.examples``, in their order.

    The null score is the minimum over the windows of the [CLS] token's start plus end logit. With ``no_answer`` (for
    all questions, or an array with a value for each) the answer is "" where null score minus best span's score exceeds
    ``null_threshold``, and the empty answer takes part in the softmax over the ``n_best`` spans; without, it is "" only
    where no span is possible. A logit of -inf rules its position out. Raises DataError naming the question where it has
    no window, or where a logit is NaN or inf; ValueError where the logits do not fit the windows.
    """
    if n_best < 1 or max_answer_tokens < 1:
        raise ValueError(f"n_best ({n_best}) and max_answer_tokens ({max_answer_tokens}) must be at least 1")
    expected = int(windows.lengths_W.sum())
    if len(logits.start) != expected or len(logits.end) != expected:
        found = f"{len(logits.start)} start and {len(logits.end)} end logits"
        raise ValueError(f"{found} for windows of {expected} tokens: they belong to other windows")
    for flat in (logits.start, logits.end):
        if not flat.max(initial=-np.inf) < np.inf:  # a maximum hands NaN on
            window = np.searchsorted(np.cumsum(windows.lengths_W), (~(flat < np.inf)).argmax(), "right")
            name = windows.examples[windows.example_W[window]].id
            raise DataError(f"question {name!r}: a logit of window {window} is NaN or inf; did the model diverge?")
    windows_of = np.bincount(windows.example_W, minlength=len(windows.examples))
    if not windows_of.all():
        name = windows.examples[int(windows_of.argmin())].id
        raise DataError(f"{(windows_of == 0).sum()} questions have no window, first {name!r}; decode all their windows")

    cls = _offsets(windows.lengths_W)[:-1]
    null_W = logits.start[cls] + logits.end[cls]
    score_W, span_W = _best_spans(windows, logits, n_best, max_answer_tokens)
    # Sorted by question, then score; stable, so that of equal windows the earlier comes first.
    winner = np.lexsort((-score_W, windows.example_W))[_offsets(windows_of)[:-1]]
    score, chars = score_W[winner], _characters(windows, winner, span_W[winner])
    null = np.full(len(windows_of), np.inf, np.float32)
    np.minimum.at(null, windows.example_W, null_W)
    impossible = score == -np.inf
    chars[impossible] = 0
    difference = np.where(impossible, np.inf, null - np.where(impossible, 0, score)).astype(np.float64)
    empty = impossible | ((difference > null_threshold) & no_answer)

    ids, chars = [example.id for example in windows.examples], list(zip(*chars.T.tolist(), strict=True))
    best_texts = [example.context[begin:end] for example, (begin, end) in zip(windows.examples, chars, strict=True)]
    texts, spans = best_texts.copy(), chars.copy()
    for row in np.flatnonzero(empty):
        texts[row], spans[row] = "", None
    no_answer = np.broadcast_to(no_answer, len(windows_of))
    kept = repeat(_NBest(windows, logits, n_best, max_answer_tokens, no_answer, null))
    score = np.where(empty, null, score).tolist()
    return list(map(Prediction, ids, texts, spans, score, difference.tolist(), best_texts, kept, count()))


def _best_spans(windows: Windows, logits: Logits, n_best: int, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Each window's best pair: score (W, -inf where there is none), first and last passage token (W×2)."""
    scores = np.full(len(windows), -np.inf, np.float32)
    spans = np.zeros((len(windows), 2), np.int32)
    for rows, start, end in _chunks(windows, logits, 1):
        scores[rows], spans[rows] = _best_pairs(start, end, max_tokens)
        # The best of all pairs is the best of those of the n best, if it is one of them: quick to see but for ties.
        chosen = zip((start, end), spans[rows].T, strict=True)
        ranks = [np.count_nonzero(side >= side[np.arange(len(rows)), at, None], 1) for side, at in chosen]
        if len(others := np.flatnonzero(np.maximum(*ranks) > n_best)):
            kept = (np.where(_greatest(side, n_best), side, -np.inf) for side in (start[others], end[others]))
            scores[rows[others]], spans[rows[others]] = _best_pairs(*kept, max_tokens)
    return scores, spans


def _best_pairs(start: np.ndarray, end: np.ndarray, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Each row's best pair of a start and an end at most ``max_tokens`` long: score (R), columns (R×2)."""
    columns, longest = end.shape[1], min(max_tokens, end.shape[1])
    ends = np.full((len(end), columns + longest - 1), -np.inf, np.float32)
    ends[:, :columns] = end
    # The best end among ``longest`` tokens from each on: a maximum over a width that doubles. All rows in one, as
    # the padding keeps them apart.
    reach, width = ends.ravel(), 1
    while width < longest:
        ahead = min(width, longest - width)
        reach, width = np.maximum(reach[:-ahead], reach[ahead:]), width + ahead
    total = start + sliding_window_view(reach, columns)[:: columns + longest - 1]
    first = total.argmax(1)[:, None]
    # Compared as sums: ends that differ may give equal scores once rounded, and then the earlier counts.
    sums = np.take_along_axis(start, first, 1) + np.take_along_axis(ends, first + np.arange(longest), 1)
    spans = first + np.stack([np.zeros(len(start), int), sums.argmax(1)], 1)
    return np.take_along_axis(total, first, 1)[:, 0], spans


@dataclass
class _NBest:
    """The n best spans of E questions, best first, score -inf where there are fewer; found when first used."""

    windows: Windows
    logits: Logits
    n: int
    max_tokens: int
    no_answer: np.ndarray  # E
    null: np.ndarray  # E

    @cached_property
    def spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Scores (E×n) and character ranges (E×n×2)."""
        windows, n = self.windows, self.n
        scores = np.full((len(windows), n), -np.inf, np.float32)
        spans = np.zeros((len(windows), n, 2), np.int32)
        for rows, start, end in _chunks(windows, self.logits, n):
            row, first, last = np.arange(len(rows))[:, None], _columns(start, n), _columns(end, n)
            score = start[row, first][:, :, None] + end[row, last][:, None]
            distance = last[:, None] - first[:, :, None]
            score[(distance < 0) | (distance >= self.max_tokens)] = -np.inf
            score = score.reshape(len(rows), -1)
            pair, ends = _columns(score, n), last.shape[1]
            scores[rows, : pair.shape[1]] = score[row, pair]
            spans[rows, : pair.shape[1]] = np.stack([first[row, pair // ends], last[row, pair % ends]], 2)
        # By question, then score. Candidates lie in the order of window, start and end, and the sort is stable.
        order = np.lexsort((-scores.ravel(), np.repeat(windows.example_W, n)))
        kept = order[n * _offsets(np.bincount(windows.example_W))[:-1, None] + np.arange(n)]
        return scores.ravel()[kept], _characters(windows, kept // n, spans.reshape(-1, 2)[kept])

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Softmax over the spans and, in the last column, the empty answer (E×(n+1))."""
        score = self.spans[0]
        null = np.where(score[:, 0] == -np.inf, 0.0, np.where(self.no_answer, self.null, -np.inf))
        values = np.concatenate([score, null[:, None]], 1, dtype=np.float64)
        values = np.exp(values - values.max(1, keepdims=True))
        return values / values.sum(1, keepdims=True)

    def candidates(self, row: int) -> list[Candidate]:
        context, probability = self.windows.examples[row].context, self.probabilities[row].tolist()
        kept = zip(*(array[row].tolist() for array in self.spans), probability, strict=False)
        found = [Candidate(context[slice(*span)], tuple(span), score, p) for score, span, p in kept if score > -np.inf]
        if self.no_answer[row] or not found:
            found.append(Candidate("", None, float(self.null[row]), probability[-1]))
        return sorted(found, key=lambda candidate: -candidate.score)


def _chunks(windows: Windows, logits: Logits, n: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Windows of like length and their passages' start and end logits, -inf behind a window's last token; as many at
    a time as keep these, and n×n pairs a window, within CELLS."""
    count_W = windows.count_W
    passage_W = _offsets(windows.lengths_W)[:-1] + windows.prefix_W
    by_length = np.argsort(count_W, kind="stable")[np.count_nonzero(count_W == 0) :]
    width = int(count_W.max(initial=1))
    # Row i of a view is what follows token i, read on into the next window; what is too much is masked.
    views = [sliding_window_view(np.pad(flat, (0, width)), width) for flat in (logits.start, logits.end)]
    step = max(1, CELLS // max(width, min(n, width) ** 2))
    for begin in range(0, len(by_length), step):
        rows = by_length[begin : begin + step]
        length = count_W[rows[-1]]
        padding = np.arange(length, dtype=np.int32) >= count_W[rows, None]
        start, end = (view[:, :length][passage_W[rows]] for view in views)
        start[padding] = end[padding] = -np.inf
        yield rows, start, end


def _characters(windows: Windows, window: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Character ranges (…×2) of first and last passage tokens (…×2) of windows (…)."""
    chars = windows.context_chars.values if len(windows.context_chars.values) else np.zeros((1, 2), np.int32)
    tokens = tokens + (windows.context_chars.starts[windows.second_text_W] + windows.first_W)[window][..., None]
    return chars[np.minimum(tokens, len(chars) - 1), [0, 1]]  # the last passage may have no token


def _greatest(values: np.ndarray, n: int) -> np.ndarray:
    """True at the n greatest of each row (all, if fewer); of equal values the earlier."""
    if n >= values.shape[1]:
        return np.ones(values.shape, bool)
    least = np.partition(values, -n, 1)[:, -n, None]
    chosen = values >= least
    if np.count_nonzero(chosen) > len(values) * n:  # of several values at the border the later ones go
        above, equal = values > least, values == least
        chosen = above | (equal & (equal.cumsum(1) <= n - above.sum(1, keepdims=True)))
    return chosen


def _columns(values: np.ndarray, n: int) -> np.ndarray:
    """The columns where ``_greatest`` is true, ascending."""
    return np.nonzero(_greatest(values, n))[1].reshape(len(values), -1)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
