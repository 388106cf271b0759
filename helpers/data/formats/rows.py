"""What the file formats share: reading lines, JSON and tables, checking rows against pydantic models, placing answers.

Every format yields `Located` examples and counts in ``tally`` what it repaired or what cannot be trained on. Anything
else that is not as the format has it raises `DataError` with file, record and id.
"""

import csv
import gzip
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import pydantic
from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from helpers.data.examples import DataError, Example

MOVED = "answers were placed where their text stands in the context, as their offsets were wrong"
_EXPECTED = {"string_type": "text", "int_type": "a whole number", "list_type": "a list", "bool_type": "true or false"}
_NOUNS = {"data": "article", "qas": "question"}  # one of a list, where it is not the list's name less its s


class Located(NamedTuple):
    """An example, where it was read (for messages), its document, and its part where the file itself says so."""

    where: str
    example: Example
    document: str
    part: str = ""


class Row(pydantic.BaseModel):
    """One record of a file, as its format has it; what it holds besides is left alone."""

    model_config = pydantic.ConfigDict(strict=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _is_object(cls, value: object) -> object:
        if not isinstance(value, dict):
            raise PydanticCustomError("object", f"an object with {next(iter(cls.model_fields))!r}")
        return value


def _filled(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty", "text")
    return text


Text = Annotated[str, AfterValidator(_filled)]  # with more in it than white space
# Some files number their questions instead of naming them.
Identifier = Annotated[Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
R = TypeVar("R", bound=Row)


def checked(model: type[R], value: object, file: object, *places: str) -> R:
    """``value`` as a ``model``. Raises `DataError` that names ``file``, the record (``places``, and where in ``value``
    it stands, with its id), the field, what was expected and what was found."""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
    kind, found = problem["type"], problem["input"]
    steps, field = [place + _id_of(value) for place in places], ""
    for key in problem["loc"]:
        if isinstance(key, int):
            noun = _NOUNS.get(field) or field.removesuffix("s").replace("_", " ")
            value, field = value[key], ""
            steps.append(f"{noun} {key + 1}{_id_of(value)}")
        else:
            value, field = value.get(key), key
    if kind == "missing":
        says = f"{field!r} is missing; the keys are {', '.join(map(repr, found)) or 'none'}"
    elif kind == "empty":
        says = f"{repr(field) if field else 'it'} is empty; fill it in or remove the record"
    else:
        expected = problem["ctx"]["expected"].replace("'", "") if kind == "literal_error" else problem["msg"]
        says = f"expected {f'{field!r} to be ' if field else ''}{_EXPECTED.get(kind, expected)}, found {found!r:.80}"
    raise DataError(": ".join(filter(None, (str(file), ", ".join(steps), says))))


def _id_of(value: object) -> str:
    identifier = value.get("qid", value.get("id")) if isinstance(value, dict) else None
    return f" (id {identifier})" if type(identifier) in (str, int) and str(identifier).strip() else ""


def digest(*texts: object) -> str:
    """A hash of ``texts`` that is the same in every process and on every machine, as 32 hexadecimal digits."""
    joined = "\x00".join(map(str, texts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=16).hexdigest()


def notes_of(name: str, tally: Counter) -> list[str]:
    """What a parser counted, as lines to show."""
    return [f"{name}: {count:,} {text}" for text, count in tally.items()]


def check(records: Iterable[Located], name: str, unanswerable: bool) -> list[Located]:
    """The records as a list: some, with an id each, and with an answer each unless ``unanswerable``."""
    records = list(records)
    if not records:
        raise DataError(f"{name}: there is no question in it")
    places: dict[str, str] = {}
    for where, example, *_ in records:
        if (first := places.setdefault(example.id, where)) != where:
            raise DataError(f"{where}: the id is taken by {first}; make ids unique")
    without = [record for record in records if not record.example.answers]
    if without and not unanswerable:
        raise DataError(
            f"{without[0].where}: the question has no answer, as have {len(without):,} of {len(records):,} in this "
            "file; pass unanswerable=True to keep them, or remove them"
        )
    return records


def locate(context: str, text: str, start: int, where: str, tally: Counter) -> tuple[int, int]:
    """The character range of ``text``: at ``start``, or else at the only place where it stands."""
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    first, found = context.find(text), context[max(start, 0) :][: len(text)]
    if first < 0:
        raise DataError(f"{where}: {text!r:.80} does not stand in the context (at offset {start}: {found!r:.80})")
    if context.find(text, first + 1) >= 0:
        raise DataError(
            f"{where}: {text!r:.80} is not at its offset {start} (there: {found!r:.80}) and stands in the context "
            "more than once; correct the offset"
        )
    tally[MOVED] += 1
    return first, first + len(text)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line of a UTF-8 file, plain or gzipped, with or without a byte-order mark."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if path.suffix == ".gz" and not zipped:
        hint = "it is empty" if path.stat().st_size == 0 else f"if it is plain text, name it {path.stem}"
        raise DataError(f"{path}: named .gz, but not a gzip file; {hint}, or fetch it again")
    offset = 0
    with gzip.open(path) if zipped else path.open("rb") as file:
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


def parse_json(text: str, path: Path, line: int = 1) -> object:
    """``text`` as JSON; ``line`` is the line of the file where it starts."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, column {error.colno}"
        hint = "the file may be cut short: fetch it again"
        if error.msg == "Extra data" and not path.name.endswith((".jsonl", ".jsonl.gz")):
            hint = "if it holds one JSON object a line, name it .jsonl"
        raise DataError(f"{path}: not valid JSON at {place} ({error.msg}); {hint}") from None


def table(path: Path, model: type[R]) -> Iterator[tuple[str, R]]:
    """Place and row of a CSV file, the first line of which has to name the fields of ``model``."""
    reader = csv.DictReader((text for _, text in lines(path)), strict=True)
    done = 0
    try:
        header = reader.fieldnames or []
        if missing := [name for name in model.model_fields if name not in header]:
            found = ", ".join(map(repr, header)) or "none: the file is empty"
            raise DataError(f"{path}: line 1 has to name the columns {missing}; the columns are {found}")
        done = reader.line_num  # the line on which the row before ended
        for row in reader:
            place = f"row from line {done + 1}"
            if None in row or None in row.values():
                raise DataError(f"{path}: {place}: expected {len(header)} cells, as line 1 has; check its quotes")
            yield f"{path}: {place}", checked(model, row, path, place)
            done = reader.line_num
    except csv.Error as error:
        raise DataError(f"{path}: row from line {done + 1} is not valid CSV ({error}); check its quotes") from None
