"""What a paper declares of itself; runner, commands and report know papers by their cards alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from helpers.presets.schema import DataSettings, Preset
    from helpers.tasks.pace import Speeds
    from helpers.training.cached import Cached
    from helpers.training.engine import After


@dataclass(frozen=True)
class Artefact:
    """A table or figure: the name of its record, and what the record says of itself; ``ours`` is beyond the paper."""

    name: str
    title: str
    kind: str = "table"
    unit: str = "F1"
    average: bool = True  # whether a mean over its columns means anything
    ours: bool = False


@dataclass(frozen=True)
class Notebook:
    """One of a paper's notebooks. ``parameters`` are the keys of the preset that it takes as parameters, ``plans`` its
    trainings by a name (None: it has none), and ``left_out`` says why a preset has nothing for it ("" where it has).
    ``parts`` are parameters of its own that leave some results out and change none of the others. One that
    ``shows_models`` depends on what others have trained, one that ``shows_growth`` on the records of several sizes."""

    name: str
    parameters: tuple[str, ...] = ()
    plans: Callable[[Preset], dict[Hashable, Any]] | None = None
    left_out: Callable[[Preset], str] = lambda preset: ""
    parts: tuple[str, ...] = ()
    shows_models: bool = False
    shows_growth: bool = False


class OwnModel(NamedTuple):
    """A model trained on somebody's own domains: what writes it into a folder, its seed, and how it came about, in
    words."""

    write: Callable[[Path], object]
    seed: int
    history: str


class OwnWork(Protocol):
    """What a paper does with somebody's own domains, by its preset: a module. ``ROWS`` are the rows that a record may
    have by name, with what a person calls them: the last that it has is the method's, which has to be better than the
    last of the record's baselines. Where rows are methods to choose from, the record's payload says of each domain
    which is ``chosen``, and of each method its ``seconds`` of training."""

    ROWS: dict[str, str]

    def folders(self, preset: Preset) -> dict[str, list[str]]:
        """The folders that are left, each with the domains that its model is for."""

    def tasks(self, preset: Preset) -> list[Cached]:
        """All that `train` can come to do."""

    def train(self, preset: Preset, after: After) -> tuple[dict, dict[str, OwnModel]]:
        """Do it, and tell ``after`` of every task that is done. Returns the parts of a record and each folder's model:
        the best of all seeds."""

    def speeds(self, preset: Preset) -> Speeds:
        """Measure how fast that goes. Raises EncoderError where the models cannot be trained so."""

    def facts(self, preset: Preset, domains: list[str]) -> dict[str, object]:
        """What else the paper's card.md says of a model of these domains, by the name that it has there."""


@dataclass(frozen=True)
class Flag:
    """An option of a command, and the key of the preset that it sets. A switch has no value: it sets ``value``. The
    folder of an ``encoder``, or a file, stands for what is in it."""

    name: str
    key: str
    help: str
    switch: bool = False
    encoder: bool = False
    value: object = True


@dataclass(frozen=True)
class OwnDomains:
    """A command that trains models on somebody's own domains, by ``name``: what one of them is called (``product``)
    and what its ``examples`` are. Its settings are those of one ``notebook``; the domains go into a ``section`` of the
    preset, and ``settings`` are in force unless others are asked for. ``work`` imports what does it, and ``alias`` is
    another name of the command.

    An ``option`` gives a domain. Where that may be FORMAT:FILE, questions about passages go into the section
    ``questions``, and sections that ``also`` count then are read besides those of the notebook. ``general``
    are the questions that all models learn before the domains, if there are any."""

    command: str
    help: str
    name: str
    product: str
    examples: str
    notebook: str
    section: str
    work: Callable[[], OwnWork]
    settings: dict[str, object] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    option: str = "domain"
    questions: str = ""
    also: tuple[str, ...] = ()
    alias: str = ""
    general: Callable[[Preset], DataSettings | None] = lambda preset: None


@dataclass(frozen=True)
class Paper:
    """``key`` names the folder of the paper's records, ``artefacts`` are these in reading order, ``settings`` the
    sections of a preset that it alone reads, ``unread`` those that it does not although others do. ``growth`` are the
    tables that are also shown against the number of training examples, each with the section that these are in, and
    ``regimes`` likewise the scatters of which those of all numbers are shown together."""

    key: str
    title: str
    reference: str = ""
    artefacts: tuple[Artefact, ...] = ()
    notebooks: tuple[Notebook, ...] = ()
    settings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    growth: dict[str, str] = field(default_factory=dict)
    regimes: dict[str, str] = field(default_factory=dict)
    own_domains: OwnDomains | None = None
