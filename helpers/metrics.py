"""Scores of answers: exact match and F1 by the official SQuAD, MRQA and adversarial SQuAD evaluations.

Functions of one answer give 0..1. ``Scores`` and all averages are in percent.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.data.examples import DataError, Example

Normalizer = Callable[[str], str]
_PUBLIC = ("Scores", "adversarial_scores", "best_threshold", "choose_normalizer", "exact_match", "f1", "score")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


@dataclass(frozen=True)
class Scores:
    """Exact match and F1 of each question, or group of questions, in percent."""

    em: np.ndarray
    f1: np.ndarray

    def means(self) -> dict[str, float]:
        return {"em": float(self.em.mean()), "f1": float(self.f1.mean())}


def normalize_answer(text: str) -> str:
    """Lower-case a text and drop ASCII punctuation, the words a, an and the, and spaces but single ones."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def is_unspaced(text: str) -> bool:
    """Return whether most letters of a text are of scripts that set no spaces between words."""
    unspaced = len(re.findall(f"[{_UNSPACED}]", text))
    return unspaced > 0 and 2 * unspaced > sum(map(str.isalpha, text))


def normalize_characters(text: str) -> str:
    """Lower-case a text, drop Unicode punctuation, and set spaces around each character of a script without spaces.

    So do the evaluations of CMRC 2018 and MLQA ("mixed segmentation").
    """
    text = text.lower().translate(_NO_PUNCTUATION)
    text = "".join(character for character in text if not unicodedata.category(character).startswith("P"))
    return " ".join(re.findall(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+", text))


def choose_normalizer(passage: str) -> Normalizer:
    """Return how answers from a passage are normalised: by characters where its script sets no spaces."""
    return normalize_characters if is_unspaced(passage) else normalize_answer


def exact_match(
    prediction: str, answers: Sequence[str], *, no_answer: bool = False, normalize: Normalizer = normalize_answer
) -> float:
    """Return 1.0 where the normalised prediction equals a normalised answer, else 0.0. Arguments: see `f1`."""
    return float(normalize(prediction) in _references(answers, no_answer, normalize))


def f1(
    prediction: str, answers: Sequence[str], *, no_answer: bool = False, normalize: Normalizer = normalize_answer
) -> float:
    """Return the overlap of normalised words (0..1) with the answer that fits best.

    Without answers, for an unanswerable question, only a prediction that is empty once normalised is right.
    ``no_answer`` chooses the rules of SQuAD 2.0 over those of 1.1 and MRQA: answers that normalise to nothing ("A+") do
    not count beside others, and with none left an empty prediction scores 1. By 1.1 such an answer is an exact match to
    itself with an F1 of 0. ``normalize`` is `choose_normalizer`'s for the passage.
    """
    predicted = normalize(prediction).split()
    best = 0.0
    for words in map(str.split, _references(answers, no_answer, normalize)):
        if common := (Counter(predicted) & Counter(words)).total():
            best = max(best, 2 * common / (len(predicted) + len(words)))
        elif no_answer or not answers:
            best = max(best, float(predicted == words))
    return best


def answer_f1(example: Example, text: str, *, no_answer: bool = False) -> float:
    """Return the F1 (0..1) of one answer to an example's question, by the rule for its passage."""
    return f1(text, example.answers, no_answer=no_answer, normalize=choose_normalizer(example.context))


def _references(answers: Sequence[str], no_answer: bool, normalize: Normalizer) -> list[str]:
    if isinstance(answers, str):
        raise TypeError(f"answers: expected a list of texts, found {answers!r}; write [{answers!r}]")
    return [reference for reference in map(normalize, answers) if reference or not no_answer] or [""]


def score(examples: Sequence[Example], predictions: Sequence, *, no_answer: bool | None = None) -> Scores:
    """Score predictions that stand in the order of ``examples``.

    ``no_answer`` as in `f1`; None means SQuAD 2.0's rules where any example is unanswerable. Questions on passages in
    a script without spaces are scored by character. Raises DataError where numbers differ.
    """
    check_number(examples, predictions)
    if no_answer is None:
        no_answer = not all(example.answers for example in examples)
    texts = [prediction if isinstance(prediction, str) else prediction.text for prediction in predictions]
    values = []
    for example, text in zip(examples, texts, strict=True):
        rules = {"no_answer": no_answer, "normalize": choose_normalizer(example.context)}
        values.append([100 * metric(text, example.answers, **rules) for metric in (exact_match, f1)])
    return Scores(*np.array(values).T.copy())


def adversarial_scores(examples: Sequence[Example], scores: Scores) -> Scores:
    """Count each question by its adversarial variant with the least F1, the first of equals (Jia & Liang 2017). The
    clean passage counts only where there is no variant. One entry per ``Example.group``, in order of first appearance.
    """
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.group, []).append(row)
    worst = [min(of, key=lambda row: (examples[row].id == group, scores.f1[row])) for group, of in rows.items()]
    return Scores(scores.em[worst], scores.f1[worst])


def best_threshold(examples: Sequence[Example], predictions: Sequence) -> float:
    """Return the ``null_threshold`` of `extractive_qa.decode` with the best mean F1.

    As in SQuAD 2.0's official evaluation, one question after another turns from "no answer" to its best span, by rising
    null difference, and the mean is looked at after each. Among equal differences it may be a mean that no threshold
    reaches. The first of equally good thresholds counts; -inf leaves all questions without an answer.
    """
    texts = [prediction.best_text for prediction in predictions]
    is_answerable = np.array([bool(example.answers) for example in examples])
    wrong = -100.0 * np.array([bool(text) for text in texts])  # any text is, where there is no answer
    gain = np.where(is_answerable, score(examples, texts, no_answer=True).f1, wrong)
    difference = np.array([prediction.null_difference for prediction in predictions])
    order = np.argsort(difference, kind="stable")
    best = int(np.concatenate([[0.0], np.cumsum(gain[order])]).argmax())
    return float(difference[order[best - 1]]) if best else -np.inf


def answers_above(predictions: Sequence, limit: float | Sequence[float]) -> list[str]:
    """Return answers: "" where the null difference is above ``limit``, which is one number or one per question."""
    pairs = zip(predictions, np.broadcast_to(limit, len(predictions)), strict=True)
    return ["" if one.null_difference > highest else one.best_text for one, highest in pairs]


def check_number(examples: Sequence, predictions: Sequence) -> None:
    """Raise DataError unless there is a prediction for each example, and some."""
    if len(examples) != len(predictions) or not len(examples):
        raise DataError(f"{len(predictions)} predictions for {len(examples)} examples; need one for each, and some")


def __dir__() -> list[str]:
    return [*_PUBLIC]
