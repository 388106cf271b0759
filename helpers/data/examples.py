"""Examples and the records of files: questions about passages with their answers, texts with a label, and choices."""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

from helpers.errors import UserError

PARTS = ("train", "valid", "test")
ALL_PARTS = (*PARTS, "unlabelled")


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
    endings is right ("choices"). ``metrics`` are among those of `helpers.classification.label_scores`.
    """

    kind: Literal["labels", "score", "choices"]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    unlabelled: list[Pair] | list[Choice] = field(default_factory=list)


class QuestionRecord(NamedTuple):
    """An example, the document that its passage belongs to, and its part where the file names one."""

    example: Example
    document: str
    part: str = ""


class TextRecord(NamedTuple):
    """A text, a pair, or a context with its endings; ``label`` is a name, a score, the right ending's number, or ""."""

    id: str
    first: str
    second: str | tuple[str, ...] | None
    label: str


TextParts = dict[str, list[TextRecord]]  # train, valid, test and unlabelled; "all" where nothing names a part


class Records(NamedTuple):
    """What a source has of a domain or task.

    ``parts`` are records by part, "all" where nothing names a part; of a source that generates, they are examples.
    ``notes`` are on repairs. ``facts`` are the other fields of a `TaskData`.
    """

    parts: dict[str, list]
    notes: list[str]
    facts: dict[str, object]


@cache  # as texts have millions of characters, and few different ones
def is_blank(character: str) -> bool:
    """Return whether a character is white space, or a format or control character (Unicode's Cf and Cc)."""
    return character.isspace() or unicodedata.category(character) in ("Cf", "Cc")


def check_text(text: str) -> str:
    """Return ``text``. Raises ValueError if it is empty, or holds a lone surrogate, which no tokenizer reads."""
    if all(map(is_blank, text)):
        raise ValueError("is empty; fill it in, or remove the record")
    text.encode()
    return text


def digest(*texts: object) -> str:
    """Return 32 hexadecimal digits that identify ``texts``, the same on every machine."""
    joined = "\x00".join(map(str, texts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=16).hexdigest()


def make_unique(identifier: str, taken: set[str]) -> str:
    """Return ``identifier``, with a number appended if it is among ``taken``; add the result to these."""
    name, number = identifier, 1
    while name in taken:
        number += 1
        name = f"{identifier}.{number}"
    taken.add(name)
    return name


def check_labels(labels: Iterable[str], place: object) -> None:
    """Raise DataError where labels look alike: where they differ by case or by white space or invisible characters."""
    alike = defaultdict(list)
    for label in sorted(labels):
        text = unicodedata.normalize("NFC", label).casefold()
        visible = "".join(character for character in text if character.isspace() or not is_blank(character))
        alike[" ".join(visible.split())].append(label)
    groups = [", ".join(map(repr, group)) for group in alike.values() if len(group) > 1]
    if groups:
        problem = f"labels differ only by case or characters that do not show: {' and '.join(groups)}"
        raise DataError(f"{place}: {problem}; write them alike, or rename those that mean something else")


def list_trained_labels(domains: Iterable[dict[str, list[TextRecord]]]) -> tuple[str, ...]:
    """Return all labels that are trained on, sorted. Raises DataError."""
    labels = set()
    for parts in domains:
        for part in ("all", "train"):
            labels.update(record.label for record in parts.get(part, ()))
    check_labels(labels, "all domains")
    return tuple(sorted(labels))
