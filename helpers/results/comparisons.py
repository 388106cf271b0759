"""From a record to numbers: means with intervals, differences between rows, and what the paper prints of both.

Nothing here is stored: all of it is computed from the raw scores, those of one metric (``by_metric``).
"""

import json
from collections.abc import Callable

import numpy as np
import pandas as pd

from helpers.results import intervals
from helpers.results.intervals import Estimate, Matrices
from helpers.results.records import Claim, Record, example_key, row_label

AVERAGE = "AVE."
MEASURED = ("seconds", "ms ", "times ")  # how metrics begin that are times, and other ones in every run


def repeated(record: Record) -> dict:
    """What of a record every run has to repeat: all but how it was run, what the paper prints, and times."""
    facts = json.loads(record.model_dump_json(exclude={"run", "paper"}))
    if "scores" in facts:
        facts["scores"] = [score for score in facts["scores"] if not (score.get("metric") or "").startswith(MEASURED)]
    return facts


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


def seeds(record: Record) -> list[int]:
    """The seeds of a record's scores."""
    return sorted({score.seed for score in record.scores})


def fewer_seeds(record: Record) -> dict[int, list[str]]:
    """The rows that have fewer seeds than others, by how many they have."""
    of_row = {row: len({score.seed for score in record.scores if row_label(score) == row}) for row in rows(record)}
    most, found = max(of_row.values(), default=0), {}
    for row in (row for row, number in of_row.items() if number < most):
        found.setdefault(of_row[row], []).append(row)
    return found


def matrices(record: Record, row: str, columns: list[str], among: list[int] | None = None) -> list[np.ndarray] | None:
    """One seeds × examples matrix a column, over the seeds (``among`` these) that all columns have; None where they
    share none.

    Where not every cell has its examples, each matrix has one column: the scores themselves.
    """
    scores = {(score.column, score.seed): score for score in record.scores if row_label(score) == row}
    known = seeds(record) if among is None else among
    shared = [seed for seed in known if all((column, seed) in scores for column in columns)]
    if not shared:
        return None
    runs = [[scores[column, seed] for seed in shared] for column in columns]
    keys = [[example_key(score.method, score.column, score.seed) for score in column] for column in runs]
    on_a_curve = any(score.x is not None for score in scores.values())
    if not on_a_curve and all(key in record.examples for column in keys for key in column):
        return [np.array([record.examples[key] for key in column]) for column in keys]
    return [np.array([[score.value] for score in column]) for column in runs]


def sides(record: Record, terms: list[tuple[str, list[str]]]) -> list[list[np.ndarray]] | None:
    """`matrices` of several (row, columns), to be compared: over the seeds that all of them have, and the same examples
    or one number a seed. None where they share no seed, or have not the same number of columns."""
    cells = {(row_label(score), score.column, score.seed) for score in record.scores}
    rows = [(row, column) for row, columns in terms for column in columns]
    shared = [seed for seed in seeds(record) if all((*row, seed) in cells for row in rows)]
    if not shared or len({len(columns) for _, columns in terms}) > 1:
        return None
    found = [matrices(record, *term, shared) for term in terms]
    if len({tuple(matrix.shape[1] for matrix in side) for side in found}) == 1:
        return found
    return [[matrix.mean(axis=1, keepdims=True) for matrix in side] for side in found]


def estimates(record: Record) -> pd.DataFrame:
    """Rows × columns and AVE. of ``intervals.Estimate``, None where there is no score."""
    return _table(record, lambda row, columns: (cells := matrices(record, row, columns)) and intervals.estimate(cells))


def differences(record: Record, baseline: str) -> pd.DataFrame:
    """The other rows minus ``baseline``, × columns and AVE., of ``intervals.Estimate``; None where a score lacks."""
    if baseline not in (known := rows(record)):
        raise ValueError(f"{record.artefact}: there is no {baseline!r} to compare with; there are {', '.join(known)}")
    return _table(record, lambda row, columns: compare(record, row, baseline, columns)).drop(index=baseline)


def compare(record: Record, row: str, baseline: str, columns: list[str]) -> Estimate | None:
    """``row`` minus ``baseline``, on average over ``columns``; None where they share no seed in all of them."""
    found = sides(record, [(row, columns), (baseline, columns)])
    return found and intervals.compare(*found)


def claimed(record: Record, claim: Claim) -> tuple[Matrices, Matrices]:
    """The two sides of a claim, seed by seed and example by example: its two rows, or its difference and the other one
    that it is held against. Raises ValueError where the rows share no seed, or have not as many columns."""
    own = claim.columns or columns(record)
    terms = [(claim.above, own), (claim.below, own), *((row, claim.than_columns or own) for row in claim.than)]
    if (found := sides(record, terms)) is None:
        raise ValueError(f"{record.artefact}: {claim.text!r} needs the same seeds and as many columns on both sides")
    above, below, *than = found
    if not than:
        return above, below
    return tuple([a - b for a, b in zip(*pair, strict=True)] for pair in ((above, below), than))


def paper_means(record: Record) -> pd.DataFrame:
    """The paper's numbers, rows × columns; NaN where it prints none."""
    table = pd.DataFrame([(row_label(score), score.column, score.value) for score in record.paper], columns=[*"rcv"])
    return table.pivot_table("v", "r", "c", sort=False)


def paper_difference(record: Record, row: str, baseline: str, columns: list[str]) -> float | None:
    """The paper's own difference on average over ``columns``, where it prints all that goes into it; if none is named,
    that of the averages it prints, or else of all its columns."""
    means = paper_means(record)
    printed = [AVERAGE] if AVERAGE in means else means.columns
    means = means.reindex([row, baseline], columns=columns or printed).mean(axis=1, skipna=False)
    return None if means.hasnans else float(means[row] - means[baseline])


def groups(record: Record) -> dict[str, list[str]]:
    """Every column by itself, and all together where their average means something."""
    found = {column: [column] for column in columns(record)}
    return found | ({AVERAGE: list(found)} if record.average and len(found) > 1 else {})


def _table(record: Record, cell: Callable[[str, list[str]], object]) -> pd.DataFrame:
    cells = [[cell(row, group) for group in groups(record).values()] for row in rows(record)]
    return pd.DataFrame(cells, rows(record), list(groups(record)), dtype=object)
