"""What all drawings share: their size and style, and a figure as the content of a file, every time the same bytes.

Figures are made without pyplot: no display is needed, and a notebook shows one once, as the last value of a cell.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

DPI = 120
WIDTH = 9.0  # inches; the width of a notebook page
HEIGHT = 3.6  # inches
ONE_RUN = "one run each"


class Drawing(Figure):
    """A figure that a notebook shows although pyplot does not know of it; sizes are in inches."""

    def __init__(self, width: float, height: float):
        super().__init__(figsize=(width, height), layout="constrained")

    def _repr_png_(self) -> bytes:
        return content(self, "png")


def finish(ax: Axes, xlabel: str, ylabel: str, title: str) -> Axes:
    """Name the axes, and leave only the lines that help to read them."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_title(title, loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    if not ax.images:
        ax.grid(axis="y", color="0.9")
        ax.set_axisbelow(True)
    return ax


def name_lines(ax: Axes, ends: dict[str, float], colors: dict[str, tuple]) -> None:
    """Names right of the axes, each in its line's colour and at the height of its end, or so near to that as there is
    room beside the others."""
    low, high = ax.get_ylim()
    gap = (high - low) * 13 / (ax.figure.get_figheight() * 72 * 0.75)  # a line of text
    groups: list[list[str]] = []  # of names that touch, each around the middle of its ends

    def middle(group: list[str]) -> float:
        return sum(ends[name] for name in group) / len(group)

    for name in sorted(ends, key=ends.__getitem__):
        groups.append([name])
        while (
            len(groups) > 1 and middle(groups[-1]) - middle(groups[-2]) < gap * (len(groups[-1]) + len(groups[-2])) / 2
        ):
            last = groups.pop()
            groups[-1] += last
    for group in groups:
        for place, name in enumerate(group):
            height = middle(group) + (place - (len(group) - 1) / 2) * gap
            text = {"fontsize": 9, "va": "center", "color": colors[name]}
            ax.annotate(name, (1.01, height), xycoords=("axes fraction", "data"), annotation_clip=False, **text)
    ax.set_ylim(low, high)


def content(figure: Figure, suffix: str) -> bytes:
    """The figure as the content of a ``png`` or ``svg`` file, without dates or random ids.

    A PNG has 128 colours: a drawing needs no more, and they make it a third of the size.
    """
    file = BytesIO()
    with plain_style():
        matplotlib.rcParams["svg.hashsalt"] = "helpers"  # else the ids inside an SVG are random
        figure.savefig(file, format=suffix, dpi=DPI, metadata={"Software" if suffix == "png" else "Date": None})
    if suffix == "png":
        image, file = Image.open(file).convert("RGB"), BytesIO()
        image.quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


@contextmanager
def plain_style() -> Iterator[None]:
    """Draw as matplotlib does by itself."""
    # Someone's matplotlibrc, or a notebook's inline settings, must not change what a record looks like.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield
