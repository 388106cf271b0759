"""What every loader returns: questions about passages with their answers, texts with a label, and choices."""

from dataclasses import dataclass, field
from typing import Literal

from helpers.errors import UserError


class DataError(UserError):
    """Data that cannot be used as it is; the message names file and record and says what to do."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question about one passage.

    ``answers`` are the texts that count as right when scoring; empty means unanswerable. ``span`` is the half-open
    character range of ``context`` to train on, None where there is none. ``group`` is the id of the original question
    for adversarial variants (scored by their minimum) and equals ``id`` otherwise.
    """

    id: str
    question: str
    context: str
    answers: tuple[str, ...]
    span: tuple[int, int] | None
    group: str


@dataclass(frozen=True, slots=True)
class Pair:
    """One text, or two, with a label: a class (from 0) or a score; None where it is not known."""

    id: str
    first: str
    second: str | None
    label: int | float | None


@dataclass(frozen=True, slots=True)
class Choice:
    """A context and its possible endings; ``label`` is the right one's number (from 0), None where it is not known."""

    id: str
    context: str
    endings: tuple[str, ...]
    label: int | None


@dataclass(frozen=True)
class Domain:
    """One domain's three parts. No example to train or validate on is a test example of its section."""

    name: str
    train: list[Example] | list[Pair] | list[Choice]
    valid: list[Example] | list[Pair] | list[Choice]
    test: list[Example] | list[Pair] | list[Choice]
    notes: list[str] = field(default_factory=list)  # on repairs and splits
    overlaps: list[str] = field(default_factory=list)  # notes on what was left out as it is tested on


@dataclass(frozen=True, kw_only=True)
class TaskData(Domain):
    """One task of a multi-task model.

    A model predicts one of the ``labels`` (their names by number) of a text or pair, its "score", or which of several
    endings is right ("choices"). ``metrics`` are among those of `helpers.metrics.label_scores`.
    """

    kind: Literal["labels", "score", "choices"]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    unlabelled: list[Pair] | list[Choice] = field(default_factory=list)
