"""Numbers as text: methods × columns with intervals, the paper's numbers beside them, and differences.

More is taken to be better, unless ``LESS_IS_BETTER``, ``COUNT`` or ``LENGTH`` says otherwise. Records have
one metric.
"""

import numpy as np
import pandas as pd

from helpers.results import comparisons
from helpers.results.intervals import Estimate
from helpers.results.records import Record, row_label

NONE = "–"  # a cell without a number
BETWEEN = dict.fromkeys(("F1", "EM", "F1 or EM", "accuracy"), (0, 100)) | {"score": (-100, 100)}  # all a unit can be
LESS_IS_BETTER = ("seconds", "ms an example", "thousand parameters", "MB")  # how such units begin
POINTS = {"accuracy": "points of accuracy", "score": "points"}  # what differences in a unit are
COUNT = "examples"  # a unit of whole numbers, none of which is better than another
OF_ALL = "domains of "  # how a count begins that has a largest number, with which it ends
NEVER_LESS = (*LESS_IS_BETTER, COUNT, OF_ALL, "times ")  # than nothing: how such units begin
LENGTH = "% of the references' words"  # a unit of which neither more nor less is better
ROUGH = 100  # last digits: an interval that is wider needs one digit less
Part = tuple[str, pd.DataFrame]  # a caption and a table


def frame(record: Record) -> pd.DataFrame:
    """Our numbers as text, such as "54.7 (45.2 to 64.2)": means with their intervals; between double asterisks the mean
    that is best in its column, where intervals of its differences to all others tell it from them."""
    table, digits = comparisons.estimates(record), decimals(record)
    values = table.map(lambda cell: np.nan if cell is None else cell.mean).astype(float)
    means = _texts(values, digits)
    for column, columns in comparisons.groups(record).items():
        if (best := _separate(record, columns, values[column].dropna())) is not None:
            means.loc[best, column] = f"**{means.loc[best, column]}**"

    def around(cell: Estimate | None) -> str:
        if cell is None or cell.error is None or (cell.error == 0 and record.unit.startswith(NEVER_LESS)):
            return ""
        low, high = ends(cell, record.unit)
        fewer = max(0, digits - (high - low > ROUGH * 10**-digits))
        return f" ({number(low, fewer)} to {number(high, fewer)})"

    return means + table.map(around)


def ends(cell: Estimate, unit: str) -> tuple[float, float]:
    """The interval of a mean in a unit, as far as the unit goes."""
    largest = float(unit.removeprefix(OF_ALL)) if unit.startswith(OF_ALL) else np.inf
    least, most = BETWEEN.get(unit, (0 if unit.startswith(NEVER_LESS) else -np.inf, largest))
    return max(cell.low, least), min(cell.high, most)


def printed_frame(record: Record) -> pd.DataFrame:
    """The paper's numbers as text, with AVE. computed from its columns where it prints none; empty without numbers."""
    means, digits = comparisons.paper_means(record), printed_decimals(record)
    if record.average and len(means.columns) > 1 and comparisons.AVERAGE not in means:
        means[comparisons.AVERAGE] = means.mean(axis=1, skipna=False)
    texts = _texts(means, digits)
    for printed in (printed for printed in record.paper if printed.text):
        texts.loc[row_label(printed), printed.column] = printed.text
    return texts


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


def printed_decimals(record: Record) -> int:
    """How many the paper prints, two at most."""
    means = comparisons.paper_means(record)
    return next((number for number in (0, 1) if means.round(number).equals(means)), 2)


def number(value: float, digits: int) -> str:
    """A number with a real minus, where it has one and does not round to zero."""
    text = f"{abs(value):,.{digits}f}"
    return "\N{MINUS SIGN}" * (value < 0 and float(text.replace(",", "")) != 0) + text


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


def evidence(estimate: Estimate, digits: int = 1) -> str:
    """A difference's interval, and the probability that it is above zero."""
    number = chance(estimate.above())
    number = f"{number[0]} {number[1:]}" if number[0] in "<>" else f"= {number}"
    return f"{interval(estimate, digits)}, P(> 0) {number}"


def points(unit: str) -> str:
    """What a difference in a unit is."""
    return POINTS.get(unit, unit)


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


def parts(record: Record) -> tuple[list[Part], list[Part]]:
    """Captions and tables: ours and the paper's, if it has one; and differences to each baseline."""
    over = varying(comparisons.estimates(record))
    numbers = [(f"Ours, {record.unit}" + (over and f"; in brackets {over}"), frame(record))]
    if not (theirs := printed_frame(record)).empty:
        numbers.append((f"The paper's, {record.unit}", theirs))
    apart = [
        (f"Ours minus {name}, {record.unit}; in brackets P(method > {name})", differences(record, name))
        for name in baselines(record)
    ]
    return numbers, apart


def baselines(record: Record) -> list[str]:
    """Those that have scores."""
    known = comparisons.rows(record)
    return [name for name in record.baselines if name in known]


def _texts(means: pd.DataFrame, digits: int) -> pd.DataFrame:
    return means.map(lambda value: NONE if np.isnan(value) else number(value, digits)).astype(object)


def _separate(record: Record, columns: list[str], means: pd.Series) -> str | None:
    """The row that is best in some columns, where its difference to every other row is certainly not zero."""
    if record.unit in (COUNT, LENGTH) or len(means) < 2:
        return None
    least = record.unit.startswith(LESS_IS_BETTER)
    best = means.idxmin() if least else means.idxmax()
    for row in means.index.drop(best):
        found = comparisons.compare(record, *((row, best) if least else (best, row)), columns)
        if found is None or found.error is None or found.low <= 0:
            return None
    return best


def duration(seconds: float) -> str:
    """Such as "90 s", "12 min" or "3.5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
