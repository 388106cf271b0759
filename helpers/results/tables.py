"""Tables from records: methods × columns with intervals, the paper's numbers beside them, and differences.

Nothing here is stored: means, intervals and tests are computed from the raw scores (``helpers.statistics``). Higher is
taken to be better, unless ``LESS_IS_BETTER`` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

import numpy as np
import pandas as pd

from helpers.results import intervals
from helpers.results.records import Printed, Record, Score, example_key, row_label

AVERAGE = "AVE."
NONE = "–"  # a cell without a number
LESS_IS_BETTER = ("seconds", "thousand parameters")  # metrics of which no best is marked


def metrics(record: Record) -> list[str | None]:
    """The metrics among a record's scores, in order; ``[None]`` where scores name none."""
    return _unique(score.metric for score in record.scores)


def columns(record: Record, metric: str | None) -> list[str]:
    """The columns that have a score of ``metric``, in order."""
    return _unique(score.column for score in record.scores if score.metric == metric)


def is_matrix(record: Record) -> bool:
    """Whether rows and columns are the same things (similarities), so that neither average nor rank makes sense."""
    return {score.method for score in record.scores} == {score.column for score in record.scores} != set()


def matrices(record: Record, row: str, columns: list[str], metric: str | None = None) -> list[np.ndarray] | None:
    """One seeds × examples matrix a column, over the seeds that all columns have; None where they share none.

    Where not every cell has its examples, each matrix has one column: the scores themselves.
    """
    cells: dict[str, dict[int, Score]] = {column: {} for column in columns}
    for score in record.scores:
        if row_label(score) == row and score.metric == metric and score.column in cells:
            cells[score.column][score.seed] = score
    seeds = sorted(set.intersection(*(set(cell) for cell in cells.values())))
    if not seeds:
        return None
    keys = {column: [example_key(cell[seed].method, column, seed) for seed in seeds] for column, cell in cells.items()}
    one_score_each = all(cell[seed].x is None for cell in cells.values() for seed in seeds)
    if (
        metric in (None, record.unit)
        and one_score_each
        and all(k in record.examples for ks in keys.values() for k in ks)
    ):
        return [np.array([record.examples[key] for key in keys[column]]) for column in columns]
    return [np.array([[cell[seed].value] for seed in seeds]) for cell in cells.values()]


def estimates(record: Record, metric: str | None = None) -> pd.DataFrame:
    """Rows × columns and AVE. of ``intervals.Estimate``, None where there is no score. Default: the first metric."""
    scores, metric = _of_metric(record, metric)
    rows, groups = _unique(row_label(score) for score in scores), _groups(record, scores)
    table: dict[str, dict] = {row: {} for row in rows}
    for row in rows:
        for name, columns in groups.items():
            found = matrices(record, row, columns, metric)
            table[row][name] = None if found is None else intervals.estimate(found)
    return pd.DataFrame.from_dict(table, orient="index", columns=list(groups), dtype=object)


def compare(
    record: Record, row: str, baseline: str, columns: list[str], metric: str | None = None
) -> intervals.Comparison | None:
    """``row`` minus ``baseline``, on average over ``columns``; None where one of them lacks a score."""
    sides = [matrices(record, name, columns, metric) for name in (row, baseline)]
    if any(side is None for side in sides):
        return None
    if [m.shape[1] for m in sides[0]] != [m.shape[1] for m in sides[1]]:  # only one side stored its examples
        sides = [[matrix.mean(axis=1, keepdims=True) for matrix in side] for side in sides]
    return intervals.compare(*sides)


def frame(record: Record, metric: str | None = None) -> pd.DataFrame:
    """Our numbers as text: ``mean ± half the interval``, the best mean of a column between double asterisks."""
    table = estimates(record, metric)
    means = table.map(lambda cell: np.nan if cell is None else cell.mean).astype(float)
    digits = decimals(means.to_numpy().ravel())
    texts = _texts(means, digits, emphasise=not is_matrix(record) and metric not in LESS_IS_BETTER)
    for row in table.index:
        for column in table.columns:
            cell = table.loc[row, column]
            if cell is not None and cell.low is not None:
                texts.loc[row, column] += f" ± {(cell.high - cell.low) / 2:.{digits}f}"
    return texts


def paper_scores(record: Record, metric: str | None = None) -> list[Printed]:
    """The paper's numbers that can stand beside ours of this metric."""
    return [score for score in record.paper if metric is None or score.metric in (None, metric)]


def printed_frame(record: Record, metric: str | None = None) -> pd.DataFrame:
    """The paper's numbers as text, with AVE. computed from its columns; empty where it prints none."""
    rows = paper_scores(record, metric)
    columns = _unique(score.column for score in rows)
    means = pd.DataFrame(np.nan, _unique(row_label(score) for score in rows), columns)
    for score in rows:
        means.loc[row_label(score), score.column] = score.value
    if record.average and len(columns) > 1 and AVERAGE not in columns:
        means[AVERAGE] = means.mean(axis=1, skipna=False)
    whole = all(score.value == int(score.value) for score in rows)  # such as a number of parameters
    return _texts(means, 0 if whole else 2, emphasise=metric not in LESS_IS_BETTER)


