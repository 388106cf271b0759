"""Keep the questions of the papers' corpora as they are after reading and comparing, once for all processes.

A corpus of 100,000 questions takes minutes to read, and every worker and notebook needs it. A file holds each distinct
text once, a line each, and then the records.
"""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from helpers import paths
from helpers.data.downloads import find_download
from helpers.data.examples import Example, QuestionRecord
from helpers.data.folders import list_copies, list_sources
from helpers.files import file_fingerprint, fingerprint
from helpers.presets.schema import DataSettings, Download

SIZES = {"draw", "train_size", "valid_size", "test_size", "train_share", "narrative"}  # what is done later


class Prepared(NamedTuple):
    """The records of a domain by part with a test part set apart, none of them in others; notes, facts, overlaps."""

    parts: dict[str, list]
    notes: list[str]
    facts: dict[str, object]
    overlaps: list[str]


def prepare_once(data: DataSettings, name: str, prepare: Callable[[DataSettings, str], tuple]) -> Prepared:
    """Return what ``prepare`` returns for a domain, from the file of an earlier process where there is one.

    Only where the preset pins all that is read.
    """
    if not all(is_pinned(find_download(data.downloads, source)[2]) for source in list_sources(data)):
        return Prepared(*prepare(data, name))
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in list_copies(data)]
    code = [file_fingerprint(file) for file in sorted(Path(__file__).parent.glob("*.py"))]
    key = fingerprint(name, data.model_dump(exclude=SIZES), facts, code)
    place = paths.CACHE / "prepared" / f"{name}-{key}.jsonl.gz"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.with_suffix(".lock")):
        if not place.exists():
            write_prepared(place, prepared := Prepared(*prepare(data, name)))
            return prepared
    return read(place)


def is_pinned(download: Download | None) -> bool:
    """Return whether a corpus has one content: all its files have checksums, or it has a revision."""
    return bool(download) and (bool(download.revision) or all(file.sha256 for file in download.files.values()))


def write_prepared(place: Path, prepared: Prepared) -> None:
    """Write the records of a domain in one step."""
    unfinished, numbers = place.with_suffix(".part"), {}
    with gzip.open(unfinished, "wt", 1, encoding="ascii") as file:
        file.write(json.dumps(prepared[1:]) + "\n")
        for part, records in prepared.parts.items():
            for example, document, named_part in records:
                for text in (example.context, document):
                    if text not in numbers:
                        numbers[text] = len(numbers)
                        file.write(json.dumps(text) + "\n")
                row = (numbers[example.context], numbers[document], example.id, example.question, example.answers)
                file.write(json.dumps((part, named_part, *row, example.span, example.group)) + "\n")
    os.replace(unfinished, place)


def read(place: Path) -> Prepared:
    """Read what `write_prepared` wrote."""
    texts, parts = [], {}
    with gzip.open(place, "rt", encoding="ascii") as file:
        rest = json.loads(next(file))
        for line in file:
            row = json.loads(line)
            if isinstance(row, str):
                texts.append(row)
                continue
            part, named_part, context, document, name, question, answers, span, group = row
            example = Example(name, question, texts[context], tuple(answers), span and tuple(span), group)
            parts.setdefault(part, []).append(QuestionRecord(example, texts[document], named_part))
    return Prepared(parts, *rest)
