"""Figures, drawn from records alone and the same byte for byte at every drawing.

Every function takes ``ax=None`` and returns the axes. ``draw`` makes the whole figure of a record. Figures are made
without pyplot: no display is needed, and a notebook shows one once, as the last value of a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from helpers import paths
from helpers.results import records, tables
from helpers.results.records import Record

DPI = 120
WIDTH = 9.0  # inches; the width of a notebook page
CAPSIZE = 2.5  # points
INTERVAL = "95 % interval"


class Drawing(Figure):
    """A figure that a notebook shows although pyplot does not know of it."""

    def _repr_png_(self) -> bytes:
        return png(self)


def draw(record: Record) -> Figure:
    """The whole figure of a record. Raises ValueError when the record has nothing to draw."""
    if "readers" in (record.payload or {}):
        from helpers.results import attention  # draws with what is here

        return attention.draw(record.payload)
    with plain_style():
        if record.artefact == "corpora/overview":
            figure = Drawing(figsize=(WIDTH, 7.2), layout="constrained")
            grid = figure.add_gridspec(2, 2)
            lengths(record, "passage_lengths", figure.add_subplot(grid[0, 0]))
            lengths(record, "question_lengths", figure.add_subplot(grid[0, 1])).get_legend().remove()
            question_words(record, figure.add_subplot(grid[1, :]))
        elif tables.is_matrix(record):
            raw = "cosines" in (record.payload or {})
            figure = Drawing(figsize=(WIDTH if raw else WIDTH / 2, 4.2), layout="constrained")
            axes = np.atleast_1d(figure.subplots(1, 1 + raw))
            similarity_heatmap(record, ax=axes[0])
            if raw:
                similarity_heatmap(record, raw=True, ax=axes[1])
        elif any(score.x is not None for score in record.scores):
            figure = curves(record)
        else:
            figure = bar_table(record).figure
    return figure


def drawable(record: Record) -> bool:
    """Whether a record has a figure; a case study has one where it shows readers."""
    return bool(record.scores) or record.artefact == "corpora/overview" or "readers" in (record.payload or {})


def redraw(preset: str | Path) -> list[Path]:
    """Draw and save the figures of all records of a preset; returns the paths written."""
    drawn = [record for record in records.read_all(preset) if drawable(record)]
    return [path for record in drawn for path in save(draw(record), preset, record.artefact)]


def save(figure: Figure, preset: str | Path, artefact: str) -> list[Path]:
    """Write PNG and SVG beside the record, without dates or random ids, and return their paths."""
    written = []
    for suffix, content in (("png", png(figure)), ("svg", _render(figure, "svg", {"Date": None}))):
        path = paths.figure(preset, artefact, suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        written.append(path)
    return written


def png(figure: Figure) -> bytes:
    """The figure as the content of a PNG file, of 128 colours, which a drawing needs no more than and which make it
    a third of the size."""
    drawn = Image.open(BytesIO(_render(figure, "png", {"Software": None}))).convert("RGB")
    content = BytesIO()
    drawn.quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return content.getvalue()


def similarity_heatmap(record: Record, raw: bool = False, ax: Axes | None = None) -> Axes:
    """How alike two domains' questions are: the weights s_ij, or with ``raw`` the cosines that they come from."""
    if raw:
        table, title = pd.DataFrame(payload(record, "cosines")).T, "Cosine"
    else:
        table = tables.estimates(record).map(lambda cell: np.nan if cell is None else cell.mean)
        title = "Weight s$_{ij}$ (a row sums to 1)"
    others = table.index.to_numpy()[:, None] != table.columns.to_numpy()
    table = table.where(others)  # itself with itself says nothing, and would use up the colours
    ax = _heatmap(table.astype(float), "{:.2f}", _axes(ax, (WIDTH / 2, 4.2)))
    return _finish(ax, "source domain j", "target domain i", title)


