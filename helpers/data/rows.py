"""Read the rows of data files, each with its place, and report everything that is wrong with a file in one error."""

import csv
import gzip
import io
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Annotated, TypeVar

import pydantic

from helpers.data.examples import DataError, check_text
from helpers.errors import printable

DATA_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
REJECTED_SHARE = 0.01  # of a corpus, which may be left out
MAX_REJECTED = 10  # rejected records that an error lists
LINE = 400  # characters that an error gives to each of them
VERDICTS = {"accept", "reject", "ignore"}  # of an annotator, in Prodigy's column "answer"
GZIP = b"\x1f\x8b"  # how a gzipped file begins
UNREADABLE = (OSError, EOFError, zlib.error)  # what a damaged one raises
REJECTED = "rows that annotators rejected or ignored were left out"
Rows = Iterable[tuple[str, object]]  # the place of each row in its file, and its content; a DataError is no row
T = TypeVar("T")
csv.field_size_limit(1 << 30)  # the default rejects cells of more than 131,072 characters
PART_WORDS = dict.fromkeys(("train", "training", "trn"), "train") | dict.fromkeys(("test", "testing", "tst"), "test")
PART_WORDS |= dict.fromkeys(("valid", "validation", "val", "dev", "development"), "valid")


def list_names(names: Iterable[object], most: int = 100) -> str:
    """Return names that a file gives, such as those of columns, for an error; at most so many characters."""
    return ", ".join(map(repr, names))[:most]


Text = Annotated[str, pydantic.AfterValidator(check_text)]


class Row(pydantic.BaseModel):
    """A record of a file. Keys that its format does not know are ignored."""

    model_config = pydantic.ConfigDict(strict=True)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises DataError, also for a pipe, which could not be read again."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is no regular file; save what it gives in a file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; check the path") from None


