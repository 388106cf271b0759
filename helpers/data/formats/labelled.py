"""Texts, or pairs of them, with a label: rows by their columns, wherever they are stored; a domain's files, by part."""

import math
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pydantic

from helpers.data.examples import DataError
from helpers.data.formats.files import Rows, stored_rows
from helpers.data.formats.folders import find_parts, unread
from helpers.data.formats.refusals import clipped, refusal
from helpers.data.formats.reviews import SUFFIX, review_files, review_rows
from helpers.data.formats.rows import Dataset, Row, Text, checked, digest, found, listed, settled

TEXTS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text", "text_pair"),
    ("text",),
    ("sentence",),
    ("review",),
    ("content",),
)
LABELS = ("label", "gold_label", "class", "sentiment")
IDS = ("id", "pairID", "idx", "unique_id")
GENRES = ("genre", "domain")
KNOWN = (*dict.fromkeys(name for texts in TEXTS for name in texts), *LABELS, *IDS, *GENRES)
# MNLI's class numbers, as the Hub's nyu-mll/multi_nli and nyu-mll/glue have them.
INFERENCE = ("entailment", "neutral", "contradiction")
EXPECTED = (
    "expected rows of texts and labels as JSON (an object a line, or a list of them), CSV, TSV or Parquet, text may be "
    "gzipped"
)
_UNAGREED = object()  # the label of the Hub's rows that have none


class Labelled(NamedTuple):
    """One text, or two, with the name of its label, and where it was read (for messages); of a choice its context, its
    endings and the number of the right one."""

    where: str
    id: str
    first: str
    second: str | tuple[str, ...] | None
    label: str


Parts = dict[str, list[Labelled]]  # train, valid and test, or "all" where nothing says a part


class _Form(NamedTuple):
    """What is read of a row: a model of its texts, and the columns of label, id and genre ("": there is none)."""

    model: type[Row]
    texts: tuple[str, ...]
    label: str
    id: str
    genre: str


def read_texts(path: Path, labels: list[str], genre: str = "") -> tuple[Parts, list[str]]:
    """The texts of the domain at ``path``, and notes on them; ``labels`` and ``genre`` are those of `labelled`.

    ``path`` is a file; a folder of one file, of files whose names say their part, or of reviews; or, where there is
    none of that name, the beginning of such files' names (fiction: fiction.train.jsonl). Raises `DataError`.
    """
    parts: Parts = {}
    notes: list[str] = []

    def add(part: str, rows: list, columns: list[str], file: Path) -> None:
        records, new = labelled(rows, columns, str(file), labels, genre)
        parts.setdefault(part, []).extend(records)
        notes.extend(new)

    try:
        if reviews := [path] if path.name.endswith(SUFFIX) else review_files(path):
            for file in reviews:
                rows, new = review_rows(file)
                notes += new
                add("all", rows, ["id", "text", "label"], file)
        else:
            beside = not path.exists() and path.parent.is_dir()
            given = find_parts(path.parent, path.name) if beside else find_parts(path)
            notes += unread(path, path.name)
            for part, (file, shards) in given.items():
                for shard in shards or (file,):
                    columns, rows = stored_rows(shard, KNOWN, EXPECTED)
                    add(part, rows, columns, shard)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    return parts, notes


def labelled(
    rows: Rows, columns: Collection[str], name: str, labels: Sequence[str] = (), genre: str = ""
) -> tuple[list[Labelled], list[str]]:
    """The texts of ``rows``, and notes on them; ``name`` is for messages, with ``genre`` only those of this genre.

    A label is one of ``labels``, by name or class number, or any name where there are none. A number is a place in
    ``labels``, for those of MNLI in the Hub's order, unless they are numbers themselves. Rows without an agreed label,
    -1 or MNLI's "-", are left out and counted. Raises one `DataError` for all rows that are refused, and for unknown
    columns.
    """
    # Where rows cannot be read, they and not their columns are the trouble.
    form = _form(columns, name) if columns or not rows else None
    kept: list[Labelled] = []
    refused: list[str] = []
    genres: dict[object, None] = {}
    without, numbers = 0, False
    for where, row in rows:
        if genre and form and isinstance(row, dict) and (own := row.get(form.genre)) != genre:
            genres[own] = None
            continue
        record = row if isinstance(row, DataError) or not form else settled(_record, where, row, form, labels)
        if isinstance(record, DataError):
            refused.append(clipped(str(record)))
        elif record is None:
            without += 1
        else:
            numbers = numbers or (record.label not in str(row[form.label]) and as_number(record.label) is None)
            kept.append(record._replace(where=f"{name}: {record.where}"))
    if refused:
        raise refusal(name, refused, total=len(kept) + len(refused) + without)
    if not kept:
        of_genre = f" of the genre {genre!r}; there are {listed(genres)}" if genre else "; give a file with some"
        raise DataError(f"{name}: there is no labelled text in it{of_genre}")
    return kept, _notes(name.rsplit("/", 1)[-1], without, labels if numbers else ())


