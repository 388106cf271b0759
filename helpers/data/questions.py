"""Read questions about passages: SQuAD 1.1 and 2.0, MRQA, NarrativeQA, and rows with SQuAD's columns."""

import ast
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from helpers.data.examples import DataError, Example, QuestionRecord, digest, is_blank, make_unique
from helpers.data.rows import (
    Row,
    Rows,
    Text,
    find_parts,
    leave_out_rejected,
    list_names,
    parse_each,
    read_each,
    read_rows,
    read_table,
)
from helpers.errors import printable

NARRATIVEQA = ("summaries.csv", "qaps.csv")
EXPECTED = "expected SQuAD's JSON, MRQA's JSON lines, or rows with context, question, and answer or answers"
OFFSET_REACH = 5  # characters by which an offset may be wrong where an answer occurs more than once
NO_ANSWER = "has no answer; remove it, or allow such questions in a preset of your own (data.unanswerable = true)"
MOVED = "answers had a wrong offset and were moved to where their text occurs"
ANSWERS_LEFT_OUT = "answers that are not in their passage were left out, as their questions have others"
UNPLACED = "questions have answers without a place in their passage: scored, not trained on"
EMPTY = "answers without a text were left out"
LOOSE = "answers differ from their passage in case, punctuation or white space: the file's own offsets are used"
IGNORED = "questions have answers, which are not read"
OTHER = "questions are trained on a detected answer that is not among the answers to score with"
ANSWER_KEYS = ("answers", "detected_answers", "answer", "answer_text", "answer_start", "answer1", "answer2")
_LETTER = r"[^\W\u2e80-\U0010ffff]"  # of a script with spaces between its words


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the range of characters [start, end) of ``text`` without the blank ones at its ends."""
    while start < end and is_blank(text[start]):
        start += 1
    while start < end and is_blank(text[end - 1]):
        end -= 1
    return start, end


def strip(text: str) -> str:
    """Return ``text`` without the blank characters at its ends."""
    return text[slice(*trim(text, 0, len(text)))]


def _to_text(identifier: object) -> object:
    number = _to_offset(identifier)
    return str(number) if type(number) is int and not isinstance(identifier, str) else identifier


def _transpose(columns: object) -> object:
    # `datasets` writes a record of lists for a list of records.
    if isinstance(columns, dict) and columns and all(isinstance(column, list) for column in columns.values()):
        if len({len(column) for column in columns.values()}) > 1:
            raise DataError(f"'answers': {list_names(columns)} are lists of unequal length; correct them")
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return columns


def _to_offset(value: object) -> object:
    # Tables have text, and pandas writes whole numbers as 36.0 in a column with gaps.
    is_whole = isinstance(value, float) and value.is_integer()
    if is_whole or (isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,15}(\.0)?\s*", value)):
        return int(float(value))
    return value


Offset = Annotated[int, BeforeValidator(_to_offset)]


class Answer(Row):
    text: Text
    answer_start: Offset


class Detected(Row):
    """An answer of MRQA; ``char_spans`` are first and last character of every place where it occurs."""

    text: Text
    char_spans: list[Annotated[list[Offset], Field(min_length=2, max_length=2)]]


class Question(Row):
    """A question of SQuAD, of MRQA, or of a row. MRQA has ``detected_answers`` to train on, and texts to score with."""

    id: Annotated[str, BeforeValidator(_to_text)] = Field("", validation_alias=AliasChoices("qid", "id"))
    question: Text
    context: Text
    answers: list[Answer | Text]
    detected_answers: list[Detected] | None = None
    is_impossible: Annotated[bool, Field(strict=False)] | Literal[""] | None = None  # a table has text
    title: object = None

    def record(self, unanswerable: bool, taken: set[str], notes: Counter[str]) -> QuestionRecord:
        """Make its example, under an id that is not ``taken``. Count repairs in ``notes``. Raises DataError."""
        texts = [answer if isinstance(answer, str) else answer.text for answer in self.answers]
        if self.detected_answers is not None:
            pairs = [(answer.text, *pair) for answer in self.detected_answers for pair in answer.char_spans]
            spans = [*_locate_each(_locate_detected, self.context, pairs, notes).values()]
        elif any(isinstance(answer, str) for answer in self.answers):
            raise DataError("an answer has no answer_start; write each as an object with text and answer_start")
        else:
            pairs = [(answer.text, answer.answer_start) for answer in self.answers]
            located = _locate_each(locate_answer, self.context, pairs, notes)
            texts, spans = [text for text, _ in located], [*located.values()]
        if self.is_impossible == bool(texts):
            raise DataError(f"is_impossible is {self.is_impossible}, but it has {len(texts)} answers; correct one")
        if spans and not texts:
            raise DataError("it has detected_answers, but no answers to score with; add them")
        if not texts and not unanswerable:
            raise DataError(NO_ANSWER)
        if self.id in taken:
            raise DataError(f"the id {self.id!r:.60} is used twice; make ids unique")
        name = self.id or make_unique(f"{digest(self.context)[:8]}-{digest(self.question)[:8]}", taken)
        taken.add(name)
        texts = list(map(strip, texts))
        span = trim(self.context, *spans[0]) if spans else None
        notes[UNPLACED] += bool(texts) and span is None
        if span and (text := self.context[slice(*span)]) not in texts:
            notes[OTHER] += _bare(text) not in map(_bare, texts)
        variant = re.fullmatch(r"(.+?)-(?:high-conf-)?turk\d+", name)  # of an adversarial set
        group = variant[1] if variant else name
        example = Example(name, self.question, self.context, tuple(dict.fromkeys(texts)), span, group)
        return QuestionRecord(example, self.title if isinstance(self.title, str) and self.title else self.context)


def _locate_each(function: Callable, context: str, pairs: list[tuple], notes: Counter[str]) -> dict[tuple, tuple]:
    # Returns the spans of answers. One that has no place is left out, if another has.
    located, problems = {}, []
    for pair in dict.fromkeys(pairs):
        try:
            located[pair] = function(context, *pair, notes)
        except DataError as error:
            problems.append(error)
    if problems and not located:
        raise problems[0]
    notes[ANSWERS_LEFT_OUT] += len(problems)
    return located


def locate_answer(context: str, text: str, start: int, notes: Counter[str]) -> tuple[int, int]:
    """Return the half-open range of characters of an answer. Raises DataError.

    It is at its offset, where case, marks of punctuation and the kind of white space may differ. Or else it is at the
    only place within `OFFSET_REACH` characters, or at the only place at all, where its words occur. White space may
    differ there, and no word is cut.
    """
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    stripped = text.strip()
    for first in (start, start + text.index(stripped)):  # an offset may leave out white space before the answer
        if first >= 0 and _is_like(context[first : first + len(stripped)], stripped):
            notes[LOOSE] += 1
            return first, first + len(stripped)
    words = r"\s+".join(map(re.escape, text.split()))
    before = rf"(?<!{_LETTER})" if re.match(_LETTER, stripped[0]) else ""
    after = rf"(?!{_LETTER})" if re.match(_LETTER, stripped[-1]) else ""
    places = [match.span(1) for match in re.finditer(f"{before}(?=({words}){after})", context)]
    places = [place for place in places if abs(place[0] - start) <= OFFSET_REACH] or places
    if len(places) != 1:
        there, count = context[max(start, 0) :][: len(text)], f"{len(places) or 'no'} places"
        raise DataError(
            f"the answer {text!r:.60} is not at its offset {start!r:.20}, where the passage has {there!r:.60}, and "
            f"occurs at {count}; correct the offset"
        )
    notes[MOVED] += 1
    return places[0]


def _is_like(one: str, other: str) -> bool:
    # Letters and digits are the same but for case. A mark of punctuation stands for another, such as a straight quote.
    is_text = any(map(str.isalnum, other))
    return is_text and len(one) == len(other) and all(map(_is_like_character, one, other))


def _is_like_character(one: str, other: str) -> bool:
    kinds = {"Z" if character.isspace() else unicodedata.category(character)[0] for character in (one, other)}
    return one.casefold() == other.casefold() or kinds in ({"P"}, {"Z"})


def _locate_detected(context: str, answer: str, first: int, last: int, notes: Counter[str]) -> tuple[int, int]:
    # MRQA's answers may differ from the passage in case and punctuation.
    text = context[first : last + 1] if 0 <= first <= last < len(context) else ""
    if text == answer or _bare(text) != _bare(answer) or not _bare(text):
        return locate_answer(context, answer, first, notes)
    notes[LOOSE] += 1
    return first + len(text) - len(text.lstrip()), first + len(text.rstrip())


def _bare(text: str) -> str:
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKD", text)).casefold()


def read_questions(
    path: Path, unanswerable: bool = False, may_reject: bool = False, is_labelled: bool = True
) -> tuple[list[QuestionRecord], list[str]]:
    """Read a file of questions, or NarrativeQA's folder: return the records, and notes on repairs. Raises DataError.

    Only with ``unanswerable`` may questions have no answer; ``may_reject`` as in `parse_questions`. No answer is read
    unless the file ``is_labelled``.
    """
    if path.is_dir():
        return parse_questions(_read_narrativeqa(path), path, may_reject=may_reject, is_labelled=is_labelled)
    rows = [question for where, row in read_rows(path) for question in _list_questions(where, row)]
    return parse_questions(rows, path, unanswerable, may_reject, is_labelled)


def parse_questions(
    rows: Rows, path: object, unanswerable: bool = False, may_reject: bool = False, is_labelled: bool = True
) -> tuple[list[QuestionRecord], list[str]]:
    """Return the records of rows, and notes on repairs. Raises one DataError for all rejected rows.

    With ``may_reject`` a few of these are left out instead, and noted.
    """
    rows, taken, notes, name = list(rows), set(), Counter(), printable(str(path).rpartition("/")[2])
    rejected = []
    is_answered = any(isinstance(row, dict) and "answers" in row for _, row in rows)
    if is_answered or not is_labelled:  # so that "answer" is no answer
        rows, rejected = leave_out_rejected(rows, name)
    has_ids = any(_id_of(row) not in (None, "") for _, row in rows)

    def parse(_: str, row: dict) -> QuestionRecord:
        if not is_labelled:
            row = _remove_answers(row, notes)
        if "answer1" in row:
            return Story.model_validate(row).record(taken, notes)
        if has_ids and _id_of(row) in (None, ""):
            raise DataError("it has no id, unlike others; give all an id, or none")
        question = Question.model_validate(_list_answers(_parse_cells(row), notes))
        return question.record(unanswerable or not is_labelled, taken, notes)

    records = parse_each(parse, rows, path, rejected if may_reject else None)
    return records, rejected + [f"{name}: {number:,} {note}" for note, number in notes.items() if number]


def _id_of(row: object) -> object:
    return row.get("qid", row.get("id")) if isinstance(row, dict) else None


class Paragraph(Row):
    context: Text
    qas: list[dict]


class Article(Row):
    paragraphs: list[Paragraph]
    title: object = None


class Squad(Row):
    data: list[Article]


def _list_questions(where: str, row: object) -> Rows:
    # Yields the questions in a row of a file, or in all of SQuAD's JSON, each with its passage and title.
    try:
        if not isinstance(row, dict):
            raise row if isinstance(row, DataError) else DataError(EXPECTED)
        if "question" in row and "context" in row:
            yield where, row
        elif "qas" in row:
            for q, question in enumerate(Paragraph.model_validate(row).qas, 1):
                fields = {
                    key: value for key, value in question.items() if key != "question_tokens"
                }  # large, and unused
                yield f"{where}, question {q} (id {_id_of(question)!r:.60})", fields | {"context": row["context"]}
        elif _holds_rows(row.get("data")):
            for number, below in enumerate(row["data"], 1):
                yield from _list_questions(f"row {number} of its data", below)
        elif "data" in row or "paragraphs" in row:
            for a, article in enumerate(Squad.model_validate(row if "data" in row else {"data": [row]}).data, 1):
                title = str(article.title or f"article {a}")
                for p, paragraph in enumerate(article.paragraphs, 1):
                    for q, question in enumerate(paragraph.qas, 1):
                        place = f"article {a}, paragraph {p}, question {q} (id {_id_of(question)!r:.60})"
                        yield place, question | {"title": title, "context": paragraph.context}
        elif "header" not in row:
            raise DataError(f"{EXPECTED}; found {list_names(row) or 'nothing'}")
    except ValueError as error:
        yield where, error


def _holds_rows(data: object) -> bool:
    # transformers' run_qa.py has rows below "data", others passages, where SQuAD has articles.
    rows = data if isinstance(data, list) else []
    return any(isinstance(row, dict) and ("question" in row or "qas" in row) for row in rows)


def _parse_cells(row: dict) -> dict:
    # A table has answers as JSON or Python, or as a text beside its offset.
    names = [name for name in ("answers", "detected_answers") if isinstance(row.get(name), str)]
    row = row | {name: _parse_cell(row[name]) for name in names}
    texts = [name for name in ("answer", "answer_text") if name in row]
    if "answers" in row or not (texts or "answer_start" in row):
        return row
    if not texts or "answer_start" not in row:
        missing, other = ("answer_start", texts[0]) if texts else ("answer", "answer_start")
        raise DataError(
            f"the column {missing!r} beside {other!r} is missing, found {list_names(row)}; add or rename it"
        )
    text, start = row.get("answer") or row.get("answer_text"), _to_offset(row["answer_start"])
    has_none = text in (None, "") and start in (None, "", -1)
    return row | {"answers": [] if has_none else [{"text": text, "answer_start": start}]}


def _list_answers(row: dict, notes: Counter[str]) -> dict:
    # Some files write an empty text where there is no answer, or no further one: it is left out.
    answers = _transpose(row.get("answers"))
    if not isinstance(answers, list):
        return row
    filled = [answer for answer in answers if not _is_empty(answer)]
    offsets = [answer.get("answer_start") if isinstance(answer, dict) else 0 for answer in answers]
    is_marked = row.get("is_impossible") not in (None, "") or all(offset in (None, "", -1, "-1") for offset in offsets)
    if not filled and not is_marked:
        return row | {"answers": answers}
    notes[EMPTY] += len(answers) - len(filled)
    return row | {"answers": filled}


def _remove_answers(row: dict, notes: Counter[str]) -> dict:
    answers = [row.get(key) for key in ANSWER_KEYS]
    notes[IGNORED] += any(any(answer.values()) if isinstance(answer, dict) else answer for answer in answers)
    bare = {key: value for key, value in row.items() if key not in (*ANSWER_KEYS, "is_impossible")}
    return {"context": row.get("summary"), **bare, "answers": []}


def _is_empty(answer: object) -> bool:
    text = answer.get("text", answer) if isinstance(answer, dict) else answer
    return text is None or (isinstance(text, str) and all(map(is_blank, text)))


def _parse_cell(cell: str) -> object:
    for parse in (json.loads, _parse_python):
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return parse(cell)
    raise DataError(f"answers are neither JSON nor a Python value, found {cell!r:.60}; write JSON")


def _parse_python(cell: str) -> object:
    return ast.literal_eval(_WithoutNumpy().visit(ast.parse(cell.strip(), mode="eval")))


class _WithoutNumpy(ast.NodeTransformer):
    # pandas writes np.int64(3) and array(['x'], dtype=object) where a cell holds numpy's values.
    def visit_Call(self, call: ast.Call) -> ast.AST:
        self.generic_visit(call)
        is_value = re.fullmatch(r"(np\.|numpy\.)?(array|str_|u?int\d+|float\d+)", ast.unparse(call.func))
        return call.args[0] if is_value and call.args else call


class Story(Row):
    """A row of NarrativeQA's qaps.csv with its summary."""

    document_id: Text
    set: Literal["train", "valid", "test"]
    question: Text
    answer1: Text
    answer2: Text
    summary: Text

    def record(self, taken: set[str], notes: Counter[str]) -> QuestionRecord:
        answers = self.answer1, self.answer2
        name = make_unique(f"{self.document_id}-{digest(self.question, *answers)[:8]}", taken)
        span = closest_span(self.summary, answers)
        notes[UNPLACED] += span is None
        example = Example(name, self.question, self.summary, answers, span, name)
        return QuestionRecord(example, self.document_id, self.set)


