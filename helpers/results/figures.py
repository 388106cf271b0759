"""The pictures of records, drawn from them alone, with the same bytes at every drawing."""

import io
import re
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, cycle, pairwise, product
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation
from PIL import Image

from helpers import paths
from helpers.files import write_whole
from helpers.records import Claim, Record
from helpers.results import stats
from helpers.results.stats import Estimate

PAGE_WIDTH = 9.0  # inches, of a notebook page
LABEL = 44  # letters in a line of a label
TITLE_WIDTH = 84  # in a line above panels, beside a legend
PANELS = 4  # side by side
INTERVAL_REACH = 2.5  # times the largest number shown: longer intervals leave the picture
MOST_CURVES = 7  # in one panel
MOST_LEVELS = 3  # methods without an x beside a curve; of more the table alone tells
LINEAR = 5  # points up to which differences are drawn to scale where some are above four times as much
MOST_WORDS = 84  # of the passage in the picture of a case
COLORS = seaborn.color_palette("colorblind")
del COLORS[7]  # grey, which is for what is outdated
COLORS[6], COLORS[7] = "#6e3a8e", "#8a7d00"  # the palette's are too pale on white
COLORS *= 2
INK, SOFT, GRID = "#1b1c1d", "#6a6b6c", "#dededf"
DARK = {INK: "#dcddde", SOFT: "#9a9b9c", GRID: "#3c3d3e"}  # the same in an SVG on a dark page
PAPER_COLOR = "#d55e00"
HOLLOW = {"marker": "D", "fillstyle": "none", "markersize": 5.5, "linestyle": "none", "zorder": 2.5}
DIFFERENCES = {"accuracy": "points of accuracy", "score": "points"}  # units of differences
ANSWERS = {"gold": COLORS[0], "confusing": COLORS[1], "predicted": COLORS[1]}
Points = list[tuple[float, float]]  # x and y
READERS = {"before": "The reader by itself", "after": "The distilled reader"}
STYLE = {
    "svg.hashsalt": "helpers",  # else the ids inside an SVG are random
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "text.parse_math": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


class Picture(Figure):
    """A figure that a notebook shows although pyplot does not know it; height and width are in inches."""

    def __init__(self, height: float, title: str = "", width: float = PAGE_WIDTH):
        super().__init__(figsize=(width, height), layout="constrained")
        self.suptitle(title, x=0.01, ha="left", fontsize=11)

    def name_heights(self, text: str) -> None:
        """Say above the panels what their heights are, as a line is easier to read than a label that is turned."""
        self.suptitle(textwrap.fill(text, TITLE_WIDTH), x=0.01, ha="left", fontsize=9)

    def _repr_png_(self) -> bytes:
        return content(self, "png")


@contextmanager
def plain_style() -> Iterator[None]:
    """Draw alike, whatever a matplotlibrc or a notebook has set."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def draw_record(record: Record) -> Picture | None:
    """Draw a record of any kind; None where it has nothing to draw, as a table without a baseline."""
    if not (record.baselines if record.kind == "table" else record.scores or record.payload):
        return None
    with plain_style():
        whole = record.kind == "scatter" or not record.scores
        return DRAWINGS[record.kind](record if whole else record.by_metric()[0])


def save(record: Record) -> None:
    """Draw a record, as `draw_record` does, into an SVG beside the record's file; remove it where nothing is drawn."""
    path = paths.record(record.preset, record.artefact, "svg")
    if figure := draw_record(record):
        write_whole(path, content(figure, "svg"))
    else:
        path.unlink(missing_ok=True)


def content(figure: Figure, suffix: str) -> bytes:
    """Return the figure as a ``png`` or ``svg`` file without dates or random ids.

    A PNG has 256 colours to be small. An SVG has no background, and other colours on a dark page.
    """
    file, is_png = io.BytesIO(), suffix == "png"
    with plain_style():
        metadata = {"Software" if is_png else "Date": None}
        figure.savefig(file, format=suffix, dpi=120, metadata=metadata, transparent=not is_png)
    if not is_png:
        return adapt_colors(drop_last_digits(file.getvalue().decode())).encode()
    image, file = Image.open(file).convert("RGB"), io.BytesIO()
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def drop_last_digits(svg: str) -> str:
    """Return an SVG with coordinates of two decimals, and ids numbered in order of appearance.

    The last digits are not the same in all processes, and matplotlib hashes all digits of an area for its id.
    """
    long = re.compile(r"\d+\.\d{3,}")
    svg = re.sub(r"<[^>]+>", lambda tag: long.sub(lambda number: f"{float(number[0]):.2f}", tag[0]), svg)
    ids = re.findall(r' id="([a-z][0-9a-f]{10})"', svg)
    numbers = {name: f"{name[0]}{number}" for number, name in enumerate(sorted(ids, key=svg.index))}
    return re.sub(r"\b[a-z][0-9a-f]{10}\b", lambda match: numbers.get(match[0], match[0]), svg)


def adapt_colors(svg: str) -> str:
    """Return an SVG whose greys are those of `DARK` where a person prefers a dark page."""
    rules = "".join(
        f'[style*="{part}: {light}"] {{ {part}: {dark} !important }} '
        for light, dark in DARK.items()
        for part in ("fill", "stroke")
    )
    rules = f"<style>@media (prefers-color-scheme: dark) {{ {rules}}}</style>"
    head, tag, rest = svg.partition(" <defs>")
    return f"{head} {rules}\n{tag}{rest}"


@cache
def read_methods() -> dict[str, dict[str, Any]]:
    """Read what the papers' methods are called and in which colours they are drawn."""
    return tomllib.loads((paths.PRESETS / "methods.toml").read_text(encoding="utf-8"))


def readable(method: str) -> str:
    """Return a method's name in plain words, of a point on a curve with its x."""
    names, (name, _, x) = read_methods()["names"], method.rpartition(", ")
    if method not in names and name in names and re.fullmatch(r"[\d.]+", x):
        return f"{names[name]}, {x}"
    return names.get(method, method)


def color_methods(methods: Iterable[str]) -> dict[str, Any]:
    """Return a colour per method: the same in all figures for those that have one, and for others what these leave."""
    methods = dict.fromkeys(methods)
    places = {method: place for method, place in read_methods()["colors"].items() if method in methods}
    free = cycle([place for place in range(len(COLORS)) if place not in places.values()])
    return {method: COLORS[places[method] if method in places else next(free)] for method in methods}


def color_rows(record: Record, methods: Iterable[str]) -> dict[str, Any]:
    """Return a colour per method of a record, that of our differences for one alone, grey where rows are outdated."""
    outdated = {score.method for score in record.scores if score.row in record.outdated_rows}
    colors = color_methods(methods)
    if len(colors) == 1:
        colors = dict.fromkeys(colors, COLORS[0])
    return {method: SOFT if method in outdated else color for method, color in colors.items()}


def intervals(estimates: Sequence[Estimate]) -> str:
    """Say what the dots of a figure show, such as "95 % interval over 5 or 10 seeds"."""
    if over := sorted({estimate.over for estimate in estimates if estimate.over}, key=lambda text: (len(text), text)):
        return f"95 % interval over {' or '.join(over)}".replace(" seeds or", " or")
    return "every seed" if any(len(estimate.values) > 1 for estimate in estimates) else "one seed"


def dot(ax: Axes, place: float, estimate: Estimate, color: Any, marker: str = "o", fillstyle: str = "full") -> None:
    """Draw an estimate on a horizontal line: its mean with the interval, or every seed where there is none."""
    values = [estimate.mean] if estimate.over else estimate.values
    ax.plot([estimate.low, estimate.high], [place] * 2, color=color, linewidth=1.5, zorder=2)
    mark = {"color": color, "marker": marker, "fillstyle": fillstyle, "markersize": 5 if estimate.over else 4}
    ax.plot(values, [place] * len(values), linestyle="none", **mark, zorder=3)


def name_lines(ax: Axes, labels: Sequence[str], xlabel: str) -> None:
    """Label the lines of a figure, from the top down."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set(ylim=(len(labels) - 0.5, -0.5), xlabel=xlabel)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=GRID)


def find_sign(record: Record) -> int:
    """Return -1 where a record's baseline is claimed to be above rows, as of ablations, and never below; else 1."""
    claims = [claim for claim in record.claims if not claim.control] or record.claims
    baseline = next(iter(record.baselines), "")
    is_above = any(claim.above == baseline for claim in claims)
    is_below = any(claim.below == baseline for claim in claims)
    return -1 if is_above and not is_below and not record.compared_with else 1


def name_difference(baseline: str, sign: int, unit: str = "") -> str:
    """Name a difference between rows and a baseline, or with the sign -1 between the baseline and rows."""
    if sign < 0:
        return f"{unit and f'{unit} of '}{baseline} above the row"
    return f"{unit} above {baseline}".strip()


def gains(record: Record) -> Picture:
    """Draw how far each row is above its baseline, a panel per column; hollow what the paper prints.

    Where no more is claimed than that the baseline is above rows, as of ablations, draw how far it is. A row that
    others are compared with is not drawn.

    Columns of a "score" are of different metrics, and have scales of their own. So have columns that are far apart.
    What the paper prints of something else, as after more rounds, is grey. So are, in a record that tests nothing
    else, rows without a control.
    """
    first, groups = record.baselines[0], {column: [column] for column in record.columns}
    sign = find_sign(record)
    references = {first, *record.compared_with.values()}
    below = {row: record.compared_with.get(row, first) for row in record.rows if row not in references}
    if record.average or len(groups) == 1:
        groups = {"": record.columns}
    estimates = {
        (title, row): each
        for title, columns in groups.items()
        for row in below
        if (each := stats.estimate(record, [(sign, row, columns), (-sign, below[row], columns)]))
    }
    printed = {}
    for title, row in product(groups, below):
        claim = Claim(text=row, above=row, below=below[row], columns=[title] if title else [])
        if (gap := stats.printed_difference(record, claim)) is not None:
            printed[title, row] = sign * gap
    labels = [f"{'above ' * (sign < 0)}{label}" for label in label_rows(below, first, estimates)]
    of_columns = [
        [value for (title, _), each in estimates.items() if title == name for value in each.values] for name in groups
    ]
    down, is_shared = -(-len(groups) // PANELS), record.unit != "score" and are_near(of_columns)
    settings = {claim.printed_for for claim in record.claims if not claim.control}
    note, color = (f", {settings.pop()}", SOFT) if len(settings) == 1 and all(settings) else ("", PAPER_COLOR)
    controls = {frozenset((claim.above, claim.below)) for claim in record.claims if claim.control}
    untested = {row for row, of in below.items() if record.untested and {row, of} not in controls}
    grey = untested | {row for row, of in below.items() if {row, of} & {*record.outdated_rows}}
    height = (0.14 * max((label.count("\n") for label in labels), default=0) + 0.21) * len(labels) + 0.35
    figure = Picture(down * (height + 0.18 * (down > 1)) + 0.75)
    panels = figure.subplots(down, -(-len(groups) // down), sharex=is_shared, sharey=True, squeeze=False).ravel()
    for ax, title in zip(panels, groups, strict=False):
        ax.axvline(0, color=SOFT, linewidth=0.8)
        for place, row in enumerate(below):
            if (title, row) in estimates:
                dot(ax, place, estimates[title, row], SOFT if row in grey else COLORS[0])
            if (title, row) in printed:
                ax.plot(printed[title, row], place, color=color, **HOLLOW)
        for place, (before, after) in enumerate(pairwise(below.values())):
            if before != after:  # what is above another row stands apart
                ax.axhline(place + 0.5, color=SOFT, linewidth=0.5, linestyle=":")
        name_lines(ax, labels, "")
        ax.set_title(title)
    for ax in panels[len(groups) :]:
        ax.remove()
    for ax, titles in zip(panels, [groups] if is_shared else [[title] for title in groups], strict=False):
        shown = [value for (title, _), each in estimates.items() if title in titles for value in each.values]
        shown += [value for (title, _), value in printed.items() if title in titles]
        most = INTERVAL_REACH * max(map(abs, [*shown, 0.0])) or 1.0
        ax.set_xlim(max(ax.get_xlim()[0], -most), min(ax.get_xlim()[1], most))
    scale = scale_up(panels[0], "x", [each.mean for each in estimates.values()]) if len(groups) == 1 else ""
    over = "average " * (len(record.columns) > 1 and record.average)
    unit = f"{over}{DIFFERENCES.get(record.unit, record.unit)}"
    baseline = f"{readable(first)}{', or the model named' * bool(record.compared_with)}"
    order = name_difference(baseline, sign, unit)
    figure.supxlabel(f"{order} ({intervals([*estimates.values()])}{scale}{name_outdated(record)})", fontsize=9)
    if printed:
        marks = {"ours": {"color": COLORS[0], "marker": "o"}} if untested != {*below} else {}
        marks |= {"ours, not tested": {"color": SOFT, "marker": "o"}} if untested else {}
        marks[f"the paper{note}"] = {"color": color, **HOLLOW}
        handles = [Line2D([], [], label=name, **mark) for name, mark in marks.items()]
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
    return figure


def scale_up(ax: Axes, axis: str, values: Sequence[float]) -> str:
    """Make a shared axis logarithmic beyond `LINEAR` where some values are far above it and others below. Says so.

    A band in each panel shows where the scale changes.
    """
    sizes = np.abs(values)
    if not (sizes < LINEAR).any() or sizes.max() < 4 * LINEAR:
        return ""
    getattr(ax, f"set_{axis}scale")("symlog", linthresh=LINEAR, base=2, linscale=2)
    getattr(ax, f"{axis}axis").set_major_formatter("{x:g}")
    ends, name = getattr(ax, f"get_{axis}lim")(), {"x": "axvspan", "y": "axhspan"}[axis]
    for panel, (begin, end) in product(ax.figure.axes, ((ends[0], -LINEAR), (LINEAR, ends[1]))):
        if begin < end:
            getattr(panel, name)(begin, end, color=GRID, alpha=0.35, linewidth=0, zorder=0)
    getattr(ax, f"set_{axis}lim")(ends)
    return f"; logarithmic beyond {LINEAR}, in grey"


def label_rows(below: Mapping[str, str], first: str, estimates: Mapping[tuple[str, str], Estimate]) -> list[str]:
    """Return the rows' names, with the baseline where it is not the first, and the seeds where others have more.

    Rows that do not differ from their baseline say so.
    """
    few = name_few_seeds({row: len(each.values) for (_, row), each in estimates.items()})
    others = {row: f", above {readable(baseline)}" for row, baseline in below.items() if baseline != first}
    enough = {row for (_, row), each in estimates.items() if each.over}
    same = enough - {row for (_, row), each in estimates.items() if any(each.values)}
    labels = [
        f"{readable(row)}{others.get(row, '')}{' (identical)' * (row in same)}{few.get(row, '')}" for row in below
    ]
    return [textwrap.fill(label, LABEL, break_on_hyphens=False) for label in labels]


def name_few_seeds(seeds: Mapping[str, int]) -> dict[str, str]:
    """Return, for the rows that have fewer seeds than others, their number as an addition to the row's name."""
    most = max(seeds.values(), default=0)
    return {
        row: f" ({number}\N{NO-BREAK SPACE}seed{'s' * (number > 1)})" for row, number in seeds.items() if number < most
    }


def bars(record: Record) -> Figure:
    """Draw a group of lines per column, a colour per row, above the baseline if any; hollow what the paper prints."""
    baseline, *_ = record.baselines or [""]
    rows = [row for row in record.rows if row != baseline]
    figure = Picture((0.14 * len(rows) + 0.08) * len(record.columns) + 1.0)
    ax, estimates, printed = figure.subplots(), [], {(p.row, p.column): p.value for p in record.paper}
    for index, (row, color) in enumerate(color_rows(record, rows).items()):
        shift = (index - (len(rows) - 1) / 2) * 0.8 / len(rows)
        ax.plot([], [], "o", color=color, label=readable(row))
        for place, column in enumerate(record.columns):
            terms, value = [(1, row, [column])], printed.get((row, column), np.nan)
            if baseline:
                terms.append((-1, baseline, [column]))
                value -= printed.get((baseline, column), np.nan)
            if estimate := stats.estimate(record, terms):
                dot(ax, place + shift, estimate, color)
                estimates.append(estimate)
            ax.plot(value, place + shift, color=color, **HOLLOW)
    if printed:
        ax.plot([], [], color=SOFT, label="the paper", **HOLLOW)
    if baseline:
        ax.axvline(0, color=SOFT, linewidth=0.8)
    is_alone = len(rows) == 1 and not printed
    unit = f"{record.unit} of {readable(rows[0])}" if is_alone else record.unit
    above = f" above {readable(baseline)}" * bool(baseline)
    name_lines(ax, record.columns, f"{unit}{above} ({intervals(estimates)}{name_untested(record)})")
    if not is_alone:
        figure.legend(loc="outside right upper")
    return figure


def name_untested(record: Record) -> str:
    """Return what a figure in colours says of a record that tests nothing, "" of others."""
    return f"; {stats.UNTESTED}" * bool(record.untested) + name_outdated(record)


def name_outdated(record: Record) -> str:
    """Return what a figure says of grey rows, "" where none is outdated."""
    return f"; grey: {stats.OUTDATED}" * bool(record.outdated)


def curves(record: Record) -> Picture:
    """Draw a panel per column and a line per method, a point aside where few have no x; hollow the paper's.

    ``payload["x"]`` names the axis, ``payload["scale"]`` may be "log". Where there is ``payload["above"]``, differences
    are drawn: from each method's score at that x, or from the method named. A method with zeros alone is the one that
    others are compared with. Of more methods than `MOST_CURVES` in one column, see `draw_places`.
    """
    if len(record.columns) == 1 and len({score.method for score in record.scores}) > MOST_CURVES:
        return draw_places(record)
    figure, payload = Picture(2.7), record.payload or {}
    above = payload.get("above")
    zero = above if isinstance(above, str) else find_zero(record)
    names = dict.fromkeys(score.method for score in record.scores if score.x is None and score.method != zero)
    hidden = {zero, *(names if len(names) > MOST_LEVELS else [])}
    colors = color_rows(record, (score.method for score in record.scores if score.method not in hidden))
    shown = [method for method in names if method not in hidden]
    levels = {method: 1.07 + 0.035 * number for number, method in enumerate(shown)}  # places at the right of the panel
    moving = [method for method in colors if method not in levels]
    styles = dict(zip(moving, cycle(("-", "--", "-.")), strict=False))  # of curves that meet both can be seen
    # Points to the side, so that the intervals of methods stand beside each other.
    asides = {method: (n - (len(moving) - 1) / 2) * min(5, 24 / len(moving)) for n, method in enumerate(moving)}
    lines = estimate_curves(record, colors, above)
    estimates = [each for line in lines.values() for each in line.values()]
    of_columns = [[e for (_, name), line in lines.items() if name == c for e in line.values()] for c in record.columns]
    is_near = are_near([[value for each in of_column for value in each.values] for of_column in of_columns])
    panels, printed = figure.subplots(1, len(record.columns), sharey=is_near, squeeze=False)[0], {}
    if levels:
        figure.get_layout_engine().set(wspace=0.1)  # a panel's points are its, not those of the next
    for ax, column in zip(panels, record.columns, strict=True):
        for method, color in colors.items():
            line = lines[method, column]
            if method in levels:
                for level in line.values():  # none in a column that it has no score in
                    draw_level(ax, levels[method], level, color)
            else:
                aside = ScaledTranslation(asides[method] / 72, 0, figure.dpi_scale_trans)
                draw_curve(ax, line, color, styles[method], aside)
                theirs = {
                    "the paper": subtract_printed(record, method, column, above),
                    "the paper, in its tables": claim_printed(record, line, method, column),
                }
                ax.plot(
                    *np.reshape(sorted(chain(*theirs.values())), (-1, 2)).T, color=color, **HOLLOW | {"linestyle": ":"}
                )
                printed |= {name: points for name, points in theirs.items() if points}
        ax.set(title=readable(column) if len(panels) > 1 else "", xscale=payload.get("scale", "linear"))
        ax.set_xlabel(str(payload.get("x", "x")))
        if len(places := sorted({score.x for score in record.scores if score.column == column} - {None})) <= 12:
            ax.set_xticks(places, [f"{x:,g}" for x in places])
            ax.minorticks_off()
        ax.grid(axis="y", color=GRID)
        if zero:
            ax.axhline(0, color=SOFT, linewidth=0.8)
    ends = {method: [*line.values()][-1].mean for (method, _), line in reversed(lines.items()) if line}  # first panel's
    handles = [
        Line2D([], [], color=colors[method], label=readable(method), marker="o", linestyle=styles.get(method, ""))
        for method in sorted(colors, key=lambda method: (method in levels, -ends.get(method, 0.0)))  # from the top down
    ]
    handles += [Line2D([], [], color=SOFT, label=name, **HOLLOW) for name in printed]
    figure.legend(handles=handles, loc="outside right upper")
    base = f" above {readable(zero)}" * bool(zero) or (f" above that at {above:g}" if above is not None else "")
    scale = scale_up(panels[0], "y", [each.mean for each in estimates]) if is_near else ""
    figure.name_heights(f"{record.unit}{base} ({intervals(estimates)}{scale}{name_untested(record)})")
    return figure


def draw_places(record: Record) -> Picture:
    """Draw a panel per x and a line per method, as more curves than colours of few points cannot be told apart."""
    rows = {(score.method, score.x): score.row for score in record.scores}
    methods, axis = list(dict.fromkeys(method for method, _ in rows)), sorted({x for _, x in rows})
    figure = Picture(0.21 * len(methods) + 1.0)
    panels = figure.subplots(1, len(axis), sharex=True, sharey=True, squeeze=False)[0]
    estimates = {place: stats.estimate(record, [(1, row, record.columns)]) for place, row in rows.items()}
    for ax, x in zip(panels, axis, strict=True):
        for line, method in enumerate(methods):
            if (method, x) in estimates:
                dot(ax, line, estimates[method, x], COLORS[0])
        name_lines(ax, [readable(method) for method in methods], "")
        name = (record.payload or {}).get("x", "x")
        ax.set_title(f"{x:g} {name}" if name.startswith("%") else f"{name}: {x:g}")
    scale = scale_up(panels[0], "x", [each.mean for each in estimates.values()])
    figure.supxlabel(f"{record.unit} ({intervals([*estimates.values()])}{scale}{name_untested(record)})", fontsize=9)
    return figure


def draw_level(ax: Axes, place: float, level: Estimate, color: Any) -> None:
    """Draw what has no x beside a panel: a mean with its interval, or every seed where there is none."""
    aside = {"color": color, "transform": ax.get_yaxis_transform(), "clip_on": False}
    values = [level.mean] if level.over else level.values
    ax.errorbar(place, level.mean, level.high - level.mean, fmt="none", elinewidth=1, **aside)
    ax.plot([place] * len(values), values, "o", markersize=4, **aside)
    ax.update_datalim([(0, end) for end in (level.low, level.high, *values)], updatex=False)


def draw_curve(ax: Axes, line: Mapping[float, Estimate], color: Any, style: str, aside: ScaledTranslation) -> None:
    """Draw the means of a curve and their intervals, or every seed where there is none, all moved aside."""
    place = {"color": color, "transform": ax.transData + aside}
    means = [each.mean for each in line.values()]
    error = [each.high - each.mean for each in line.values()]  # nan where there is none
    ax.plot([*line], means, style, marker="o", markersize=4, **place)
    ax.errorbar([*line], means, error, fmt="none", elinewidth=1, **place)
    seeds = [(x, value) for x, each in line.items() if not each.over for value in each.values]
    ax.plot(*np.reshape(seeds, (-1, 2)).T, "o", markersize=2.5, **place)
    ends = [(x, end) for x, each in line.items() for end in (each.low, each.high) if each.over]
    ax.update_datalim([*ends, *seeds, *zip(line, means, strict=True)])  # as no limit is taken from what stands aside
    ax.autoscale_view()


def estimate_curves(
    record: Record, methods: Iterable[str], above: float | str | None
) -> dict[tuple[str, str], dict[float | None, Estimate]]:
    """Estimate what curves show by x, per method and column: scores, or differences from `find_base`."""
    rows = {(score.method, score.x): score.row for score in record.scores}
    lines: dict[tuple[str, str], dict[float | None, Estimate]] = {}
    for method, column in product(methods, record.columns):
        line = lines.setdefault((method, column), {})
        for x in sorted((x for name, x in rows if name == method), key=lambda x: x or 0.0):
            terms = [(1, rows[method, x], [column])]
            if base := find_base(rows, method, x, above):
                terms.append((-1, rows[base], [column]))
            if estimate := stats.estimate(record, terms):
                line[x] = estimate
    return lines


def subtract_printed(record: Record, method: str, column: str, above: float | str | None) -> Points:
    """List what the paper prints of a curve by x, less what it prints of `find_base`."""
    values = {(number.method, number.x): number.value for number in record.paper if number.column == column}
    places = [x for name, x in values if name == method]
    return [(x, values[method, x] - values.get(find_base(values, method, x, above), 0.0)) for x in places]


def claim_printed(record: Record, line: Mapping[float, Estimate], method: str, column: str) -> Points:
    """List, by x, what the paper prints in claims of how far a curve is above its own points at zero."""
    rows = {f"{method}, {x:g}": x for x in line if x is not None}
    zeros = {row for row, x in rows.items() if not any(line[x].values)}
    printed = [
        claim for claim in record.claims if claim.printed and not claim.printed_for and claim.columns == [column]
    ]
    return [(rows[claim.above], claim.printed) for claim in printed if claim.above in rows and claim.below in zeros]


def find_base(
    places: Collection[tuple[str, float | None]], method: str, x: float | None, above: float | str | None
) -> tuple[str, float | None] | None:
    """Find the method and x whose score is subtracted from that of a curve; None for nothing.

    ``above`` is an x of the same method, or another method, whose score may have no x.
    """
    if not isinstance(above, str):
        return None if above is None else (method, above)
    return (above, x) if (above, x) in places else (above, None)


def are_near(columns: Sequence[Sequence[float]]) -> bool:
    """Return whether one scale shows the values of all columns."""
    return bool(np.ptp(np.concatenate(columns)) <= 3 * min(map(np.ptp, columns)))


def find_zero(record: Record) -> str:
    """Find the method from which a record's scores are differences, and which is zero itself; "" for none."""
    others = {score.method for score in record.scores if score.value}
    zeros = [score.method for score in record.scores if score.method not in others]
    return zeros[0] if zeros and record.unit in DIFFERENCES.values() else ""


def scatter(record: Record) -> Picture:
    """Draw a point per row: its mean in the first metric, above the baseline if any, against its mean in the second."""
    (up, along), figure, estimates = record.by_metric(), Picture(2.7), []
    subtracted = [(-1.0, baseline, record.columns) for baseline in record.baselines]
    ax = figure.subplots()
    places = {row: stats.estimate(along, [(1, row, record.columns)]).mean for row in up.rows}
    for row, color in color_rows(up, up.rows).items():
        x, y = places[row], stats.estimate(up, [(1, row, record.columns), *subtracted])
        ax.errorbar(x, y.mean, yerr=y.high - y.mean, color=color, fmt="o")
        # A name stands at the left where the interval of another row is near at the right.
        near = any(0 < other - x < max(places.values()) / 12 for other in places.values())
        style = {"color": color, "fontsize": 8, "va": "center", "ha": "right" if near else "left"}
        ax.annotate(row, (x, y.mean), (-6 if near else 6, 0), textcoords="offset points", **style)
        estimates.append(y)
    ax.set(xlabel=along.unit)
    ax.margins(x=0.15)
    ax.set_xlim(left=-0.02 * max(places.values()))
    ax.grid(axis="y", color=GRID)
    base = "".join(f" above {readable(baseline)}" for baseline in record.baselines)
    figure.name_heights(f"{up.unit}{base} ({intervals(estimates)}{name_outdated(record)})")
    return figure


def matrix(record: Record) -> Picture:
    """Draw a square table of scores as a heat map, and the payload's "cosines", if any, beside it."""
    # The diagonal says nothing, and would use up the colours.
    panels = {name: panel.mask(np.eye(len(panel), dtype=bool)) for name, panel in tabulate(record).items()}
    return heatmaps(record, panels, vmin=0.0)


def tabulate(record: Record) -> dict[str, pd.DataFrame]:
    """Return the numbers of a figure that is no curve of scores as tables by name."""
    payload = record.payload or {}
    if record.kind == "heatmaps":
        return {name: pd.DataFrame(rows).T.astype(float).round(3) for name, rows in payload["panels"].items()}
    if record.kind == "profile":
        words = pd.DataFrame.from_dict(payload["question_words"], orient="index").fillna(0.0)
        return {"question words, % of the domain's questions": (100 * words).round(1)}
    if record.kind == "case":
        lines = [
            {"question": " ".join(join_pieces(each["question"]).values()), "reader": READERS.get(name, name)}
            | {"answer": reader["answer"], **reader["probabilities"]}
            for each in list_cases(payload)
            for name, reader in each["readers"].items()
        ]
        return {"answers and their probabilities": pd.DataFrame(lines)}
    scores = pd.DataFrame([(score.method, score.column, score.value) for score in record.scores])
    panels = {record.unit: scores.pivot_table(2, 0, 1, sort=False)}
    if cosines := payload.get("cosines"):
        panels["cosine"] = pd.DataFrame(cosines).T
    return {name: panel[panel.index].rename_axis(index=None, columns=None).round(3) for name, panel in panels.items()}


def heatmaps(record: Record, panels: dict[str, pd.DataFrame] | None = None, **scale: float) -> Figure:
    """Draw tables side by side; of the payload's, those with gaps and those without share a scale of colours each."""
    payload = record.payload or {}
    values: dict[bool, list[float]] = {}  # of tables with gaps, and of those without
    if panels is None:
        panels = tabulate(record)
        for panel in panels.values():
            values.setdefault(panel.isna().any(axis=None), []).extend(panel.to_numpy().ravel())
    down = -(-len(panels) // 4)
    across = -(-len(panels) // down)
    height = down * (0.28 * max(map(len, panels.values())) + 0.9) + 0.3
    figure = Picture(height, width=PAGE_WIDTH if across > 1 else PAGE_WIDTH / 2)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for ax, (name, panel) in zip(axes, panels.items(), strict=False):
        if of_kind := values.get(panel.isna().any(axis=None)):
            scale = {"vmin": np.nanmin(of_kind), "vmax": np.nanmax(of_kind)}
        heatmap(ax, panel, name, across, **scale)
    for ax in axes[len(panels) :]:
        ax.remove()
    apart = " (full tables share a scale of colours, and those with gaps another)" * (len(values) > 1)
    figure.supxlabel(f"{payload.get('x') or record.unit}{apart}", fontsize=9)
    figure.supylabel(payload.get("y", ""), fontsize=9)
    return figure


def heatmap(ax: Axes, numbers: pd.DataFrame, title: str, across: int = 1, **scale: float) -> None:
    """Draw a table with its values in the cells; gaps stay white. ``across`` is the number of tables side by side."""
    fmt = ".2f" if numbers.max().max() <= 1 else ",.1f"
    seaborn.heatmap(numbers, annot=True, fmt=fmt, cmap="cividis", cbar=False, annot_kws={"size": 8}, ax=ax, **scale)
    ax.set(title=title, xlabel="", ylabel="")
    crowded = max(map(len, map(str, numbers.columns))) * len(numbers.columns) * across > 100
    ax.tick_params(axis="x", length=0, labelsize=8, rotation=90 if crowded else 0)
    ax.tick_params(axis="y", length=0, labelsize=8, rotation=0)


def profile(record: Record) -> Figure:
    """Draw the lengths of passages and questions of each domain, and how often a question has which question word."""
    ((title, words),) = tabulate(record).items()
    heights = [2.8, 0.28 * len(words) + 0.5]
    figure = Picture(sum(heights) + 0.1)
    axes = figure.subplot_mosaic([["passage", "question"], ["words", "words"]], height_ratios=heights)
    for thing in ("passage", "question"):
        for (domain, histogram), color in zip(record.payload[f"{thing}_lengths"].items(), COLORS, strict=False):
            edges, counts = (np.asarray(histogram[part], float) for part in ("edges", "counts"))
            share = 100 * counts / max(counts.sum(), 1) / np.diff(edges)  # per word, as bins differ in width
            axes[thing].stairs(share, edges, color=color, linewidth=1.5, label=domain)
        axes[thing].set(ylim=(0, None), xlabel=f"words per {thing}", ylabel=f"% of the domain's\n{thing}s, per word")
    axes["passage"].legend()
    heatmap(axes["words"], words, title)
    return figure


def list_cases(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """List the case of a payload, and the typical one where it has one."""
    return [payload, *([payload["typical"]] if "typical" in payload else [])]


def case(payload: dict[str, Any]) -> Picture:
    """Draw how readers align a passage with its question, and how sure they are of two answers.

    A payload may have another case, ``typical``, which is drawn below it.
    """
    cases = list_cases(payload)
    with plain_style():
        heights = [0.17 * len(join_pieces(each["question"])) * len(each["readers"]) + 4.0 for each in cases]
        figure = Picture(sum(heights))
        for part, each in zip(
            figure.subfigures(len(cases), height_ratios=heights, squeeze=False).ravel(), cases, strict=True
        ):
            draw_case(part, each)
        return figure


def draw_case(figure: SubFigure, payload: dict[str, Any]) -> None:
    """Draw a case on a part of a figure.

    Attention is drawn by words: a word receives what its pieces receive together, and gives their average.
    """
    question, passage = (join_pieces(payload[side]) for side in ("question", "passage"))
    places, sizes = np.array([*passage]), np.diff([*passage, len(payload["passage"])])[:, None]
    answers = {kind: np.searchsorted(places, span, side="right") - 1 for kind, span in payload["answers"].items()}
    ends = np.concatenate([*answers.values()] or [[0]])
    distance = np.abs(np.arange(len(places))[:, None] - ends).min(axis=1)
    shown = np.sort(np.argsort(distance, kind="stable")[:MOST_WORDS])
    gaps, texts = np.diff([-1, *shown]) > 1, [*passage.values()]
    words = ["…" * int(gap) + texts[word] for gap, word in zip(gaps, shown, strict=True)]
    words[-1] += "…" * int(shown[-1] < len(texts) - 1)
    readers, maps = {READERS.get(name, name): reader for name, reader in payload["readers"].items()}, {}
    for title, reader in readers.items():
        received = np.add.reduceat(np.asarray(reader["attention"]), [*question], axis=1)
        maps[title] = (np.add.reduceat(received, places, axis=0) / sizes)[shown].T
    scale = {"vmin": 0, "vmax": max(attention.max() for attention in maps.values()), "cmap": "Greys"}
    sure = {kind: [reader["probabilities"][kind] for reader in readers.values()] for kind in answers}
    title = re.sub(r" ([.,;:?!])", r"\1", " ".join(question.values()))
    figure.suptitle(" ".join(filter(None, [payload.get("title"), f"The question: “{title}”"])), x=0.01, ha="left")
    *axes, last = figure.subplots(len(readers) + 1, height_ratios=[*[0.17 * len(question) + 0.9] * len(readers), 1.4])
    for ax, (title, attention) in zip(axes, maps.items(), strict=True):
        image = ax.imshow(attention, aspect="auto", **scale)
        figure.colorbar(image, ax=ax, fraction=0.02, pad=0.01, label="attention")
        ax.set_title(f"{title}: “{readers[title]['answer']}”")
        ax.set_xticks(range(len(words)), words, rotation=90)
        ax.set_yticks(range(len(question)), question.values())
        ax.tick_params(length=0, labelsize=7)
        for kind, (first, final) in answers.items():
            for label in np.array(ax.get_xticklabels())[(shown >= first) & (shown <= final)]:
                label.set(color=ANSWERS[kind], weight="bold")
    for index, (kind, values) in enumerate(sure.items()):
        rows = np.arange(len(readers)) + (index - (len(sure) - 1) / 2) * 0.36
        bars_of_kind = last.barh(rows, values, 0.32, color=ANSWERS[kind], label=f"{kind} answer")
        last.bar_label(bars_of_kind, fmt="%.2f", padding=3, fontsize=8)
    last.set_yticks(range(len(readers)), readers)
    last.set(xlim=(0, 1.08), ylim=(len(readers) - 0.4, -0.6))
    last.set_xlabel("probability of the answer's start times that of its end")
    if answers:
        last.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(sure))


def training_curves(label: str, result: dict[str, Any]) -> Picture:
    """Draw a training by its result: a panel per term of its loss, and the validation scores.

    Terms are means over stretches of steps, a point each. A dotted line is where weights were kept. What is not stored
    is not drawn, nor is a single point beside curves. Two validation scores beside curves are written.
    """
    losses = pd.DataFrame.from_dict(dict(result.get("losses", [])), orient="index")
    scores = {step: details["scores"] for step, _, details in result["validation"]}
    tables = {term: losses[[term]].dropna() for term in losses}
    tables["validation score"] = validation = pd.DataFrame.from_dict(scores, orient="index")
    tables = {name: table for name, table in tables.items() if len(table) > 1} or tables
    title = label + " (dotted: weights kept)" * bool(scores)
    if len(tables) > 1 and len(validation) == 2:
        del tables["validation score"]
        means = validation.mean(axis=1).items()
        title += "\nvalidation score: " + ", ".join(f"{mean:.1f} after {step:,} steps" for step, mean in means)
    with plain_style():
        figure = Picture(2.4, title)
        panels = figure.subplots(1, max(3, len(tables)), squeeze=False)[0]
        for ax in panels[len(tables) :]:
            ax.remove()
        for ax, (name, table) in zip(panels, tables.items(), strict=False):
            colors = dict(zip(table, COLORS, strict=False))
            if len(colors) > 1:
                table, colors = table.assign(mean=table.mean(axis=1)), colors | {"mean": INK}
            for column, color in colors.items():
                ax.plot(table[column], "o-", color=color, label=column, markersize=2.5, linewidth=1.2)
            if len(colors) > 1:
                ax.legend(fontsize=7.5)
            if result["validation"]:
                best_step = max(result["validation"], key=lambda point: point[1])[0]
                ax.axvline(best_step, color=SOFT, linestyle=":")
            ax.set(title=name, xlabel="steps", xlim=(0, 1.02 * result["steps"]))
            ax.xaxis.get_major_locator().set_params(integer=True, nbins=4)
            ax.grid(axis="y", color=GRID)
    return figure


def word_map(contributions: pd.DataFrame, most: int = 16) -> Picture:
    """Draw what the first words of a table add to the cosine of each pair, with a colour bar."""
    shown = contributions.head(most)
    with plain_style():
        figure = Picture(0.22 * len(shown) + 1.7, "What words add to the cosine of two domains, stop words aside")
        ax = figure.subplots()
        image = ax.imshow(shown, cmap="Blues", aspect="auto", vmin=0.0)
        ax.set_yticks(range(len(shown)), shown.index)
        ax.set_xticks(range(len(shown.columns)), shown.columns, rotation=35, ha="right")
        ax.tick_params(length=0, labelsize=8)
        figure.colorbar(image, ax=ax, fraction=0.03, pad=0.01, label="added to the cosine")
    return figure


def seed_curves(record: Record) -> Picture:
    """Draw a curve of one metric with a thin line per seed and a thick one for the mean of each method."""
    payload, scores = record.payload or {}, pd.DataFrame([score.model_dump() for score in record.scores])
    with plain_style():
        lines = "a thin line per seed" if len(record.seeds) > 1 else "one seed"
        figure = Picture(3.7, f"{record.unit.capitalize()}, {lines} (preset {record.preset})")
        ax = figure.subplots()
        colors = color_methods(scores["method"])
        for method, of_method in scores.groupby("method", sort=False):
            color = colors[method]
            table = of_method.pivot_table("value", "x", "seed")
            ax.plot(table, color=color, linewidth=0.6, alpha=0.5)
            ax.plot(table.mean(axis=1), "o-", color=color, linewidth=2, markersize=4, label=readable(method))
        ax.set(xscale=payload.get("scale", "linear"), xlabel=payload.get("x", "x"), ylabel=record.unit)
        places = sorted(scores["x"].unique())
        ax.set_xticks(places, [f"{x:,g}" for x in places])
        ax.minorticks_off()
        ax.grid(axis="y", color=GRID)
        figure.legend(loc="outside right upper")
    return figure


def join_pieces(pieces: Sequence[str]) -> dict[int, str]:
    """Join word pieces to words, by the place of their first piece; pieces have a sign before words, or "##" within."""
    signs, words = ("\u0120", "\u2581"), {}
    marked = any(piece.startswith(signs) for piece in pieces)
    for place, piece in enumerate(pieces):
        if not words or (piece.startswith(signs) if marked else not piece.startswith("##")):
            begin = place
        words[begin] = words.get(begin, "") + piece.removeprefix("##").lstrip("".join(signs))
    return words


DRAWINGS = {
    "table": gains,
    "bars": bars,
    "curve": curves,
    "scatter": scatter,
    "matrix": matrix,
    "heatmaps": heatmaps,
    "profile": profile,
    "case": lambda record: case(record.payload),
}
