"""Read labelled texts and choices: rows of any table, GLUE, SWAG, CODAH, MultiNLI and Amazon reviews."""

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from helpers.data.examples import (
    DataError,
    TextParts,
    TextRecord,
    check_labels,
    check_text,
    digest,
    list_trained_labels,
)
from helpers.data.rows import (
    Rows,
    find_parts,
    leave_out_rejected,
    list_names,
    name_if_too_large,
    parse_each,
    read_bytes,
    read_each,
    read_rows,
    read_table,
)

# Columns of a text or of a pair; the first of these that a row has are read.
TEXT_COLUMNS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("#1 String", "#2 String"),
    ("question1", "question2"),
)
TEXT_COLUMNS += (("question", "sentence"), ("text", "text_pair"), ("text",), ("sentence",), ("review",), ("content",))
LABELS = ("label", "gold_label", "class", "sentiment")
IDS = ("id", "pairID", "idx", "unique_id")
GENRES = ("genre", "domain")
INFERENCE_LABELS = ("entailment", "neutral", "contradiction")  # in the order of the Hub's class numbers
CHOICES = {"swag": {"train": "train.csv", "valid": "val.csv"}}  # SWAG's test file has no labels
CHOICES["codah"] = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
CODAH = ("category", "startphrase", "ending0", "ending1", "ending2", "ending3", "label")  # its files have no header
HIGHEST = 5.0  # score of STS-B


class GlueTask(NamedTuple):
    """A task of GLUE: its configuration on the Hub, its labels by number (none: it has scores) and its metrics."""

    configuration: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    label: str = "label"  # column
    columns: tuple[str, ...] = ()  # of files without a header
    variant: str = ""  # of the dev and test parts with the genres of train


_ENTAILMENT, _EQUALITY = ("entailment", "not_entailment"), ("accuracy", "f1")
_COLA = ("source", "label", "mark", "sentence")
GLUE = {
    "CoLA": GlueTask("cola", ("unacceptable", "acceptable"), ("matthews",), columns=_COLA),
    "SST-2": GlueTask("sst2", ("negative", "positive")),
    "MRPC": GlueTask("mrpc", ("not_equivalent", "equivalent"), _EQUALITY, "Quality"),
    "STS-B": GlueTask("stsb", (), ("pearson", "spearman"), "score"),
    "QQP": GlueTask("qqp", ("not_duplicate", "duplicate"), _EQUALITY, "is_duplicate"),
    "MNLI": GlueTask("mnli", INFERENCE_LABELS, label="gold_label", variant="_matched"),
    "QNLI": GlueTask("qnli", _ENTAILMENT),
    "RTE": GlueTask("rte", _ENTAILMENT),
    "WNLI": GlueTask("wnli", _ENTAILMENT[::-1]),
}
FORMATS = (*GLUE, *CHOICES, "texts")  # of tasks
CONFIGURATIONS = {task.configuration: form for form, task in GLUE.items()} | {"regular": "swag"}  # on the Hub


Names = Sequence[str]


def read_texts(path: Path, labels: Names = (), genre: str = "") -> tuple[TextParts, list[str]]:
    """Read the texts of a domain by part, with notes: of a file, of a folder, or of files whose names begin alike.

    Rows without an agreed label are left out, and with ``genre`` those of other genres. So are rows that annotators
    rejected, which the notes count. Raises DataError.
    """
    if reviews := find_reviews(path):
        by_label = [parse_texts(_read_reviews(file), file, labels) for file in reviews]
        return {"all": [*chain(*by_label)]}, []
    of_genre = f" (genre {genre})" if genre else ""

    def read_file(file: Path) -> tuple[list[TextRecord], list[str]]:
        rows, notes = leave_out_rejected(read_rows(file), file.name)
        return parse_texts(rows, f"{file}{of_genre}", labels, genre=genre), notes

    parts, notes = read_each(find_parts(path), read_file)
    if not labels:
        check_labels({text.label for of_part in parts.values() for text in of_part}, path)
    return parts, notes


def read_task(path: Path, form: str) -> tuple[TextParts, list[str]]:
    """Read a task that is in one of `FORMATS`, by part, with notes. Raises DataError."""
    if form == "texts":
        return read_texts(path)
    return (read_glue if form in GLUE else read_choices)(path, form), []