def rename_taken(records: list[QuestionRecord], taken: set[str]) -> list[QuestionRecord]:
    """Return the records of one file or split. An id that another one of the domain has already gets a number.

    So does the original of variants. Adds the ids to those ``taken``.
    """
    names = {record.example.id: make_unique(record.example.id, taken) for record in records}
    renamed = []
    for record in records:
        example = record.example
        group = names.get(example.group, example.group)
        renamed.append(record._replace(example=replace(example, id=names[example.id], group=group)))
    return renamed


def read_question_parts(
    path: Path, unanswerable: bool = False, may_reject: bool = False, is_labelled: bool = True
) -> tuple[dict[str, list[QuestionRecord]], list[str]]:
    """Read the questions of a domain by part, with notes on repairs. Raises DataError."""
    taken: set[str] = set()

    def read_file(file: Path) -> tuple[list[QuestionRecord], list[str]]:
        records, notes = read_questions(file, unanswerable, may_reject, is_labelled)
        return rename_taken(records, taken), notes

    parts, notes = read_each(find_question_files(path), read_file)
    named_parts = defaultdict(list)
    for part, records in parts.items():
        for record in records:
            named_parts[record.part or part].append(record)
    return dict(named_parts), notes


@cache
def read_adversarial_file(path: Path) -> list[Example]:
    """Read a file of clean questions and their variants. Raises DataError."""
    examples = [record.example for record in read_questions(path)[0]]
    clean = sum(example.id == example.group for example in examples)
    if clean in (0, len(examples)):
        raise DataError(
            f"{path}: expected clean questions and variants with ids such as <clean>-high-conf-turk0, found {clean} "
            f"clean ones of {len(examples)}; correct [data.adversarial] in the preset"
        )
    return examples


