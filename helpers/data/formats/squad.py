"""SQuAD 1.1 and 2.0, adversarial SQuAD included: JSON of articles of passages of questions."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from helpers.data.examples import DataError, Example
from helpers.data.formats.rows import Identifier, Located, Row, Text, checked, lines, locate, parse_json

_ADVERSARIAL = re.compile(r"(?P<original>.+?)-(?:high-conf-)?turk\d+")


class SquadAnswer(Row):
    text: Text
    answer_start: int


class SquadQuestion(Row):
    id: Identifier
    question: Text
    answers: list[SquadAnswer]
    is_impossible: bool | None = None

    def located(self, where: str, context: str, document: str, tally: Counter) -> Located:
        """The question with its answers placed in ``context``; adversarial variants share the original's group."""
        where = f"{where} (id {self.id})"
        if self.is_impossible and self.answers:
            raise DataError(f"{where}: 'is_impossible' is true, yet there are answers; correct one of the two")
        spans = [
            locate(context, answer.text, answer.answer_start, f"{where}, answer {number}", tally)
            for number, answer in enumerate(self.answers, 1)
        ]
        texts = tuple(dict.fromkeys(answer.text for answer in self.answers))
        variant = _ADVERSARIAL.fullmatch(self.id)
        group, span = variant["original"] if variant else self.id, spans[0] if spans else None
        return Located(where, Example(self.id, self.question, context, texts, span, group), document)


class SquadParagraph(Row):
    context: Text
    qas: list[SquadQuestion]


class SquadArticle(Row):
    paragraphs: list[SquadParagraph]
    title: object = None


class SquadFile(Row):
    data: list[SquadArticle]


def squad(path: Path, tally: Counter) -> Iterator[Located]:
    """The questions of one file, plain or gzipped; an article is a document."""
    text = "".join(text for _, text in lines(path))
    if not text.strip():
        raise DataError(f"{path}: the file is empty; expected SQuAD's JSON")
    for a, article in enumerate(checked(SquadFile, parse_json(text, path), path).data, 1):
        for p, paragraph in enumerate(article.paragraphs, 1):
            for q, question in enumerate(paragraph.qas, 1):
                where = f"{path}: article {a}, paragraph {p}, question {q}"
                yield question.located(where, paragraph.context, str(article.title or f"article {a}"), tally)
