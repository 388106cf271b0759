"""How good are the answers? Exact match and F1 as the official SQuAD, MRQA and adversarial SQuAD evaluations count
them, and BLEU and ROUGE-L for free answers.

Functions of one answer give 0..1; ``Scores`` and everything that averages are in percent, 0..100.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, zip_longest

import numpy as np

from helpers.data.examples import DataError, Example
from helpers.tasks.decoding import Prediction

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Scores:
    """Exact match and F1 of each question (or group of questions), in percent."""

    ids: list[str]
    em: np.ndarray
    f1: np.ndarray

    def means(self) -> dict[str, float]:
        return {"em": float(self.em.mean()), "f1": float(self.f1.mean())}

    def select(self, mask: np.ndarray) -> Scores:
        """The questions where ``mask`` is true."""
        return Scores(list(compress(self.ids, mask)), self.em[mask], self.f1[mask])


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, without a, an, the as words, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str], *, no_answer: bool = False) -> float:
    """1.0 where the normalised prediction equals one of the normalised answers, else 0.0; no answers: see `f1`."""
    predicted = normalize_answer(prediction)
    return float(any(predicted == reference for reference in _references(answers, no_answer)))


def f1(prediction: str, answers: Sequence[str], *, no_answer: bool = False) -> float:
    """Overlap of normalised words (0..1) with the answer that fits best.

    Without answers only a prediction that is empty once normalised is right. ``no_answer`` chooses the rules of
    SQuAD 2.0 over those of 1.1 and MRQA: answers that normalise to nothing ("A+") do not count beside others, and
    with none left an empty prediction scores 1. By 1.1 such an answer is an exact match to itself with an F1 of 0.
    """
    predicted = normalize_answer(prediction).split()
    best = 0.0
    for reference in _references(answers, no_answer):
        wanted = reference.split()
        common = sum((Counter(predicted) & Counter(wanted)).values())
        if common:
            best = max(best, 2 * common / (len(predicted) + len(wanted)))
        elif no_answer or not answers:
            best = max(best, float(predicted == wanted))
    return best


def _references(answers: Sequence[str], no_answer: bool) -> list[str]:
    return [reference for reference in map(normalize_answer, answers) if reference or not no_answer] or [""]


def score(
    examples: Sequence[Example], predictions: Sequence[Prediction | str], *, no_answer: bool | None = None
) -> Scores:
    """Exact match and F1 of each example, in percent.

    ``predictions`` stand in the order of ``examples``; those that bear an id are checked. ``no_answer`` as in `f1`;
    None means SQuAD 2.0's rules where any example is unanswerable. Raises DataError where the two do not fit.
    """
    if len(examples) != len(predictions) or not examples:
        raise DataError(f"{len(predictions)} predictions for {len(examples)} questions; need one for each, and some")
    if no_answer is None:
        no_answer = not all(example.answers for example in examples)
    table = np.empty((2, len(examples)))
    for row, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        if not isinstance(prediction, str):
            if prediction.id != example.id:
                raise DataError(f"prediction {row} is of question {prediction.id!r}, not of {example.id!r}")
            prediction = prediction.text
        table[0, row] = exact_match(prediction, example.answers, no_answer=no_answer)
        table[1, row] = f1(prediction, example.answers, no_answer=no_answer)
    return Scores([example.id for example in examples], *(100 * table))


def adversarial_scores(examples: Sequence[Example], scores: Scores) -> Scores:
    """Adversarial scoring as its official evaluation has it (Jia & Liang 2017): each question counts by the adversarial
    variant with the least F1, the first of several, and by the clean passage only where it has no variant.

    One entry for each ``Example.group``, in order of first appearance; without variants nothing changes. Raises
    DataError where the scores are of other examples.
    """
    if [example.id for example in examples] != scores.ids:
        raise DataError("the scores are not of these examples, in this order")
    worst: dict[str, int] = {}
    for row, example in enumerate(examples):
        so_far = worst.setdefault(example.group, row)
        clean = examples[so_far].id == example.group
        if example.id != example.group and (clean or scores.f1[row] < scores.f1[so_far]):
            worst[example.group] = row
    rows = list(worst.values())
    return Scores(list(worst), scores.em[rows], scores.f1[rows])


def by_answerability(examples: Sequence[Example], scores: Scores) -> dict[str, Scores]:
    """SQuAD 2.0's breakdown: "HasAns" and "NoAns", each where there is such a question."""
    answerable = np.asarray([bool(example.answers) for example in examples])
    parts = {"HasAns": answerable, "NoAns": ~answerable}
    return {name: scores.select(mask) for name, mask in parts.items() if mask.any()}


