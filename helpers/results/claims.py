"""Does what the paper says hold for ours? Computed from a record's raw scores; nothing is written by hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from helpers.results import intervals, tables
from helpers.results.records import Claim, Record

HOLDS, FAILS, OPEN = "holds", "does not hold", "is not decided"
SEEDS = 3  # fewer runs show nothing that another seed may not undo


class Judgement(NamedTuple):
    """A claim's outcome (``HOLDS``, ``FAILS`` or ``OPEN``), what was found, and both in a sentence."""

    outcome: str
    found: intervals.Comparison
    sentence: str


def judge(record: Record, claim: Claim) -> Judgement:
    """A claim holds where the whole interval of the difference lies above zero, fails where it lies below, and is
    not decided otherwise, or with fewer than ``SEEDS`` seeds."""
    metric = tables.metrics(record)[0]
    columns = claim.columns or tables.columns(record, metric)
    if claim.than:
        found = _excess(record, claim, columns, metric)
    else:
        found = tables.compare(record, claim.above, claim.below, columns, metric)
    few = len({score.seed for score in record.scores}) < SEEDS
    if claim.than and claim.times != 1 and not few:  # a share of a gain, so there has to be one
        gain = tables.compare(record, *claim.than, claim.than_columns or columns, metric)
        few = gain is None or not gain.is_gain
    if few or found.low is None or found.low <= 0 <= found.high:
        outcome = OPEN
    else:
        outcome = HOLDS if found.low > 0 else FAILS
    digits = tables.decimals(score.value for score in record.scores if score.metric == metric)
    text = f"{claim.text}: {outcome}. Difference {tables.signed(found.difference, digits)} {metric or record.unit}"
    if found.low is None:
        text += f" ({found.over}, so without an interval)"
    else:
        text += f" (95 % interval {tables.interval(found, digits)}; {tables.likely('P', found.probability)})"
    printed = _printed(record, claim)
    text += "." if printed is None else f"; in the paper {tables.signed(printed, 2)}."
    return Judgement(outcome, found, text)


def _excess(record: Record, claim: Claim, columns: list[str], metric: str | None) -> intervals.Comparison:
    """By how much one difference is above the other. All four terms may share trainings and questions, so it is taken
    seed by seed and question by question, and then resampled once."""
    terms = [(claim.above, columns), (claim.below, columns)]
    terms += [(row, claim.than_columns or columns) for row in claim.than]
    found = [tables.matrices(record, row, own, metric) for row, own in terms]
    if any(one is None for one in found) or len({len(one) for one in found}) > 1:
        raise ValueError(f"{record.artefact}: {claim.text!r} needs the same seeds and as many columns on both sides")
    if len({matrix.shape for one in found for matrix in one}) > 1:  # not the same questions: one number a seed
        found = [[matrix.mean(axis=1, keepdims=True) for matrix in one] for one in found]
    excess = [a - b - claim.times * (c - d) for a, b, c, d in zip(*found, strict=True)]
    return intervals.compare(excess, [np.zeros_like(matrix) for matrix in excess])


def _printed(record: Record, claim: Claim) -> float | None:
    """The paper's own difference, where it prints all that goes into it."""
    metric = tables.metrics(record)[0]

    def mean(row: str, columns: list[str]) -> float:
        printed = [s for s in tables.paper_scores(record, metric) if tables.row_label(s) == row]
        values = [s.value for s in printed if not columns or s.column in columns]
        return float(np.mean(values)) if values and len(values) >= len(columns) else np.nan

    gap = mean(claim.above, claim.columns) - mean(claim.below, claim.columns)
    if claim.than:
        columns = claim.than_columns or claim.columns
        gap -= claim.times * (mean(claim.than[0], columns) - mean(claim.than[1], columns))
    return None if np.isnan(gap) else float(gap)
