"""Parquet files, and the folders that `datasets.save_to_disk` makes."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.data.examples import DataError
from helpers.data.formats.columns import check_columns, columns_of, records, rows_of
from helpers.data.formats.rows import Record


def parquet(path: Path) -> Iterator[Record]:
    """The questions of one file."""
    names, rows = parquet_rows(path, columns_of)
    return rows_of(rows, names, path)


def parquet_rows(path: Path, choose: Callable[[list[str]], list[str]]) -> tuple[list[str], list[tuple[str, object]]]:
    """The names of all columns of one file, and its rows with those that ``choose`` takes of them; others are left
    unread. Raises `DataError`."""
    from pyarrow.parquet import ParquetFile

    with _whole(path, "a whole Parquet file"), ParquetFile(path, page_checksum_verification=True) as file:
        wanted = choose(names := file.schema_arrow.names)
        table = file.read(columns=wanted)
        if "document.id" in wanted:
            check_columns(wanted, table.flatten().flatten().column_names, path)
        table.validate(full=True)  # text that is not UTF-8, offsets beyond the end
        return names, [(f"row {number}", row) for number, row in enumerate(table.to_pylist(), 1)]


def saved(folder: Path) -> Iterator[Record]:
    """The questions of a saved dataset."""
    from datasets import load_from_disk  # takes a second

    with _whole(folder, "a whole folder that datasets.save_to_disk wrote"):
        rows = load_from_disk(str(folder)).with_format(None)
        rows.data.validate(full=True)
    return records(rows, folder)


@contextmanager
def _whole(path: Path, expected: str) -> Iterator[None]:
    """What reading a broken file raises, as `DataError`."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # whatever pyarrow and datasets raise, on whichever byte is wrong
        says = " ".join(str(error).split())
        raise DataError(f"{path}: expected {expected} ({says:.200}); fetch or write it again") from None


def is_saved(folder: Path) -> bool:
    """Whether `datasets.save_to_disk` wrote this folder, as one dataset."""
    return (folder / "state.json").is_file()


def saved_splits(folder: Path) -> list[str]:
    """The names of the datasets that were saved together in this folder."""
    if not (file := folder / "dataset_dict.json").is_file():
        return []
    with _whole(file, "'splits' to name folders beside it"):
        splits = json.loads(file.read_bytes())["splits"]
        if missing := [split for split in splits if not is_saved(folder / split)]:
            raise ValueError(f"{missing[0]} is none")
        return splits