@contextmanager
def name_if_too_large(path: Path) -> Iterator[None]:
    """Raise DataError that names a file where it does not fit into memory."""
    try:
        yield
    except MemoryError:
        raise DataError(f"{path}: is too large for this machine's memory; split it into smaller files") from None


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, gzipped or not. Raises DataError."""
    return _decode(path, read_bytes(path))


def _decode(path: Path, content: bytes) -> str:
    try:
        if content.startswith(GZIP):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}: line {line} is not UTF-8: {error}; save the file as UTF-8") from None
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read: {error}; fetch the file again") from None


def read_rows(path: Path) -> Rows:
    """Yield the rows of a Parquet, JSON, JSON lines, CSV or TSV file; other JSON is one row. Raises DataError.

    The content of the file decides, not its name. Lines of JSON are read one by one: a corpus takes many times its size
    in memory.
    """
    _refuse_arrow(path)
    with name_if_too_large(path):
        if _holds_json_lines(path):
            yield from _read_json_lines(path)
        elif (content := read_bytes(path)).startswith(b"PAR1"):
            yield from _parse_parquet(path, content)
        else:
            yield from _parse(path, _decode(path, content))


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_zipped = file.read(2) == GZIP
    return gzip.open(path) if is_zipped else path.open("rb")


def _holds_json_lines(path: Path) -> bool:
    # Tells whether the first line is a whole object and another one follows.
    with suppress(*UNREADABLE, ValueError, RecursionError):
        if path.is_file():
            with _open(path) as file:
                first = next(filter(bytes.strip, file), b"").decode("utf-8-sig")
                return isinstance(json.loads(first), dict) and any(map(bytes.strip, file))
    return False


def _read_json_lines(path: Path) -> Rows:
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if text.strip():
                    yield f"line {number}", _parse_line(text)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: line {number} is not UTF-8: {error}; save the file as UTF-8") from None
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read: {error}; fetch the file again") from None


def _parse_line(line: str) -> object:
    try:
        return _parse_json(line)
    except (ValueError, RecursionError) as error:
        return DataError(str(error))


def _parse(path: Path, text: str) -> list[tuple[str, object]]:
    if not text.lstrip().startswith(("{", "[")):
        return _parse_table(path, text)
    try:
        value = _parse_json(text)
    except (ValueError, RecursionError) as error:
        if getattr(error, "msg", "") != "Extra data":  # one object per line
            raise DataError(f"{path}: is not valid JSON: {error}; fetch or write the file again") from None
        return [
            (f"line {number}", _parse_line(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()
        ]
    return [(f"row {n}", row) for n, row in enumerate(value, 1)] if isinstance(value, list) else [("line 1", value)]


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):  # json would keep the last one and lose records in silence
        keys = [key for key, _ in pairs]
        raise DataError(f"an object has the key {max(keys, key=keys.count)!r:.60} twice; keep one of them")
    return values


_parse_json = partial(json.loads, object_pairs_hook=_unique_keys)


def _parse_parquet(path: Path, content: bytes) -> list[tuple[str, object]]:
    from pyarrow.parquet import ParquetFile  # here, because it takes a second to import

    try:
        with ParquetFile(io.BytesIO(content), page_checksum_verification=True) as file:
            table = file.read()
        table.validate(full=True)  # else invalid offsets are read as other text
        return [(f"row {n}", row) for n, row in enumerate(table.to_pylist(), 1)]
    except MemoryError:
        raise
    except Exception as error:  # pyarrow raises many types, depending on the damaged byte
        problem = " ".join(str(error).split())
        raise DataError(f"{path}: is not a readable Parquet file: {problem:.200}; fetch or write it again") from None


def read_table(path: Path, columns: tuple[str, ...] = (), *, quotes: bool = True) -> list[tuple[str, object]]:
    """Return the rows of a CSV or TSV file as objects by column. Raises DataError.

    The first line names the columns, unless ``columns`` does. Without ``quotes``, as in GLUE's files, cells are
    separated by tabs and a quote is a character like any other. A row that cannot be read is returned as a DataError.
    """
    with name_if_too_large(path):
        return _parse_table(path, read_text(path), columns, quotes=quotes)


def _parse_table(path: Path, text: str, columns: tuple[str, ...] = (), *, quotes: bool = True) -> list:
    lines, names, rows, last = list(io.StringIO(text, newline="")), list(columns), [], 0
    if broken := next((number for number, line in enumerate(lines, 1) if "\0" in line), 0):
        raise DataError(f"{path}: line {broken} holds a NUL byte; save the file as UTF-8")
    delimiter = max(",\t;|", key=next(filter(str.strip, lines), "").count) if quotes else "\t"
    if quotes and (match := re.fullmatch(r"sep=(.)\s*", lines[0] if lines else "")):  # Excel's own line
        delimiter, lines[0] = match[1], "\n"
    style = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
    reader = csv.reader(lines, delimiter=delimiter, **style)
    try:
        for cells in reader:
            first, last = last, reader.line_num
            tabs = [line.count("\t") for line in lines[first:last]]
            if not names:
                names = cells
                if len(set(names)) < len(names):
                    raise DataError(f"{path}: line {last} names a column twice: {list_names(names)}; rename one")
                continue
            content = dict(zip(names, cells, strict=False))
            if len(tabs) > 1 and delimiter == "\t" and set(tabs) == {len(names) - 1}:
                content = DataError("a quote that begins a cell swallows the lines below it; remove such quotes")
            elif cells and len(cells) != len(names):
                content = DataError(f"expected {len(names)} cells, found {len(cells)}; check its quotes")
            if cells:
                rows.append((f"line {first + 1}", content))
    except csv.Error as error:
        raise DataError(f"{path}: line {last + 1}: {error}; check the quotes from there on") from None
    if not names:
        raise DataError(f"{path}: is empty; fill it in, or remove it")
    return rows


def leave_out_rejected(rows: Rows, name: str) -> tuple[list, list[str]]:
    """Return the rows that no annotator has rejected or ignored, and a note with the file's name if there are others.

    The column "answer" says so where it holds nothing but `VERDICTS`.
    """
    rows = list(rows)
    verdicts = [row.get("answer") if isinstance(row, dict) else None for _, row in rows]
    if not all(isinstance(verdict, str | None) and verdict in {*VERDICTS, "", None} for verdict in verdicts):
        return rows, []
    left = [row for row, verdict in zip(rows, verdicts, strict=True) if verdict not in ("reject", "ignore")]
    number = len(rows) - len(left)
    return left, [f"{printable(name)}: {number:,} {REJECTED}"] * (number > 0)


def read_each(places: dict[str, list[T]], read: Callable[[T], tuple[list, list[str]]]) -> tuple[dict, list[str]]:
    """Return by part what ``read`` returns for the files, or splits, of each, and its notes on all of them."""
    parts, notes = {}, []
    for part, of_part in places.items():
        parts[part] = []
        for place in of_part:
            records, more = read(place)
            parts[part] += records
            notes += more
    return parts, notes


def parse_each(
    parse: Callable[[str, object], T | None], rows: Rows, path: object, notes: list[str] | None = None
) -> list[T]:
    """Return what ``parse`` makes of place and content of each row, if not None. Raises one DataError for all rows.

    With ``notes``, at most a share `REJECTED_SHARE` of them is left out instead, and counted there.
    """
    rows, parsed, rejected = list(rows), [], {}  # the places of each problem
    for where, content in rows:
        try:
            if isinstance(content, Exception):
                raise content
            if (result := parse(where, content)) is not None:
                parsed.append(result)
        except (ValueError, RecursionError) as error:  # DataError and pydantic's ValidationError are ValueErrors
            rejected.setdefault(" ".join(_explain(error).split()), []).append(where)
    lines = [_list_places(places, problem) for problem, places in rejected.items()]
    number = sum(map(len, rejected.values()))
    counted = f"{number:,} of {len(rows):,} records rejected"
    if rejected and notes is not None and number <= REJECTED_SHARE * len(rows):
        notes.append(f"{printable(str(path).rpartition('/')[2])}: {counted} and left out, such as {lines[0]}")
    elif rejected:
        unlisted = sum(map(len, list(rejected.values())[MAX_REJECTED:]))
        more = [f"and {unlisted:,} more"] * (unlisted > 0)
        raise DataError("\n  ".join([f"{path}: {counted}:", *lines[:MAX_REJECTED], *more]))
    if not parsed:
        raise DataError(f"{path}: has no usable record; give a file with some")
    return parsed


def _list_places(places: Sequence[object], problem: str) -> str:
    others = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
    return f"{places[0]}{others}: {problem}"[:LINE]


def _explain(error: Exception) -> str:
    if not isinstance(error, pydantic.ValidationError):
        return str(error)
    problem = error.errors(include_url=False)[0]
    place = ".".join(str(key) for key in problem["loc"] if not str(key).startswith(("Answer", "function-")))
    if problem["type"] == "missing":
        place = f"{place!r} is" if place != "answers" else "'answer' and 'answers' are"
        return f"{place} missing; its keys are {list_names(problem['input'])}"
    return f"{place!r}: {problem['msg'].removeprefix('Value error, ')}; found {problem['input']!r:.80}"


def find_parts(path: Path) -> dict[str, list[Path]]:
    """Return the files of a domain by part, or as "all" if there is one. Raises DataError.

    ``path`` is a file, a folder, or what stands before the part in the names of the domain's files.
    """
    _refuse_arrow(path)
    if path.exists() and not path.is_dir():
        return {"all": [path]}
    folder, begin = (path, "") if path.is_dir() else (path.parent, path.name)
    present = sorted(folder.iterdir()) if folder.is_dir() else []
    pattern = rf"{re.escape(begin)}[\W_](?i:{'|'.join(PART_WORDS)}|\w+(\.gz)?$)(?![^\W_])" if begin else "[^.]"
    files = [file for file in present if re.match(pattern, file.name)]
    files = [file for file in files if Path(file.name.lower().removesuffix(".gz")).suffix in DATA_SUFFIXES]
    parts = defaultdict(list)
    for file in files:
        words = re.split(r"[\W_]+", file.name[len(begin) :].lower())
        words = {PART_WORDS[word] for word in words if word in PART_WORDS}
        if len(words) != 1 and len(files) > 1:
            raise DataError(f"{file}: its part is unclear; write exactly one of train, valid and test into its name")
        parts[words.pop() if len(files) > 1 else "all"].append(file)
    if not parts:
        listing = ", ".join(file.name for file in present[:8]) or "nothing"
        raise DataError(f"{path}: no data file; expected {', '.join(DATA_SUFFIXES)}, found {listing} in {folder}")
    for part, shards in parts.items():  # such as train-00000-of-00002.parquet
        if (shard := re.search(r"-of-(\d{5})\W", shards[0].name)) and int(shard[1]) != len(shards):
            raise DataError(f"{path}: expected {int(shard[1])} files of {part}, found {len(shards)}; fetch the others")
    return dict(parts)


def _refuse_arrow(path: Path) -> None:
    # What save_to_disk writes is a folder with its own files of JSON, which look like data.
    if path.is_dir():
        has_one = (path / "state.json").is_file() and (path / "dataset_info.json").is_file()
        is_arrow = has_one or (path / "dataset_dict.json").is_file()
    else:
        is_arrow = path.is_file() and (path.name == "dataset_dict.json" or path.suffix == ".arrow")
    if is_arrow:
        raise DataError(
            f"{path}: is Arrow, as save_to_disk of `datasets` writes it, which is not read; export each split, such as "
            'load_from_disk(FOLDER)["train"].to_parquet("train.parquet")'
        )