def describe_task(form: str, parts: TextParts) -> dict[str, object]:
    """Return the kind, the labels and the metrics of a task in one of `FORMATS`. Raises DataError."""
    if task := GLUE.get(form):
        return {"kind": "labels" if task.labels else "score", "labels": task.labels, "metrics": task.metrics}
    labels = list_trained_labels([parts]) if form == "texts" else ()
    return {"kind": "labels" if labels else "choices", "labels": labels, "metrics": ("accuracy",)}


def read_glue(folder: Path, name: str) -> TextParts:
    """Read a task of GLUE from its official files, or MNLI from files by genre. Raises DataError."""
    task = GLUE[name]
    if task.variant and (genres := sorted(file.name.partition(".")[0] for file in folder.glob("*.train.jsonl"))):
        by_genre = [read_texts(folder / genre, task.labels)[0] for genre in genres]
        if missing := [genre for genre, parts in zip(genres, by_genre, strict=True) if len(parts) != 2]:
            raise DataError(f"{folder}: expected a train and a dev file of {missing[0]}; add the other one")
        return {part: [text for parts in by_genre for text in parts[part]] for part in ("train", "valid")}
    files = _find_files(folder, {"train": "train.tsv", "valid": f"dev{task.variant}.tsv"})
    parts = {p: parse_glue(read_table(f, task.columns, quotes=False), f, task, task.label) for p, f in files.items()}
    if (test := folder / f"test{task.variant}.tsv").is_file():
        parts["unlabelled"] = parse_glue(read_table(test, quotes=False), test, task)
    return parts


def parse_glue(rows: Rows, place: object, task: GlueTask, label: str = "") -> list[TextRecord]:
    """Return the texts of a task of GLUE, unlabelled unless the column ``label`` is named. Raises DataError."""
    if task.configuration == "qqp":  # some of its official rows are broken (huggingface/datasets, issue 277)
        rows = [(where, row) for where, row in rows if isinstance(row, dict) and row["question1"] and row["question2"]]
    ids, columns = ((), (label,)) if label else (("index", "idx", "id"), ())
    return parse_texts(rows, place, task.labels or None, columns=columns, ids=ids)


def _find_files(folder: Path, names: dict[str, str]) -> dict[str, Path]:
    files = {part: folder / name for part, name in names.items() if (folder / name).is_file()}
    if not files:
        raise DataError(f"{folder}: expected {', '.join(names.values())}, found none of them; correct the folder")
    return files if len(files) > 1 else {"all": next(iter(files.values()))}


def read_choices(folder: Path, name: str) -> TextParts:
    """Read SWAG's or CODAH's files by part. Raises DataError."""
    style = {"columns": CODAH, "quotes": False} if name == "codah" else {}
    files = _find_files(folder, CHOICES[name])
    return {part: parse_choices(read_table(file, **style), file) for part, file in files.items()}


def parse_choices(rows: Rows, place: object) -> list[TextRecord]:
    """Return the context and the endings of each row but those labelled -1. Raises DataError."""

    def parse(_: str, row: dict) -> TextRecord | None:
        context, *endings = (_get_text(row, name) for name in CODAH[1:6])
        if (number := str(row.get("label"))) not in ("-1", "0", "1", "2", "3"):
            raise DataError(f"expected the number of the right ending in 'label', 0 to 3, found {number!r:.40}")
        return None if number == "-1" else TextRecord(digest(context, *endings)[:16], context, tuple(endings), number)

    return parse_each(parse, rows, place)


def _get_text(row: dict, name: str) -> str:
    if not isinstance(text := row.get(name), str):
        raise DataError(f"expected text in {name!r}, found {text!r:.60}")
    try:
        return check_text(text)
    except ValueError as error:
        raise DataError(f"{name!r} {error}") from None


