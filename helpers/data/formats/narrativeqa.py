"""NarrativeQA: free answers about summaries, each with the stretch of the summary that comes nearest to it."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from helpers.data.examples import DataError, Example
from helpers.data.formats.rows import Located, R, Record, Row, Text, checked, digest, found, said, settled
from helpers.data.formats.text import table

NARRATIVE_FILES = ("summaries.csv", "qaps.csv")
NO_SHARED_WORD = "questions share no word of their answers with the summary: kept for scoring, not to train on"


class Summary(Row):
    document_id: Text
    summary: Text


class NarrativeQuestion(Row):
    document_id: Text
    set: Literal["train", "valid", "test"]
    question: Text
    answer1: Text
    answer2: Text


def narrativeqa(folder: Path) -> Iterator[Record]:
    """NarrativeQA's folder with summaries.csv and qaps.csv; ``set`` says which part a question belongs to."""
    summaries_path, questions_path = (folder / name for name in NARRATIVE_FILES)
    summaries: dict[str, str] = {}
    for where, row in _rows(summaries_path, Summary):
        if isinstance(row, DataError):
            yield row
        elif row.document_id in summaries:
            yield DataError(f"{where}: document {found(row.document_id)} has a summary already; remove one of the two")
        else:
            summaries[row.document_id] = row.summary
    for where, row in _rows(questions_path, NarrativeQuestion):
        if isinstance(row, DataError):
            yield row
        elif row.document_id not in summaries:
            document = found(row.document_id)
            yield DataError(f"{where}: document {document} is not in {summaries_path.name}; add it there")
        else:
            answers = row.answer1, row.answer2
            yield free_answer(where, row.document_id, summaries[row.document_id], row.question, answers, row.set)


def _rows(path: Path, model: type[R]) -> Iterator[tuple[str, R | DataError]]:
    for place, cells in table(path, model.model_fields):
        where = f"{path.name}: {place}"
        refused = isinstance(cells, DataError)
        yield where, DataError(f"{path.name}: {cells}") if refused else settled(checked, model, cells, path.name, place)


def free_answer(
    where: str, document: str, summary: str, question: str, answers: tuple[str, ...], part: str = ""
) -> Located:
    """A question without an id, with the span nearest to its answers; the id is made of document and content."""
    identifier = f"{document}-{digest(question, *answers)[:8]}"  # some stand in the official file twice, word for word
    span = closest_span(summary, answers)
    example = Example(identifier, question, summary, answers, span, identifier)
    return Located(where + said(identifier), example, document, part, (NO_SHARED_WORD,) * (span is None), made=True)


@lru_cache(maxsize=100)  # a document's questions stand together
def _words(text: str) -> tuple[dict[str, list[int]], list[tuple[int, int]]]:
    """At which words of ``text`` each word, in lower case, stands, and each word's character range."""
    positions, ranges = defaultdict(list), []
    for index, match in enumerate(re.finditer(r"\w+", text)):
        positions[match.group().lower()].append(index)
        ranges.append(match.span())
    return positions, ranges


def closest_span(context: str, references: Iterable[str]) -> tuple[int, int] | None:
    """The character range of the words with the highest ROUGE-L F against any reference; None if no word is shared.

    Exact: F = 2 LCS / (reference + window) in words, so a best window starts and ends on shared words and, as LCS is
    at most the reference, a window too long to beat the best so far ends the search from its start. The LCS grows
    with the window, a row of its table held in the bits of one integer. Among equals the earliest, shortest is taken.
    """
    positions, ranges = _words(context)
    best, best_score = None, 0.0
    for reference in references:
        wanted, words = _words(reference)
        size, masks = len(words), {word: sum(1 << place for place in places) for word, places in wanted.items()}
        shared = sorted((index, mask) for word, mask in masks.items() for index in positions.get(word, ()))
        for begin, (first, _) in enumerate(shared):
            row = full = (1 << size) - 1
            for last, mask in shared[begin:]:
                window = last - first + 1
                if best_score and 2 * size / (size + window) <= best_score:
                    break
                matched = row & mask
                row = ((row + matched) | (row - matched)) & full
                score = 2 * (size - row.bit_count()) / (size + window)
                if score > best_score:
                    best, best_score = (ranges[first][0], ranges[last][1]), score
    return best
