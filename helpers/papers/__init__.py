"""The papers, and the corpora beside them: each is declared by the card of a module. Another paper is one more name.

The card of IMM stands in `your_domains`, which adds the notebook of somebody's own domains to it.
"""

import tomllib
from importlib import import_module

from helpers import paths
from helpers.papers.card import Artefact, Notebook, Paper
from helpers.results.records import Printed

ALL: list[Paper] = [
    import_module(f"{__name__}.{name}").CARD for name in ("corpora", "your_domains", "a2d", "hrkd", "mtdnn_kd", "mtdnn")
]


def card_of(notebook: str) -> tuple[Paper | None, Notebook]:
    """Return the paper and the card of a notebook; no paper where none declares it, as for the report."""
    declared = {card.name: (paper, card) for paper in ALL for card in paper.notebooks}
    return declared.get(notebook, (None, Notebook(notebook)))


def artefact(name: str) -> Artefact:
    """Return the card of an artefact such as ``imm/table1``. Raises KeyError for one that no paper declares."""
    return {f"{paper.key}/{card.name}": card for paper in ALL for card in paper.artefacts}[name]


def printed(artefact: str) -> list[Printed]:
    """Return the paper's own numbers for an artefact such as ``imm/table1``; empty where it prints none."""
    parts = tomllib.loads((paths.PRESETS / "paper_results.toml").read_text(encoding="utf-8")).get(artefact, [])
    numbers = []
    for part in parts if isinstance(parts, list) else [parts]:
        for method, values in part["rows"].items():
            texts = part.get("texts", {}).get(method, [None] * len(values))
            for column, value, text in zip(part["columns"], values, texts, strict=True):
                numbers.append(Printed(method=method, column=column, value=value, metric=part["metric"], text=text))
    return numbers
