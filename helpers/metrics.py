"""Scores of answers and of labels: exact match and F1 by the official SQuAD, MRQA and adversarial SQuAD evaluations,
and GLUE's metrics.

Functions of one answer give 0..1. ``Scores`` and all averages are in percent.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.data.examples import Choice, DataError, Example, Pair

Normalizer = Callable[[str], str]
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

    Without answers only a prediction that is empty once normalised is right. ``no_answer`` chooses the rules of
    SQuAD 2.0 over those of 1.1 and MRQA: answers that normalise to nothing ("A+") do not count beside others, and with
    none left an empty prediction scores 1. By 1.1 such an answer is an exact match to itself with an F1 of 0.
    ``normalize`` is `choose_normalizer`'s for the passage.
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
    return [reference for reference in map(normalize, answers) if reference or not no_answer] or [""]


def score(examples: Sequence[Example], predictions: Sequence, *, no_answer: bool | None = None) -> Scores:
    """Score predictions that stand in the order of ``examples``.

    ``no_answer`` as in `f1`; None means SQuAD 2.0's rules where any example is unanswerable. Questions on passages in
    a script without spaces are scored by character. Raises DataError where numbers differ.
    """
    _check_number(examples, predictions)
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


def split_by_answerability(examples: Sequence[Example], scores: Scores) -> dict[str, Scores]:
    """Split scores into SQuAD 2.0's "HasAns" and "NoAns", each where there is such a question."""
    answerable = np.array([bool(example.answers) for example in examples])
    parts = {"HasAns": answerable, "NoAns": ~answerable}
    return {name: Scores(scores.em[mask], scores.f1[mask]) for name, mask in parts.items() if mask.any()}


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
    total = np.concatenate([[0.0], np.cumsum(gain[order])])
    best = int(total.argmax())
    return float(difference[order[best - 1]]) if best else -np.inf


def answers_above(predictions: Sequence, limit: float | Sequence[float]) -> list[str]:
    """Return the answers to questions: "" where "no answer" scores above the best span by more than ``limit``, for all
    questions or one value per question."""
    pairs = zip(predictions, np.broadcast_to(limit, len(predictions)), strict=True)
    return ["" if one.null_difference > highest else one.best_text for one, highest in pairs]


def fit_temperature(examples: Sequence[Example], predictions: Sequence) -> float:
    """Return the temperature of `extractive_qa.decode` at which confidence tells best how often answers are right.

    ``predictions`` are decoded at temperature 1. Their confidence has the least cross-entropy with exact match (Guo et
    al. 2017), which counts as a little less than 1 and more than 0 (Platt 1999), as few questions are known.
    """
    from scipy.optimize import minimize_scalar

    is_right = score(examples, predictions).em > 0
    target = np.where(is_right, (is_right.sum() + 1) / (is_right.sum() + 2), 1 / ((~is_right).sum() + 2))
    shares = [np.array([candidate.probability for candidate in one.n_best]) for one in predictions]
    is_text = [np.array([candidate.text == one.text for candidate in one.n_best]) for one in predictions]

    def loss(log_temperature: float) -> float:
        powers = [share ** np.exp(-log_temperature) for share in shares]
        sums = [(power[chosen].sum(), power[~chosen].sum()) for power, chosen in zip(powers, is_text, strict=True)]
        right, wrong = np.maximum(sums, 1e-30).T
        logs = np.log(right / (right + wrong)), np.log(wrong / (right + wrong))
        return -float((target * logs[0] + (1 - target) * logs[1]).mean())

    return float(np.exp(minimize_scalar(loss, bounds=np.log([0.1, 10.0]), method="bounded").x))


def label_scores(examples: Sequence[Pair | Choice], predictions: np.ndarray) -> dict[str, float]:
    """Score probabilities of classes (E×C) by accuracy, F1 and Matthews's correlation, or scores (E) by Pearson's and
    Spearman's correlation, in percent.

    F1 is that of class 1 of two classes, else an average over the classes. A correlation is 0 where all predictions are
    the same. Raises DataError where predictions and labels do not fit.
    """
    _check_number(examples, predictions)
    if missing := [example.id for example in examples if example.label is None]:
        raise DataError(f"example {missing[0]!r} has no label to score it by")
    if not np.isfinite(predictions).all():
        raise DataError("a prediction is no number; did the model diverge? lower training.learning_rate")
    labels = np.array([example.label for example in examples])
    if predictions.ndim == 1:
        from scipy.stats import rankdata

        pairs = {"pearson": (predictions, labels), "spearman": (rankdata(predictions), rankdata(labels))}
        varies = np.ptp(predictions) > 0 and np.ptp(labels) > 0
        values = {name: np.corrcoef(*pair)[0, 1] if varies else 0.0 for name, pair in pairs.items()}
    else:
        from sklearn import metrics  # takes a second to import

        classes, average = predictions.argmax(1), "binary" if predictions.shape[1] == 2 else "macro"
        values = {
            "accuracy": metrics.accuracy_score(labels, classes),
            "f1": metrics.f1_score(labels, classes, average=average, zero_division=0.0),
            "matthews": metrics.matthews_corrcoef(labels, classes),
        }
    return {name: 100 * float(value) for name, value in values.items()}


def _check_number(examples: Sequence, predictions: Sequence) -> None:
    if len(examples) != len(predictions) or not len(examples):
        raise DataError(f"{len(predictions)} predictions for {len(examples)} examples; need one for each, and some")
