"""From logits to answers: the best spans of every question, over all windows at once.

The rules are those of the usual BERT and Hugging Face scripts: the ``n_best`` highest start and end logits
among a window's passage tokens are paired, pairs that run backwards or are too long are dropped, the rest is
pooled over the question's windows. Equal logits and equal scores go to the earlier window, then to the earlier
start, then to the earlier end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from .data.examples import DataError, Example
from .data.windows import Windows

CELLS = 1 << 16  # size of the largest intermediate array; about where it leaves a core's cache


@dataclass(frozen=True)
class Logits:
    """Start and end logits of all windows' real tokens, one after another in window order.

    Both are flat float32 arrays of length ``windows.lengths_W.sum()``.
    """

    start: np.ndarray
    end: np.ndarray

    @classmethod
    def collect(cls, windows: Windows, batches: Iterable[tuple]) -> Logits:
        """From padded batches ``(index, start, end)``: window numbers (B) and logits (B×L), arrays or tensors.

        The batches come in any order. Raises ValueError where a window never comes.
        """
        lengths = windows.lengths_W
        offsets = _offsets(lengths)
        flat = np.empty((2, offsets[-1]), np.float32)
        missing = np.ones(len(windows), bool)
        for index, *logits in batches:
            index = np.asarray(index)
            start, end = (torch.as_tensor(padded).detach().float().cpu().numpy() for padded in logits)
            real = np.arange(start.shape[1]) < lengths[index][:, None]
            place = (offsets[index][:, None] + np.arange(start.shape[1]))[real]
            flat[0, place], flat[1, place] = start[real], end[real]
            missing[index] = False
        if missing.any():
            raise ValueError(f"no logits for {missing.sum()} of {len(windows)} windows, first {missing.argmax()}")
        return cls(*flat)

    def split(self, windows: Windows) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each window's start and end logits, as views."""
        cuts = _offsets(windows.lengths_W)[1:-1]
        return list(zip(np.split(self.start, cuts), np.split(self.end, cuts), strict=True))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the best answers: its text, its half-open character range of the context (None for no answer),
    start plus end logit, and its probability among the candidates."""

    text: str
    span: tuple[int, int] | None
    score: float
    probability: float


@dataclass(slots=True)
class Prediction:
    """The answer to question ``id``: text, span, score and probability as in ``Candidate``. ``null_difference`` is
    the null score minus the best span's score: the higher, the less likely an answer (infinite where the passage
    has no span to offer)."""

    id: str
    text: str
    span: tuple[int, int] | None
    score: float
    probability: float
    null_difference: float
    _table: _Table = field(repr=False, compare=False)
    _row: int = field(repr=False, compare=False)

    @property
    def n_best(self) -> list[Candidate]:
        """The kept spans and, if decoded with ``no_answer``, the empty answer, best first."""
        return self._table.candidates(self._row)

    @property
    def best_span(self) -> Candidate | None:
        """The best span even where "no answer" won; None where there is no span."""
        return next((candidate for candidate in self.n_best if candidate.span is not None), None)


@dataclass(frozen=True, slots=True)
class _Table:
    """What was kept for E questions: n spans each, best first, score -inf where there are fewer."""

    examples: Sequence[Example]
    score: np.ndarray  # E×n
    probability: np.ndarray  # E×(n+1), the empty answer's last
    chars: np.ndarray  # E×n×2
    null: np.ndarray  # E
    no_answer: bool

    def candidates(self, row: int) -> list[Candidate]:
        context = self.examples[row].context
        columns = zip(self.chars[row].tolist(), self.score[row].tolist(), self.probability[row].tolist(), strict=False)
        spans = [Candidate(context[a:b], (a, b), score, p) for (a, b), score, p in columns if score > -np.inf]
        if self.no_answer or not spans:
            spans.append(Candidate("", None, float(self.null[row]), float(self.probability[row, -1])))
        return sorted(spans, key=lambda candidate: -candidate.score)


def decode(
    windows: Windows,
    logits: Logits,
    *,
    n_best: int = 20,
    max_answer_tokens: int = 30,
    no_answer: bool = False,
    null_threshold: float = 0.0,
) -> list[Prediction]:
    """One answer for each of ``windows.examples``, in their order.

    The null score is the minimum over the windows of the [CLS] token's start plus end logit. With ``no_answer``
    the answer is "" where null score minus best span's score exceeds ``null_threshold``, and the empty answer
    takes part in the softmax over the ``n_best`` spans; without, it is "" only where no span is possible. A logit
    of -inf rules its position out. Raises DataError naming the question where it has no window, or where a logit
    of its passage or [CLS] is NaN or inf; ValueError where the logits do not fit the windows.
    """
    if n_best < 1 or max_answer_tokens < 1:
        raise ValueError(f"n_best ({n_best}) and max_answer_tokens ({max_answer_tokens}) must be at least 1")
    expected = int(windows.lengths_W.sum())
    if len(logits.start) != expected or len(logits.end) != expected:
        raise ValueError(
            f"the windows have {expected} tokens, the logits {len(logits.start)} (start) and {len(logits.end)} (end); "
            "they were computed on other windows"
        )
    of_example = np.bincount(windows.example_W, minlength=len(windows.examples))
    if not of_example.all():
        first = windows.examples[int(of_example.argmin())].id
        raise DataError(f"question {first!r} has no window (as {(of_example == 0).sum()} in all); score all windows")
    if not windows.examples:
        return []

    start, end = np.asarray(logits.start, np.float32), np.asarray(logits.end, np.float32)
    first_token = _offsets(windows.lengths_W)[:-1]
    null_W = start[first_token] + end[first_token]
    _check(windows, np.arange(len(windows)), null_W)
    score_W, spans_W = _spans_of_windows(windows, start, end, n_best, max_answer_tokens)

    # Questions with equally many windows are pooled together; most have one.
    by_example = np.argsort(windows.example_W, kind="stable")
    begins = _offsets(of_example)
    null = np.minimum.reduceat(null_W[by_example], begins[:-1])
    score = np.full((len(of_example), n_best), -np.inf, np.float32)
    chars = np.zeros((len(of_example), n_best, 2), np.int32)
    shift_W = windows.contexts.starts[windows.context_W] + windows.first_W
    for count in np.unique(of_example):
        rows = np.flatnonzero(of_example == count)
        members = by_example[begins[rows][:, None] + np.arange(count)]
        score[rows], columns = _top(score_W[members].reshape(len(rows), -1), n_best)
        window = np.take_along_axis(members, columns // n_best, 1)
        tokens = shift_W[window][..., None] + spans_W[window, columns % n_best]
        tokens[score[rows] == -np.inf] = 0
        if len(windows.context_chars.values):
            chars[rows, :, 0] = windows.context_chars.values[tokens[..., 0], 0]
            chars[rows, :, 1] = windows.context_chars.values[tokens[..., 1], 1]
    best = score[:, 0]
    with np.errstate(invalid="ignore"):
        difference = np.where(best == -np.inf, np.inf, null - best)
    table = _Table(windows.examples, score, _probabilities(score, null, no_answer), chars, null, no_answer)
    empty = (difference > null_threshold) if no_answer else best == -np.inf
    return _predictions(table, difference, empty | (best == -np.inf))


def _spans_of_windows(windows, start, end, n_best: int, max_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Each window's best pairs: scores (W×n, -inf where there are fewer) and first and last passage token (W×n×2)."""
    scores = np.full((len(windows), n_best), -np.inf, np.float32)
    spans = np.zeros((len(windows), n_best, 2), np.int32)
    count_W = windows.count_W
    passage = _offsets(windows.lengths_W)[:-1] + windows.prefix_W
    by_length = np.argsort(count_W, kind="stable")
    by_length = by_length[count_W[by_length] > 0]
    longest = int(count_W.max(initial=1))
    # Row i of a view is what follows token i, read on into the next window; what is too much is masked below.
    flats = [
        sliding_window_view(np.concatenate([flat, np.zeros(longest, np.float32)]), longest) for flat in (start, end)
    ]
    step = max(1, CELLS // max(longest, min(n_best, longest) ** 2))
    for begin in range(0, len(by_length), step):
        rows = by_length[begin : begin + step]
        position = np.arange(count_W[rows[-1]])
        padding = position >= count_W[rows][:, None]
        tops = []
        for flat in flats:
            padded = flat[:, : len(position)][passage[rows]]
            padded[padding] = -np.inf
            _check(windows, rows, padded.max(1))
            chosen = _choose(padded, n_best)
            tops.append((np.take_along_axis(padded, chosen, 1), chosen))
        (start_score, first), (end_score, last) = tops
        distance = last[:, None, :] - first[:, :, None]
        score = start_score[:, :, None] + end_score[:, None, :]
        score[distance.view(np.uint32) >= max_tokens] = -np.inf  # a negative one is a great one, unsigned
        score, pair = _top(score.reshape(len(rows), -1), n_best)
        kept = score.shape[1]
        scores[rows, :kept] = score
        spans[rows, :kept, 0] = np.take_along_axis(first, pair // last.shape[1], 1)
        spans[rows, :kept, 1] = np.take_along_axis(last, pair % last.shape[1], 1)
    return scores, spans


def _choose(values: np.ndarray, n: int) -> np.ndarray:
    """Columns of the n greatest of each row (all, if fewer), in ascending order; of equal values the earlier."""
    rows, columns = values.shape
    if n >= columns:
        return np.broadcast_to(np.arange(columns, dtype=np.int32), (rows, columns))
    least = np.partition(values, columns - n, 1)[:, columns - n, None]
    chosen = values >= least
    found = np.flatnonzero(chosen)
    if len(found) > rows * n:  # some rows hold equal values at the border: keep the earlier ones
        tied = np.flatnonzero(np.count_nonzero(chosen, 1) > n)
        above, equal = values[tied] > least[tied], values[tied] == least[tied]
        chosen[tied] = above | (equal & (equal.cumsum(1) <= n - above.sum(1, keepdims=True)))
        found = np.flatnonzero(chosen)
    return (found.reshape(rows, n) % columns).astype(np.int32)


def _top(values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The n greatest of each row, descending, and their columns; equal ones in the order of the columns."""
    columns = _choose(values, n)
    values = np.take_along_axis(values, columns, 1)
    order = np.argsort(-values, 1, kind="stable")
    return np.take_along_axis(values, order, 1), np.take_along_axis(columns, order, 1)


def _probabilities(score: np.ndarray, null: np.ndarray, no_answer: bool) -> np.ndarray:
    """Softmax over the spans and, in the last column, the empty answer (E×(n+1))."""
    alone = score[:, 0] == -np.inf
    null = np.where(alone, 0.0, null if no_answer else -np.inf)
    values = np.concatenate([score, null[:, None]], 1, dtype=np.float64)
    values = np.exp(values - values.max(1, keepdims=True))
    return values / values.sum(1, keepdims=True)


def _predictions(table: _Table, difference: np.ndarray, empty: np.ndarray) -> list[Prediction]:
    score = np.where(empty, table.null, table.score[:, 0]).tolist()
    probability = np.where(empty, table.probability[:, -1], table.probability[:, 0]).tolist()
    columns = zip(
        table.examples, empty.tolist(), table.chars[:, 0].tolist(), score, probability, difference.tolist(), strict=True
    )
    predictions = []
    for row, (example, none, (a, b), *numbers) in enumerate(columns):
        text, span = ("", None) if none else (example.context[a:b], (a, b))
        predictions.append(Prediction(example.id, text, span, *numbers, table, row))
    return predictions


def _check(windows: Windows, rows: np.ndarray, highest: np.ndarray) -> None:
    """Raises DataError where a row's highest logit is NaN (which a maximum hands on) or inf."""
    bad = ~(highest < np.inf)
    if bad.any():
        row = int(rows[bad.argmax()])
        example = windows.examples[windows.example_W[row]]
        raise DataError(f"question {example.id!r}: window {row} has a logit that is NaN or inf; the model has diverged")


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
