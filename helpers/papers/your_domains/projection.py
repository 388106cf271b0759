"""Distributions over a teacher's tokens, carried to a student's tokens through the characters that both hold.

Both read the same windows: a question, and the same stretch of its passage, each in its own tokens.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from transformers import PreTrainedTokenizerFast

from helpers.errors import EncoderError
from helpers.sequences import Template, TokenRow, Windows, tokenise

NOWHERE = -1  # the place of a token whose character is in none of the student's


def align_tokens(teacher: np.ndarray, student: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the student's token that holds the first character of each of the teacher's, and that of its last.

    Both arguments are ranges of characters in one text (tokens × 2, half-open). Tokens of the same ranges stand for
    each other, so several that share a character stay apart.
    """
    if np.array_equal(teacher, student):
        return np.arange(len(teacher)), np.arange(len(teacher))
    if not len(student):
        return np.full(len(teacher), NOWHERE), np.full(len(teacher), NOWHERE)
    starts, ends = student.T
    first, last = teacher[:, 0], teacher[:, 1] - 1
    holder = np.minimum(np.searchsorted(ends, first, side="right"), len(student) - 1)
    of_first = np.where((starts[holder] <= first) & (first < ends[holder]), holder, NOWHERE)
    holder = np.maximum(np.searchsorted(starts, last, side="right") - 1, 0)
    of_last = np.where((starts[holder] <= last) & (last < ends[holder]), holder, NOWHERE)
    return of_first, of_last


def align_specials(teacher: int, student: int) -> np.ndarray:
    """Return the place of each special token of a stretch among the student's: by number, the last for further ones."""
    return np.minimum(np.arange(teacher), student - 1)  # -1, nowhere, where the student has none


def align_windows(
    teacher: Windows, student: Windows, questions: tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where the mass of each token goes, as a start and as an end: places among the student's flat tokens.

    Windows correspond by number. ``questions`` are the ranges of the questions' tokens, the teacher's and the
    student's, by window.
    """
    sides = [], []
    for window, (passage, student_passage) in enumerate(zip(teacher.rows, student.rows, strict=True)):
        before, between, after = (
            align_specials(len(theirs), len(ours))
            for theirs, ours in zip(teacher.stretches(window)[::2], student.stretches(window)[::2], strict=True)
        )
        first = align_tokens(questions[0][window], questions[1][window])
        second = align_tokens(passage.chars, student_passage.chars)
        sizes = [len(stretch) for stretch in student.stretches(window)]
        begins = student.offsets_W[window] + np.cumsum(sizes) - sizes
        for side, of_question, of_passage in zip(sides, first, second, strict=True):
            places = before, of_question, between, of_passage, after
            side += [np.where(p < 0, NOWHERE, p + begin) for p, begin in zip(places, begins, strict=True)]
    return tuple(np.concatenate(side) for side in sides)


def project(values: np.ndarray, places: np.ndarray, student: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Carry distributions to ``places`` (of `align_windows`), and normalise what each window keeps.

    Returns the student's flat distributions, float32, and the share of each window's mass that was kept (W). A window
    that keeps nothing has zeros.
    """
    has_place = places >= 0
    flat = np.bincount(places[has_place], values[has_place], minlength=student.lengths_W.sum())
    mass_W = np.add.reduceat(flat, student.offsets_W)
    return (flat / np.repeat(np.where(mass_W > 0, mass_W, 1), student.lengths_W)).astype(np.float32), mass_W


def question_ranges(windows: Windows, tokenizer: PreTrainedTokenizerFast) -> list[np.ndarray]:
    """Return the ranges of characters of each window's question tokens."""
    texts = [example.question.strip() for example in windows.examples]
    tokens = tokenise(texts, tokenizer, ranges=True)
    rows = zip(windows.example_W, windows.rows, strict=True)
    return [tokens[texts[example]][1][: len(row.first)] for example, row in rows]


def retokenise(windows: Windows, tokenizer: PreTrainedTokenizerFast, max_question: int) -> Windows:
    """Return the same windows in the tokens of another tokenizer, however many these are.

    Each has the tokens that hold characters of its stretch of the passage, and the first of its question. Labels are 0.
    Raises EncoderError as `Template.of` does.
    """
    template, rows = Template.of(tokenizer), []
    questions = tokenise((example.question.strip() for example in windows.examples), tokenizer)
    passages = tokenise((example.context for example in windows.examples), tokenizer, ranges=True)
    for number, row in zip(windows.example_W, windows.rows, strict=True):
        example = windows.examples[number]
        ids, chars = passages[example.context]
        begin, end = (row.chars[0, 0], row.chars[-1, 1]) if len(row.chars) else (0, 0)
        stretch = slice(np.searchsorted(chars[:, 1], begin, "right"), np.searchsorted(chars[:, 0], end, "left"))
        rows.append(TokenRow(questions[example.question.strip()][0][:max_question], ids[stretch], chars[stretch]))
    labels = {side: np.zeros(len(rows), np.int32) for side in ("start", "end")}
    return Windows(examples=windows.examples, template=template, rows=rows, example_W=windows.example_W, labels=labels)


def cut_windows(windows: Windows, longest: int) -> Windows:
    """Cut passages at their end, so that no window has more than ``longest`` tokens. Raises EncoderError."""
    rows = []
    for row in windows.rows:
        room = longest - len(row.first) - windows.template.specials
        if room < 1:
            problem = f"reads {longest} tokens, which leaves none for a passage behind {len(row.first)} of a question"
            raise EncoderError(f"a teacher {problem}; use another teacher, or lower windows.max_question")
        rows.append(row._replace(second=row.second[:room], chars=row.chars[:room]))
    return replace(windows, rows=rows)
