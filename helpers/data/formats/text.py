"""Text files: their lines, plain or gzipped, JSON, and tables of comma- or tab-separated cells."""

import csv
import gzip
import json
import zlib
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from helpers.data.examples import DataError
from helpers.data.formats.rows import found, listed

_GZIP = b"\x1f\x8b"
_DELIMITERS = ",\t;|"
csv.field_size_limit(1 << 30)  # characters of a cell: by itself, csv reads no passage of more than 131,072


def opened(path: Path) -> tuple[IO[bytes], bool]:
    """The file, to be read unzipped, and whether it is gzipped, whatever its name says."""
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    return (gzip.open(path) if zipped else path.open("rb")), zipped


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line of a UTF-8 file, plain or gzipped, with or without a byte-order mark."""
    (file, zipped), offset = opened(path), 0
    with file:
        try:
            for number, raw in enumerate(file, 1):
                text = raw.decode("utf-8")
                yield number, text.removeprefix("\ufeff") if number == 1 else text
                offset += len(raw)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: line {number} is not UTF-8: byte {offset + error.start:,} of the "
                f"{'unzipped ' if zipped else ''}file is 0x{raw[error.start]:02x}; save the file as UTF-8"
            ) from None
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(f"{path}: reading stopped at byte {offset:,} ({error}); fetch the file again") from None


def text_of(path: Path) -> str:
    """The text of such a file."""
    return "".join(text for _, text in lines(path))


def parse_json(text: str, path: Path, line: int = 1, expected: str = "") -> object:
    """``text`` as JSON, from that ``line`` of the file on; ``expected`` says what the file should have been."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, column {error.colno}"
        spread = text.strip() == "{"  # a line of a file that should have an object in each
        hint = "write each object on one line" if spread else "the file may be cut short: fetch it again"
        what = f"{expected}; {hint}" if expected else hint
        raise DataError(f"{path}: not valid JSON at {place} ({error.msg}); {what}") from None
    except _Twice as error:
        raise DataError(f"{path}: a JSON object has the key {found(error.args[0])} twice; keep one of them") from None
    except RecursionError:
        raise DataError(f"{path}: the JSON from line {line} is nested too deeply to read") from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise DataError(f"{path}: the JSON from line {line} has a number too long to read; correct it") from None


class _Twice(Exception):
    """A key that an object has twice."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):  # json would keep the last, and lose questions in silence
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return made


def header_of(line: str) -> tuple[list[str], str]:
    """The cells of a table's first line and the delimiter that makes the most of them."""
    most, by = [line.strip()], ","
    for delimiter in _DELIMITERS:
        try:
            cells = next(csv.reader([line], delimiter=delimiter, strict=True), [])
        except csv.Error:
            continue
        if len(cells) > len(most):
            most, by = cells, delimiter
    return most, by


def table(path: Path, needed: Collection[str]) -> Iterator[tuple[str, dict[str, str] | DataError]]:
    """Place and cells of each row of a CSV or TSV file, the first line of which has to name the columns ``needed``.

    A row with more or fewer cells than that line comes as the `DataError` that says so.
    """
    with closing(lines(path)) as text:
        yield from _rows(path, needed, text)


def _rows(
    path: Path, needed: Collection[str], text: Iterator[tuple[int, str]]
) -> Iterator[tuple[str, dict[str, str] | DataError]]:
    head, first = next(((number, line) for number, line in text if line.strip()), (1, ""))
    names, delimiter = header_of(first)
    if missing := [name for name in needed if name not in names]:
        columns = listed(names) if first.strip() else "none: the file is empty"
        raise DataError(f"{path}: line {head} has to name the columns {missing}; the columns are {columns}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path}: line {head} names the column {found(twice)} twice; keep one of them")

    read: list[str] = []  # the lines of a row

    def clean() -> Iterator[str]:
        for number, line in text:
            if "\0" in line:
                raise DataError(f"{path}: line {number} holds a NUL byte, which no text has; save the table as UTF-8")
            read.append(line)
            yield line

    reader, done = csv.reader(clean(), delimiter=delimiter, strict=True), 0
    try:
        for cells in reader:
            place, done = f"row from line {done + head + 1}", reader.line_num
            rows = [line.count("\t") + 1 == len(names) for line in read]
            read.clear()
            if delimiter == "\t" and len(rows) > 1 and all(rows):  # each line would be a row by itself
                says = "a quote at the beginning of a cell is closed only some cells and lines later"
                yield place, DataError(f"{place}: {says}; take these quotes away, or save the table as JSON")
            elif len(cells) == len(names):
                yield place, dict(zip(names, cells, strict=True))
            elif cells:
                says = f"expected {len(names)} cells, as line {head} has, found {len(cells)}; check its quotes"
                yield place, DataError(f"{place}: {says}")
    except csv.Error as error:
        says = f"row from line {done + head + 1} is not valid CSV ({error}); check its quotes"
        if "unexpected end" in str(error):
            says += ": one that is opened and never closed takes in all lines below it"
        raise DataError(f"{path}: {says}") from None
