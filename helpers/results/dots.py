"""Numbers as dots with their intervals as lines: differences from zero, and levels side by side.

A filled dot is ours, a hollow diamond what the paper prints.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from helpers.results import canvas, claims, comparisons, methods, tables
from helpers.results.canvas import WIDTH, Drawing, finish
from helpers.results.intervals import Estimate
from helpers.results.records import Record

LINE = 0.25  # inches of a line of dots
MOST_PANELS = 4  # of a table's columns beside each other
OURS, PAPER = "0.15", "#d55e00"
UNSURE = "0.6"  # what is open
CUT = 2.5  # times the largest number shown: longer intervals end there, with an arrow
KEY = {
    "ours": Line2D([], [], color=OURS, marker="o", markersize=5, linewidth=1.4),
    "ours, open": Line2D([], [], color=UNSURE, marker="o", markersize=5, linewidth=1.4),
    "ours, by column": Line2D([], [], color="0.6", marker="|", markersize=6, linewidth=0),
    "interval goes on": Line2D([], [], color=UNSURE, marker=">", markersize=4, linewidth=1.4),
    "the paper": Line2D([], [], color=PAPER, marker="D", markersize=5, fillstyle="none", linewidth=0),
}


class Dot(NamedTuple):
    """A difference of ours, with what the paper prints, where it does, and what it is the mean of. Whether it is
    ``decided`` a verdict says where it is of a claim, and its interval otherwise: one that holds zero, or none, leaves
    it open. Too few seeds do so too."""

    label: str
    ours: Estimate | None
    paper: float | None = None
    parts: tuple[float, ...] = ()
    decided: bool | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not been decided."""
        if self.decided is not None:
            return not self.decided
        bounds = self.ours and self.ours.bounds()
        return not bounds or bounds[0] <= 0 <= bounds[1]

    def beyond(self, most: float) -> list[float]:
        """The ends of its interval that are further than ``most`` from zero."""
        return [bound for bound in (self.ours and self.ours.bounds()) or () if abs(bound) > most]


