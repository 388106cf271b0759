"""The nine tasks of GLUE (Wang et al. 2019), from the official files or the rows of nyu-mll/glue on the Hub.

The official files are tables of tab-separated cells in which a quote is a character like any other.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from helpers.data.examples import DataError, Pair
from helpers.data.formats.files import listing
from helpers.data.formats.labelled import INFERENCE, TEXTS, Labelled, Parts, labelled, read_texts
from helpers.data.formats.rows import Dataset, found, listed, settled
from helpers.data.formats.text import lines

HIGHEST = 5.0  # score of STS-B; the lowest is 0
DIAGNOSTIC = "diagnostic"
Cells = dict[str, str] | DataError  # of one row by column, or why it has none
Table = Iterable[tuple[str, Cells]]  # with the place of each row


class GlueTask(NamedTuple):
    """One task: its configuration on the Hub, its labels by number (none: it has scores), the metrics of
    `helpers.tasks.labels.score` that GLUE counts by, and how its official files are."""

    configuration: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    texts: tuple[str, ...]  # columns
    label: str = "label"  # column
    index: str = "index"  # column of a test file
    columns: tuple[str, ...] = ()  # of train and dev, where their first line is a text already
    variant: str = ""  # of the names of the dev and test parts that are those of the training genres
    broken: bool = False  # whether official rows are known to be broken; then these are left out

    @property
    def kind(self) -> Literal["labels", "score"]:
        return "labels" if self.labels else "score"


_PAIR = ("sentence1", "sentence2")
_QUESTIONS = ("question1", "question2")
_ENTAILMENT = ("entailment", "not_entailment")
_EQUALITY = ("accuracy", "f1")
_COLA = ("source", "label", "mark", "sentence")
GLUE = {
    "CoLA": GlueTask("cola", ("unacceptable", "acceptable"), ("matthews",), ("sentence",), columns=_COLA),
    "SST-2": GlueTask("sst2", ("negative", "positive"), ("accuracy",), ("sentence",)),
    "MRPC": GlueTask("mrpc", ("not_equivalent", "equivalent"), _EQUALITY, ("#1 String", "#2 String"), "Quality"),
    "STS-B": GlueTask("stsb", (), ("pearson", "spearman"), _PAIR, "score"),
    # Broken rows: nyu-mll/GLUE-baselines, issue 5; huggingface/datasets, issue 277.
    "QQP": GlueTask("qqp", ("not_duplicate", "duplicate"), _EQUALITY, _QUESTIONS, "is_duplicate", "id", broken=True),
    "MNLI": GlueTask("mnli", INFERENCE, ("accuracy",), _PAIR, "gold_label", variant="_matched"),
    "QNLI": GlueTask("qnli", _ENTAILMENT, ("accuracy",), ("question", "sentence")),
    "RTE": GlueTask("rte", _ENTAILMENT, ("accuracy",), _PAIR),
    "WNLI": GlueTask("wnli", _ENTAILMENT[::-1], ("accuracy",), _PAIR),
}


def read_glue(folder: Path, name: str) -> tuple[Parts, list[Pair], list[str]]:
    """Train and valid of the task called ``name`` ("all" where there is one file alone), the texts of its test file,
    and notes. MNLI may also be files by genre, <genre>.train.jsonl and <genre>.dev_matched.jsonl: all genres together.

    Raises `DataError` where there is no file, and one for all rows of a file that are refused.
    """
    task, parts, notes = GLUE[name], {}, []
    if task.variant and (genres := sorted(folder.glob("*.train.jsonl"))):
        return _genres(folder, [file.name.removesuffix(".train.jsonl") for file in genres], task)
    for part, file in part_files(folder, {"train": "train.tsv", "valid": f"dev{task.variant}.tsv"}).items():
        rows = cells_of(file, (*task.texts, task.label), task.columns)
        parts[part], new = _labelled(rows, str(file), task, task.texts, task.label)
        notes += new
    test = folder / f"test{task.variant}.tsv"
    return parts, _test(test, task) if test.exists() else [], notes


def test_splits(name: str) -> dict[str, str]:
    """The texts whose labels GLUE's server alone has, by the name of the file that it expects of them. The model of
    MNLI answers the diagnostic texts as well."""
    if not GLUE[name].variant:
        return {f"{name}.tsv": "test"}
    return {f"{name}-m.tsv": "test_matched", f"{name}-mm.tsv": "test_mismatched", "AX.tsv": DIAGNOSTIC}


def read_tests(folder: Path, name: str) -> dict[str, list[Pair]]:
    """The texts of `test_splits` in their files' order; ids are the server's numbers of them.

    The diagnostic texts are left out where they are neither in ``folder`` nor beside it. Raises `DataError` where
    another file is missing.
    """
    texts = {}
    for submitted, split in test_splits(name).items():
        file = folder / f"{split}.tsv" if split != DIAGNOSTIC else _diagnostic_file(folder)
        if file:
            texts[submitted] = _test(file, GLUE[name])
    return texts


def _diagnostic_file(folder: Path) -> Path | None:
    places = (folder, folder.parent / "diagnostic", folder.parent / "AX")
    files = (place / name for place in places for name in ("diagnostic.tsv", "AX.tsv"))
    return next((file for file in files if file.is_file()), None)


def _test(file: Path, task: GlueTask) -> list[Pair]:
    if not file.is_file():
        raise DataError(f"{file}: no such file; fetch it, it comes with the task's other files")
    return _unlabelled(cells_of(file, (task.index, *task.texts)), str(file), task.texts, task.index)


def from_hub(rows: Dataset, place: str, name: str) -> tuple[list[Labelled], list[str]]:
    """The texts of a split of nyu-mll/glue, and notes; ``place`` is for messages. Raises `DataError`."""
    return _labelled(_placed(rows), place, GLUE[name], _texts_of(rows, place, "label"), "label")


def test_from_hub(rows: Dataset, place: str) -> list[Pair]:
    """The texts of a test split of nyu-mll/glue, whatever its labels are: MRPC's are there, others are -1."""
    return _unlabelled(_placed(rows), place, _texts_of(rows, place, "idx"), "idx")


