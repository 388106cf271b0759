"""One file, or the files of one part: which format it has is told by its content, and its name is a hint. Its
questions, or its rows, whatever their columns."""

import re
import zlib
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from helpers.data.examples import DataError
from helpers.data.formats.arrow import is_saved, parquet, parquet_rows, saved
from helpers.data.formats.cells import typed
from helpers.data.formats.columns import columns_of, rows_of
from helpers.data.formats.mrqa import mrqa
from helpers.data.formats.narrativeqa import NARRATIVE_FILES, narrativeqa
from helpers.data.formats.refusals import Checked, check
from helpers.data.formats.rows import Record, found, listed
from helpers.data.formats.squad import squad
from helpers.data.formats.text import header_of, lines, opened, parse_json, table, text_of

EXPECTED = (
    "expected SQuAD's JSON, MRQA's lines of JSON, rows with the columns id, context, question and answers (JSON, CSV, "
    f"TSV or Parquet), gzipped or not, or a folder with NarrativeQA's {' and '.join(NARRATIVE_FILES)}"
)
Rows = list[tuple[str, object]]  # place and content of each; the content of one that cannot be read is its `DataError`
_SHARD = re.compile(r"(?P<before>.*?)[-_.]?(?P<number>\d{5})-of-(?P<count>\d{5})(?P<after>.*)")
_FOREIGN = {  # how files begin that are given by mistake, and what they are
    b"\xff\xff\xff\xff": "a file of a dataset that datasets.save_to_disk wrote: give its folder",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save it as CSV",
    b"BZh": "packed with bzip2: unpack it",
    b"\xfd7zXZ": "packed with xz: unpack it",
    b"\x28\xb5\x2f\xfd": "packed with zstd: unpack it",
    b"%PDF": "a PDF",
    b"\xff\xfe": "text in UTF-16: save it as UTF-8",
    b"\xfe\xff": "text in UTF-16: save it as UTF-8",
    b"<": "a web page or XML: fetch the file itself",
    b"version https://git-lfs": "Git's pointer to a large file: fetch the file itself (git lfs pull)",
}


def parse(path: Path, unanswerable: bool = False, drop_bad: bool = False, shards: tuple[Path, ...] = ()) -> Checked:
    """The questions of one file, of NarrativeQA's folder or of a saved dataset; of ``shards`` of ``path`` if given.

    Raises `DataError` for what cannot be read, and for refused records (see `check`).
    """
    try:
        if is_narrativeqa(path):
            records = narrativeqa(path)
        elif is_saved(path):
            records = saved(path)
        elif shards:
            records = chain.from_iterable(map(_shard, shards))
        else:
            records = records_of(path)
        checked = check(records, str(path), unanswerable, drop_bad)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not shards and (match := shard_of(path)):
        checked.notes.append(f"{path.name}: one of {int(match['count'])} shards; their folder's name gives all of them")
    return checked


def shard_of(path: Path) -> re.Match | None:
    """What the name of one of several shards says: its number, their count, and the rest."""
    match = _SHARD.fullmatch(path.name)
    return match if match and int(match["count"]) > 1 else None


def _shard(path: Path) -> Iterator[Record]:
    for record in records_of(path):
        if isinstance(record, DataError):
            yield DataError(f"{path.name}: {record}")
        else:
            yield record._replace(where=f"{path.name}: {record.where}")


def is_narrativeqa(path: Path) -> bool:
    """Whether the folder holds NarrativeQA's two files."""
    return all((path / name).is_file() for name in NARRATIVE_FILES)


def listing(folder: Path) -> str:
    """What ``folder`` holds, for messages."""
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    shown = [f"{name:.30}" for name in names[:8]]
    return ", ".join(shown) + f" and {len(names) - 8:,} more" * (len(names) > 8) or "nothing"


