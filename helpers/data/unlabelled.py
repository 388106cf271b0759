"""Questions without answers, for teachers to answer: from a file that holds them with their passages."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from helpers.data.domains import load_one
from helpers.data.examples import Corpus, DataError, Example, fingerprint_of
from helpers.data.formats.files import head_of
from helpers.data.formats.refusals import clipped, refusal
from helpers.data.formats.rows import digest, found
from helpers.data.formats.stored import stored_rows
from helpers.data.formats.text import parse_json, text_of
from helpers.data.questions import PARTS
from helpers.presets.schema import DataSettings

COLUMNS = ("context", "question")
EXPECTED = (
    "expected questions with their passages: SQuAD's JSON, MRQA's lines of JSON, or rows with the columns context and "
    "question (JSON, CSV, TSV or Parquet)"
)


@cache
def load_unlabelled(data: DataSettings, place: str) -> Corpus:
    """The questions of a file, but for those that a domain of ``data`` has; ``notes`` count these. Raises DataError."""
    domains = (load_one(data, name) for name in data.domains)
    known = {(e.question, e.context) for domain in domains for part in PARTS for e in getattr(domain, part)}
    every = read(Path(place).expanduser())
    new = [example for example in every.examples if (example.question, example.context) not in known]
    if not new:
        raise DataError(f"{place}: the domains have all {len(every.examples):,} questions of it; give other ones")
    left = f", {len(every.examples) - len(new):,} more are left out, as the domains have them"
    return Corpus(new, [f"{len(new):,} questions without an answer{left * (len(new) < len(every.examples))}"])


def unlabelled_notes(data: DataSettings, place: str) -> list[str]:
    """What one has to know of such a file; nothing where there is none."""
    return list(load_unlabelled(data, place).notes) if place else []


def unlabelled_fingerprint(data: DataSettings, place: str) -> str:
    """Names the exact questions and passages of `load_unlabelled`."""
    return fingerprint_of([[(e.question, e.context) for e in load_unlabelled(data, place).examples]])


def read(path: Path) -> Corpus:
    """The distinct questions of a file with their passages; answers, where it has them, are left away. The forms are
    those of `helpers.data.questions.read`, with answers or without.

    Raises DataError for a file of another form, for questions without a passage, and for passages without questions.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; {EXPECTED}")
    distinct: dict[tuple[str, str], Example] = {}
    refused, number = [], 0
    for where, value in _values(path):
        if isinstance(value, DataError):
            refused.append(str(value))
        for context, question in _asked(value, None):
            number += 1
            if not all(isinstance(text, str) and text.strip() for text in (context, question)):
                lacks = f"expected a question and its passage ('context'), found {found(question)} and {found(context)}"
                refused.append(clipped(f"{where or f'question {number}'}: {lacks}"))
                continue
            identifier = f"{digest(context)[:8]}-{digest(question)[:8]}"
            distinct.setdefault((context, question), Example(identifier, question, context, (), None, identifier))
    if not number:
        raise DataError(f"{path}: there is no question in it, and a passage alone cannot be answered; {EXPECTED}")
    if refused:
        raise refusal(str(path), refused, total=len(distinct) + len(refused))
    return Corpus([*distinct.values()])


def _values(path: Path) -> Iterator[tuple[str, object]]:
    """Place and content of the rows or lines of a file, or all of it."""
    head, _ = head_of(path)
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        try:
            yield "", parse_json(text_of(path), path)
            return
        except DataError:
            pass  # lines of JSON, or the line that is wrong is named
    yield from stored_rows(path, COLUMNS)[1]


def _asked(value: object, context: object) -> Iterator[tuple[object, object]]:
    """Every question below a JSON value, with the passage that stands beside it or above it."""
    if isinstance(value, list):
        for item in value:
            yield from _asked(item, context)
    elif isinstance(value, dict):
        context = value.get("context", context)
        if "question" in value:
            yield context, value["question"]
        else:
            for item in value.values():
                yield from _asked(item, context)
