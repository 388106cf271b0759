"""Does what the paper says hold for ours? Computed from a record's raw scores; nothing is written by hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from helpers import statistics, tables
from helpers.records import Claim, Record

HOLDS, FAILS, OPEN = "holds", "does not hold", "is not decided"


class Judgement(NamedTuple):
    """A claim's outcome (``HOLDS``, ``FAILS`` or ``OPEN``), what was found, and both in a sentence."""

    claim: Claim
    outcome: str
    found: statistics.Comparison
    sentence: str


def judge(record: Record, claim: Claim) -> Judgement:
    """A claim holds where the whole interval of the difference lies above zero, fails where it lies below."""
    columns = claim.columns or _columns(record)
    if claim.than:
        ours = _gaps(record, claim.above, claim.below, columns)
        found = statistics.compare(ours, _gaps(record, *claim.than, claim.than_columns or columns))
    else:
        found = tables.compare(record, claim.above, claim.below, columns)
    if found.low is None or found.low <= 0 <= found.high:
        outcome = OPEN
    else:
        outcome = HOLDS if found.low > 0 else FAILS
    digits = tables.decimals(score.value for score in record.scores)
    text = f"{claim.text}: {outcome}. Difference {tables.signed(found.difference, digits)} {record.unit}"
    if found.low is None:
        text += f" ({found.over}, so without an interval)"
    else:
        interval = f"{tables.signed(found.low, digits)} to {tables.signed(found.high, digits)}"
        chance = tables.chance(found.probability)
        chance = chance if chance[0] in "<>" else f"= {chance}"
        text += f" (95 % interval {interval} over {found.over}; P {chance})"
    printed = _printed(record, claim)
    return Judgement(claim, outcome, found, text + (f"; in the paper {tables.signed(printed, 2)}." if printed else "."))


def _gaps(record: Record, above: str, below: str, columns: list[str]) -> list[np.ndarray]:
    """``above`` minus ``below``, seed by seed and example by example, a matrix for each column."""
    sides = [tables.matrices(record, row, columns) for row in (above, below)]
    if any(side is None for side in sides):
        raise ValueError(f"{record.artefact}: {above} and {below} share no seed on {', '.join(columns)}")
    return [one - other for one, other in zip(*sides, strict=True)]


def _printed(record: Record, claim: Claim) -> float | None:
    """The paper's own difference, where it prints all that goes into it."""

    def mean(row: str, columns: list[str]) -> float:
        values = [s.value for s in record.paper if tables.row_label(s) == row and (not columns or s.column in columns)]
        return float(np.mean(values)) if values and len(values) >= len(columns) else np.nan

    gap = mean(claim.above, claim.columns) - mean(claim.below, claim.columns)
    if claim.than:
        columns = claim.than_columns or claim.columns
        gap -= mean(claim.than[0], columns) - mean(claim.than[1], columns)
    return None if np.isnan(gap) else float(gap)


def _columns(record: Record) -> list[str]:
    return list(dict.fromkeys(score.column for score in record.scores))
