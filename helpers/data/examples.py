"""What every loader returns: questions about passages with their answers, texts with a label, and choices."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from helpers.errors import UserError


class DataError(UserError):
    """Data that cannot be used as it is; the message names file and record and says what to do."""

    records = 0  # that a file has, where some of them are refused


@dataclass(frozen=True, slots=True)
class Example:
    """One question about one passage.

    ``answers`` are the texts that count as right when scoring; empty means unanswerable. ``span`` is the
    half-open character range of ``context`` to train on, None when there is none (unanswerable, or a free
    answer that shares no word with its passage). ``group`` is the id of the original question for
    adversarial variants (scored by their minimum) and equals ``id`` otherwise.
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


def fingerprint_of(parts: Iterable[Iterable[tuple]]) -> str:
    """Sixteen hex digits that stand for what several parts hold, in their order."""
    content = hashlib.sha256()
    for part in parts:
        for facts in part:
            content.update(repr(facts).encode())
        content.update(b"|")
    return content.hexdigest()[:16]


@dataclass(frozen=True)
class Corpus:
    """Examples of one source, and ``notes``: what was repaired or cannot be trained on, counted.

    ``left_out`` has a line for each record that was refused and left out; ``documents`` names the document of each
    example, where it is known.
    """

    examples: list[Example]
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Domain:
    """One domain's three parts; no context, or text, stands in two of them unless the files or a paper's own split say
    so."""

    name: str
    train: list[Example] | list[Pair] | list[Choice]
    valid: list[Example] | list[Pair] | list[Choice]
    test: list[Example] | list[Pair] | list[Choice]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Task(Domain):
    """One task of a multi-task model; ``unlabelled`` are texts whose label nobody has.

    ``kind`` says what is asked for: one of the ``labels`` (their names by number) of a text or pair, a "score" of it,
    or one of several endings ("choices"). ``metrics`` are those of `helpers.tasks.labels.score` that it counts by.
    """

    kind: Literal["labels", "score", "choices"]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    unlabelled: list[Pair] | list[Choice] = field(default_factory=list)
