"""The same corpora by their names on the Hugging Face Hub, or from any folder that `datasets.load_dataset` reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import datasets

from helpers.data.examples import Corpus, DataError
from helpers.data.formats.narrativeqa import narrative_records
from helpers.data.formats.rows import Record, check, filled, mrqa_record, notes_of, squad_record


def load_hub(
    name: str, split: str, *, config: str | None = None, subset: str | None = None, unanswerable: bool = False
) -> Corpus:
    """Load ``split`` of squad, squad_v2, mrqa, narrativeqa or any dataset with the columns of one of them.

    ``config`` names a configuration, where a dataset has several; ``subset`` keeps the rows whose column of that
    name has this value, as mrqa's has (SQuAD, NewsQA, …). Raises `DataError` when the Hub cannot be reached,
    when name, configuration or split do not exist, and for rows that are not as their format has them.
    """
    try:
        rows = datasets.load_dataset(name, config, split=split)
    except ConnectionError as error:
        raise DataError(
            f"{name}: the Hub cannot be reached and the dataset is not in its cache ({error}); "
            "connect to the network, or download the files and load them from disk"
        ) from error
    except (FileNotFoundError, ValueError) as error:
        raise DataError(f"{name}, split {split!r}, configuration {config!r}: {error}") from error
    if subset is not None:
        known = rows.unique("subset") if "subset" in rows.column_names else []
        if subset not in known:
            raise DataError(f"{name}[{split}] has no subset {subset!r}; it has {', '.join(known) or 'none'}")
        rows = rows.filter(lambda value: value == subset, input_columns="subset")
    return from_rows(rows, f"{name}[{split}]", unanswerable=unanswerable)


def from_rows(rows: datasets.Dataset, name: str, *, unanswerable: bool = False) -> Corpus:
    """Rows of squad, squad_v2, mrqa or narrativeqa, told apart by their columns; ``name`` is for messages."""
    tally: Counter[str] = Counter()
    columns = set(rows.column_names)
    if {"id", "context", "question", "answers"} <= columns:
        records = _squad(rows, name, tally)
    elif {"qid", "context", "question", "answers", "detected_answers"} <= columns:
        records = _mrqa(rows, name, tally)
    elif {"document", "question", "answers"} <= columns:
        records = narrative_records(_narrativeqa(rows, name), tally)
    else:
        raise DataError(
            f"{name}: expected the columns of squad, mrqa or narrativeqa, found {', '.join(sorted(columns)) or 'none'}"
        )
    return Corpus([record.example for record in check(records, name, unanswerable)], notes_of(name, tally))


def _as_list(value: dict | list) -> list:
    """A list of objects; `datasets` stores some of them as an object of lists."""
    if not isinstance(value, dict):
        return value
    return [dict(zip(value, row, strict=True)) for row in zip(*value.values(), strict=True)]


def _squad(rows: datasets.Dataset, name: str, tally: Counter) -> Iterator[Record]:
    for number, row in enumerate(rows, 1):
        where = f"{name}: row {number}"
        context = filled(row, "context", where)
        yield squad_record(
            where, row | {"answers": _as_list(row["answers"])}, context, row.get("title", context), tally
        )


def _mrqa(rows: datasets.Dataset, name: str, tally: Counter) -> Iterator[Record]:
    # Lists of tokens are most of a row, and not needed.
    rows = rows.select_columns(["qid", "context", "question", "answers", "detected_answers"])
    for number, row in enumerate(rows, 1):
        where = f"{name}: row {number}"
        detected = [
            {"text": one["text"], "char_spans": [[pair["start"], pair["end"]] for pair in _as_list(one["char_spans"])]}
            for one in _as_list(row["detected_answers"])
        ]
        yield mrqa_record(where, row | {"detected_answers": detected}, filled(row, "context", where), tally)


def _narrativeqa(rows: datasets.Dataset, name: str) -> Iterator[tuple]:
    # Each row repeats the whole story: flat columns leave it unread.
    rows = rows.flatten().select_columns(["document.id", "document.summary.text", "question.text", "answers"])
    for number, row in enumerate(rows, 1):
        where = f"{name}: row {number}"
        texts = (filled(row, key, where) for key in ("document.id", "document.summary.text", "question.text"))
        yield where, *texts, tuple(filled(answer, "text", where) for answer in _as_list(row["answers"])), ""
