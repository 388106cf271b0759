"""BLEU and ROUGE-L of free answers, which are no spans of their passages (Hu et al. 2018, Table 3)."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import pandas as pd

from helpers import metrics
from helpers.data.examples import DataError, Example


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


def compare_metrics(answers: Sequence[str], examples: Sequence[Example]) -> pd.DataFrame:
    """Tabulate answers with their references and scores by each metric, those first on which metrics differ most.

    Bleu-1 and Bleu-4 are those of single answers, up to the longest match that there could be, not smoothed.
    """
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics import BLEU

    scorer, rows = RougeScorer(["rougeL"]), []
    bleu = {
        f"Bleu-{n}": BLEU(lowercase=True, smooth_method="none", max_ngram_order=n, effective_order=True) for n in (1, 4)
    }
    for text, example in zip(answers, examples, strict=True):
        scores = {name: one.sentence_score(text, list(example.answers)).score for name, one in bleu.items()}
        scores["Rouge-L"] = 100 * scorer.score_multi(list(example.answers), text)["rougeL"].fmeasure
        scores["F1"] = 100 * metrics.answer_f1(example, text)
        row = {"question": example.question, "answer": text, "expected": " / ".join(example.answers)}
        rows.append(row | scores | {"apart": max(scores.values()) - min(scores.values())})
    return pd.DataFrame(rows).sort_values("apart", ascending=False, kind="stable", ignore_index=True).round(1)
