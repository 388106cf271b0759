"""From a record to numbers: means with intervals, differences between rows, and what the paper prints of both.

Nothing here is stored: all of it is computed from the raw scores, those of one metric (``by_metric``).
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from helpers.results import intervals
from helpers.results.intervals import Comparison
from helpers.results.records import Claim, Record, example_key, row_label

AVERAGE = "AVE."


def by_metric(record: Record) -> list[Record]:
    """A record of each metric among the scores, in order: its scores, the paper's numbers of it, and it as the unit."""
    return [
        record.model_copy(
            update={
                "unit": metric or record.unit,
                "scores": [score for score in record.scores if score.metric == metric],
                "paper": [score for score in record.paper if metric is None or score.metric in (None, metric)],
                "examples": record.examples if metric in (None, record.unit) else {},
            }
        )
        for metric in dict.fromkeys(score.metric for score in record.scores)
    ]


def columns(record: Record) -> list[str]:
    """The columns that have a score, in order."""
    return list(dict.fromkeys(score.column for score in record.scores))


def rows(record: Record) -> list[str]:
    """The labels of the rows that have a score, in order."""
    return list(dict.fromkeys(map(row_label, record.scores)))


def seeds(record: Record, row: str = "") -> list[int]:
    """The seeds of a record's scores, or of a row's."""
    return sorted({score.seed for score in record.scores if row in ("", row_label(score))})


def matrices(record: Record, row: str, columns: list[str]) -> list[np.ndarray] | None:
    """One seeds × examples matrix a column, over the seeds that all columns have; None where they share none.

    Where not every cell has its examples, each matrix has one column: the scores themselves.
    """
    scores = {(score.column, score.seed): score for score in record.scores if row_label(score) == row}
    shared = [seed for seed in seeds(record) if all((column, seed) in scores for column in columns)]
    if not shared:
        return None
    runs = [[scores[column, seed] for seed in shared] for column in columns]
    keys = [[example_key(score.method, score.column, score.seed) for score in column] for column in runs]
    on_a_curve = any(score.x is not None for score in scores.values())
    if not on_a_curve and all(key in record.examples for column in keys for key in column):
        return [np.array([record.examples[key] for key in column]) for column in keys]
    return [np.array([[score.value] for score in column]) for column in runs]


def estimates(record: Record) -> pd.DataFrame:
    """Rows × columns and AVE. of ``intervals.Estimate``, None where there is no score."""
    return _table(record, lambda row, columns: (cells := matrices(record, row, columns)) and intervals.estimate(cells))


def differences(record: Record, baseline: str) -> pd.DataFrame:
    """The other rows minus ``baseline``, × columns and AVE., of ``intervals.Comparison``; None where a score lacks."""
    if baseline not in (known := rows(record)):
        raise ValueError(f"{record.artefact}: there is no {baseline!r} to compare with; there are {', '.join(known)}")
    return _table(record, lambda row, columns: compare(record, row, baseline, columns)).drop(index=baseline)


def compare(record: Record, row: str, baseline: str, columns: list[str]) -> Comparison | None:
    """``row`` minus ``baseline``, on average over ``columns``; None where one of them lacks a score."""
    sides = [matrices(record, name, columns) for name in (row, baseline)]
    return None if any(side is None for side in sides) else intervals.compare(*_paired(sides))


def excess(record: Record, claim: Claim, columns: list[str]) -> Comparison | None:
    """By how much a claim's difference is above ``times`` its other one; None where the four rows differ in seeds or in
    the number of columns.

    All four may share trainings and questions, so it is taken seed by seed and question by question, and then resampled
    once.
    """
    others = claim.than_columns or columns
    terms = [(claim.above, columns), (claim.below, columns), *((row, others) for row in claim.than)]
    sides = [matrices(record, *term) for term in terms]
    if any(side is None for side in sides) or len({(len(side), len(side[0])) for side in sides}) > 1:
        return None
    gaps = [a - b - claim.times * (c - d) for a, b, c, d in zip(*_paired(sides), strict=True)]
    return intervals.compare(gaps, [np.zeros_like(gap) for gap in gaps])


def paper_means(record: Record) -> pd.DataFrame:
    """The paper's numbers, rows × columns; NaN where it prints none."""
    table = pd.DataFrame([(row_label(score), score.column, score.value) for score in record.paper], columns=[*"rcv"])
    return table.pivot_table("v", "r", "c", sort=False)


def paper_difference(record: Record, row: str, baseline: str, columns: list[str]) -> float | None:
    """The paper's own difference on average over ``columns`` (all of its, if none is named), where it prints all that
    goes into it."""
    means = paper_means(record)
    means = means.reindex([row, baseline], columns=columns or means.columns).mean(axis=1, skipna=False)
    return None if means.hasnans else float(means[row] - means[baseline])


def _paired(sides: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """The sides of a comparison over the same examples, or one number a seed where they have not the same."""
    if len({tuple(matrix.shape[1] for matrix in side) for side in sides}) == 1:
        return sides
    return [[matrix.mean(axis=1, keepdims=True) for matrix in side] for side in sides]


def _table(record: Record, cell: Callable[[str, list[str]], object]) -> pd.DataFrame:
    """``cell`` of every row and column, and of all columns together where their average means something."""
    groups = {column: [column] for column in columns(record)}
    if record.average and len(groups) > 1:
        groups[AVERAGE] = list(groups)
    cells = [[cell(row, group) for group in groups.values()] for row in rows(record)]
    return pd.DataFrame(cells, rows(record), list(groups), dtype=object)
