"""A context and its possible endings: CODAH (Chen et al. 2019) and SWAG (Zellers et al. 2018)."""

from collections.abc import Iterable
from pathlib import Path

from helpers.data.examples import DataError
from helpers.data.formats.glue import Cells, cells_of, part_files
from helpers.data.formats.labelled import Labelled
from helpers.data.formats.refusals import clipped, refusal
from helpers.data.formats.rows import Dataset, Row, Text, checked, digest, found, settled
from helpers.data.formats.text import table

ENDINGS = ("ending0", "ending1", "ending2", "ending3")
NUMBERS = ("0", "1", "2", "3")
CODAH = ("category", "prompt", *ENDINGS, "label")  # its files name no columns
SWAG = ("startphrase", *ENDINGS, "label")
FILES = {
    "codah": {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"},
    "swag": {"train": "train.csv", "valid": "val.csv"},  # its test file has no labels
}


class _ChoiceRow(Row):
    context: Text
    endings: list[Text]


def read_choices(folder: Path, name: str) -> dict[str, list[Labelled]]:
    """The parts that ``folder`` has ("all" where there is one file alone) in the format ``name``, a key of `FILES`.

    Raises `DataError` where there is no file, and one for all rows of a file that are refused.
    """
    parts = {}
    for part, file in part_files(folder, FILES[name]).items():
        rows = cells_of(file, CODAH, CODAH) if name == "codah" else table(file, SWAG)
        parts[part] = _choices(rows, str(file))
    return parts


def from_hub(rows: Dataset, place: str) -> list[Labelled]:
    """The choices of a split of allenai/swag; ``place`` is for messages. Raises `DataError`."""
    if missing := [name for name in SWAG if name not in rows.column_names]:
        raise DataError(f"{place}: it has no columns {missing}; the columns are {', '.join(rows.column_names)}")
    return _choices(((f"row {number}", row) for number, row in enumerate(rows, 1) if row["label"] != -1), place)


def _choices(rows: Iterable[tuple[str, Cells]], place: str) -> list[Labelled]:
    records = [settled(_choice, where, cells) for where, cells in rows]
    if refused := [clipped(str(record)) for record in records if isinstance(record, DataError)]:
        raise refusal(place, refused, total=len(records))
    if not records:
        raise DataError(f"{place}: there is no labelled row in it; give a file with some")
    return [record._replace(where=f"{place}: {record.where}") for record in records]


def _choice(where: str, cells: Cells) -> Labelled:
    if isinstance(cells, DataError):
        raise cells
    context = cells["startphrase" if "startphrase" in cells else "prompt"]
    row = checked(_ChoiceRow, {"context": context, "endings": [cells[name] for name in ENDINGS]}, "", where)
    if (number := str(cells["label"])) not in NUMBERS:
        raise DataError(f"{where}: expected the number of the right ending, 0 to 3, found {found(cells['label'])}")
    return Labelled(where, digest(row.context, *row.endings)[:16], row.context, tuple(row.endings), number)
