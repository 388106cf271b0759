"""The pictures of records, drawn from them alone and the same byte for byte at every drawing.

``draw`` makes the whole figure of a record, as its kind says.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers import paths
from helpers.files import write_whole
from helpers.results import attention, canvas, comparisons, dots, heatmaps, methods, records, tables
from helpers.results.canvas import HEIGHT, ONE_RUN, WIDTH, Drawing, finish, plain_style
from helpers.results.intervals import Estimate
from helpers.results.records import Record

OUTSIDE = {"frameon": False, "fontsize": 9, "loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}  # of a legend
colors = partial(seaborn.color_palette, "colorblind")


def draw(record: Record) -> Figure:
    """The whole figure of a record, of its first metric. Raises ValueError when the record has nothing to draw."""
    if not drawable(record):
        raise ValueError(f"{record.artefact}: this record has no scores to draw")
    with plain_style():
        whole = record.kind == "scatter"  # which shows two metrics
        return PICTURES[record.kind](record if whole else next(iter(comparisons.by_metric(record)), record))


def drawable(record: Record) -> bool:
    """Whether a record has a figure: a table only where it has something to compare with."""
    if record.kind == "table":
        return bool(record.scores) and bool(tables.baselines(comparisons.by_metric(record)[0]))
    return bool(record.scores) or record.kind in ("heatmaps", "case", "profile")


def save(record: Record, preset: str | Path) -> list[Path]:
    """Draw a record and save PNG and SVG beside it; returns the paths written. Where there is nothing to draw, none is
    left."""
    files = {paths.record(preset, record.artefact, suffix): suffix for suffix in ("png", "svg")}
    if not drawable(record):
        for path in files:
            path.unlink(missing_ok=True)
        return []
    figure = draw(record)
    for path, suffix in files.items():
        write_whole(path, canvas.content(figure, suffix))
    return list(files)


def redraw(preset: str | Path) -> list[Path]:
    """Draw and save the figures of all records of a preset; returns the paths written."""
    return [path for record in records.read_all(preset) for path in save(record, preset)]


def curves(record: Record) -> Figure:
    """A panel of ``curve`` for each column, side by side on one scale, with one legend."""
    several = len(columns := comparisons.columns(record)) > 1
    figure = Drawing(WIDTH if several else WIDTH * 0.75, HEIGHT)
    panels = dict(zip(columns, np.atleast_1d(figure.subplots(1, len(columns), sharey=True)), strict=True))
    ends = {column: _lines(record, column, ax) for column, ax in panels.items()}
    for column, ax in panels.items():  # once the scale that they share has room for all
        canvas.name_lines(ax, *ends[column])
        ax.label_outer()
    if several:
        figure.suptitle(record.title, x=0.01, ha="left", fontsize=11)
        figure.supxlabel(panels[columns[0]].get_xlabel(), fontsize=10)
        for column, ax in panels.items():
            ax.set_title(column, loc="left", fontsize=11)
            ax.set_xlabel("")
    return figure


def _lines(record: Record, column: str, ax: Axes) -> tuple[dict[str, float], dict[str, tuple]]:
    """Value in one column against x, a line for each method, with its interval, and without its name; returns where
    each ends, and its colour. ``payload["x"]`` names the x axis, and ``payload["scale"]`` may be "log". Methods without
    x are horizontal lines."""
    table = comparisons.estimates(record)[column]
    names, ends = list(dict.fromkeys(score.method for score in record.scores)), {}
    shades = dict(zip(names, methods.colors(record, names), strict=True))
    for method, color in shades.items():
        points = {score.x: records.row_label(score) for score in record.scores if score.method == method}
        if None in points and table[points[None]] is not None:
            ends[method] = table[points[None]].mean
            ax.axhline(ends[method], color=color, linewidth=1.2, linestyle="--")
            continue
        cells = {x: table[points[x]] for x in sorted(points) if table[points[x]] is not None}
        if not cells:
            continue
        ends[method] = [*cells.values()][-1].mean
        ax.plot([*cells], [cell.mean for cell in cells.values()], "o-", color=color, markersize=4)
        if all(cell.low is not None for cell in cells.values()):
            low, high = zip(*(tables.ends(cell, record.unit) for cell in cells.values()), strict=True)
            ax.fill_between([*cells], low, high, color=color, alpha=0.12, linewidth=0)
            if len(cells) == 1:
                ax.vlines([*cells], low, high, color=color, alpha=0.5)
    printed = [score for score in record.paper if score.column == column and score.x is not None]
    for method, color in shades.items():
        of_paper = sorted((score.x, score.value) for score in printed if score.method == method)
        ax.plot(
            *zip(*of_paper, strict=True) if of_paper else ((), ()), "D:", color=color, fillstyle="none", linewidth=1
        )
    payload = {"x": "x", "scale": "linear"} | (record.payload or {})
    ax.set_xscale(payload["scale"])
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1000 else f"{x:g}")
    positions = sorted({score.x for score in record.scores if score.x is not None and score.column == column})
    if len(positions) <= 12:
        ax.set_xticks(positions)
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    over = tables.varying(table.to_frame()) or ONE_RUN
    unit = f"{record.unit}\n({over}; hollow: the paper)" if printed else f"{record.unit} ({over})"
    finish(ax, str(payload["x"]), unit, record.title)
    return ends, shades


def scatter(record: Record) -> Figure:
    """A square for each method: its mean in a record's first metric against that in its second, over the columns that
    it has, or its first column where their mean says nothing, with intervals of both; and the other columns as small
    dots. Squares that are alike along the axis stand side by side."""
    up, along = comparisons.by_metric(record)
    ax = Drawing(WIDTH * 0.75, HEIGHT).add_subplot()
    ys, xs = ({row: _of_row(metric, row) for row in comparisons.rows(metric)} for metric in (up, along))
    square = -1 if record.average else 0
    means = pd.Series({row: cells.iloc[square] for row, cells in ys.items()})
    middles = {row: cells.iloc[square] for row, cells in xs.items()}
    aside = _aside(middles, [cell.mean for cells in xs.values() for cell in cells])
    for (row, of_y), color in zip(ys.items(), methods.colors(record, list(ys)), strict=True):
        dots = list(zip(xs[row], of_y, strict=True))
        x, y = dots.pop(square)
        place = x.mean + aside[row]
        ax.plot([x.mean for x, _ in dots], [y.mean for _, y in dots], "o", color=color, markersize=3.5, alpha=0.6)
        if None not in (x.low, y.low):
            ax.plot([x.low, x.high], [y.mean] * 2, color=color, linewidth=1.0, alpha=0.6)
            ax.plot([place] * 2, [y.low, y.high], color=color, linewidth=1.4)
        ax.plot(place, y.mean, "s", color=color, markersize=7, markeredgecolor="white", label=row)
    ax.axhline(0, color="0.5", linewidth=0.8)
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.legend(**OUTSIDE)
    over = tables.varying(means.to_frame()) or ONE_RUN
    said = [] if record.average else [f"squares: {comparisons.columns(record)[0]}, dots: the table's other columns"]
    said += ["rows of the same value side by side"] * any(aside.values())
    below = "\n".join([along.unit, *(f"({words})" for words in said)])
    return finish(ax, below, f"{up.unit}\n({over})", record.title).figure


def _of_row(record: Record, row: str) -> pd.Series:
    """The estimates of a row's columns, and of their average, as if it were alone."""
    scores = [score for score in record.scores if comparisons.row_label(score) == row]
    return comparisons.estimates(record.model_copy(update={"scores": scores})).loc[row]


