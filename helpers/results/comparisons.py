"""From a record to numbers: means with intervals, differences between rows, and what the paper prints of both.

Nothing here is stored: all of it is computed from the raw scores. Where a function takes a ``metric`` that may be left
out, the record's first is meant.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from helpers.results import intervals
from helpers.results.intervals import Comparison, Estimate
from helpers.results.records import Claim, Record, example_key, row_label

AVERAGE = "AVE."


def metrics(record: Record) -> list[str | None]:
    """The metrics among a record's scores, in order; ``[None]`` where scores name none."""
    return list(dict.fromkeys(score.metric for score in record.scores))


def columns(record: Record, metric: str | None) -> list[str]:
    """The columns that have a score of ``metric``, in order."""
    return list(dict.fromkeys(score.column for score in record.scores if score.metric == metric))


def rows(record: Record, metric: str | None) -> list[str]:
    """The labels of the rows that have a score of ``metric``, in order."""
    return list(dict.fromkeys(row_label(score) for score in record.scores if score.metric == metric))


def seeds(record: Record) -> list[int]:
    """The seeds of a record's scores."""
    return sorted({score.seed for score in record.scores})


def one_metric(record: Record, metric: str | None) -> str | None:
    """``metric``, or the record's first for None. Raises ValueError where the record has no scores of it."""
    known = metrics(record)
    if not known:
        raise ValueError(f"{record.artefact}: this record has no scores to make a table of")
    if metric is not None and metric not in known:
        raise ValueError(f"{record.artefact}: there is no metric {metric!r}; there are {known}")
    return known[0] if metric is None else metric


def matrices(record: Record, row: str, columns: list[str], metric: str | None = None) -> list[np.ndarray] | None:
    """One seeds × examples matrix a column, over the seeds that all columns have; None where they share none.

    Where not every cell has its examples, each matrix has one column: the scores themselves.
    """
    scores = {(s.column, s.seed): s for s in record.scores if row_label(s) == row and s.metric == metric}
    shared = [seed for seed in seeds(record) if all((column, seed) in scores for column in columns)]
    if not shared:
        return None
    runs = [[scores[column, seed] for seed in shared] for column in columns]
    keys = [[example_key(score.method, score.column, score.seed) for score in column] for column in runs]
    plain = metric in (None, record.unit) and all(score.x is None for column in runs for score in column)
    if plain and all(key in record.examples for column in keys for key in column):
        return [np.array([record.examples[key] for key in column]) for column in keys]
    return [np.array([[score.value] for score in column]) for column in runs]


def estimates(record: Record, metric: str | None = None) -> pd.DataFrame:
    """Rows × columns and AVE. of ``intervals.Estimate``, None where there is no score."""
    metric = one_metric(record, metric)

    def estimate(row: str, columns: list[str]) -> Estimate | None:
        cells = matrices(record, row, columns, metric)
        return None if cells is None else intervals.estimate(cells)

    return _table(record, metric, estimate)


def differences(record: Record, baseline: str, metric: str | None = None) -> pd.DataFrame:
    """The other rows minus ``baseline``, × columns and AVE., of ``intervals.Comparison``; None where a score lacks."""
    metric = one_metric(record, metric)
    if baseline not in (known := rows(record, metric)):
        raise ValueError(f"{record.artefact}: there is no {baseline!r} to compare with; there are {', '.join(known)}")

    def against(row: str, columns: list[str]) -> Comparison | None:
        return None if row == baseline else compare(record, row, baseline, columns, metric)

    return _table(record, metric, against).drop(index=baseline)


def compare(
    record: Record, row: str, baseline: str, columns: list[str], metric: str | None = None
) -> Comparison | None:
    """``row`` minus ``baseline``, on average over ``columns``; None where one of them lacks a score."""
    sides = [matrices(record, name, columns, metric) for name in (row, baseline)]
    return None if any(side is None for side in sides) else intervals.compare(*_paired(sides))


def excess(record: Record, claim: Claim, columns: list[str], metric: str | None) -> Comparison | None:
    """By how much a claim's difference is above ``times`` its other one; None where the four rows differ in seeds or in
    the number of columns.

    All four may share trainings and questions, so it is taken seed by seed and question by question, and then resampled
    once.
    """
    others = claim.than_columns or columns
    terms = [(claim.above, columns), (claim.below, columns), *((row, others) for row in claim.than)]
    sides = [matrices(record, row, own, metric) for row, own in terms]
    if any(side is None for side in sides) or len({(len(side), len(side[0])) for side in sides}) > 1:
        return None
    gaps = [a - b - claim.times * (c - d) for a, b, c, d in zip(*_paired(sides), strict=True)]
    return intervals.compare(gaps, [np.zeros_like(gap) for gap in gaps])


def paper_means(record: Record, metric: str | None = None) -> pd.DataFrame:
    """The paper's numbers that can stand beside ours of this metric, rows × columns; NaN where it prints none."""
    scores = [score for score in record.paper if metric is None or score.metric in (None, metric)]
    table = pd.DataFrame([(row_label(score), score.column, score.value) for score in scores], columns=[*"rcv"])
    return table.pivot_table("v", "r", "c", sort=False)


def paper_difference(record: Record, row: str, baseline: str, columns: list[str], metric: str | None) -> float | None:
    """The paper's own difference on average over ``columns`` (all of its, if none is named), where it prints all that
    goes into it."""
    means = paper_means(record, metric)
    means = means.reindex([row, baseline], columns=columns or means.columns).mean(axis=1, skipna=False)
    return None if means.hasnans else float(means[row] - means[baseline])


def _paired(sides: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """The sides of a comparison over the same examples, or one number a seed where they have not the same."""
    if len({tuple(matrix.shape[1] for matrix in side) for side in sides}) == 1:
        return sides
    return [[matrix.mean(axis=1, keepdims=True) for matrix in side] for side in sides]


def _table(record: Record, metric: str | None, cell: Callable[[str, list[str]], object]) -> pd.DataFrame:
    """``cell`` of every row and column, and of all columns together where their average means something."""
    groups = {column: [column] for column in columns(record, metric)}
    if record.average and len(groups) > 1:
        groups[AVERAGE] = list(groups)
    index = rows(record, metric)
    return pd.DataFrame([[cell(row, group) for group in groups.values()] for row in index], index, [*groups], object)
