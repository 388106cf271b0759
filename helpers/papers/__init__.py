"""The papers, and the corpora beside them: each module declares a `Paper`, all that session and report know of it."""

import tomllib
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import resolve_name

from helpers import paths
from helpers.presets.schema import Preset
from helpers.records import Printed

PAPER_MODULES = ("corpora", "imm", "a2d", "hrkd", "mtdnn_kd", "mtdnn")


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: the name of its record, and what the record says of itself."""

    name: str
    title: str
    kind: str = "table"
    unit: str = "F1"
    average: bool = True  # whether a mean over its columns means anything


@dataclass(frozen=True)
class Notebook:
    """One of a paper's notebooks, with the plans whose tasks it needs done.

    A plan is named by its place below `helpers.papers`, such as "imm.tables:table1": a card imports no torch. It takes
    the preset. ``left_out`` says why a preset has nothing for it ("" where it has). One that ``shows_models`` depends
    on what others have trained. Where its parameter ``keep`` is a folder, models go into its subfolders ``keeps``.
    """

    name: str
    plans: tuple[str, ...] = ()
    left_out: Callable[[Preset], str] = lambda preset: ""
    shows_models: bool = False
    keeps: Callable[[Preset], Iterable[str]] = lambda preset: ()

    def make_plans(self, preset: Preset) -> dict[str, Generator]:
        """Make the plans (`helpers.engine.Plan`) of all tasks that the notebook needs, by name."""
        return {plan: resolve_name(f"helpers.papers.{plan}")(preset) for plan in self.plans}


@dataclass(frozen=True)
class Paper:
    """A paper. ``key`` names the folder of its records, ``exhibits`` are its tables and figures in reading order.

    ``method`` is the method's short name, ``claim`` the main claim in plain words, ``headlines`` are the exhibits that
    test it, ``limits`` controls of it (exhibit, row above, row below), ``caveat`` (in README) and ``remark`` what else.
    ``settings`` are the preset's sections of its methods (papers may share one), ``examples`` those of its texts.
    """

    key: str
    title: str
    method: str
    reference: str = ""
    claim: str = ""
    caveat: str = ""
    remark: str = ""
    headlines: tuple[str, ...] = ("table1",)
    limits: tuple[tuple[str, str, str], ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    notebooks: tuple[Notebook, ...] = ()
    settings: tuple[str, ...] = ()
    examples: tuple[str, ...] = ("data",)

    @property
    def name(self) -> str:
        """The authors and the year."""
        return self.title.partition(":")[0]


@cache
def list_papers() -> list[Paper]:
    """Import all papers."""
    return [import_module(f"{__name__}.{name}").PAPER for name in PAPER_MODULES]


def find_paper(notebook: str) -> tuple[Paper | None, Notebook]:
    """Return the paper and the card of a notebook; no paper where none declares it, as for the report."""
    declared = {card.name: (paper, card) for paper in list_papers() for card in paper.notebooks}
    return declared.get(notebook, (None, Notebook(notebook)))


def read_printed(artefact: str) -> list[Printed]:
    """Return the paper's own numbers for an exhibit such as ``imm/table1``; empty where it prints none."""
    parts = tomllib.loads((paths.PRESETS / "paper_results.toml").read_text(encoding="utf-8")).get(artefact, [])
    numbers = []
    for part in parts if isinstance(parts, list) else [parts]:
        for method, values in part["rows"].items():
            texts = part.get("texts", {}).get(method, [None] * len(values))
            for column, value, text in zip(part["columns"], values, texts, strict=True):
                numbers.append(Printed(method=method, column=column, value=value, metric=part["metric"], text=text))
    return numbers


def printed_gap(artefact: str, above: str, below: str, column: str) -> float:
    """Return by how much one row is above another in a column of the paper's table, in its first metric."""
    values = {(number.method, number.column): number.value for number in reversed(read_printed(artefact))}
    return round(values[above, column] - values[below, column], 3)
