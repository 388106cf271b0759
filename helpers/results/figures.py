"""The pictures of records, drawn from them alone and the same byte for byte at every drawing.

``draw`` makes the whole figure of a record, as its kind says. The functions that draw one part of it, of a record of
one metric, take ``ax=None`` and return the axes.
"""

from functools import partial
from pathlib import Path

import numpy as np
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers import paths
from helpers.files import write_whole
from helpers.results import attention, canvas, comparisons, heatmaps, records, tables
from helpers.results.canvas import HEIGHT, WIDTH, Drawing, finish, plain_style
from helpers.results.records import Record

CAPSIZE = 2.5  # points
MOST_BARS = 10  # rows of a table drawn as bars, as many as there are colours
OUTSIDE = {"frameon": False, "fontsize": 9, "loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}  # of a legend
ONE_RUN = "one run each"
colors = partial(seaborn.color_palette, "colorblind")


def draw(record: Record) -> Figure:
    """The whole figure of a record, of its first metric. Raises ValueError when the record has nothing to draw."""
    if not drawable(record):
        raise ValueError(f"{record.artefact}: this record has no scores to draw")
    with plain_style():
        whole = record.kind == "scatter"  # which shows two metrics
        return PICTURES[record.kind](record if whole else next(iter(comparisons.by_metric(record)), record))


def drawable(record: Record) -> bool:
    """Whether a record has a figure."""
    return bool(record.scores) or record.kind in ("heatmaps", "case", "profile")


def save(record: Record, preset: str | Path) -> list[Path]:
    """Draw a record and save PNG and SVG beside it; returns the paths written, none where there is nothing to draw."""
    figure = draw(record) if drawable(record) else None
    files = {paths.record(preset, record.artefact, suffix): suffix for suffix in ("png", "svg") if figure}
    for path, suffix in files.items():
        write_whole(path, canvas.content(figure, suffix))
    return list(files)


def redraw(preset: str | Path) -> list[Path]:
    """Draw and save the figures of all records of a preset; returns the paths written."""
    return [path for record in records.read_all(preset) for path in save(record, preset)]


def bar_table(record: Record, ax: Axes | None = None) -> Axes:
    """Methods × columns as bars with intervals, AVE. last."""
    table = comparisons.estimates(record)
    ax = canvas.axes(ax, WIDTH, HEIGHT)
    width = 0.84 / len(table)
    for index, (row, color) in enumerate(zip(table.index, colors(len(table)), strict=True)):
        shift = (index - (len(table) - 1) / 2) * width
        cells = [(place + shift, cell) for place, cell in enumerate(table.loc[row]) if cell is not None]
        heights = [cell.mean for _, cell in cells]
        ax.bar([x for x, _ in cells], heights, width * 0.94, color=color, edgecolor="white", linewidth=0.3, label=row)
        for x, cell in cells:
            if cell.low is not None:
                around = [[max(0, cell.mean - cell.low)], [max(0, cell.high - cell.mean)]]
                ax.errorbar(x, cell.mean, around, color="0.2", linewidth=1, capsize=min(CAPSIZE, 20 * width))
    ax.set_xticks(range(len(table.columns)), table.columns)
    ax.tick_params(axis="x", length=0)
    if comparisons.AVERAGE in table.columns:
        ax.axvline(len(table.columns) - 1.5, color="0.7", linewidth=0.8, linestyle=":")
    ax.legend(**OUTSIDE)
    return finish(ax, "", f"{record.unit} ({tables.varying(table) or ONE_RUN})", record.title)


def dot_table(record: Record, ax: Axes | None = None) -> Axes:
    """A line a row, for tables with too many of them for bars: the mean over the columns with its interval, and each
    column as a small dot."""
    table = comparisons.estimates(record)
    ax = canvas.axes(ax, WIDTH, 0.3 * len(table) + 1.2)
    last = table.columns[-1]
    own = [column for column in table.columns if column != comparisons.AVERAGE]
    for column, color in zip(own, colors(len(own)), strict=True):
        cells = [(cell.mean, place) for place, cell in enumerate(table[column]) if cell is not None]
        ax.plot(*zip(*cells, strict=True), "o", color=color, markersize=4, alpha=0.7, label=column, zorder=2)
    for place, cell in enumerate(table[last]):
        if cell is not None:
            ax.plot(cell.mean, place, "|", color="black", markersize=11, markeredgewidth=2, zorder=3)
            if cell.low is not None:
                ax.plot([cell.low, cell.high], [place, place], color="0.2", linewidth=1.4, zorder=1)
    ax.set_yticks(range(len(table)), table.index)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.legend(**OUTSIDE)
    over = tables.varying(table[[last]]) or ONE_RUN
    finish(ax, f"{record.unit}; black: {last} ({over})", "", record.title)
    ax.grid(axis="x", color="0.9")
    return ax


def curves(record: Record) -> Figure:
    """A panel of ``curve`` for each column, side by side on one scale, with one legend."""
    several = len(columns := comparisons.columns(record)) > 1
    figure = Drawing(WIDTH if several else WIDTH * 0.75, HEIGHT)
    panels = np.atleast_1d(figure.subplots(1, len(columns), sharey=True))
    for ax, column in zip(panels, columns, strict=True):
        curve(record, column, ax).label_outer()
        if several:
            ax.set_title(column, loc="left", fontsize=11)
    panels[-1].legend(**OUTSIDE)
    if several:
        figure.suptitle(record.title, x=0.01, ha="left", fontsize=11)
    return figure


def curve(record: Record, column: str, ax: Axes | None = None) -> Axes:
    """Value in one column against x, a line for each method, with its interval; ``payload["x"]`` names the x axis, and
    ``payload["scale"]`` may be "log".

    Methods without x are horizontal lines.
    """
    ax = canvas.axes(ax, WIDTH * 0.75, HEIGHT)
    table = comparisons.estimates(record)[column]
    methods = list(dict.fromkeys(score.method for score in record.scores))
    for method, color in zip(methods, colors(len(methods)), strict=True):
        points = {score.x: records.row_label(score) for score in record.scores if score.method == method}
        if None in points:
            ax.axhline(table[points[None]].mean, color=color, linewidth=1.2, linestyle="--", label=method)
            continue
        cells = {x: table[points[x]] for x in sorted(points) if table[points[x]] is not None}
        ax.plot([*cells], [cell.mean for cell in cells.values()], "o-", color=color, markersize=4, label=method)
        if all(cell.low is not None for cell in cells.values()):
            low, high = ([getattr(cell, side) for cell in cells.values()] for side in ("low", "high"))
            ax.fill_between([*cells], low, high, color=color, alpha=0.18, linewidth=0)
            if len(cells) == 1:
                ax.vlines([*cells], low, high, color=color, alpha=0.5)
    payload = {"x": "x", "scale": "linear"} | (record.payload or {})
    ax.set_xscale(payload["scale"])
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1000 else f"{x:g}")
    positions = sorted({score.x for score in record.scores if score.x is not None})
    if len(positions) <= 12:
        ax.set_xticks(positions)
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    over = tables.varying(table.to_frame()) or ONE_RUN
    return finish(ax, str(payload["x"]), f"{record.unit} ({over})", record.title)