def best_threshold(
    examples: Sequence[Example], predictions: Sequence[Prediction], metric: str = "f1"
) -> tuple[float, float]:
    """The ``null_threshold`` of `spans.decode` with the best mean ``metric`` ("em" or "f1"), and that mean in percent.

    As in SQuAD 2.0's official evaluation: by rising null difference, equal ones in the order of the examples, one
    question after another turns from "no answer" to its best span, and the mean is looked at after each. Among equal
    differences it may thus be a mean that no threshold reaches. The first of equally good thresholds counts; -inf
    leaves all questions without an answer.
    """
    spans = score(examples, [prediction.best_text for prediction in predictions], no_answer=True)
    answerable = np.asarray([bool(example.answers) for example in examples])
    said = np.asarray([bool(prediction.best_text) for prediction in predictions])
    difference = np.asarray([prediction.null_difference for prediction in predictions])
    order = np.argsort(difference, kind="stable")
    turns = np.where(answerable, getattr(spans, metric), -100.0 * said)  # any text is wrong where there is no answer
    gains = np.concatenate([[0.0], np.cumsum(turns[order])])
    best = int(gains.argmax())
    threshold = float(difference[order[best - 1]]) if best else -np.inf
    return threshold, float((100.0 * np.count_nonzero(~answerable) + gains[best]) / len(examples))


def free_answers(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float | np.ndarray]:
    """BLEU-1, BLEU-4 and ROUGE-L in percent of free answers with one or more references each (NarrativeQA: two).

    BLEU is of the whole corpus (sacrebleu, lower case, no smoothing). "bleu_4_smoothed" adds one to matches and number
    of stretches of two words and more (Lin & Och 2004), so that it is 0 only where no word is right. "length" is the
    number of words said divided by that of the references, of each question the one of most nearly the answer's length,
    of two the shorter: the lengths that BLEU's brevity penalty compares, in which punctuation counts as words. ROUGE-L
    is the F-measure against the best reference (rouge-score, no stemming), averaged; "rouge_l_each" holds the single
    values.
    """
    from rouge_score.rouge_scorer import RougeScorer  # here, because it imports all of nltk
    from sacrebleu.metrics import BLEU

    if len(predictions) != len(references) or not predictions:
        raise DataError(f"{len(predictions)} predictions for {len(references)} questions; need one for each, and some")
    if not all(references):
        raise DataError(f"question {list(map(bool, references)).index(False)} has no reference answer")
    streams = list(zip_longest(*references))  # a question without an nth reference has None there
    orders = {"bleu_1": (1, "none"), "bleu_4": (4, "none"), "bleu_4_smoothed": (4, "add-k")}  # by default k is 1
    measured = {
        name: BLEU(lowercase=True, smooth_method=smoothing, max_ngram_order=order).corpus_score(
            list(predictions), streams
        )
        for name, (order, smoothing) in orders.items()
    }
    bleu = {name: found.score for name, found in measured.items()} | {"length": 100 * measured["bleu_1"].ratio}
    scorer = RougeScorer(["rougeL"])
    pairs = zip(predictions, references, strict=True)
    each = np.asarray([100 * scorer.score_multi(answers, text)["rougeL"].fmeasure for text, answers in pairs])
    return {**bleu, "rouge_l": float(each.mean()), "rouge_l_each": each}