def bar_table(record: Record, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Methods × columns as bars with intervals, AVE. last."""
    table = tables.estimates(record, metric)
    ax = _axes(ax, (WIDTH, 4.2))
    width = 0.84 / len(table)
    for index, (row, color) in enumerate(zip(table.index, _colors(len(table)), strict=True)):
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
    if tables.AVERAGE in table.columns:
        ax.axvline(len(table.columns) - 1.5, color="0.7", linewidth=0.8, linestyle=":")
    _legend(ax)
    return _finish(ax, "", f"{metric or record.unit} ({_interval(table)})", record.title)


def curves(record: Record, metric: str | None = None) -> Figure:
    """A panel of ``curve`` for each column, side by side on one scale, with one legend."""
    columns = list(dict.fromkeys(score.column for score in record.scores))
    figure = Drawing(figsize=(WIDTH if len(columns) > 1 else WIDTH * 0.75, 4.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(columns), sharey=True))
    for ax, column in zip(panels, columns, strict=True):
        curve(record, column, metric, ax)
        if len(columns) > 1:
            ax.set_title(column, loc="left", fontsize=11)
    for ax in panels[1:]:
        ax.set_ylabel("")
    _legend(panels[-1])
    if len(columns) > 1:
        figure.suptitle(record.title, x=0.01, ha="left", fontsize=11)
    return figure


def curve(record: Record, column: str, metric: str | None = None, ax: Axes | None = None) -> Axes:
    """Value in one column against x, a line for each method, with its interval; ``payload["x"]`` names the x axis.

    Methods without x are horizontal lines.
    """
    ax = _axes(ax, (WIDTH * 0.75, 4.2))
    table = tables.estimates(record, metric)[column]
    methods = list(dict.fromkeys(score.method for score in record.scores))
    for method, color in zip(methods, _colors(len(methods)), strict=True):
        points = {s.x: tables.row_label(s) for s in record.scores if s.method == method}
        if None in points:
            ax.axhline(table[points[None]].mean, color=color, linewidth=1.2, linestyle="--", label=method)
            continue
        cells = [(x, table[points[x]]) for x in sorted(points) if table[points[x]] is not None]
        xs = [x for x, _ in cells]
        ax.plot(xs, [cell.mean for _, cell in cells], "o-", color=color, markersize=4, label=method)
        if all(cell.low is not None for _, cell in cells):
            low, high = ([getattr(cell, side) for _, cell in cells] for side in ("low", "high"))
            ax.fill_between(xs, low, high, color=color, alpha=0.18, linewidth=0)
    positions = sorted({score.x for score in record.scores if score.x is not None})
    if len(positions) <= 12:
        ax.set_xticks(positions, [f"{x:g}" for x in positions])
    xlabel = str((record.payload or {}).get("x", "x"))
    return _finish(ax, xlabel, f"{metric or record.unit} ({_interval(table.to_frame())})", record.title)


def lengths(source: Record | dict[str, Any], what: str = "passage_lengths", ax: Axes | None = None) -> Axes:
    """Outlines of histograms of lengths in words, ``{domain: {"edges": […], "counts": […]}}``, as % of a domain."""
    ax = _axes(ax, (WIDTH / 2, 3.4))
    domains = payload(source, what)
    for (domain, histogram), color in zip(domains.items(), _colors(len(domains)), strict=True):
        edges, counts = np.asarray(histogram["edges"], float), np.asarray(histogram["counts"], float)
        # Per word, so that bins of different widths compare.
        density = 100 * counts / max(counts.sum(), 1) / np.diff(edges)
        ax.stairs(density, edges, color=color, linewidth=1.6, label=domain)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=9)
    thing = what.removesuffix("_lengths")
    return _finish(ax, f"words in a {thing}", f"% of the domain's {thing}s, per word", f"Length of {thing}s")


def question_words(source: Record | dict[str, Any], ax: Axes | None = None) -> Axes:
    """Shares of question words, ``{domain: {word: share}}``, as percentages."""
    shares = payload(source, "question_words")
    table = 100 * pd.DataFrame.from_dict(shares, orient="index").fillna(0.0)
    ax = _heatmap(table, "{:.0f}", _axes(ax, (WIDTH, 0.5 * len(table) + 1.2)))
    return _finish(ax, "", "", "Question words, % of the domain's questions")


def payload(source: Record | dict[str, Any], field: str) -> Any:
    """One field of a record's payload. Raises ValueError naming the record where it is missing."""
    where, content = (source.artefact, source.payload or {}) if isinstance(source, Record) else ("payload", source)
    if not content.get(field):
        raise ValueError(f"{where}: the payload has no {field!r} to draw; run the notebook that writes it again")
    return content[field]


def _heatmap(table: pd.DataFrame, text: str, ax: Axes) -> Axes:
    image = ax.imshow(table.to_numpy(), cmap="cividis", aspect="auto")
    ax.set_xticks(range(len(table.columns)), table.columns)
    ax.set_yticks(range(len(table.index)), table.index)
    ax.tick_params(length=0)
    if max(map(len, map(str, table.columns))) * len(table.columns) > 40:
        ax.tick_params(axis="x", rotation=35)
    for (row, column), value in np.ndenumerate(table.to_numpy()):
        if np.isfinite(value):
            red, green, blue = to_rgb(image.cmap(image.norm(value))[:3])
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            ax.text(column, row, text.format(value), ha="center", va="center", color="white" if dark else "black")
    return ax


def _interval(table: pd.DataFrame) -> str:
    """What the intervals in a table of estimates are over, for an axis label."""
    over = list(dict.fromkeys(cell.over for cell in table.to_numpy().ravel() if cell is not None))
    if over == ["one run"]:
        return "one run each"
    kinds = [kind for kind in ("seeds", "examples") if any(kind in text for text in over)]
    return f"{INTERVAL} over {' and '.join(kinds)}" + (", one seed" if any("one seed" in text for text in over) else "")


def _render(figure: Figure, suffix: str, metadata: dict) -> bytes:
    content = BytesIO()
    with plain_style():
        matplotlib.rcParams["svg.hashsalt"] = "helpers"  # else the ids inside an SVG are random
        figure.savefig(content, format=suffix, dpi=DPI, metadata=metadata)
    return content.getvalue()


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    return Drawing(figsize=size, layout="constrained").add_subplot() if ax is None else ax


def _finish(ax: Axes, xlabel: str, ylabel: str, title: str) -> Axes:
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_title(title, loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    if not ax.images:
        ax.grid(axis="y", color="0.9")
        ax.set_axisbelow(True)
    return ax


def _legend(ax: Axes) -> None:
    ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _colors(number: int) -> list:
    return seaborn.color_palette("colorblind", number)


@contextmanager
def plain_style() -> Iterator[None]:
    """Draw as matplotlib does by itself."""
    # Someone's matplotlibrc, or a notebook's inline settings, must not change what a record looks like.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield
