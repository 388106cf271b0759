"""Rows with the columns that the Hub's squad, squad_v2, mrqa and narrativeqa have."""

from collections import Counter
from collections.abc import Iterator

import datasets
from pydantic import Field

from helpers.data.examples import Corpus, DataError
from helpers.data.formats.mrqa import MrqaQuestion
from helpers.data.formats.narrativeqa import narrative_records
from helpers.data.formats.rows import R, Row, Text, check, checked, notes_of
from helpers.data.formats.squad import SquadQuestion


class SquadRow(SquadQuestion):
    context: Text


class MrqaRow(MrqaQuestion):
    context: Text


_COLUMNS = {
    SquadRow: {"id", "context", "question", "answers"},
    MrqaRow: {"qid", "context", "question", "answers", "detected_answers"},
}


class NarrativeAnswer(Row):
    text: Text


class NarrativeRow(Row):
    document: Text = Field(alias="document.id")
    summary: Text = Field(alias="document.summary.text")
    question: Text = Field(alias="question.text")
    answers: list[NarrativeAnswer]


def from_rows(rows: datasets.Dataset, name: str, *, unanswerable: bool = False) -> Corpus:
    """Rows of squad, squad_v2, mrqa or narrativeqa, told apart by their columns; ``name`` is for messages."""
    tally, columns = Counter(), set(rows.column_names)
    if model := next((model for model, needed in _COLUMNS.items() if columns >= needed), None):
        # The others are left unread: lists of tokens are most of a row.
        rows = rows.select_columns(sorted(columns & {*_COLUMNS[model], "is_impossible"}))
        records = (row.located(where, row.context, row.context, tally) for where, row in _checked(rows, model, name))
    elif {"document", "question", "answers"} <= columns:
        # Each row repeats the whole story: flat columns leave it unread.
        rows = rows.flatten().select_columns(["document.id", "document.summary.text", "question.text", "answers"])
        questions = (
            (where, row.document, row.summary, row.question, tuple(answer.text for answer in row.answers), "")
            for where, row in _checked(rows, NarrativeRow, name)
        )
        records = narrative_records(questions, tally)
    else:
        raise DataError(
            f"{name}: expected the columns of squad, mrqa or narrativeqa, found {', '.join(sorted(columns)) or 'none'}"
        )
    return Corpus([record.example for record in check(records, name, unanswerable)], notes_of(name, tally))


def _checked(rows: datasets.Dataset, model: type[R], name: str) -> Iterator[tuple[str, R]]:
    for number, row in enumerate(rows, 1):
        yield f"{name}: row {number}", checked(model, _plain(row), name, f"row {number}")


def _plain(value: object) -> object:
    """``value`` with a list of objects wherever `datasets` has an object of lists instead."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    sizes = {len(column) if isinstance(column, list) else None for column in value.values()}
    if len(sizes) == 1 and None not in sizes:
        return [_plain(dict(zip(value, row, strict=True))) for row in zip(*value.values(), strict=True)]
    return {key: _plain(item) for key, item in value.items()}
