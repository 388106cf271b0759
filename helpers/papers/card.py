"""What a paper declares of itself. Runner, session and report know papers by their cards alone."""

import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name

from helpers import paths
from helpers.presets.schema import Preset


@dataclass(frozen=True)
class Artefact:
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
    the preset, and those of the notebook's parameters that ``takes`` names. ``left_out`` says why a
    preset has nothing for it ("" where it has). One that ``shows_models`` depends on what others have trained. Where
    its parameter ``keep`` is a folder, models go into its subfolders ``keeps``.
    """

    name: str
    plans: tuple[str, ...] = ()
    left_out: Callable[[Preset], str] = lambda preset: ""
    shows_models: bool = False
    takes: tuple[str, ...] = ()
    keeps: Callable[[Preset], Iterable[str]] = lambda preset: ()

    def make_plans(self, preset: Preset, parameters: Mapping[str, object]) -> dict[str, Generator]:
        """Make the plans (`helpers.engine.Plan`) of all tasks that the notebook needs, by name."""
        arguments = {name: parameters[name] for name in self.takes if name in parameters}
        return {plan: resolve_name(f"helpers.papers.{plan}")(preset, **arguments) for plan in self.plans}


@dataclass(frozen=True)
class Paper:
    """A paper. ``key`` names the folder of its records, ``artefacts`` are these in reading order.

    ``claim`` is the paper's main claim in plain words, ``headlines`` are the artefacts that test it. README ranks
    methods by the first of ``rankings`` that has a record. ``settings`` are the preset's sections for the paper's
    methods (papers may share one), ``examples`` those with its examples.
    """

    key: str
    title: str
    reference: str = ""
    claim: str = ""
    headlines: tuple[str, ...] = ("table1",)
    rankings: tuple[str, ...] = ()
    artefacts: tuple[Artefact, ...] = ()
    notebooks: tuple[Notebook, ...] = ()
    settings: tuple[str, ...] = ()
    examples: tuple[str, ...] = ("data",)

    @property
    def name(self) -> str:
        """The authors and the year."""
        return self.title.partition(":")[0]

    @property
    def methods(self) -> dict[str, str]:
        """What the rows of its tables are, by name."""
        return tomllib.loads((paths.PRESETS / "methods.toml").read_text(encoding="utf-8")).get(self.key, {})
