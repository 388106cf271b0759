"""Rows by their columns: those that the Hub's squad, squad_v2, mrqa and narrativeqa have, wherever they are stored."""

from collections.abc import Collection, Iterable, Iterator
from typing import Annotated

from pydantic import AliasChoices, AliasPath, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from helpers.data.examples import Corpus, DataError
from helpers.data.formats.mrqa import MrqaDetected, MrqaQuestion
from helpers.data.formats.narrativeqa import free_answer
from helpers.data.formats.refusals import check, corpus_of
from helpers.data.formats.rows import Dataset, Located, Record, Row, Text, checked, found, listed, made_id, settled
from helpers.data.formats.squad import SquadAnswer, SquadQuestion

MADE = "questions have an id made of their content, as the rows have none"
KNOWN = (
    "id, context, question and answers (or answer and answer_start), as squad has them, qid and detected_answers, as "
    "mrqa has them, or those of narrativeqa"
)
_IDS = ("id", "qid")
_ANSWERS = ("answer", "answer_text")  # an answer in a column of its own, beside answer_start


def _listed(value: object) -> object:
    """A list of objects, from the object of lists that `datasets` makes of it."""
    value = _plain(value)
    if isinstance(value, dict) and value and all(isinstance(column, list) for column in value.values()):
        sizes = " and ".join(f"{len(column)} in {key!r:.25}" for key, column in list(value.items())[:4])
        raise PydanticCustomError("lengths", "lists of one length ({sizes})", {"sizes": sizes})
    return value


def _plain(value: object, depth: int = 6) -> object:
    """``value`` with a list of objects wherever `datasets` has an object of lists instead, down to ``depth``."""
    if not depth or not isinstance(value, list | dict):
        return value
    if isinstance(value, list):
        return [_plain(item, depth - 1) for item in value]
    sizes = {len(column) if isinstance(column, list) else None for column in value.values()}
    if len(sizes) == 1 and None not in sizes:
        return [_plain(dict(zip(value, row, strict=True)), depth - 1) for row in zip(*value.values(), strict=True)]
    return {key: _plain(item, depth - 1) for key, item in value.items()}


class SquadRow(SquadQuestion):
    context: Text
    title: object = None
    answers: Annotated[list[SquadAnswer], BeforeValidator(_listed)]


class MrqaRow(MrqaQuestion):
    context: Text
    title: object = None
    detected_answers: Annotated[list[MrqaDetected], BeforeValidator(_listed)]


class NarrativeAnswer(Row):
    text: Text


def _path(*keys: str) -> AliasChoices:
    return AliasChoices(".".join(keys), AliasPath(*keys))


class NarrativeRow(Row):
    """Nested as on the Hub, or flat."""

    document: Text = Field(validation_alias=_path("document", "id"))
    summary: Text = Field(validation_alias=_path("document", "summary", "text"))
    question: Text = Field(validation_alias=_path("question", "text"))
    answers: Annotated[list[NarrativeAnswer], BeforeValidator(_listed)]


_SQUAD = ("id", "title", "context", "question", "answers", "is_impossible", "accepted")
_MRQA = ("qid", "id", "title", "context", "question", "answers", "detected_answers", "is_impossible")
_NARRATIVE = ("document.id", "document.summary.text", "question.text", "answers")


def columns_of(columns: Collection[str]) -> list[str]:
    """Those of ``columns`` that are read, nested ones by their path ("document.id"); none if their form is unknown."""
    if {"context", "question", "answers", "detected_answers"} <= set(columns):
        wanted = _MRQA
    elif {"context", "question", "answers"} <= set(columns):
        wanted = _SQUAD
    elif {"context", "question", "answer_start"} <= set(columns) and set(_ANSWERS) & set(columns):
        wanted = [*_SQUAD, "answer_start", next(name for name in _ANSWERS if name in columns)]
    elif {"document", "question", "answers"} <= set(columns):
        return list(_NARRATIVE)
    else:
        return []
    return [name for name in wanted if name in columns]


