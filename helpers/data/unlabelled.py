"""Questions without answers, for teachers or readers to answer: from a file that holds them with their passages."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from helpers.data import questions
from helpers.data.domains import load_one
from helpers.data.examples import Corpus, DataError, Example, fingerprint_of
from helpers.data.formats.files import head_of, stored_rows
from helpers.data.formats.folders import PARTS
from helpers.data.formats.refusals import check
from helpers.data.formats.rows import Identifier, Located, Record, Row, Text, checked, made_id, said, settled
from helpers.data.formats.text import parse_json, text_of
from helpers.presets.schema import DataSettings

COLUMNS, IDS = ("context", "question"), ("id", "qid")
ANSWERS = {"answers", "answer", "answer_text", "detected_answers"}
EXPECTED = (
    "expected questions with their passages: SQuAD's JSON, MRQA's lines of JSON, or rows with the columns context and "
    "question (JSON, CSV, TSV or Parquet)"
)


class Question(Row):
    """A question with its passage, and its id where the file has one."""

    question: Text
    context: Text
    id: Identifier | None = None


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


def unlabelled_fingerprint(data: DataSettings, place: str) -> str:
    """Names the exact questions and passages of `load_unlabelled`."""
    return fingerprint_of([[(e.question, e.context) for e in load_unlabelled(data, place).examples]])


def read(path: Path) -> Corpus:
    """The distinct questions of a file with their passages; answers and ids, where it has them, are left away. The
    forms are those of `helpers.data.questions.read`, with answers or without.

    Raises DataError for a file of another form, for questions without a passage, and for passages without questions.
    """
    rows = [(where, row | {"id": None} if isinstance(row, dict) else row) for where, row in _asked(path)]
    if all(isinstance(row, DataError) for _, row in rows):
        raise DataError(f"{path}: there is no question in it, and a passage alone cannot be answered; {EXPECTED}")
    distinct: dict[tuple[str, str], Example] = {}
    for example in _examples(path, rows):
        distinct.setdefault((example.context, example.question), example)
    return Corpus([*distinct.values()])


def read_asked(path: Path) -> list[Example]:
    """All questions of a file with their ids, as `helpers.data.questions.read` has them; where that refuses answers, or
    there are none, without. Raises DataError."""
    try:
        return questions.read(path, unanswerable=True).examples
    except DataError as refused:
        try:
            rows = list(_asked(path))
        except (DataError, OSError):
            raise refused from None
        if not rows or len(rows) < refused.records:
            raise  # it holds something else, or records that ask nothing
    return _examples(path, rows)


def _examples(path: Path, rows: list[tuple[str, dict | DataError]]) -> list[Example]:
    """The questions of rows with their places. Raises DataError."""
    records = (row if isinstance(row, DataError) else settled(_record, where, row) for where, row in rows)
    return [record.example for record in check(records, str(path), unanswerable=True).records]


def _record(where: str, row: dict) -> Record:
    given = checked(Question, row, "", where)
    identifier = given.id or made_id(given.context, given.question)
    example = Example(identifier, given.question, given.context, (), None, identifier)
    return Located(where + said(identifier) * bool(given.id), example, given.context, made=given.id is None)


def _asked(path: Path) -> Iterator[tuple[str, dict | DataError]]:
    """Every question of a file: where it stands, and what it is made of, or why it cannot be read."""
    number = 0
    for where, value in _values(path):
        if isinstance(value, DataError):
            yield where, value
            continue
        for row in _below(value, None):
            number += 1
            yield where or f"question {number}", row


def _values(path: Path) -> Iterator[tuple[str, object]]:
    """Place and content of the rows or lines of a file, or all of it."""
    if head_of(path, EXPECTED).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        try:
            yield "", parse_json(text_of(path), path)
            return
        except DataError:
            pass  # lines of JSON, or the line that is wrong is named
    yield from stored_rows(path, (*COLUMNS, *IDS, *ANSWERS), EXPECTED)[1]


def _below(value: object, context: object) -> Iterator[dict]:
    """Every question below a JSON value, with the passage that stands beside it or above it, and its id."""
    if isinstance(value, list):
        for item in value:
            yield from _below(item, context)
    elif isinstance(value, dict):
        ids = IDS if "context" in value else reversed(IDS)  # qid is MRQA's
        context = value.get("context", context)
        if "question" in value:
            known = (value[name] for name in ids if value.get(name) not in (None, ""))
            yield value | {"id": next(known, None)} | ({} if context is None else {"context": context})
        else:
            for item in value.values():
                yield from _below(item, context)
