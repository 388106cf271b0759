"""Tables of numbers as heat maps: weights between domains, ratios, and shares of question words."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.results.canvas import HEIGHT, WIDTH, Drawing, finish
from helpers.results.records import Record

ABREAST = 4  # heat maps side by side


def similarities(record: Record) -> Figure:
    """The weights s_ij as a heat map, and beside it the cosines that they come from, where the record has them."""
    number = 2 if "cosines" in (record.payload or {}) else 1
    figure = Drawing(WIDTH / 2 * number, HEIGHT)
    for ax, raw in zip(np.atleast_1d(figure.subplots(1, number)), (False, True), strict=False):
        similarity_heatmap(record, raw, ax)
    return figure


def similarity_heatmap(record: Record, raw: bool, ax: Axes) -> Axes:
    """How alike two domains' questions are: the weights s_ij, or with ``raw`` the cosines that they come from."""
    if raw:
        table, title = pd.DataFrame(record.payload["cosines"]).T, "Cosine"
    else:
        scores = pd.DataFrame([(score.method, score.column, score.value) for score in record.scores])
        table, title = scores.pivot_table(2, 0, 1, sort=False), "Weight s$_{ij}$ (a row sums to 1)"
        table = table[table.index]
    others = table.index.to_numpy()[:, None] != table.columns.to_numpy()
    table = table.where(others).astype(float)  # itself with itself says nothing, and would use up the colours
    # From 0, or nearly equal weights would look far apart.
    ax = _heatmap(table, "{:.2f}", ax, vmin=0)
    return finish(ax, "source domain j", "target domain i", title)


def heatmaps(record: Record) -> Figure:
    """``payload["panels"]``, ``{title: {row: {column: value}}}``, side by side in one scale of colours; ``x`` and ``y``
    of the payload name columns and rows."""
    panels = {title: pd.DataFrame(rows).T.astype(float) for title, rows in record.payload["panels"].items()}
    values = np.concatenate([table.to_numpy().ravel() for table in panels.values()])
    scale = {"vmin": min(0.0, np.nanmin(values)), "vmax": np.nanmax(values)}
    text = "{:.2f}" if max(map(abs, scale.values())) <= 1 else "{:,.1f}"
    lines = math.ceil(len(panels) / ABREAST)
    abreast = math.ceil(len(panels) / lines)
    tallest = max(len(table) for table in panels.values())
    figure = Drawing(WIDTH / 2 if abreast == 1 else WIDTH, lines * (0.32 * tallest + 1.2) + 0.4)
    axes = figure.subplots(lines, abreast, squeeze=False).ravel()
    for ax in axes[len(panels) :]:
        ax.remove()
    for place, (ax, (title, table)) in enumerate(zip(axes, panels.items(), strict=False)):
        _heatmap(table, text, ax, size=8, **scale)
        crowded = max(map(len, table.columns)) * len(table.columns) > 60 / abreast
        ax.tick_params(axis="x", rotation=90 if crowded else 0)
        finish(ax, "", "", "").set_title(title, loc="left", fontsize=9)
        if place % abreast and [*table.index] == [*panels[[*panels][place - 1]].index]:
            ax.set_yticklabels([])  # as those of the panel to the left
    figure.colorbar(axes[0].images[0], ax=axes[: len(panels)], label=record.unit, fraction=0.03, pad=0.01)
    figure.suptitle(record.title, x=0.01, ha="left", fontsize=11)
    figure.supxlabel(record.payload.get("x", ""), fontsize=10)
    figure.supylabel(record.payload.get("y", ""), fontsize=10)
    return figure


def question_words(record: Record, ax: Axes) -> Axes:
    """Shares of question words, ``{domain: {word: share}}``, as percentages."""
    table = 100 * pd.DataFrame.from_dict(record.payload["question_words"], orient="index").fillna(0.0)
    ax = _heatmap(table, "{:.0f}", ax)
    return finish(ax, "", "", "Question words, % of the domain's questions")


def _heatmap(table: pd.DataFrame, text: str, ax: Axes, size: float | None = None, **scale: float) -> Axes:
    image = ax.imshow(table.to_numpy(), cmap="cividis", aspect="auto", **scale)
    ax.set_xticks(range(len(table.columns)), table.columns)
    ax.set_yticks(range(len(table.index)), table.index)
    ax.tick_params(length=0, labelsize=size)
    if max(map(len, map(str, table.columns))) * len(table.columns) > 40:
        ax.tick_params(axis="x", rotation=35)
    for (row, column), value in np.ndenumerate(table.to_numpy()):
        if np.isfinite(value):
            dark = np.dot(image.cmap(image.norm(value))[:3], (0.299, 0.587, 0.114)) < 0.5
            color = "white" if dark else "black"
            ax.text(column, row, text.format(value), ha="center", va="center", color=color, size=size)
    return ax
