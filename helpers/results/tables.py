"""Numbers as text: methods × columns with intervals, the paper's numbers beside them, and differences, also as HTML.

More is taken to be better, unless ``LESS_IS_BETTER``, ``COUNT`` or ``LENGTH`` says otherwise. But for ``html``, records
are of one metric.
"""

import re
from html import escape

import numpy as np
import pandas as pd

from helpers.results import comparisons
from helpers.results.intervals import Estimate
from helpers.results.records import Record

NONE = "–"  # a cell without a number
LESS_IS_BETTER = ("seconds", "ms an example", "thousand parameters", "MB")  # how such units begin
COUNT = "examples"  # a unit of whole numbers, none of which is better than another
LENGTH = "% of the references' words"  # a unit of which neither more nor less is better


def frame(record: Record) -> pd.DataFrame:
    """Our numbers as text: ``mean ± half the interval``, the best mean of a column between double asterisks."""
    table = comparisons.estimates(record)
    means = table.map(lambda cell: np.nan if cell is None else cell.mean).astype(float)
    digits = decimals(record)
    halves = table.map(
        lambda cell: "" if cell is None or cell.low is None else f" ± {(cell.high - cell.low) / 2:,.{digits}f}"
    )
    return _texts(means, digits, record.unit) + halves


def printed_frame(record: Record) -> pd.DataFrame:
    """The paper's numbers as text, with AVE. computed from its columns; empty where it prints none."""
    means = comparisons.paper_means(record)
    digits = next((number for number in (0, 1) if means.round(number).equals(means)), 2)  # no more than it prints
    if record.average and len(means.columns) > 1 and comparisons.AVERAGE not in means:
        means[comparisons.AVERAGE] = means.mean(axis=1, skipna=False)
    return _texts(means, digits, record.unit)


def differences(record: Record, baseline: str) -> pd.DataFrame:
    """Rows minus ``baseline`` as text, with P(row > baseline) in brackets where it can be estimated."""
    digits = decimals(record)

    def text(cell: Estimate | None) -> str:
        if cell is None:
            return NONE
        return signed(cell.mean, digits) + ("" if cell.error is None else f" ({chance(cell.above())})")

    return comparisons.differences(record, baseline).map(text)


def decimals(record: Record) -> int:
    """How many to show: one for percentages, three for shares and coefficients, none for counts and thousands."""
    largest = max((abs(score.value) for score in record.scores), default=0)
    return 0 if record.unit == COUNT or largest >= 1000 else 1 if largest > 1 else 3


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign and a real minus; no sign on what rounds to zero."""
    text = f"{abs(value):.{digits}f}"
    return text if float(text) == 0 else ("+" if value > 0 else "\N{MINUS SIGN}") + text


def bounds(estimate: Estimate, digits: int = 1) -> str:
    """Between what a difference lies."""
    return f"{signed(estimate.low, digits)} to {signed(estimate.high, digits)}"


def difference(estimate: Estimate, digits: int = 1) -> str:
    """A difference and between what it lies."""
    text = signed(estimate.mean, digits)
    return text if estimate.error is None else f"{text} ({bounds(estimate, digits)})"


def interval(estimate: Estimate, digits: int = 1) -> str:
    """Between what a difference lies, and what it varies over."""
    return f"{bounds(estimate, digits)} over {estimate.over}"


def chance(probability: float) -> str:
    """A probability to two decimals; a few runs make nothing certain, so never 0 or 1."""
    return "<0.01" if probability < 0.005 else ">0.99" if probability > 0.995 else f"{probability:.2f}"


def evidence(estimate: Estimate, what: str, digits: int = 1) -> str:
    """A difference's interval and the probability of ``what``, such as "P(A > B)", that it is above zero."""
    number = chance(estimate.above())
    return f"95 % interval {interval(estimate, digits)}; {what} {'' if number[0] in '<>' else '= '}{number}"


def share(found: tuple[float, float, float] | None) -> str:
    """A share of a gain in percent with its interval, as `intervals.share` gives it."""
    if found is None:
        return NONE
    middle, low, high = (signed(100 * value, 0).removeprefix("+") for value in found)
    return f"{middle} % ({low} to {high})"


def varying(estimates: pd.DataFrame) -> str:
    """What the intervals of estimates are over, such as "95 % interval over seeds"; empty where there are none."""
    over = [cell.over for cell in estimates.to_numpy().ravel() if cell is not None and cell.error is not None]
    kinds = " and ".join(kind for kind in ("seeds", "examples") if any(kind in text for text in over))
    alone = ["one seed" in text for text in over]
    beside = ", one seed" if all(alone) else "; of one seed, over examples" if any(alone) else ""
    return kinds and f"95 % interval over {kinds}{beside}"


def parts(record: Record) -> list[tuple[str, pd.DataFrame]]:
    """Caption and table, in order: ours, the paper's if it has one, and differences to each baseline."""
    over = varying(comparisons.estimates(record))
    found = [(f"Ours, {record.unit}" + (over and f"; ± is half the {over}"), frame(record))]
    if not (theirs := printed_frame(record)).empty:
        found.append((f"The paper's, {record.unit}, on its own corpora and models", theirs))
    for baseline in (name for name in record.baselines if name in comparisons.rows(record)):
        caption = f"Ours minus {baseline}, {record.unit}; in brackets P(method > {baseline})"
        found.append((caption, differences(record, baseline)))
    return found


def html(record: Record) -> str:
    """All tables of a record as HTML, those of a metric side by side where the page is wide enough; a matrix has its
    numbers in the figure."""
    if record.kind == "matrix":
        return ""
    groups = ("".join(html_table(*part) for part in parts(own)) for own in comparisons.by_metric(record))
    return "\n".join(f'<div class="tables">{tables}</div>' for tables in groups)


def html_table(caption: str, table: pd.DataFrame) -> str:
    """One table of texts as HTML; what stands between double asterisks is bold."""
    head = "".join(f"<th>{escape(str(column))}</th>" for column in table.columns)
    rows = []
    for row in table.index:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in table.loc[row])
        cells = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", cells)
        rows.append(f"<tr><th>{escape(str(row))}</th>{cells}</tr>")
    return f"<table><caption>{escape(caption)}</caption><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _texts(means: pd.DataFrame, digits: int, unit: str) -> pd.DataFrame:
    rounded = means.round(digits)
    texts = means.map(lambda value: NONE if np.isnan(value) else f"{value:,.{digits}f}").astype(object)
    if unit in (COUNT, LENGTH) or len(means) < 2:
        return texts
    best = rounded.min() if unit.startswith(LESS_IS_BETTER) else rounded.max()
    return texts.where(rounded.ne(best), texts.map("**{}**".format))


def duration(seconds: float) -> str:
    """Such as "90 s", "12 min" or "3.5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