def find_question_files(path: Path) -> dict[str, list[Path]]:
    """Return the files of a domain by part, as `find_parts` does, or NarrativeQA's folder. Raises DataError."""
    if all((path / name).is_file() for name in NARRATIVEQA):
        return {"all": [path]}
    return find_parts(path)


def _read_narrativeqa(folder: Path) -> Rows:
    summaries, questions = (read_table(folder / name) for name in NARRATIVEQA)
    summary_of: dict[str, str] = {}
    for where, row in summaries:
        place = f"{folder / NARRATIVEQA[0]}: {where}"
        if isinstance(row, DataError) or not {"document_id", "summary"} <= set(row):
            raise DataError(f"{place}: expected document_id and summary, found {row!s:.100}")
        if (document := row["document_id"]) in summary_of:
            raise DataError(f"{place}: {document!r} has a summary already; remove one")
        summary_of[document] = row["summary"]
    for where, row in questions:
        if isinstance(row, dict) and (document := row.get("document_id")) not in summary_of:
            row = DataError(f"the document {document!r} is not in {NARRATIVEQA[0]}; add it there")
        elif isinstance(row, dict):
            row["summary"] = summary_of[document]
        yield f"{NARRATIVEQA[1]}, {where}", row


@lru_cache(maxsize=100)  # questions about one document follow each other
def _index_words(text: str) -> tuple[dict[str, list[int]], list[tuple[int, int]]]:
    # Returns the positions of each lower-case word in ``text``, and the characters of every word.
    positions, ranges = defaultdict(list), []
    for index, match in enumerate(re.finditer(r"\w+", text)):
        positions[match.group().lower()].append(index)
        ranges.append(match.span())
    return positions, ranges


def closest_span(context: str, references: Iterable[str]) -> tuple[int, int] | None:
    """Return the characters of the words with the highest ROUGE-L F1 against any reference, None if they share none.

    Of equal windows the earliest, shortest is returned. The search is exact: F1 = 2 LCS / (reference + window), so the
    best window begins and ends with a shared word. A window that is too long to beat the best so far ends the search.
    The bits of one integer hold a row of the table of the longest common subsequence (LCS).
    """
    positions, ranges = _index_words(context)
    best, best_score = None, 0.0
    for reference in references:
        places_of, words = _index_words(reference)
        size, masks = len(words), {word: sum(1 << place for place in places) for word, places in places_of.items()}
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