def _placed(rows: Dataset) -> Table:
    return ((f"row {number}", row) for number, row in enumerate(rows, 1))


def _texts_of(rows: Dataset, place: str, other: str) -> tuple[str, ...]:
    """The columns of texts. Raises `DataError` where there are none, or where there is no column ``other``."""
    columns = rows.column_names
    if other in columns and (known := [texts for texts in TEXTS if set(texts) <= set(columns)]):
        return known[0]
    raise DataError(
        f"{place}: expected columns such as 'sentence1' and 'sentence2', and {other!r}; found {listed(columns)}"
    )


def part_files(folder: Path, names: dict[str, str]) -> dict[str, Path]:
    """Those of a task's files (``names`` by part) that are in ``folder``; as "all" where there is one alone.

    Raises `DataError` where there is none.
    """
    if not folder.is_dir():
        beside = f"; {folder.parent} holds {listing(folder.parent)}" if folder.parent.is_dir() else ""
        raise DataError(f"{folder}: no such folder{beside}; expected one with {', '.join(names.values())}")
    files = {part: folder / name for part, name in names.items() if (folder / name).is_file()}
    if not files:
        raise DataError(f"{folder}: expected {', '.join(names.values())}; it holds {listing(folder)}")
    return files if len(files) > 1 else {"all": next(iter(files.values()))}