def _aside(means: dict[str, Estimate], dots: Sequence[float]) -> dict[str, float]:
    """How far from its mean each row is drawn, so that those of one mean do not hide each other beside all ``dots``."""
    ends = [end for cell in means.values() for end in cell.bounds() or ()] + list(dots)
    values = pd.Series(means).map(lambda cell: round(cell.mean, 1))
    step, shifts = 0.03 * (max(ends) - min(ends) or 1.0), {}
    for _, alike in values.groupby(values, sort=False):
        shifts |= {row: step * (place - (len(alike) - 1) / 2) for place, row in enumerate(alike.index)}
    return shifts


def profile(record: Record) -> Figure:
    """Lengths of passages and questions, and question words."""
    figure = Drawing(WIDTH, 7.2)
    axes = figure.subplot_mosaic("PQ;WW")
    lengths(record, "passage_lengths", axes["P"])
    lengths(record, "question_lengths", axes["Q"]).get_legend().remove()
    heatmaps.question_words(record, axes["W"])
    return figure


def lengths(record: Record, what: str, ax: Axes) -> Axes:
    """Outlines of histograms of lengths in words, ``{domain: {"edges": […], "counts": […]}}``, as % of a domain."""
    domains = record.payload[what]
    for (domain, histogram), color in zip(domains.items(), colors(len(domains)), strict=True):
        edges, counts = np.asarray(histogram["edges"], float), np.asarray(histogram["counts"], float)
        # Per word, so that bins of different widths compare.
        density = 100 * counts / max(counts.sum(), 1) / np.diff(edges)
        ax.stairs(density, edges, color=color, linewidth=1.6, label=domain)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=9)
    thing = what.removesuffix("_lengths")
    return finish(ax, f"words in a {thing}", f"% of the domain's {thing}s, per word", f"Length of {thing}s")


PICTURES = {
    "table": dots.differences,
    "bars": dots.levels,
    "curve": curves,
    "scatter": scatter,
    "matrix": heatmaps.similarities,
    "heatmaps": heatmaps.heatmaps,
    "profile": profile,
    "case": lambda record: attention.draw(record.payload),
}
