"""From what a format yields to a list of examples, or to one message of everything that is refused."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import NamedTuple

from helpers.data.examples import Corpus, DataError
from helpers.data.formats.rows import Located, Record

LINE = 500  # characters that a message, or a line of it, may have beside the file's path
SHOWN = 10  # refusals that are listed
UNANSWERED = "the question has no answer"
_KEEP = (
    "setting data.unanswerable to true, or to a list of such domains, in the preset (-p unanswerable True on the "
    "command line) keeps them; or remove them"
)


class Checked(NamedTuple):
    """The records of one source that are used, a line for each that is left out, and notes on both."""

    records: list[Located]
    left_out: list[str]
    notes: list[str]


def check(records: Iterable[Record], name: str, unanswerable: bool, drop_bad: bool = False) -> Checked:
    """The records as a list: some, with an id each, and with an answer each unless ``unanswerable``.

    Refused ones are left out if ``drop_bad``. Otherwise raises one `DataError` for all of them: ``name``, how many,
    and the first of them, a line each. ``name`` also stands before the notes, its folders left away.
    """
    kept, refused, without = [], [], []
    taken: dict[str, str] = {}
    for record in records:
        if isinstance(record, DataError):
            refused.append(clipped(str(record)))
            continue
        if record.made and record.example.id in taken:
            identifier = unused(record.example.id, taken)
            record = record._replace(example=replace(record.example, id=identifier, group=identifier))
        identifier = record.example.id
        if identifier in taken:
            refused.append(clipped(f"{record.where}: the id is taken by {taken[identifier]}; make ids unique"))
            continue
        taken[identifier] = record.where
        (kept if unanswerable or record.example.answers else without).append(record)
    total = len(kept) + len(refused) + len(without)
    if not total:
        raise DataError(f"{name}: there is no question in it")
    lines = [*refused, *(clipped(f"{record.where}: {UNANSWERED}") for record in without)]
    if lines and not (drop_bad and kept):
        raise refusal(name, refused, without, total=total)
    short = name.rsplit("/", 1)[-1]
    tally = Counter(note for record in kept for note in record.notes)
    notes = [f"{short}: {times:,} {text}" for text, times in tally.items()]
    if lines:
        notes.append(f"{short}: {len(lines):,} of {total:,} questions were left out")
    return Checked(kept, lines, notes)


def corpus_of(checked: Checked) -> Corpus:
    """The examples of what is used, with notes, documents and what was left out."""
    examples = [record.example for record in checked.records]
    return Corpus(examples, checked.notes, checked.left_out, [record.document for record in checked.records])


def clipped(line: str) -> str:
    """``line`` without line breaks and not longer than a line of a message may be."""
    line = " ".join(line.split())
    return line if len(line) <= LINE else f"{line[: LINE - 2]} …"


def unused(identifier: str, taken: Collection[str]) -> str:
    """``identifier``, with a number behind it where it is taken."""
    return next(own for own in chain([identifier], (f"{identifier}.{n}" for n in count(2))) if own not in taken)


def refusal(name: str, refused: list[str], without: Sequence[Located] = (), *, total: int) -> DataError:
    """One message for all records that are refused, a line each, and for those ``without`` an answer, of ``total``."""
    lines = refused[:SHOWN]
    if len(refused) > SHOWN:
        lines.append(f"and {len(refused) - SHOWN:,} more")
    if without:
        others = f", as have {len(without):,} in all" if len(without) > 1 else ""
        lines.append(clipped(f"{without[0].where}: {UNANSWERED}{others}; {_KEEP}"))
    head = f"{name}: {len(refused) + len(without):,} of {total:,} records refused"
    error = DataError(f"{head}: {lines[0]}" if len(lines) == 1 else "\n  ".join([f"{head}:", *lines]))
    error.records = total
    return error
