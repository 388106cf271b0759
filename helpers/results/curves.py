"""How a training went: the parts of its loss, its learning rate, and its scores on validation."""

from matplotlib.figure import Figure

from helpers.results import methods
from helpers.results.canvas import HEIGHT, WIDTH, Drawing, finish, plain_style


@plain_style()
def draw(result: dict, label: str) -> Figure:
    """The figure of a training's result. Raises ValueError where that has no curve, as older trainings."""
    if not result.get("curve"):
        raise ValueError(f"{label}: this training left no curve; delete its folder, and it is trained again")
    figure = Drawing(WIDTH, HEIGHT)
    losses, scores = figure.subplots(1, 2)
    steps, rates, parts = zip(*result["curve"], strict=True)
    for name, color in zip(dict.fromkeys(name for point in parts for name in point), methods.COLORS, strict=False):
        points = [(step, point[name]) for step, point in zip(steps, parts, strict=True) if name in point]
        losses.plot(*zip(*points, strict=True), color=color, label=name)
    losses.legend(frameon=False, fontsize=9)
    finish(losses, "step", "part of the loss", label)
    scores.plot([step for step, *_ in result["validation"]], [score for _, score, *_ in result["validation"]], "o-")
    finish(scores, "step", "validation score", "")
    beside = scores.twinx()
    beside.plot(steps, rates, color="0.7", linewidth=1)
    beside.set_ylabel("learning rate (grey)", color="0.5")
    beside.spines[["top", "left"]].set_visible(False)
    return figure
