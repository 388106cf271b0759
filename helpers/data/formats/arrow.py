"""Parquet files, and the folders that `datasets.save_to_disk` makes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.data.examples import DataError
from helpers.data.formats.columns import check_columns, columns_of, rows_of
from helpers.data.formats.rows import Record

if TYPE_CHECKING:
    import pyarrow  # a quarter of a second, for these files only

STATE = "state.json"  # beside the files of a saved dataset
SPLITS = "dataset_dict.json"  # beside the folders of several


def parquet(path: Path) -> Iterator[Record]:
    """The questions of one file."""
    names, rows = parquet_rows(path, columns_of)
    return rows_of(rows, names, path)


def parquet_rows(path: Path, choose: Callable[[list[str]], list[str]]) -> tuple[list[str], list[tuple[str, object]]]:
    """The names of all columns of one file, and its rows with those that ``choose`` takes of them; others are left
    unread. Raises `DataError`."""
    from pyarrow.parquet import ParquetFile

    def read() -> tuple[list[str], "pyarrow.Table"]:
        with ParquetFile(path, page_checksum_verification=True) as file:
            wanted = choose(names := file.schema_arrow.names)
            table = file.read(columns=wanted)
            if "document.id" in wanted:
                check_columns(wanted, table.flatten().flatten().column_names, path)
            return names, table

    return whole(read, path, "a whole Parquet file")


def arrow(path: Path) -> Iterator[Record]:
    """The questions of one file of a saved dataset."""
    import pyarrow

    def read() -> tuple[list[str], "pyarrow.Table"]:
        with pyarrow.OSFile(str(path)) as file:
            table = pyarrow.ipc.open_stream(file).read_all()
        names = table.column_names
        wanted = columns_of(names)
        if "document.id" in wanted:
            table = table.flatten().flatten()
            check_columns(wanted, table.column_names, path)
        return names, table.select(wanted)

    names, rows = whole(read, path, "a file that datasets.save_to_disk wrote")
    return rows_of(rows, names, path)


def whole(read: Callable, path: Path, expected: str) -> tuple[list[str], list[tuple[str, object]]]:
    """The names of all columns and the rows, each with its place, of what ``read`` reads of a file: names and a table.
    Raises `DataError` where the file is not whole."""
    import pyarrow

    try:
        names, table = read()
        table.validate(full=True)  # text that is not UTF-8, offsets beyond the end
        return names, [(f"row {number}", row) for number, row in enumerate(table.to_pylist(), 1)]
    except DataError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        says = " ".join(str(error).split())
        raise DataError(f"{path}: expected {expected} ({says:.200}); fetch or write it again") from None


def is_saved(folder: Path) -> bool:
    """Whether `datasets.save_to_disk` wrote this folder, as one dataset."""
    return (folder / STATE).is_file()


def saved_files(folder: Path) -> list[Path]:
    """The files of a saved dataset, in order. Raises `DataError` where the folder is incomplete."""
    state = _json(folder / STATE)
    try:
        files = [folder / Path(file["filename"]).name for file in state["_data_files"]]
    except (KeyError, TypeError):
        raise DataError(
            f"{folder / STATE}: expected '_data_files' to name the dataset's files; save it again"
        ) from None
    if missing := [file.name for file in files if not file.is_file()]:
        raise DataError(f"{folder}: {missing[0]:.80} is missing, which {STATE} names; save the dataset again")
    return files


def saved_splits(folder: Path) -> list[str]:
    """The names of the datasets that were saved together in this folder."""
    if not (folder / SPLITS).is_file():
        return []
    value = _json(folder / SPLITS)
    splits = value.get("splits") if isinstance(value, dict) else None
    if not isinstance(splits, list) or not all(isinstance(split, str) and is_saved(folder / split) for split in splits):
        raise DataError(f"{folder / SPLITS}: expected 'splits' to name folders beside it; save the datasets again")
    return splits


def _json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error}); save the dataset again") from None
