"""What the records of all presets say of the papers' claims, at a glance."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from helpers.results import canvas, claims, comparisons, dots, html, records, tables
from helpers.results.claims import FAILS, HOLDS, OPEN, Judgement
from helpers.results.records import Claim, Record

PRESETS = ("study", "mini", "lab", "paper")
MINIATURE = ("study", "mini")  # those of one world; of a table the first that has it decides
SIZES = ("study-small", "study-large")  # the same with other numbers of training examples
GENERATED = (
    "All texts of this preset are generated: a miniature world of invented people and towns. MNLI, CoLA, AddSent "
    "and the like name which of the papers' data it stands in for, BERT and the like which of their encoders a small "
    "one stands in for."
)
MARK = {outcome: mark for outcome, (_, mark) in html.MARKS.items()}
KEY = (
    f"{MARK[HOLDS]}: the test supports the claim, {MARK[FAILS]}: it refutes it, {MARK[OPEN]}: neither. In brackets "
    "stand 95 % intervals, and for an open headline the smallest true difference that as many seeds decide in four of "
    "five cases (detectable). P(> 0) is one minus the p value of a one-sided t test. A table's headline is tested by "
    "itself; p values of its other claims, and of controls, which are claims of ours, are corrected for their number "
    "(Holm)."
)
CLAIM = 56  # letters of a claim in a line of a picture
WORDS = {HOLDS: "hold", FAILS: "fail", OPEN: "open"}


class Judged(NamedTuple):
    """A claim of a record, and what came of it."""

    record: Record
    claim: Claim
    judgement: Judgement


def findings(name: str, own: Sequence[Record], papers: Sequence[Any]) -> str:
    """A paper a line: how many of its claims hold, fail, or are open, by preset, and what its primary ones come to in
    the preset ``name``, whose records are there already, or in one of the same world that decides more."""
    known = {name: own} | {other: records.read_all(other, papers) for other in PRESETS if other != name}
    shown = deciding(name, known)
    said_of = judged(shown)
    if not (headlines := primary(said_of)):
        return ""
    found = {preset: judged(of_preset) for preset, of_preset in known.items()}
    lines = []
    for paper in (paper for paper in papers if any(paper.key in of_papers for of_papers in found.values())):
        counts = [f"{preset}: {count(said[paper.key])}" for preset, said in found.items() if said.get(paper.key)]
        link = f'<a href="#{paper.key}">{escape(paper.title)}</a>'
        chief = html.listed([headline(each, name) for each in said_of.get(paper.key, []) if each.claim.primary])
        lines.append(f"<li>{link}<br><small>claims, {escape('; '.join(counts))}</small>{chief}</li>")
    told = GENERATED if re.split("[-+]", name)[0] in MINIATURE else "", fewest(shown), KEY  # study-small too
    why = "".join(f"<p>{escape(said)}</p>" for said in told if said)
    text = " ".join(each.judgement.short for each in headlines)
    return f"{why}{html.listed(lines)}{html.image(forest(headlines), f'Primary claims. {text}')}"


def deciding(name: str, known: Mapping[str, Sequence[Record]]) -> list[Record]:
    """The records of the preset ``name``, each as the preset of the same world has it that decides most."""
    decisive = by_artefact(known[other] for other in reversed(above(name)))
    return [decisive.get(record.artefact, record) for record in known[name]]


def above(name: str) -> tuple[str, ...]:
    """The presets of the same world that decide more, the first one most."""
    return MINIATURE[: MINIATURE.index(name)] if name in MINIATURE else ()


def by_artefact(of_presets: Iterable[Sequence[Record]]) -> dict[str, Record]:
    """The records of several presets; of a table or figure that of the last that has it."""
    return {record.artefact: record for of_preset in of_presets for record in of_preset}


def forest(said: Sequence[Judged]) -> Figure:
    """Claims of all papers: what we find and what the paper prints."""
    shown = [_dot(*each) for each in said]
    with canvas.plain_style():
        figure = canvas.Drawing(canvas.WIDTH, 1.4 * dots.LINE * len(shown) + 1.0)
        ax = dots.forest(figure.subplots(), shown, most := dots.reach(shown))
        ax.tick_params(axis="y", labelsize=8)
        presets = " and ".join(dict.fromkeys(each.record.preset for each in said))
        title = f"Preset {presets}: {', '.join(f'{mark} {outcome}' for outcome, mark in MARK.items())}"
        unit = "points above zero (95 % interval)"
        canvas.finish(ax, unit, "", title).grid(axis="x", color="0.9")
        ax.grid(visible=False, axis="y")
        dots.legend(ax, shown, most)
    return figure


def _dot(record: Record, claim: Claim, judgement: Judgement) -> dots.Dot:
    """A claim in the words of its paper; it is decided by its verdict, which wants seeds enough."""
    printed_for = f" (the paper {claim.printed_for})" if claim.printed_for else ""
    label = textwrap.fill(f"{MARK[judgement.outcome]} {record.label}: {claim.text}{printed_for}", CLAIM)
    decided = judgement.outcome != OPEN
    return dots.Dot(label, judgement.estimate, judgement.printed, decided=decided)


def primary(of_papers: dict[str, list[Judged]]) -> list[Judged]:
    """The headlines of all papers."""
    return [each for of_paper in of_papers.values() for each in of_paper if each.claim.primary]


def judged(known: Sequence[Record]) -> dict[str, list[Judged]]:
    """All claims of some records, by the key of their paper."""
    of_papers: dict[str, list[Judged]] = {}
    for record in known:
        for claim, judgement in zip(record.claims, claims.judge(record), strict=True):
            of_papers.setdefault(record.artefact.partition("/")[0], []).append(Judged(record, claim, judgement))
    return of_papers


def count(said: Sequence[Judged]) -> str:
    """Such as "3 hold, 1 fails, 5 open", of a paper's own claims."""
    outcomes = Counter(each.judgement.outcome for each in said if not each.claim.control)
    words = [f"{outcomes[outcome]} {word}" for outcome, word in WORDS.items() if outcomes[outcome]]
    return ", ".join(words) or tables.NONE


