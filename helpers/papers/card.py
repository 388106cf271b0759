"""What a paper declares of itself; runner, commands and report know papers by their cards alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
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
    """One of a paper's notebooks. ``parameters`` are the keys of the preset that it takes as parameters, ``plans`` its
    trainings by a name (None: it has none), and ``left_out`` says why a preset has nothing for it ("" where it has)."""

    name: str
    parameters: tuple[str, ...] = ()
    plans: Callable[[Preset], dict[Hashable, Any]] | None = None
    left_out: Callable[[Preset], str] = lambda preset: ""


class OwnModel(NamedTuple):
    """A model trained on somebody's own domains: where it lies, its seed, and how it came about, in words."""

    folder: Path
    seed: int
    history: str


@dataclass(frozen=True)
class OwnDomains:
    """A command that makes better models of somebody's own domains by ``name``, the method, with the settings of one
    ``notebook``. ``train`` tells the function that it is given of every task that is done, and returns the parts of a
    record that compares the method with Single, and the best model of each domain; ``tasks`` are all that it can come
    to do. ``options`` are parameters that get a flag of their own."""

    name: str
    help: str
    notebook: str
    train: Callable[[Preset, Callable[[Any], None]], tuple[dict, dict[str, OwnModel]]]
    tasks: Callable[[Preset], list[Any]]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paper:
    """``key`` names the folder of the paper's records, ``artefacts`` are these in reading order, ``settings`` the
    sections of a preset that it alone reads, ``unread`` those that it does not although others do."""

    key: str
    title: str
    reference: str = ""
    artefacts: tuple[Artefact, ...] = ()
    notebooks: tuple[Notebook, ...] = ()
    settings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    own_domains: OwnDomains | None = None
