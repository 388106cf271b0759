"""The MRQA shared task's lines of JSON: one passage with its questions each; a header may come first."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from helpers.data.examples import DataError, Example
from helpers.data.formats.rows import MOVED, Identifier, Located, Row, Text, checked, lines, locate, parse_json

LOOSE = "answers differ from the context in case, spacing or punctuation; the file's own offsets are used"
UNPLACED = "questions have answers but no place in the context: kept for scoring, not to train on"


def _pair(value: object) -> list[int]:
    pair = [value.get("start"), value.get("end")] if isinstance(value, dict) else value  # the Hub names the two
    if type(pair) is not list or [type(edge) for edge in pair] != [int, int]:
        raise PydanticCustomError("pair", "[first, last]")
    return pair


class MrqaDetected(Row):
    text: Text
    char_spans: list[Annotated[Any, BeforeValidator(_pair)]]  # first and last character

    def placed(self, context: str, first: int, last: int, where: str, tally: Counter) -> tuple[int, int]:
        """The character range; found loosely, so the text may differ from ``context`` in case and punctuation."""
        found = context[first : last + 1] if 0 <= first <= last < len(context) else ""
        if found != self.text and context.startswith(self.text, max(first, 0)):
            tally[MOVED] += 1
            return max(first, 0), max(first, 0) + len(self.text)
        if found != self.text and _bare(found) == _bare(self.text) != "":
            tally[LOOSE] += 1
            return first + len(found) - len(found.lstrip()), first + len(found.rstrip())
        return locate(context, self.text, first, where, tally)


class MrqaQuestion(Row):
    """``answers`` are to score with, ``detected_answers`` to train on."""

    id: Identifier = Field(validation_alias=AliasChoices("qid", "id"))  # qid is the official one
    question: Text
    answers: list[Text]
    detected_answers: list[MrqaDetected]
    is_impossible: bool | None = None

    def located(self, where: str, context: str, document: str, tally: Counter) -> Located:
        """The question with its detected answers placed in ``context``."""
        where = f"{where} (id {self.id})"
        spans = [
            detected.placed(context, *pair, f"{where}, detected answer {number}", tally)
            for number, detected in enumerate(self.detected_answers, 1)
            for pair in detected.char_spans
        ]
        if self.is_impossible and (self.answers or spans):
            raise DataError(f"{where}: 'is_impossible' is true, yet there are answers; correct one of the two")
        if spans and not self.answers:
            raise DataError(f"{where}: 'detected_answers' without 'answers'; both are needed, to train and to score")
        if self.answers and not spans:
            tally[UNPLACED] += 1
        texts, span = tuple(dict.fromkeys(self.answers)), spans[0] if spans else None
        return Located(where, Example(self.id, self.question, context, texts, span, self.id), document)


class MrqaLine(Row):
    context: Text
    qas: list[MrqaQuestion]


def _bare(text: str) -> str:
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKD", text)).casefold()


def mrqa(path: Path, tally: Counter) -> Iterator[Located]:
    """The questions of one file, plain or gzipped; a passage is a document."""
    first = 0  # the first line that is not blank
    for number, text in lines(path):
        if not text.strip():
            continue
        first, value = first or number, parse_json(text, path, number)
        if number == first and isinstance(value, dict) and "header" in value:
            continue
        line = checked(MrqaLine, value, path, f"line {number}")
        for q, question in enumerate(line.qas, 1):
            yield question.located(f"{path}: line {number}, question {q}", line.context, line.context, tally)
    if not first:
        raise DataError(f"{path}: the file is empty; expected one JSON object a line, as MRQA has it")