def suffix_of(path: Path) -> str:
    """The suffix in small letters, .gz left away."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def records_of(path: Path) -> Iterator[Record]:
    """The questions of one file."""
    if head_of(path, EXPECTED).startswith(b"PAR1"):
        return parquet(path)
    return _text(path)


def stored_rows(path: Path, known: Collection[str], expected: str) -> tuple[list[str], Rows]:
    """The names of all columns of one file, and its rows; from Parquet the columns ``known`` alone are read.

    Raises `DataError` for a file that is not there or of no such form; ``expected`` is for its message.
    """
    head = head_of(path, expected)
    if head.startswith(b"PAR1"):
        return parquet_rows(path, lambda names: [name for name in names if name in known])
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
    return _columns(rows), rows


def head_of(path: Path, expected: str) -> bytes:
    """How the content of a file begins. Raises `DataError` for one that is not there or of another kind."""
    if path.is_dir():
        raise DataError(f"{path}: it holds {listing(path)}; {expected}")
    if not path.exists():
        beside = f"; {path.parent} holds {listing(path.parent)}" if path.parent.is_dir() else ""
        raise DataError(f"{path}: no such file{beside}; {expected}")
    file, zipped = opened(path)
    try:
        with file:
            head = file.read(64)
    except (EOFError, OSError, zlib.error):
        return b""  # reading the text says where it breaks off
    if zipped and head.startswith(b"PAR1"):
        raise DataError(f"{path}: it is a gzipped Parquet file: unzip it")
    if what := next((what for begin, what in _FOREIGN.items() if head.startswith(begin)), None):
        raise DataError(f"{path}: it is {what}; {expected}")
    return head


def _text(path: Path) -> Iterator[Record]:
    stream = lines(path)
    number, first = next(((number, text) for number, text in stream if text.strip()), (0, ""))
    if not number:
        raise DataError(f"{path}: the file is empty; {EXPECTED}")
    if first.lstrip()[0] not in "{[":
        return _table(path, first)
    try:
        value = parse_json(first, path, number)
    except DataError as refusal:
        return _whole(_over_lines(first, stream, path, number, refusal), path)
    more = ((number, parse_json(text, path, number)) for number, text in stream if text.strip())
    second = next(more, None)
    if second is None and not (isinstance(value, dict) and {"qas", "header"} & set(value)):
        return _whole(value, path)
    values = chain([(number, value)], [second] if second else [], more)
    if isinstance(value, dict) and "header" in value:
        next(values)
        number, value = second or (number, {"qas": []})
        values = chain([second] if second else [], more)
    if isinstance(value, dict) and "qas" in value:
        return mrqa(values)
    if isinstance(value, dict) and columns_of(value):
        return _rows([(f"line {number}", value) for number, value in values], path)
    raise DataError(f"{path}: line {number} holds {_what(value)}; {EXPECTED}")


def _over_lines(first: str, stream: Iterator[tuple[int, str]], path: Path, number: int, refusal: DataError) -> object:
    """The value that goes on after its ``first`` line; or raises ``refusal``, that line's own, if each line is one."""
    rest = "".join(text for _, text in stream)
    try:
        return parse_json(first + rest, path, number)
    except DataError:
        if not rest.strip() or suffix_of(path) in (".jsonl", ".ndjson"):
            raise refusal from None
        raise


def _whole(value: object, path: Path) -> Iterator[Record]:
    data = value.get("data") if isinstance(value, dict) and "data" in value else value
    if isinstance(data, dict) and data is not value:
        return squad([data])  # one article
    if isinstance(data, list):
        first = next((item for item in data if isinstance(item, dict)), {})
        if columns_of(first):
            return _rows([(f"row {number}", row) for number, row in enumerate(data, 1)], path)
        if data is not value or {"paragraphs", "dialogues"} & set(first):
            return squad(data)
    elif isinstance(data, dict) and columns_of(data):
        return _rows([("row 1", data)], path)
    raise DataError(f"{path}: it holds {_what(data)}; {EXPECTED}")


def _rows(rows: Rows, path: Path) -> Iterator[Record]:
    return rows_of(rows, _columns(rows), path)


def _columns(rows: Rows) -> list[str]:
    return list(dict.fromkeys(name for _, row in rows if isinstance(row, dict) for name in row))


def _table(path: Path, first: str) -> Iterator[Record]:
    columns, _ = header_of(first)
    wanted = columns_of(columns)
    if not wanted and (len(columns) == 1 or suffix_of(path) not in (".csv", ".tsv")):
        raise DataError(f"{path}: it begins with {found(first.strip())}; {EXPECTED}")
    rows = ((where, row if isinstance(row, DataError) else typed(row)) for where, row in table(path, wanted))
    return rows_of(rows, columns, path)


def _what(value: object) -> str:
    if isinstance(value, dict):
        return f"an object with the keys {listed(value)}"
    if isinstance(value, list) and value:
        return f"a list, the first of which is {_what(value[0])}"
    return found(value)