def forest(ax: Axes, dots: Sequence[Dot], most: float) -> Axes:
    """Differences from zero, a line each, with an arrow at ±``most`` where it goes on; grey where they are open."""
    ax.axvline(0, color="0.4", linewidth=0.8)
    for place, dot in enumerate(dots):
        if dot.ours is not None:
            color = UNSURE if dot.is_open else OURS
            if bounds := dot.ours.bounds():
                ax.plot(np.clip(bounds, -most, most), [place] * 2, color=color, linewidth=1.6, zorder=2)
            for bound in dot.beyond(most):
                ax.plot(np.sign(bound) * most, place, ">" if bound > 0 else "<", color=color, markersize=4.5, zorder=2)
            ax.plot(dot.parts, [place] * len(dot.parts), "|", color="0.75", markersize=6, zorder=1)
            ax.plot(dot.ours.mean, place, "o", color=color, markersize=5.5, zorder=3)
        if dot.paper is not None:
            ax.plot(dot.paper, place, "D", color=PAPER, markersize=5.5, fillstyle="none", zorder=4)
    ax.set_yticks(range(len(dots)), [dot.label for dot in dots])
    ax.set_ylim(len(dots) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    return ax


def reach(dots: Iterable[Dot]) -> float:
    """How far intervals may reach beside the numbers shown."""
    shown = [(dot.ours.mean if dot.ours else 0.0, dot.paper or 0.0, *dot.parts) for dot in dots]
    return CUT * max([abs(value) for values in shown for value in values], default=0.0) or 1.0


def legend(ax: Axes, dots: Sequence[Dot], most: float) -> None:
    """Says which marks are ours and which the paper's, of those that there are where intervals end at ±``most``."""
    there = {
        "ours": any(dot.ours and not dot.is_open for dot in dots),
        "ours, open": any(dot.ours and dot.is_open for dot in dots),
        "ours, by column": any(dot.parts for dot in dots),
        "interval goes on": any(dot.beyond(most) for dot in dots),
        "the paper": any(dot.paper is not None for dot in dots),
    }
    shown = {name: mark for name, mark in KEY.items() if there[name]}
    ax.legend(shown.values(), shown, frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def differences(record: Record) -> Figure:
    """What the rows of a table are above its first baseline: on average over the columns, each of which is a tick, or a
    panel a column."""
    baseline = tables.baselines(record)[0]
    found = comparisons.differences(record, baseline)
    groups = comparisons.groups(record)
    if not record.average and len(groups) > MOST_PANELS:
        return grouped(record, found, baseline)
    shown = [list(groups)[-1]] if record.average else list(groups)
    figure = Drawing(WIDTH, LINE * len(found) + 1.4)
    panels = np.atleast_1d(figure.subplots(1, len(shown), sharex=True, sharey=True))
    decided = _decided(record, baseline)
    dots = {
        column: [_dot(record, baseline, cells, column, decided.get((row, column))) for row, cells in found.iterrows()]
        for column in shown
    }
    every = [dot for of_column in dots.values() for dot in of_column]
    most = reach(every)
    for ax, column in zip(panels, shown, strict=True):
        finish(forest(ax, dots[column], most), "", "", column if len(shown) > 1 else "")
        ax.grid(axis="x", color="0.9")
        ax.grid(visible=False, axis="y")
    legend(panels[-1], every, most)
    figure.supxlabel(f"{record.unit} above {baseline} ({tables.varying(found[shown]) or canvas.ONE_RUN})", fontsize=10)
    figure.suptitle(record.title, x=0.01, ha="left", fontsize=11)
    return figure


def _decided(record: Record, baseline: str) -> dict[tuple[str, str], bool]:
    """Whether the claims that are of differences from a baseline have been decided, by row and column."""
    found, named = {}, {frozenset(columns): name for name, columns in comparisons.groups(record).items()}
    for claim, judgement in zip(record.claims, claims.judge(record), strict=True):
        if baseline in (pair := {claim.above, claim.below}) and not claim.than and claim.within is None:
            (row,) = pair - {baseline}
            if column := named.get(frozenset(claim.columns or comparisons.columns(record))):
                found[row, column] = judgement.outcome != claims.OPEN
    return found


def _dot(record: Record, baseline: str, cells: pd.Series, column: str, decided: bool | None) -> Dot:
    parts = tuple(cell.mean for cell in cells.iloc[:-1] if cell is not None) if record.average else ()
    paper = comparisons.paper_difference(record, cells.name, baseline, [] if record.average else [column])
    few = cells[column] is None or cells[column].seeds < claims.SEEDS
    return Dot(cells.name, cells[column], paper, parts, decided=False if few else decided)


def levels(record: Record) -> Figure:
    """The scores of a table themselves, its columns below each other."""
    return grouped(record, comparisons.estimates(record), "")


def grouped(record: Record, table: pd.DataFrame, baseline: str) -> Figure:
    """A table with a group of lines for each column, and a colour for each row."""
    rows, colors = list(table.index), methods.colors(record, list(table.index))
    figure = Drawing(WIDTH, (0.16 * len(rows) + 0.12) * len(table.columns) + 1.1)
    ax = figure.subplots()
    means = comparisons.paper_means(record)
    for index, (row, color) in enumerate(zip(rows, colors, strict=True)):
        shift, label = (index - (len(rows) - 1) / 2) * 0.8 / len(rows), row
        for place, (column, cell) in enumerate(table.loc[row].items()):
            if cell is None:
                continue
            if cell.low is not None:
                ends = (cell.low, cell.high) if baseline else tables.ends(cell, record.unit)
                ax.plot(ends, [place + shift] * 2, color=color, linewidth=1.4)
            ax.plot(cell.mean, place + shift, "o", color=color, markersize=5, label=label)
            label = None  # once in the legend
            if not baseline and row in means.index and column in means.columns:
                ax.plot(means.loc[row, column], place + shift, "D", color=color, markersize=5, fillstyle="none")
    if baseline:
        ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_yticks(range(len(table.columns)), table.columns)
    ax.set_ylim(len(table.columns) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    handles, labels = ax.get_legend_handles_labels()
    if not baseline and not means.empty and set(means.columns) & set(table.columns):
        handles, labels = [*handles, KEY["the paper"]], [*labels, "the paper"]
    ax.legend(handles, labels, frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    unit = f"{record.unit} above {baseline}" if baseline else record.unit
    finish(ax, f"{unit} ({tables.varying(table) or canvas.ONE_RUN})", "", record.title).grid(axis="x", color="0.9")
    ax.grid(visible=False, axis="y")
    return figure