def differences(record: Record, baseline: str, metric: str | None = None) -> pd.DataFrame:
    """Rows minus ``baseline`` as text, with P(row > baseline) in brackets where it can be estimated."""
    scores, metric = _of_metric(record, metric)
    rows, groups = _unique(row_label(score) for score in scores), _groups(record, scores)
    if baseline not in rows:
        raise ValueError(f"{record.artefact}: there is no {baseline!r} to compare with; there are {', '.join(rows)}")
    digits = decimals([score.value for score in scores])
    table = pd.DataFrame(NONE, [row for row in rows if row != baseline], list(groups), dtype=object)
    for row in table.index:
        for name, columns in groups.items():
            found = compare(record, row, baseline, columns, metric)
            if found is not None:
                suffix = "" if found.probability is None else f" ({chance(found.probability)})"
                table.loc[row, name] = signed(found.difference, digits) + suffix
    return table


def decimals(values: Iterable[float]) -> int:
    """How many to show: one for percentages, three for shares and coefficients."""
    return 1 if any(abs(value) > 1 for value in values) else 3


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign and a real minus; no sign on what rounds to zero."""
    text = f"{abs(value):.{digits}f}"
    return text if float(text) == 0 else ("+" if value > 0 else "\N{MINUS SIGN}") + text


def bounds(found: intervals.Comparison, digits: int = 1) -> str:
    """Between what a difference lies."""
    return f"{signed(found.low, digits)} to {signed(found.high, digits)}"


def interval(found: intervals.Comparison, digits: int = 1) -> str:
    """Between what a difference lies, and over what that was resampled."""
    return f"{bounds(found, digits)} over {found.over}"


def chance(probability: float) -> str:
    """A probability to two decimals; resampling makes nothing certain, so never 0 or 1."""
    return "<0.01" if probability < 0.005 else ">0.99" if probability > 0.995 else f"{probability:.2f}"


def likely(what: str, probability: float) -> str:
    """``what`` and its probability, such as "P(A > B) = 0.97"."""
    number = chance(probability)
    return f"{what} {number if number[0] in '<>' else f'= {number}'}"


def parts(record: Record, metric: str | None = None) -> list[tuple[str, pd.DataFrame]]:
    """Caption and table, in order: ours, the paper's if it has one, and differences to each baseline."""
    scores, metric = _of_metric(record, metric)
    over = " ".join(cell.over for cell in estimates(record, metric).to_numpy().ravel() if cell is not None)
    kinds = [kind for kind in ("seeds", "examples") if kind in over]
    spread = f"; ± is half the 95 % interval over {' and '.join(kinds)}" if kinds else ""
    spread += ", one seed" if "one seed" in over else ""
    unit = scores[0].metric or record.unit
    found = [(f"Ours, {unit}{spread}", frame(record, metric))]
    if not (theirs := printed_frame(record, metric)).empty:
        found.append((f"The paper's, {unit}, on its own corpora and models", theirs))
    for baseline in (name for name in record.baselines if name in found[0][1].index):
        caption = f"Ours minus {baseline}, {unit}; in brackets P(method > {baseline})"
        found.append((caption, differences(record, baseline, metric)))
    return found


def markdown(record: Record, metric: str | None = None) -> str:
    """All parts as Markdown, one under the other."""
    texts = []
    for caption, table in parts(record, metric):
        lines = [["", *table.columns], ["---"] + ["---:"] * len(table.columns)]
        lines += [[row, *table.loc[row]] for row in table.index]
        texts.append(f"{caption}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    return "\n\n".join(texts) + "\n"


def html(record: Record, metric: str | None = None) -> str:
    """All parts as HTML, side by side where the page is wide enough."""
    texts = [html_table(caption, table) for caption, table in parts(record, metric)]
    return f'<div class="tables">{"".join(texts)}</div>'


def html_table(caption: str, table: pd.DataFrame) -> str:
    """One table of texts as HTML; what stands between double asterisks is bold."""
    head = "".join(f"<th>{escape(str(column))}</th>" for column in table.columns)
    rows = []
    for row in table.index:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in table.loc[row])
        cells = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", cells)
        rows.append(f"<tr><th>{escape(str(row))}</th>{cells}</tr>")
    return f"<table><caption>{escape(caption)}</caption><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _texts(means: pd.DataFrame, digits: int, emphasise: bool = True) -> pd.DataFrame:
    rounded = means.round(digits)
    best = rounded.eq(rounded.max()) if emphasise and len(means) > 1 else rounded.isna() & False
    texts = means.map(lambda value: NONE if np.isnan(value) else f"{value:.{digits}f}").astype(object)
    return texts.where(~best, texts.map("**{}**".format))


def _of_metric(record: Record, metric: str | None) -> tuple[list[Score], str | None]:
    known = metrics(record)
    if not known:
        raise ValueError(f"{record.artefact}: this record has no scores to make a table of")
    if metric is None:
        metric = known[0]
    if metric not in known:
        raise ValueError(f"{record.artefact}: there is no metric {metric!r}; there are {known}")
    return [score for score in record.scores if score.metric == metric], metric


def _groups(record: Record, scores: list[Score]) -> dict[str, list[str]]:
    """What each column of a table averages over: itself, and AVE. over all of them."""
    columns = _unique(score.column for score in scores)
    if is_matrix(record):
        return {row: [row] for row in _unique(score.method for score in scores)}  # the diagonal may have no score
    return {column: [column] for column in columns} | (
        {AVERAGE: columns} if record.average and len(columns) > 1 else {}
    )


def _unique(values: Iterable) -> list:
    return list(dict.fromkeys(values))
