"""The figure of a case: how two readers align a passage with its question, and how sure they are of two answers."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.results.canvas import WIDTH, Drawing, plain_style

MOST = 84  # passage tokens in a picture
CAPTIONS = {"before": "The reader by itself", "after": "The distilled reader"}
BEGINS = ("\u0120", "\u2581")  # how a token that begins a word does, where those that go on have no "##"
COLORS = {"gold": "#0173b2", "confusing": "#de8f05", "given": "#de8f05"}


@plain_style()
def draw(case: dict[str, Any]) -> Figure:
    """The whole figure: the question, an attention map for each reader, and the probabilities of both answers."""
    case = in_words(case)
    height = 0.17 * len(case["question"]) + 0.9
    figure = Drawing(WIDTH, 2 * height + 2.4)
    *maps, last = figure.subplots(3, 1, height_ratios=[height, height, 1.7])
    for ax, name in zip(maps, CAPTIONS, strict=True):
        attention_map(case, name, shown(case), ax)
    probabilities(case, last)
    asked = re.sub(r" ([.,;:?!])", r"\1", " ".join(case["question"]))
    figure.suptitle(f"The question: “{asked}”", x=0.01, ha="left", fontsize=11, parse_math=False)
    return figure


def in_words(case: dict[str, Any]) -> dict[str, Any]:
    """The same case by words instead of word pieces: a word is attended to as much as its pieces together, and attends
    as they do on average."""
    first = {side: starts(case[side]) for side in ("question", "passage")}
    sizes = np.diff([*first["passage"], len(case["passage"])])[:, None]
    readers = {}
    for name, reader in case["readers"].items():
        of_words = np.add.reduceat(np.asarray(reader["attention"]), first["question"], axis=1)
        readers[name] = reader | {"attention": np.add.reduceat(of_words, first["passage"], axis=0) / sizes}
    words = {
        side: [
            "".join(_piece(token) for token in pieces) for pieces in np.split(np.array(case[side], object), places[1:])
        ]
        for side, places in first.items()
    }
    answers = {
        which: [int(np.searchsorted(first["passage"], end, side="right")) - 1 for end in ends]
        for which, ends in case["answers"].items()
    }
    return case | words | {"readers": readers, "answers": answers}


def starts(tokens: list[str]) -> list[int]:
    """Where words begin among word pieces."""
    if any(token.startswith(BEGINS) for token in tokens):
        return [0, *(place for place, token in enumerate(tokens) if place and token.startswith(BEGINS))]
    return [place for place, token in enumerate(tokens) if not place or not token.startswith("##")]


def _piece(token: str) -> str:
    return token.removeprefix("##").lstrip("".join(BEGINS))


def shown(case: dict[str, Any]) -> list[int]:
    """Which passage tokens fit a picture: all, or those nearest to the answers."""
    ends = [end for answer in case["answers"].values() for end in answer]
    far = [min((abs(token - end) for end in ends), default=0) for token in range(len(case["passage"]))]
    return sorted(sorted(range(len(far)), key=far.__getitem__)[:MOST])


def attention_map(case: dict[str, Any], name: str, tokens: list[int], ax: Axes) -> Axes:
    """Words of the question by those of the passage, darker where one of these attends more; answers in colour."""
    attention = np.asarray(case["readers"][name]["attention"])[tokens].T
    most = max(np.max(view["attention"]) for view in case["readers"].values())
    image = ax.imshow(attention, cmap="Greys", vmin=0, vmax=most, aspect="auto")  # one scale for all maps
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.02, pad=0.01)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.set_label("attention", size=8)
    left_out = (np.diff([-1, *tokens, len(case["passage"])]) > 1).tolist()
    words = ["…" * gap + case["passage"][token] for gap, token in zip(left_out, tokens, strict=False)]
    words[-1] += "…" * left_out[-1]
    ax.set_xticks(range(len(tokens)), words, rotation=90, parse_math=False)  # dollars are dollars
    ax.set_yticks(range(len(case["question"])), case["question"], parse_math=False)
    ax.tick_params(length=0, labelsize=7)
    for label, token in zip(ax.get_xticklabels(), tokens, strict=True):
        for which, (first, last) in case["answers"].items():
            if first <= token <= last:
                label.set(color=COLORS[which], weight="bold")
    ax.set_title(f"{CAPTIONS[name]}: “{case['readers'][name]['answer']}”", loc="left", fontsize=10, parse_math=False)
    return ax


def probabilities(case: dict[str, Any], ax: Axes) -> Axes:
    """How sure each reader is of the gold answer and of the confusing one."""
    kinds = [kind for kind in COLORS if kind in case["answers"]]
    for place, kind in enumerate(kinds):
        values = [case["readers"][name]["probabilities"][kind] for name in CAPTIONS]
        rows = np.arange(len(CAPTIONS)) + (place - (len(kinds) - 1) / 2) * 0.36
        bars = ax.barh(rows, values, 0.32, color=COLORS[kind], label=f"{kind} answer")
        ax.bar_label(bars, [f"{value:.2f}" for value in values], padding=3, fontsize=8)
    ax.set_yticks(range(len(CAPTIONS)), CAPTIONS.values(), fontsize=9)
    ax.set_xlim(0, 1.08)
    ax.invert_yaxis()
    ax.set_xlabel("probability of the answer's start times that of its end")
    ax.spines[["top", "right"]].set_visible(False)
    if kinds:
        ax.legend(frameon=False, fontsize=9, loc="lower right")
    return ax