def scatter(record: Record) -> Figure:
    """Each method's mean in a record's first metric against that in its second, with intervals of both, and each column
    as a small dot."""
    up, along = comparisons.by_metric(record)
    ax = canvas.axes(None, WIDTH * 0.75, HEIGHT)
    ys, xs = comparisons.estimates(up), comparisons.estimates(along)
    for (row, of_y), color in zip(ys.iterrows(), colors(len(ys)), strict=True):
        cells = [(x, y) for x, y in zip(xs.loc[row], of_y, strict=True) if x is not None and y is not None]
        *dots, (x, y) = cells
        ax.plot([x.mean for x, _ in dots], [y.mean for _, y in dots], "o", color=color, markersize=3.5, alpha=0.6)
        if None not in (x.low, y.low):
            ax.plot([x.low, x.high], [y.mean] * 2, color=color, linewidth=1.4)
            ax.plot([x.mean] * 2, [y.low, y.high], color=color, linewidth=1.4)
        ax.plot(x.mean, y.mean, "s", color=color, markersize=7, markeredgecolor="white", label=row)
    ax.axhline(0, color="0.5", linewidth=0.8)
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.legend(**OUTSIDE)
    over = tables.varying(ys[[ys.columns[-1]]]) or ONE_RUN
    return finish(ax, along.unit, f"{up.unit} ({over})", record.title).figure


def profile(record: Record) -> Figure:
    """Lengths of passages and questions, and question words."""
    figure = Drawing(WIDTH, 7.2)
    axes = figure.subplot_mosaic("PQ;WW")
    lengths(record, "passage_lengths", axes["P"])
    lengths(record, "question_lengths", axes["Q"]).get_legend().remove()
    heatmaps.question_words(record, axes["W"])
    return figure


def lengths(record: Record, what: str = "passage_lengths", ax: Axes | None = None) -> Axes:
    """Outlines of histograms of lengths in words, ``{domain: {"edges": […], "counts": […]}}``, as % of a domain."""
    ax = canvas.axes(ax, WIDTH / 2, 3.4)
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
    "table": lambda record: (dot_table if len(comparisons.rows(record)) > MOST_BARS else bar_table)(record).figure,
    "bars": lambda record: bar_table(record).figure,
    "curve": curves,
    "scatter": scatter,
    "matrix": heatmaps.similarities,
    "heatmaps": heatmaps.heatmaps,
    "profile": profile,
    "case": lambda record: attention.draw(record.payload),
}
