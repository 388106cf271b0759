"""Rows with any columns, as a file stores them: JSON, lines of JSON, CSV, TSV or Parquet; told by its content."""

from collections.abc import Collection
from pathlib import Path

from helpers.data.examples import DataError
from helpers.data.formats.arrow import parquet_rows
from helpers.data.formats.files import head_of, listing, refuse_foreign
from helpers.data.formats.rows import found
from helpers.data.formats.text import lines, parse_json, table, text_of

EXPECTED = (
    "expected rows of texts and labels as JSON (an object a line, or a list of them), CSV, TSV or Parquet, text may be "
    "gzipped"
)
Rows = list[tuple[str, object]]  # place and content of each; the content of one that cannot be read is its `DataError`


def stored_rows(path: Path, known: Collection[str], expected: str = EXPECTED) -> tuple[list[str], Rows]:
    """The names of all columns of one file, and its rows; from Parquet the columns ``known`` alone are read.
    ``expected`` is for messages.

    Raises `DataError` for a file that is not there or of no such form.
    """
    if not path.is_file():
        beside = f"; {path.parent} holds {listing(path.parent)}" if path.parent.is_dir() else ""
        raise DataError(f"{path}: {'a folder' if path.exists() else 'no such file'}{beside}; {expected}")
    head, _ = head_of(path)
    if head.startswith(b"PAR1"):
        return parquet_rows(path, lambda names: [name for name in names if name in known])
    refuse_foreign(path, head, expected)
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first == b"{":
        rows: Rows = [(f"line {n}", parse_json(text, path, n, expected)) for n, text in lines(path) if text.strip()]
    elif first == b"[":
        value = parse_json(text_of(path), path, 1, expected)
        rows = [(f"row {number}", row) for number, row in enumerate(value if isinstance(value, list) else [], 1)]
    else:
        rows = list(table(path, ()))
    if not rows:
        raise DataError(f"{path}: no row is in it, it begins with {found(head)}; {expected}")
    return list(dict.fromkeys(name for _, row in rows if isinstance(row, dict) for name in row)), rows