def from_rows(
    rows: Dataset, name: str, labels: Sequence[str] = (), genre: str = ""
) -> tuple[list[Labelled], list[str]]:
    """`labelled` of a dataset of the Hub, whose own names of its classes decide what their numbers mean."""
    columns = rows.column_names
    column = next((column for column in LABELS if column in columns), "")
    names = getattr(rows.features.get(column), "names", ())
    if genre and (of_genre := next((column for column in GENRES if column in columns), "")):
        there = rows.unique(of_genre)
        rows = rows.filter(lambda value: value == genre, input_columns=of_genre)
        if not len(rows):
            raise DataError(f"{name}: there is no labelled text of the genre {genre!r}; there are {listed(there)}")
    rows = rows.select_columns([name for name in columns if name in KNOWN])
    placed: Rows = []
    for number, row in enumerate(rows, 1):
        if names and isinstance(row[column], int):
            row[column] = names[row[column]] if row[column] >= 0 else _UNAGREED
        placed.append((f"row {number}", row))
    return labelled(placed, columns, name, labels, genre)


def _form(columns: Collection[str], name: str) -> _Form:
    texts = next((texts for texts in TEXTS if set(texts) <= set(columns)), ())
    label, identifier, genre = (next((one for one in names if one in columns), "") for names in (LABELS, IDS, GENRES))
    if not texts or not label:
        raise DataError(
            f"{name}: expected a column 'text' (or 'sentence', 'review', 'content'), or two such as 'premise' and "
            f"'hypothesis', and a column 'label'; found {listed(columns)}"
        )
    model = pydantic.create_model("LabelledRow", __base__=Row, **{column: (Text, ...) for column in texts})
    return _Form(model, texts, label, identifier, genre)


def _record(where: str, row: object, form: _Form, labels: Sequence[str]) -> Labelled | None:
    """The text of one row; None where its label says that it has none. Raises `DataError`."""
    model = checked(form.model, row, "", where)
    first, *second = (getattr(model, column) for column in form.texts)
    label = _label(row.get(form.label), where, form, labels)
    identifier = row.get(form.id) if form.id else None
    named = str(identifier).strip() if type(identifier) in (str, int) else ""
    if label is None:
        return None
    return Labelled(where, named or digest(first, *second)[:16], first, second[0] if second else None, label)


def _label(value: object, where: str, form: _Form, labels: Sequence[str]) -> str | None:
    column, inference = form.label, set(labels) == set(INFERENCE)
    if value is _UNAGREED:
        return None
    says = f"one of {', '.join(labels)}" if labels else "a label's name"
    value = value.strip() if isinstance(value, str) else value
    if value is None or value == "" or value != value:  # pandas has NaN where there is none
        raise DataError(f"{where}: the label is missing in {column!r}; fill in {says}, or remove the record")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int):
        raise DataError(f"{where}: expected {column!r} to be {says} or a class number, found {found(value)}")
    label = str(value)
    if label in labels:
        return label
    by_number = _by_number(tuple(labels))
    if (number := as_number(label)) in by_number:
        return by_number[number]
    whole = label.removesuffix(".0") if labels else label  # a class number, as pandas writes a column with gaps
    # A dash is MNLI's; elsewhere it is a name like any other, as that of minus beside plus.
    is_mnli = inference or column == "gold_label" or form.texts[0] == "premise"
    if (label == "-" and is_mnli) or (whole == "-1" and labels):
        return None
    numbered = INFERENCE if inference else labels
    if not by_number and whole.isdecimal() and whole.isascii() and int(whole) < len(numbered):
        return numbered[int(whole)]
    if labels:
        raise DataError(
            f"{where}: the label {found(label)} is none of {', '.join(labels)}; correct it, or name it in the "
            "preset's labels"
        )
    return label


@cache
def _by_number(labels: tuple[str, ...]) -> dict[float, str]:
    """Labels that are numbers themselves, and so no places in a list."""
    return {number: label for label in labels if (number := as_number(label)) is not None}


def as_number(label: str) -> float | None:
    """What a label is as a number, if it is one."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _notes(short: str, without: int, numbered: Sequence[str]) -> list[str]:
    notes = [f"{short}: texts left out, as they have no agreed label: {without:,}"] if without else []
    if numbered:
        order = INFERENCE if set(numbered) == set(INFERENCE) else numbered
        meaning = ", ".join(f"{number} {label}" for number, label in enumerate(order))
        notes.append(f"{short}: labels are class numbers, read as {meaning}")
    return notes
