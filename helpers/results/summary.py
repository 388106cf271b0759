"""What the records of all presets say of the papers' claims, at a glance."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from helpers import paths
from helpers.results import claims, records, tables
from helpers.results.claims import FAILS, HOLDS, OPEN
from helpers.results.records import Record

PRESETS = ("mini", "lab", "paper")
WORDS = {HOLDS: "hold", FAILS: "do not", OPEN: "are open"}


def html(preset: str | Path, papers: Sequence[Any]) -> str:
    """How many claims of each paper hold, do not, or are open, by preset, and this preset's primary ones by name."""
    name, titles = paths.preset_name(preset), {paper.key: paper.title for paper in papers}
    found = {other: by_paper(records.read_all(other, papers)) for other in dict.fromkeys((name, *PRESETS))}
    found = {other: of_papers for other, of_papers in found.items() if of_papers}
    if name not in found:
        return ""
    counts = {
        titles.get(key, key): {other: count(of_papers.get(key, [])) for other, of_papers in found.items()}
        for key in dict.fromkeys(key for of_papers in found.values() for key in of_papers)
    }
    table = tables.html_table("Claims of each paper, by preset", pd.DataFrame.from_dict(counts, orient="index"))
    lines = [
        f"<li>{escape(line)}</li>" for known in found[name].values() for record in known for line in primary(record)
    ]
    listed = f"<p>The papers' own headlines, preset {name}:</p>\n<ul>{''.join(lines)}</ul>" if lines else ""
    return f'<h2>What was found</h2>\n<div class="tables">{table}</div>\n{listed}'


def by_paper(known: Sequence[Record]) -> dict[str, list[Record]]:
    """The records that have claims, by the key of their paper."""
    claimed = [record for record in known if record.claims]
    return {key: list(group) for key, group in groupby(claimed, lambda record: record.artefact.partition("/")[0])}


def count(known: Sequence[Record]) -> str:
    """Such as "3 hold, 1 do not, 5 are open"."""
    outcomes = Counter(judgement.outcome for record in known for judgement in claims.judge(record))
    return (
        ", ".join(f"{outcomes[outcome]} {word}" for outcome, word in WORDS.items() if outcomes[outcome]) or tables.NONE
    )


def primary(record: Record) -> list[str]:
    """A record's primary claim in a line, if it has one."""
    return [
        f"{record.title.partition(':')[0]}: {claim.text}: {judgement.outcome}"
        f" ({tables.difference(judgement.estimate, tables.decimals(record))} {record.unit}"
        + ("" if judgement.printed is None else f", in the paper {tables.signed(judgement.printed, 2)}")
        + ")"
        for claim, judgement in zip(record.claims, claims.judge(record), strict=True)
        if claim.primary
    ]