def parse_texts(
    rows: Rows, place: object, labels: Names | None = (), *, columns: Names = LABELS, ids: Names = IDS, genre: str = ""
) -> list[TextRecord]:
    """Return the texts of rows, each with the label in the first of ``columns`` that it has. Raises DataError.

    A label is one of ``labels``, by name or class number, any name if there are none, or a score if these are None.
    """

    def parse(_: str, row: dict) -> TextRecord | None:
        if not isinstance(row, dict):
            raise DataError(f"expected an object with a text and a label, found {row!r:.80}")
        if genre and genre not in (row.get(name) for name in GENRES):
            return None
        names = next((names for names in TEXT_COLUMNS if set(names) <= set(row)), None)
        column = next((name for name in columns if name in row), None)
        if names is None or (columns and column is None):
            raise DataError(
                "expected a column text (or sentence, review, content), or two such as premise and hypothesis, and a "
                f"column {' or '.join(columns)}; found {list_names(row)}"
            )
        texts = [_get_text(row, name) for name in names]
        label = _parse_label(row[column], column, labels) if column else ""
        if label is None:
            return None
        name = next((str(row[name]).strip() for name in ids if type(row.get(name)) in (str, int)), "")
        return TextRecord(name or digest(*texts)[:16], texts[0], texts[1] if len(texts) > 1 else None, label)

    return parse_each(parse, rows, place)


def _parse_label(value: object, column: str, labels: Names | None) -> str | None:
    # Returns None where annotators did not agree.
    if labels is None:
        return _parse_score(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    if not text or value is None or value != value:  # pandas has NaN for an empty cell
        raise DataError(f"{column!r} is empty; fill in a label, or remove the record")
    if not isinstance(value, str | int):
        raise DataError(f"expected {column!r} to be a label's name or class number, found {value!r:.60}")
    inference = set(labels) == set(INFERENCE_LABELS)
    number = re.sub(r"^(-?\d+)\.0$", r"\1", text)  # pandas writes whole numbers so in a column with gaps
    if text in labels or number in labels:
        return text if text in labels else number
    if (text == "-" and (inference or column == "gold_label")) or (number == "-1" and labels):
        return None
    if not labels:
        return number
    numbered = INFERENCE_LABELS if inference else labels
    are_numbers = any(label.removesuffix(".0").lstrip("-").isdecimal() for label in labels)
    if number.isdecimal() and number.isascii() and int(number) < len(numbered) and not are_numbers:
        return numbered[int(number)]
    raise DataError(f"the label {text!r:.60} is none of {', '.join(labels)}; correct it, or name it in labels")


def _parse_score(value: object) -> str:
    try:
        score = float(str(value))
    except ValueError:
        score = -1.0
    if not 0 <= score <= HIGHEST:
        raise DataError(f"expected a score from 0 to {HIGHEST:g}, found {value!r:.40}; correct or remove the row")
    return str(round(score, 3))  # the Hub's 3.8 is 3.799999952316284


def find_reviews(path: Path) -> list[Path]:
    """Return Amazon's files of labelled reviews of the domain at ``path``, the positive ones first."""
    folder, begin = (path, "") if path.is_dir() else (path.parent, f"{path.name}.")
    files = (folder / f"{begin}{label}.review" for label in ("positive", "negative"))
    return [file for file in files if file.is_file()]


def _read_reviews(file: Path) -> Rows:
    # The format of Blitzer et al. 2007: the file's name is the label. Tags look like XML, but nothing is escaped.
    label = file.name.split(".")[-2]
    with name_if_too_large(file):
        content = read_bytes(file)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:  # the authors' own files
            text = content.decode("latin-1")
    tags = re.findall(r"^</?review>[^\S\n]*$", text, re.MULTILINE)
    if not tags or [tag.strip() for tag in tags] != ["<review>", "</review>"] * (len(tags) // 2):
        raise DataError(f"{file}: expected reviews, each between the lines <review> and </review>; fetch it again")
    bodies = re.findall(r"^<review>\s*$(.*?)^</review>\s*$", text, re.DOTALL | re.MULTILINE)
    for number, body in enumerate(bodies, 1):
        fields = dict(re.findall(r"^<(\w+)>[^\S\n]*\n(.*?)^</\1>", body, re.DOTALL | re.MULTILINE))
        text = fields.get("review_text", "").strip()
        yield f"review {number}", {"id": fields.get("unique_id", "").strip(), "text": text, "label": label}