def fewest(own: Sequence[Record]) -> str:
    """How many results have too few seeds for a verdict, in a sentence; empty where none has."""
    claimed = [record for record in own if record.claims]
    few = [record for record in claimed if len(comparisons.seeds(record)) < claims.SEEDS]
    if not few:
        return ""
    share = "all" if len(few) == len(claimed) else f"{len(few)} of {len(claimed)}"
    return f"A verdict needs {claims.SEEDS} seeds; {share} results with claims have fewer, so their claims are open."


def seeds(own: Sequence[Record]) -> str:
    """How many seeds some results have, such as "3 to 5 seeds"."""
    numbers = sorted({len(comparisons.seeds(record)) for record in own})
    return " to ".join(map(str, dict.fromkeys([numbers[0], numbers[-1]]))) + " seed" + "s" * (numbers[-1] > 1)


def headline(said: Judged, name: str) -> str:
    """A primary claim as an item of a list, with a link to the table or figure that it is of on the page of the preset
    ``name``."""
    record = said.record
    link = f'<a href="#{html.anchor(record.artefact)}">{escape(record.label.rpartition(", ")[2])}</a>'
    of = f" ({escape(record.preset)}, {seeds([record])})" if record.preset != name else ""
    return html.claim_item(said.judgement, f"{link}{of}: {escape(said.judgement.short)}")


def limits(own: Sequence[Record]) -> str:
    """What was less because there was no GPU, by setting, as one table; empty where nothing was."""
    shown = [
        {**limit.in_words(), "papers": record.artefact.partition("/")[0]} for record in own for limit in record.limits
    ]
    if not shown:
        return ""
    frame = pd.DataFrame(shown).astype(str).drop_duplicates()
    own = frame.groupby(["setting", "papers"], as_index=False, sort=False)
    frame = own.agg(lambda column: "; ".join(dict.fromkeys(column)))  # of two notebooks, say
    frame = frame.groupby([column for column in frame if column != "papers"], as_index=False).agg(", ".join)
    several = frame["setting"].duplicated(keep=False)  # papers differ in it
    frame["setting"] = frame["setting"].where(~several, frame["setting"] + " (" + frame["papers"] + ")")
    return html.table(("Numbers of this preset that are others without a GPU", frame.set_index("setting")))
