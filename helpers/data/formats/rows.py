"""The file formats SQuAD and MRQA, read strictly, one question at a time; what NarrativeQA shares is here too.

Every parser yields `Record`s and counts in ``tally`` what it repaired or what cannot be trained on. Anything else that
is not as the format has it raises `DataError` with file, record and id.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from helpers.data.examples import DataError, Example

MOVED = "answers were placed where their text stands in the context, as their offsets were wrong"
LOOSE = "answers differ from the context in case, spacing or punctuation; the file's own offsets are used"
UNPLACED = "questions have answers but no place in the context: kept for scoring, not to train on"
_ADVERSARIAL = re.compile(r"(?P<original>.+?)-(?:high-conf-)?turk\d+")
_KINDS = {str: "text", int: "a whole number", list: "a list", dict: "an object", bool: "true or false"}


class Record(NamedTuple):
    """An example, where it was read (for messages), its document, and its part where the file itself says so."""

    where: str
    example: Example
    document: str
    part: str = ""


def digest(*texts: object) -> str:
    """A hash of ``texts`` that is the same in every process and on every machine, as 32 hexadecimal digits."""
    joined = "\x00".join(map(str, texts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=16).hexdigest()


def notes_of(name: str, tally: Counter) -> list[str]:
    """What a parser counted, as lines to show."""
    return [f"{name}: {count:,} {text}" for text, count in tally.items()]


def check(records: Iterable[Record], name: str, unanswerable: bool) -> list[Record]:
    """The records as a list: some, with an id each, and with an answer each unless ``unanswerable``."""
    records = list(records)
    if not records:
        raise DataError(f"{name}: there is no question in it")
    places: dict[str, str] = {}
    for where, example, *_ in records:
        if example.id in places:
            raise DataError(f"{where}: the id is taken by {places[example.id]}; make ids unique")
        places[example.id] = where
    without = [record for record in records if not record.example.answers]
    if without and not unanswerable:
        raise DataError(
            f"{without[0].where}: the question has no answer, as have {len(without):,} of {len(records):,} in this "
            "file; pass unanswerable=True to keep them, or remove them"
        )
    return records


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


def _json(text: str, path: Path, line: int = 1) -> object:
    """``text`` as JSON; ``line`` is the line of the file where it starts."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, column {error.colno}"
        hint = "the file may be cut short: fetch it again"
        if error.msg == "Extra data" and not path.name.endswith((".jsonl", ".jsonl.gz")):
            hint = "if it holds one JSON object a line, name it .jsonl"
        raise DataError(f"{path}: not valid JSON at {place} ({error.msg}); {hint}") from None


def field(record: object, key: str, kind: type, where: str):
    """``record[key]``, which has to be of type ``kind``."""
    if type(record) is not dict:
        raise DataError(f"{where}: expected an object with {key!r}, found {record!r:.80}")
    if key not in record:
        raise DataError(f"{where}: {key!r} is missing; the keys are {', '.join(map(repr, record)) or 'none'}")
    if type(record[key]) is not kind:
        raise DataError(f"{where}: expected {key!r} to be {_KINDS[kind]}, found {record[key]!r:.80}")
    return record[key]


def filled(record: object, key: str, where: str) -> str:
    """``record[key]``, which has to be text with more in it than white space."""
    text = field(record, key, str, where)
    if not text.strip():
        raise DataError(f"{where}: {key!r} is empty; fill it in or remove the record")
    return text


def _identifier(record: object, key: str, where: str) -> str:
    """The record's id; some files number their questions instead of naming them."""
    if type(record) is dict and type(record.get(key)) is int:
        return str(record[key])
    return filled(record, key, where)


def squad(path: Path, tally: Counter) -> Iterator[Record]:
    """SQuAD 1.1 and 2.0, adversarial SQuAD included: articles of paragraphs of questions."""
    text = "".join(text for _, text in lines(path))
    if not text.strip():
        raise DataError(f"{path}: the file is empty; expected SQuAD's JSON")
    for a, article in enumerate(field(_json(text, path), "data", list, str(path)), 1):
        where = f"{path}: article {a}"
        paragraphs = field(article, "paragraphs", list, where)
        title = article.get("title")
        document = title if type(title) is str and title else f"article {a}"
        for p, paragraph in enumerate(paragraphs, 1):
            where = f"{path}: article {a}, paragraph {p}"
            context = filled(paragraph, "context", where)
            for q, question in enumerate(field(paragraph, "qas", list, where), 1):
                yield squad_record(f"{where}, question {q}", question, context, document, tally)


