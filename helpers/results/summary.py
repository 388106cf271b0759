"""What the records of all presets say of the papers' claims, at a glance."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import pandas as pd

from helpers.results import claims, records, tables
from helpers.results.claims import FAILS, HOLDS, OPEN, Judgement
from helpers.results.records import Claim, Record

PRESETS = ("study", "mini", "lab", "paper")
WORDS = {HOLDS: "hold", FAILS: "do not", OPEN: "are open"}


class Judged(NamedTuple):
    """A claim of a record, and what came of it."""

    record: Record
    claim: Claim
    judgement: Judgement


def html(name: str, own: Sequence[Record], papers: Sequence[Any]) -> str:
    """How many claims of each paper hold, do not, or are open, by preset, and by name the primary ones of the preset
    ``name``, whose records are there already."""
    found = {name: judged(own)}
    found |= {other: judged(records.read_all(other, papers)) for other in PRESETS if other != name}
    found = {preset: of_papers for preset, of_papers in found.items() if of_papers}
    if name not in found:
        return ""
    titles = {paper.key: paper.title for paper in papers}
    counts = {
        titles.get(key, key): {preset: count(of_papers.get(key, [])) for preset, of_papers in found.items()}
        for key in dict.fromkeys(key for of_papers in found.values() for key in of_papers)
    }
    table = tables.html_table("Claims of each paper, by preset", pd.DataFrame.from_dict(counts, orient="index"))
    said = (each for of_paper in found[name].values() for each in of_paper if each.claim.primary)
    lines = "".join(f"<li>{escape(headline(each))}</li>" for each in said)
    listed = f"<p>The papers' own headlines, preset {name}:</p>\n<ul>{lines}</ul>" if lines else ""
    return f'<h2>What was found</h2>\n<div class="tables">{table}</div>\n{listed}'


def judged(known: Sequence[Record]) -> dict[str, list[Judged]]:
    """All claims of some records, by the key of their paper."""
    of_papers: dict[str, list[Judged]] = {}
    for record in known:
        for claim, judgement in zip(record.claims, claims.judge(record), strict=True):
            of_papers.setdefault(record.artefact.partition("/")[0], []).append(Judged(record, claim, judgement))
    return of_papers


def count(said: Sequence[Judged]) -> str:
    """Such as "3 hold, 1 do not, 5 are open"."""
    outcomes = Counter(each.judgement.outcome for each in said)
    words = [f"{outcomes[outcome]} {word}" for outcome, word in WORDS.items() if outcomes[outcome]]
    return ", ".join(words) or tables.NONE


def headline(said: Judged) -> str:
    """A claim in a line, with the table or figure that it is of."""
    (record, claim, judgement), digits = said, tables.decimals(said.record)
    found = f"{tables.difference(judgement.estimate, digits)} {record.unit}"
    printed = "" if judgement.printed is None else f", in the paper {tables.signed(judgement.printed, 2)}"
    return f"{record.label}: {claim.text}: {judgement.outcome} ({found}{printed})"