def check_columns(wanted: Collection[str], there: Collection[str], name: object) -> None:
    """Raises `DataError` where a nested column of ``wanted`` is not ``there``, as of another kind of document."""
    if not set(wanted) <= set(there):
        raise DataError(f"{name}: expected the columns {KNOWN}, found {listed(there)}")


def rows_of(rows: Iterable[tuple[str, object]], columns: Collection[str], name: object) -> Iterator[Record]:
    """The questions of ``rows`` (place and content), whose ``columns`` are known.

    Ids are made of the content where there is no column of them. Raises `DataError` where the columns are of no known
    form.
    """
    wanted = columns_of(columns)
    if not wanted:
        raise DataError(f"{name}: expected the columns {KNOWN}, found {listed(columns)}")
    for where, row in rows:
        yield row if isinstance(row, DataError) else settled(_located, where, row, wanted)


def _located(where: str, row: object, wanted: list[str]) -> Located:
    if "document.id" in wanted:
        if isinstance(row, dict) and not isinstance(row.get("document", {}), dict):
            raise DataError(f"{where}: expected 'document' to have an id and a summary, found {found(row['document'])}")
        free = checked(NarrativeRow, row, "", where)
        return free_answer(where, free.document, free.summary, free.question, tuple(a.text for a in free.answers))
    model, made = MrqaRow if "detected_answers" in wanted else SquadRow, not set(_IDS) & set(wanted)
    if isinstance(row, dict):
        row = {name: row[name] for name in wanted if name in row}
        if made:
            row["id"] = made_id(row.get("context"), row.get("question"))
        if "answer_start" in wanted:
            row["answers"] = _pair(row, where)
    checked_row = checked(model, row, "", where)
    title = checked_row.title if isinstance(checked_row.title, str) else ""  # pandas has a number where none is
    record = checked_row.located(where, checked_row.context, title or checked_row.context)
    return record._replace(made=True, notes=(*record.notes, MADE)) if made else record


def _pair(row: dict, where: str) -> object:
    """The answers, from the text of one and its offset, or lists of both; none where both are empty."""
    name = next(name for name in _ANSWERS if name in row or name == _ANSWERS[-1])
    text, start = row.get(name), row.get("answer_start")
    if isinstance(start, str) and len(start) < 19 and start.strip().removesuffix(".0").isdecimal():
        start = int(start.strip().removesuffix(".0"))
    elif isinstance(start, float) and start.is_integer():  # pandas, where a row has none
        start = int(start)
    elif start == "" or start != start:
        start = None
    is_empty = text is None or text != text or text == ""
    if is_empty and start in (None, -1, "-1", "-1.0"):  # -1 as some say that there is no answer
        return []
    if isinstance(text, list) and isinstance(start, list):
        return {"text": text, "answer_start": start}
    if start is None or text in ("", None):
        raise DataError(f"{where}: {name!r} and 'answer_start' come together; found {found(text)} and {found(start)}")
    return [{"text": text, "answer_start": start}]


def from_rows(rows: Dataset, name: str, *, unanswerable: bool = False) -> Corpus:
    """Rows of squad, squad_v2, mrqa or narrativeqa, told apart by their columns; ``name`` is for messages."""
    return corpus_of(check(records(rows, name), name, unanswerable))


def records(rows: Dataset, name: object) -> Iterator[Record]:
    """The questions of such rows."""
    columns = rows.column_names
    wanted = columns_of(columns)
    if "document.id" in wanted:
        rows = rows.flatten()  # each row repeats the whole story: flat columns leave it unread
        check_columns(wanted, rows.column_names, name)
    if wanted:
        rows = rows.select_columns(wanted)  # the others are left unread: lists of tokens are most of a row
    placed = ((f"row {number}", row) for number, row in enumerate(rows, 1))
    return rows_of(placed, columns, name)
