"""SQuAD 1.1 and 2.0, adversarial SQuAD included: JSON of articles of passages of questions."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from os import PathLike

from pydantic import AliasChoices, Field

from helpers.data.examples import DataError, Example
from helpers.data.formats.places import locate
from helpers.data.formats.rows import Identifier, Located, Record, Row, Text, check_impossible, checked, said, settled
from helpers.files import write_whole

UNPLACED = "questions have answers but no place in the context: kept for scoring, not to train on"
_ADVERSARIAL = re.compile(r"(?P<original>.+?)-(?:high-conf-)?turk\d+")


class SquadAnswer(Row):
    text: Text
    answer_start: int


class SquadQuestion(Row):
    """``accepted`` is a key of `write_squad`'s: the texts to score with, where they are not those of ``answers``."""

    id: Identifier
    question: Text
    answers: list[SquadAnswer]
    is_impossible: bool | None = None
    accepted: list[Text] | None = None

    def located(self, where: str, context: str, document: str) -> Located:
        """The question with its answers placed in ``context``; adversarial variants share the original's group."""
        where += said(self.id)
        check_impossible(self.is_impossible, bool(self.answers or self.accepted), where)
        notes: list[str] = []
        spans = [
            locate(context, answer.text, answer.answer_start, f"{where}, answer {number}", notes)
            for number, answer in enumerate(self.answers, 1)
        ]
        texts = tuple(dict.fromkeys(self.accepted or [answer.text for answer in self.answers]))
        if texts and not spans:
            notes.append(UNPLACED)
        group, span = original_of(self.id), spans[0] if spans else None
        return Located(
            where, Example(self.id, self.question, context, texts, span, group), document, notes=tuple(notes)
        )


class SquadParagraph(Row):
    context: Text
    qas: list


class SquadArticle(Row):
    paragraphs: list = Field(validation_alias=AliasChoices("paragraphs", "dialogues"))  # Molweni's are dialogues
    title: object = None


def original_of(identifier: str) -> str:
    """The id of the question that an adversarial one is a variant of; any other id itself."""
    variant = "turk" in identifier and _ADVERSARIAL.fullmatch(identifier)
    return variant["original"] if variant else identifier


def squad(articles: Iterable[object]) -> Iterator[Record]:
    """The questions of SQuAD's ``data``; an article is a document."""
    for a, value in enumerate(articles, 1):
        article = settled(checked, SquadArticle, value, "", f"article {a}")
        if isinstance(article, DataError):
            yield article
            continue
        document = str(article.title or f"article {a}")
        for p, paragraph in enumerate(article.paragraphs, 1):
            yield from _questions(paragraph, f"article {a}, paragraph {p}", document)


def _questions(value: object, where: str, document: str) -> Iterator[Record]:
    paragraph = settled(checked, SquadParagraph, value, "", where)
    if isinstance(paragraph, DataError):
        yield paragraph
        return
    for q, question in enumerate(paragraph.qas, 1):
        yield settled(_question, question, f"{where}, question {q}", paragraph.context, document)


def _question(value: object, where: str, context: str, document: str) -> Located:
    return checked(SquadQuestion, value, "", where).located(where, context, document)


def write_squad(examples: Sequence[Example], path: str | PathLike, documents: Sequence[str] = ()) -> None:
    """Write ``examples`` as SQuAD 2.0, in their order, so that `read` gives the same again and repairs nothing.

    ``documents`` (one an example, as `Corpus.documents` has them) become the titles of articles. Neighbours with the
    same passage share a paragraph. An answer's offset is that of the span, or of its place nearest to the span. Where
    the answers do not stand in the passage as they are written (repaired or free ones), ``answers`` is the marked
    stretch of the passage alone, or empty without one, and a key of our own, ``accepted``, lists the answers to score
    with. ``group`` is not written: the id says it. Raises DataError where an id does not, ValueError where the
    documents are too few or many, and OSError if the file cannot be written.
    """
    if documents and len(documents) != len(examples):
        raise ValueError(f"{len(documents)} documents for {len(examples)} examples; give one each, or none")
    for example in examples:
        if example.group != original_of(example.id):
            raise DataError(f"{example.id}: SQuAD's ids cannot say that its group is {example.group}; rename it")
    rows = list(zip(documents or ("",) * len(examples), examples, strict=True))
    articles = []
    for title, of_title in groupby(rows, key=lambda row: row[0]):
        paragraphs = [
            {"context": context, "qas": [_written(example) for _, example in of_context]}
            for context, of_context in groupby(of_title, key=lambda row: row[1].context)
        ]
        articles.append({"title": title, "paragraphs": paragraphs})
    write_whole(path, json.dumps({"version": "v2.0", "data": articles}) + "\n")


def _written(example: Example) -> dict:
    asked = {"id": example.id, "question": example.question, "is_impossible": not example.answers}
    if example.span is None:
        return asked | {"answers": []} | ({"accepted": example.answers} if example.answers else {})
    first, last = example.span
    marked = {"text": example.context[first:last], "answer_start": first}
    starts = [_nearest(example.context, answer, first) for answer in example.answers]
    if None in starts or example.answers[0] != marked["text"]:
        return asked | {"answers": [marked], "accepted": example.answers}
    placed = zip(example.answers, starts, strict=True)
    return asked | {"answers": [{"text": text, "answer_start": start} for text, start in placed]}


def _nearest(context: str, text: str, start: int) -> int | None:
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]
    return min(places, key=lambda place: abs(place - start), default=None)
