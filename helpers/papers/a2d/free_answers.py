"""BLEU and ROUGE-L of free answers, which are no spans of their passages (Hu et al. 2018, Table 3)."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from helpers.data.examples import DataError


def score_free_answers(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Score free answers with one or more references each (NarrativeQA: two) by BLEU and ROUGE-L, in percent.

    BLEU is that of the whole corpus (sacrebleu, lower case, no smoothing); "bleu_4_smoothed" adds one to the counts of
    two words and more (Lin & Och 2004). "length" is the number of words over that of the references nearest in length,
    as BLEU counts them. ROUGE-L is the F-measure against the best reference (rouge-score, no stemming), averaged.
    Raises DataError where references are missing.
    """
    from rouge_score.rouge_scorer import RougeScorer  # imports all of nltk
    from sacrebleu.metrics import BLEU

    if len(predictions) != len(references) or not len(references):
        raise DataError(f"{len(predictions)} answers for {len(references)} questions; need one for each, and some")
    if not all(references):
        raise DataError(f"question {list(map(bool, references)).index(False)} has no reference answer")
    streams = list(zip_longest(*references))  # None where a question has fewer references than others
    bleu = {
        name: BLEU(lowercase=True, smooth_method=smooth, max_ngram_order=order).corpus_score(list(predictions), streams)
        for name, order, smooth in (("bleu_1", 1, "none"), ("bleu_4", 4, "none"), ("bleu_4_smoothed", 4, "add-k"))
    }
    scorer, pairs = RougeScorer(["rougeL"]), zip(predictions, references, strict=True)
    rouge = np.mean([100 * scorer.score_multi(answers, text)["rougeL"].fmeasure for text, answers in pairs])
    scores = {name: value.score for name, value in bleu.items()}
    return {**scores, "length": 100 * bleu["bleu_1"].ratio, "rouge_l": float(rouge)}
