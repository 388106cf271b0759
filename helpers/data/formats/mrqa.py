"""The MRQA shared task's lines of JSON: one passage with its questions each; a header may come first."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from helpers.data.examples import DataError, Example
from helpers.data.formats.places import MOVED, locate
from helpers.data.formats.rows import Identifier, Located, Record, Row, Text, check_impossible, checked, said, settled
from helpers.data.formats.squad import UNPLACED

LOOSE = "answers differ from the context in case, spacing or punctuation; the file's own offsets are used"
OTHER = "questions are trained on a detected answer that is none of the answers to score with"


def _pair(value: object) -> list[int]:
    pair = [value.get("start"), value.get("end")] if isinstance(value, dict) else value  # the Hub names the two
    if type(pair) is not list or [type(edge) for edge in pair] != [int, int]:
        raise PydanticCustomError("pair", "[first, last]")
    return pair


class MrqaDetected(Row):
    text: Text
    char_spans: list[Annotated[Any, BeforeValidator(_pair)]]  # first and last character

    def placed(self, context: str, first: int, last: int, where: str, notes: list[str]) -> tuple[int, int]:
        """The character range; found loosely, so the text may differ from ``context`` in case and punctuation."""
        found = context[first : last + 1] if 0 <= first <= last < len(context) else ""
        if found != self.text and context.startswith(self.text, max(first, 0)):
            notes.append(MOVED)
            return max(first, 0), max(first, 0) + len(self.text)
        if found != self.text and _bare(found) == _bare(self.text) != "":
            notes.append(LOOSE)
            return first + len(found) - len(found.lstrip()), first + len(found.rstrip())
        return locate(context, self.text, first, where, notes)


class MrqaQuestion(Row):
    """``answers`` are to score with, ``detected_answers`` to train on."""

    id: Identifier = Field(validation_alias=AliasChoices("qid", "id"))  # qid is the official one
    question: Text
    answers: list[Text]
    detected_answers: list[MrqaDetected]
    is_impossible: bool | None = None

    def located(self, where: str, context: str, document: str) -> Located:
        """The question with its detected answers placed in ``context``."""
        where += said(self.id)
        notes: list[str] = []
        spans = [
            detected.placed(context, *pair, f"{where}, detected answer {number}", notes)
            for number, detected in enumerate(self.detected_answers, 1)
            for pair in detected.char_spans
        ]
        check_impossible(self.is_impossible, bool(self.answers or spans), where)
        if spans and not self.answers:
            raise DataError(f"{where}: 'detected_answers' without 'answers'; both are needed, to train and to score")
        if self.answers and not spans:
            notes.append(UNPLACED)
        texts, span = tuple(dict.fromkeys(self.answers)), spans[0] if spans else None
        if span and not _among(context[slice(*span)], texts):
            notes.append(OTHER)
        example = Example(self.id, self.question, context, texts, span, self.id)
        return Located(where, example, document, notes=tuple(notes))


class MrqaLine(Row):
    context: Text
    qas: list


def _bare(text: str) -> str:
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKD", text)).casefold()


def _among(text: str, answers: tuple[str, ...]) -> bool:
    return text in answers or _bare(text) in map(_bare, answers)


def mrqa(values: Iterable[tuple[int, object]]) -> Iterator[Record]:
    """The questions of a file's lines, given by number and content, without the header; a passage is a document."""
    for number, value in values:
        line = settled(checked, MrqaLine, value, "", f"line {number}")
        if isinstance(line, DataError):
            yield line
            continue
        for q, question in enumerate(line.qas, 1):
            yield settled(_question, question, f"line {number}, question {q}", line.context)


def _question(value: object, where: str, context: str) -> Located:
    return checked(MrqaQuestion, value, "", where).located(where, context, context)