def cells_of(path: Path, needed: Sequence[str], columns: Sequence[str] = ()) -> Iterator[tuple[str, Cells]]:
    """Place and cells of each row of a tab-separated file without quoting. Its first line names the columns, those
    ``needed`` among them, unless ``columns`` does.

    A row with more or fewer cells comes as the `DataError` that says so.
    """
    names = list(columns)
    for number, line in lines(path):
        cells = line.rstrip("\r\n").split("\t")
        if not names:
            names = cells
            if missing := [name for name in needed if name not in names]:
                raise DataError(f"{path}: line 1 has to name the columns {missing}; the columns are {listed(names)}")
        elif len(cells) == len(names):
            yield f"line {number}", dict(zip(names, cells, strict=True))
        elif line.strip():
            says = f"expected {len(names)} cells between tabs ({listed(names)}), found {len(cells)}"
            yield f"line {number}", DataError(f"line {number}: {says}; correct it, or remove the row")


def _labelled(
    rows: Table, place: str, task: GlueTask, texts: Sequence[str], label: str
) -> tuple[list[Labelled], list[str]]:
    made, broken = [], 0
    for where, cells in rows:
        if task.broken and not _is_whole(cells, texts):
            broken += 1
        else:
            made.append((where, settled(_row, where, cells, texts, label, task)))
    records, notes = labelled(made, [*map(_known, texts), "label"], place, task.labels)
    if broken:
        notes.append(f"{place.rsplit('/', 1)[-1]}: broken rows, known of the official files, left out: {broken:,}")
    return records, notes


def _unlabelled(rows: Table, place: str, texts: Sequence[str], index: str) -> list[Pair]:
    # A label is asked for and not kept, so any column will do.
    made = [(where, settled(_texts, cells, texts, {"idx": index, "label": index})) for where, cells in rows]
    records, _ = labelled(made, [*map(_known, texts), "idx", "label"], place)
    return [Pair(record.id, record.first, record.second, None) for record in records]


def _row(where: str, cells: Cells, texts: Sequence[str], label: str, task: GlueTask) -> dict[str, object]:
    """The texts of one row, and its label by name or its score. Raises `DataError`."""
    row = _texts(cells, texts, {"label": label})
    value = str(row["label"])
    if task.labels:
        value = dict(zip(map(str, range(len(task.labels))), task.labels, strict=True)).get(value, value)
        valid, expected = value in task.labels, f"one of {', '.join(task.labels)}, or its number"
    elif valid := _is_score(value):
        value = str(round(float(value), 3))  # the Hub's 3.8 is 3.799999952316284
    else:
        expected = f"a score from 0 to {HIGHEST:g}"
    if not valid:
        raise DataError(
            f"{where}: expected {label!r} to be {expected}, found {found(value)}; correct or remove the row"
        )
    return row | {"label": value}


def _texts(cells: Cells, texts: Sequence[str], others: dict[str, str]) -> dict[str, object]:
    """Of one row the columns ``texts`` by the names that `labelled` knows, and ``others`` by those that they get."""
    if isinstance(cells, DataError):
        raise cells
    return {_known(text): cells[text] for text in texts} | {name: cells[column] for name, column in others.items()}


def _known(text: str) -> str:
    return {"#1 String": "sentence1", "#2 String": "sentence2"}.get(text, text)


def _is_whole(cells: Cells, texts: Sequence[str]) -> bool:
    return isinstance(cells, dict) and all((cells[text] or "").strip() for text in texts)


def _is_score(text: str) -> bool:
    try:
        return 0 <= float(text) <= HIGHEST
    except ValueError:
        return False


def _genres(folder: Path, genres: Sequence[str], task: GlueTask) -> tuple[Parts, list[Pair], list[str]]:
    """The texts of all ``genres``, each in files of its own."""
    parts: Parts = {"train": [], "valid": []}
    notes: list[str] = []
    for genre in genres:
        own, new = read_texts(folder / genre, list(task.labels))
        if set(own) != set(parts):
            raise DataError(f"{folder}: expected {genre}.dev_matched.jsonl as well; it holds {listing(folder)}")
        for part, records in own.items():
            parts[part] += records
        notes += new
    return parts, [], notes