def squad_record(where: str, record: object, context: str, document: str, tally: Counter) -> Record:
    """One of SQuAD's questions, an object with ``id``, ``question`` and ``answers``."""
    identifier = _identifier(record, "id", where)
    where = f"{where} (id {identifier})"
    question = filled(record, "question", where)
    answers = field(record, "answers", list, where)
    if answers and record.get("is_impossible") is True:
        raise DataError(f"{where}: 'is_impossible' is true, yet there are answers; correct one of the two")
    texts, spans = [], []
    for number, answer in enumerate(answers, 1):
        place = f"{where}, answer {number}"
        texts.append(filled(answer, "text", place))
        spans.append(_locate(context, texts[-1], field(answer, "answer_start", int, place), place, tally))
    adversarial = _ADVERSARIAL.fullmatch(identifier)
    group = adversarial["original"] if adversarial else identifier
    example = Example(identifier, question, context, tuple(dict.fromkeys(texts)), spans[0] if spans else None, group)
    return Record(where, example, document)


def _locate(context: str, text: str, start: int, where: str, tally: Counter) -> tuple[int, int]:
    """The character range of ``text``: at ``start``, or else at the only place where it stands."""
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    first = context.find(text)
    found = context[max(start, 0) :][: len(text)]
    if first < 0:
        raise DataError(f"{where}: {text!r:.80} does not stand in the context (at offset {start}: {found!r:.80})")
    if context.find(text, first + 1) >= 0:
        raise DataError(
            f"{where}: {text!r:.80} is not at its offset {start} (there: {found!r:.80}) and stands in the context "
            "more than once; correct the offset"
        )
    tally[MOVED] += 1
    return first, first + len(text)


def mrqa(path: Path, tally: Counter) -> Iterator[Record]:
    """The MRQA shared task's lines, one context with its questions each; a header may come first."""
    empty = True
    for number, text in lines(path):
        if not text.strip():
            continue
        record = _json(text, path, number)
        if empty and type(record) is dict and "header" in record:
            empty = False
            continue
        empty = False
        where = f"{path}: line {number}"
        context = filled(record, "context", where)
        for q, question in enumerate(field(record, "qas", list, where), 1):
            yield mrqa_record(f"{where}, question {q}", question, context, tally)
    if empty:
        raise DataError(f"{path}: the file is empty; expected one JSON object a line, as MRQA has it")


def mrqa_record(where: str, record: object, context: str, tally: Counter) -> Record:
    """One of MRQA's questions: ``answers`` to score with, ``detected_answers`` to train on (ends are inclusive)."""
    key = "qid" if type(record) is dict and "qid" in record else "id"  # qid is the official one
    identifier = _identifier(record, key, where)
    where = f"{where} (id {identifier})"
    question = filled(record, "question", where)
    answers = field(record, "answers", list, where)
    for number, answer in enumerate(answers, 1):
        filled({"text": answer}, "text", f"{where}, answer {number}")
    spans = []
    for number, detected in enumerate(field(record, "detected_answers", list, where), 1):
        place = f"{where}, detected answer {number}"
        text = filled(detected, "text", place)
        for pair in field(detected, "char_spans", list, place):
            if type(pair) is not list or [type(edge) for edge in pair] != [int, int]:
                raise DataError(f"{place}: expected each of 'char_spans' to be [first, last], found {pair!r:.80}")
            spans.append(_detected(context, text, *pair, place, tally))
    if record.get("is_impossible") is True and (answers or spans):
        raise DataError(f"{where}: 'is_impossible' is true, yet there are answers; correct one of the two")
    if spans and not answers:
        raise DataError(f"{where}: 'detected_answers' without 'answers'; both are needed, to train and to score")
    if answers and not spans:
        tally[UNPLACED] += 1
    distinct, span = tuple(dict.fromkeys(answers)), spans[0] if spans else None
    return Record(where, Example(identifier, question, context, distinct, span, identifier), context)


def _detected(context: str, text: str, first: int, last: int, where: str, tally: Counter) -> tuple[int, int]:
    """MRQA found its answers loosely, so their text may differ from the context in case and punctuation."""
    found = context[first : last + 1] if 0 <= first <= last < len(context) else ""
    if found != text and context.startswith(text, max(first, 0)):
        tally[MOVED] += 1
        return max(first, 0), max(first, 0) + len(text)
    if found != text and _bare(found) == _bare(text) != "":
        tally[LOOSE] += 1
        return first + len(found) - len(found.lstrip()), first + len(found.rstrip())
    return _locate(context, text, first, where, tally)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKD", text)).casefold()
