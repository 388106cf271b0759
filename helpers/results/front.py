"""The findings on README.md's first screen: a picture and a line a paper, every table of the preset that decides
most."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers import paths
from helpers.files import write_whole
from helpers.results import canvas, records, summary
from helpers.results.claims import OPEN
from helpers.results.records import Record
from helpers.results.summary import Judged

README = paths.ROOT / "README.md"
BEGIN, END = "<!-- findings, written by `python -m helpers figures` -->", "<!-- end of findings -->"
SHOWN = (
    "Of each paper its first headline is shown, and where that is open also the first decided one, of those with a "
    "number in the paper if there are any; the picture has all."
)
FINDINGS = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)


def update(papers: Sequence[Any]) -> list[Path]:
    """Draw the picture, and put it and the findings into README.md; returns what was written: nothing where there are
    no records."""
    if not (found := decisive(papers)):
        return []
    said = summary.judged(found)
    write_whole(path := picture(), canvas.content(summary.forest(summary.primary(said)), "png"))
    text = README.read_text(encoding="utf-8")
    write_whole(README, FINDINGS.sub(lambda _: block(found, said, of_sizes(papers)), text))
    return [path, README]


def decisive(papers: Sequence[Any]) -> list[Record]:
    """Of every table and figure the record that decides most."""
    known = (records.read_all(name, papers) for name in reversed(summary.MINIATURE))
    return list(summary.by_artefact(known).values())  # in the order of the last preset


def of_sizes(papers: Sequence[Any]) -> list[Judged]:
    """The headlines with other numbers of training examples."""
    known = [record for name in summary.SIZES for record in records.read_all(name, papers)]
    return summary.primary(summary.judged(known))


def picture() -> Path:
    """Where the picture lies."""
    return paths.results(summary.MINIATURE[0]).parent / "findings.png"


def block(found: Sequence[Record], claimed: dict[str, list[Judged]], sizes: Sequence[Judged]) -> str:
    """README's findings: of every paper the `headlines`, and how many of its claims hold, fail, or are open; and those
    of other ``sizes`` that decide what is open."""
    place = picture().relative_to(picture().parents[1]).as_posix()
    lines = [BEGIN, f"![Headline claims of the five papers, ours and as printed]({place})", ""]
    for said in claimed.values():
        shown = headlines(said)
        method = shown[0].record.label.partition(", ")[0]
        sentences = (f"{each.record.label.partition(', ')[2]}: {each.judgement.short}" for each in shown)
        lines.append(f"- **{method}**, {' '.join(sentences)} Claims: {summary.count(said)}.")
    claims = [record for record in found if record.claims]
    of_preset = {name: [record for record in claims if record.preset == name] for name in summary.MINIATURE}
    seeds = [f"{link(name)} ({summary.seeds(own)})" for name, own in of_preset.items() if own]
    few = summary.fewest(found)
    if others := decided_by(sizes, summary.primary(claimed)):
        lines += [
            "",
            f"Other numbers of training examples, each tested by itself, decide headlines that are open: {others}",
        ]
    lines += ["", f"From {' and '.join(seeds)}." + f" {few}" * bool(few) + f" {SHOWN}", END]
    return "\n".join(lines)


def decided_by(sizes: Sequence[Judged], said: Sequence[Judged]) -> str:
    """Headlines of other sizes that are decided, where ours are open; empty without any."""
    are_open = {(each.record.artefact, each.claim.text) for each in said if each.judgement.outcome == OPEN}
    return " ".join(
        f"{each.record.label} ({link(each.record.preset)}): {each.judgement.short}"
        for each in sizes
        if each.judgement.outcome != OPEN and (each.record.artefact, each.claim.text) in are_open
    )


def link(name: str) -> str:
    """A preset's name, with a link to its report."""
    return f"preset [`{name}`]({paths.report(name).relative_to(picture().parents[1]).as_posix()})"


def headlines(said: Sequence[Judged]) -> list[Judged]:
    """The first of a paper's primary claims, and, where that is open, the first that is decided: of those for which the
    paper prints a number, if there are any."""
    first, *others = [each for each in said if each.claim.primary] or said
    decided = [each for each in others if each.judgement.outcome != OPEN]
    decided.sort(key=lambda each: each.judgement.printed is None)  # keeps their order otherwise
    return [first, *decided[:1]] if first.judgement.outcome == OPEN else [first]
