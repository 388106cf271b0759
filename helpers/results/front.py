"""The findings on README.md's first screen: a picture and a line a paper, from the records of the preset that decides
most."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers import paths
from helpers.files import write_whole
from helpers.results import canvas, records, summary
from helpers.results.records import Record
from helpers.results.summary import Judged

PRESETS = ("study", "mini")  # the first that has records
README = paths.ROOT / "README.md"
BEGIN, END = "<!-- findings, written by `python -m helpers figures` -->", "<!-- end of findings -->"
FINDINGS = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)


def update(papers: Sequence[Any]) -> list[Path]:
    """Draw the picture, and put it and the findings into README.md; returns what was written: nothing where there are
    no records."""
    preset, found = newest(papers)
    if not found:
        return []
    said = summary.judged(found)
    write_whole(path := picture(preset), canvas.content(summary.forest(summary.primary(said)), "png"))
    text = README.read_text(encoding="utf-8")
    write_whole(README, FINDINGS.sub(lambda _: block(preset, found, said), text))
    return [path, README]


def newest(papers: Sequence[Any]) -> tuple[str, list[Record]]:
    """The preset that README is about, and its records."""
    return next(((name, found) for name in PRESETS if (found := records.read_all(name, papers))), ("", []))


def picture(preset: str) -> Path:
    """Where the picture lies."""
    return paths.results(preset) / "findings.png"


def block(preset: str, found: Sequence[Record], claimed: dict[str, list[Judged]]) -> str:
    """README's findings: of every paper the first headline, and how many of its claims hold, fail, or are open."""
    place = picture(preset).relative_to(paths.results(preset).parent.parent).as_posix()
    lines = [BEGIN, f"![Every headline claim of the five papers, ours and as printed]({place})", ""]
    for said in claimed.values():
        first = next((each for each in said if each.claim.primary), said[0])
        method, _, number = first.record.label.partition(", ")
        lines.append(f"- **{method}**, {number}: {first.judgement.short} Claims: {summary.count(said)}.")
    few = summary.fewest(found)
    lines += ["", f"Preset `{preset}`, {summary.seeds(found)}." + f" {few}" * bool(few), END]
    return "\n".join(lines)
