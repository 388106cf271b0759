"""NarrativeQA: free answers about summaries, each with the stretch of the summary that comes nearest to it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from helpers.data.examples import DataError, Example
from helpers.data.formats.rows import Located, Row, Text, digest, table

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


def narrativeqa(folder: Path, tally: Counter) -> Iterator[Located]:
    """NarrativeQA's folder with summaries.csv and qaps.csv; ``set`` says which part a question belongs to."""
    summaries_path, questions_path = (folder / name for name in NARRATIVE_FILES)
    summaries: dict[str, str] = {}
    for where, row in table(summaries_path, Summary):
        if row.document_id in summaries:
            raise DataError(f"{where}: document {row.document_id} has a summary already; remove one of the two")
        summaries[row.document_id] = row.summary

    def questions() -> Iterator[tuple]:
        for where, row in table(questions_path, NarrativeQuestion):
            if row.document_id not in summaries:
                raise DataError(f"{where}: document {row.document_id} is not in {summaries_path.name}; add it there")
            answers = row.answer1, row.answer2
            yield where, row.document_id, summaries[row.document_id], row.question, answers, row.set

    return narrative_records(questions(), tally)


def narrative_records(questions: Iterable[tuple], tally: Counter) -> Iterator[Located]:
    """Questions as (where, document id, summary, question, answers, part), with the span nearest to the answers.

    They come without ids, so one is made of document and content.
    """
    times: Counter[str] = Counter()
    for where, document, summary, question, answers, part in questions:
        identifier = f"{document}-{digest(question, *answers)[:8]}"
        times[identifier] += 1
        if times[identifier] > 1:  # some questions stand in the official file twice, word for word
            identifier += f".{times[identifier]}"
        span = closest_span(summary, answers)
        if span is None:
            tally[NO_SHARED_WORD] += 1
        example = Example(identifier, question, summary, answers, span, identifier)
        yield Located(f"{where} (id {identifier})", example, document, part)


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
