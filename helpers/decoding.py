"""Logits to answers, by the rules of BERT's and Hugging Face's scripts.

The ``n_best`` highest start and end logits among a window's passage tokens are paired, but for tokens of white space
and invisible characters alone. Pairs that run backwards or are too long are dropped, and the others of all the
question's windows compete. Equal logits and equal scores go to the earlier window, then to the earlier start, then to
the earlier end.
"""

from typing import NamedTuple

import numpy as np

from helpers.data.examples import DataError
from helpers.outputs import Logits
from helpers.sequences import Windows

BATCH = 256  # windows that are decoded together


class Candidate(NamedTuple):
    """A span of characters (half-open), its score (start plus end logit) and its share of the softmax over a question's
    candidates. The empty answer has no span, and the null score."""

    text: str
    span: tuple[int, int] | None
    score: float
    probability: float


class Prediction(NamedTuple):
    """The answer to question ``id``: the fields of its candidate, and all candidates, best first.

    ``best_text`` is the best span's even where the empty answer won. ``null_difference`` is the null score minus the
    best span's score: the higher, the less likely an answer. It is infinite where the passage has no span.
    """

    id: str
    text: str
    span: tuple[int, int] | None
    score: float
    probability: float
    null_difference: float
    best_text: str
    n_best: list[Candidate]


def decode(
    windows: Windows, logits: Logits, *, n_best=20, max_answer_tokens=30, no_answer=False, null_threshold=0.0
) -> list[Prediction]:
    """Return one answer for each of ``windows.examples``, in their order.

    The null score is the least start plus end logit of the windows' [CLS] tokens. With ``no_answer`` (for all questions
    or one value per question) the empty answer is a candidate. It wins where the null difference exceeds
    ``null_threshold``, and wherever there is no span. A logit of -inf rules its position out. Raises DataError naming
    the question where a logit is NaN or inf.
    """
    if not (is_number := (logits.start < np.inf) & (logits.end < np.inf)).all():
        window = np.searchsorted(windows.offsets_W, is_number.argmin(), "right") - 1
        name = windows.examples[windows.example_W[window]].id
        raise DataError(f"question {name!r}: a logit of window {window} is NaN or inf; did the model diverge?")
    first_W, number = windows.offsets_W, len(windows.examples)
    null, spans = np.full(number, np.inf, np.float32), [[] for _ in range(number)]
    np.minimum.at(null, windows.example_W, logits.start[first_W] + logits.end[first_W])
    by_length = np.argsort(windows.count_W, kind="stable")
    for begin in range(0, len(by_length), BATCH):
        rows = by_length[begin : begin + BATCH]
        column = np.arange(max(1, windows.count_W[rows[-1]]))
        is_real = column < windows.count_W[rows][:, None]
        place = np.where(is_real, (first_W + windows.prefix_W)[rows][:, None] + column, 0)
        is_solid = is_real.copy()
        is_solid[is_real] = np.concatenate([np.less(*windows.rows[window].chars.T) for window in rows])
        sides = (np.where(is_solid, side[place], np.float32(-np.inf)) for side in (logits.start, logits.end))
        scores, firsts, lasts = (values.tolist() for values in best_pairs(*sides, n_best, max_answer_tokens))
        for window, *pairs in zip(rows.tolist(), scores, firsts, lasts, strict=True):
            chars, of_question = windows.rows[window].chars.tolist(), spans[windows.example_W[window]]
            for score, first, last in zip(*pairs, strict=True):
                if score > -np.inf:
                    of_question.append((-score, window, chars[first][0], chars[last][1]))

    answers = []
    for example, pairs, nothing, may in zip(
        windows.examples, spans, null.tolist(), np.broadcast_to(no_answer, number), strict=True
    ):
        pairs = sorted(pairs, key=lambda pair: pair[:2])[:n_best]  # stable: pairs of a window stand by start and end
        listed = [(example.context[begin:end], (begin, end), -score) for score, _, begin, end in pairs]
        difference = float(np.float32(nothing) - np.float32(listed[0][2])) if listed else np.inf
        best_text, is_empty = listed[0][0] if listed else "", not listed or (may and difference > null_threshold)
        if may or not listed:
            listed = sorted([*listed, ("", None, nothing)], key=lambda candidate: -candidate[2])
        powers = np.exp([score - listed[0][2] for *_, score in listed])
        shares = (powers / powers.sum()).tolist()
        candidates = [Candidate(*facts, share) for facts, share in zip(listed, shares, strict=True)]
        best = next(candidate for candidate in candidates if (candidate.span is None) == is_empty)
        answers.append(Prediction(example.id, *best, difference, best_text, candidates))
    return answers


def best_pairs(start: np.ndarray, end: np.ndarray, n: int, longest: int) -> tuple[np.ndarray, ...]:
    """Return score, start and end of the n best pairs of each row of logits (R×P), R×n, by start and then end."""
    row, first, last = np.arange(len(start))[:, None], greatest(start, n), greatest(end, n)
    distance = last[:, None] - first[:, :, None]
    score = start[row, first][:, :, None] + end[row, last][:, None]
    score = np.where((distance >= 0) & (distance < longest), score, -np.inf).reshape(len(start), -1)
    pair = greatest(score, n)
    return score[row, pair], first[row, pair // last.shape[1]], last[row, pair % last.shape[1]]


def greatest(values: np.ndarray, n: int) -> np.ndarray:
    """Return the columns of each row's n greatest values, ascending; of equal values the earlier count."""
    return np.sort(np.argsort(-values, axis=1, kind="stable")[:, :n])
