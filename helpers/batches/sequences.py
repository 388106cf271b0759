"""Questions and passages as token windows, kept as flat ragged arrays.

Every distinct question and passage is tokenised once. A window is four numbers (question, passage, first
token, count), so overlapping windows and many questions on one passage cost no memory. The sequence is
``[CLS] question [SEP] passage tokens [SEP]``; positions below are positions in that sequence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerFast

from helpers.data.examples import DataError, Example

SPECIAL = 3  # [CLS], [SEP], [SEP]
CHUNK = 2000  # texts tokenised together; what the tokenizer returns is many times larger than its ids


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length in one array: row i is ``values[starts[i]:starts[i + 1]]``."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence], dtype, width: tuple[int, ...] = ()) -> Ragged:
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        values = np.empty((int(starts[-1]), *width), dtype)
        for row, start in zip(rows, starts, strict=False):
            values[start : start + len(row)] = row
        return cls(values, starts)

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        shifts = np.cumsum([0, *(part.starts[-1] for part in parts)])
        starts = [part.starts[:-1] + shift for part, shift in zip(parts, shifts, strict=False)]
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([*starts, shifts[-1:]]))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.starts[row] : self.starts[row + 1]]


@dataclass(frozen=True)
class Windows:
    """Windows over a list of examples. Arrays named ``_W`` have one entry a window.

    ``start_W``, ``end_W`` are the labels: positions of the answer's first and last token, 0 ([CLS]) where the
    window does not hold the whole answer. ``context_chars`` gives each passage token's character range.
    """

    examples: list[Example]
    questions: Ragged
    contexts: Ragged
    context_chars: Ragged
    question_W: np.ndarray
    context_W: np.ndarray
    example_W: np.ndarray
    first_W: np.ndarray
    count_W: np.ndarray
    start_W: np.ndarray
    end_W: np.ndarray
    special_ids: tuple[int, int, int]  # [CLS], [SEP], [PAD]
    notes: list[str]

    def __len__(self) -> int:
        return len(self.example_W)

    @classmethod
    def concatenate(cls, parts: Sequence[Windows]) -> Windows:
        """The windows of all parts one after another, such as those of several domains. One tokenizer is assumed."""
        if len(parts) == 1:
            return parts[0]
        pools = ("questions", "contexts", "context_chars")
        joined = {name: Ragged.concatenate([getattr(part, name) for part in parts]) for name in pools}
        for name, sizes in (
            ("question_W", [len(part.questions) for part in parts]),
            ("context_W", [len(part.contexts) for part in parts]),
            ("example_W", [len(part.examples) for part in parts]),
        ):
            shifts = np.cumsum([0, *sizes[:-1]])
            joined[name] = np.concatenate(
                [getattr(part, name) + np.int32(shift) for part, shift in zip(parts, shifts, strict=True)]
            )
        for name in ("first_W", "count_W", "start_W", "end_W"):
            joined[name] = np.concatenate([getattr(part, name) for part in parts])
        examples, notes = ([one for part in parts for one in getattr(part, name)] for name in ("examples", "notes"))
        return cls(examples=examples, notes=notes, special_ids=parts[0].special_ids, **joined)

    @property
    def prefix_W(self) -> np.ndarray:
        """Position of the first passage token: question length + 2."""
        return self.questions.lengths[self.question_W].astype(np.int32) + 2

    @property
    def lengths_W(self) -> np.ndarray:
        """Number of tokens of each window, special ones included."""
        return self.prefix_W + self.count_W + 1

    def select(self, index: np.ndarray) -> Windows:
        """The windows at ``index`` (whole numbers or a mask), over the same pools."""
        fields = ("question_W", "context_W", "example_W", "first_W", "count_W", "start_W", "end_W")
        chosen = {name: getattr(self, name)[index] for name in fields}
        return Windows(**{**self.__dict__, **chosen})

    def token_ids(self, window: int) -> np.ndarray:
        """Token ids of one window, unpadded."""
        cls, sep, _ = self.special_ids
        passage = self.contexts[self.context_W[window]]
        first, count = self.first_W[window], self.count_W[window]
        question = self.questions[self.question_W[window]]
        return np.concatenate([[cls], question, [sep], passage[first : first + count], [sep]]).astype(np.int64)

    def text(self, window: int, start: int, end: int) -> str:
        """Passage text between two positions of a window, both included."""
        chars = self.context_chars[self.context_W[window]]
        shift = self.first_W[window] - self.prefix_W[window]
        context = self.examples[self.example_W[window]].context
        return context[chars[start + shift][0] : chars[end + shift][1]]

    def positions(self, window: int, span: tuple[int, int]) -> tuple[int, int]:
        """The first and last position in a window of the tokens that the characters ``span`` of its passage cover."""
        chars = self.context_chars[self.context_W[window]]
        first, last = _token_span(chars, *span)
        shift = self.prefix_W[window] - self.first_W[window]
        return first + shift, last + shift

    def fingerprint(self) -> str:
        """Names the exact token sequences and labels; stored beside anything computed from them."""
        digest = hashlib.sha256()
        arrays = (self.questions.values, self.questions.starts, self.contexts.values, self.contexts.starts)
        windows = (self.question_W, self.context_W, self.first_W, self.count_W, self.start_W, self.end_W)
        for array in (*arrays, *windows, np.asarray(self.special_ids)):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def window_starts(tokens: int, capacity: int, step: int) -> list[int]:
    """First token of each window over ``tokens``; the last window ends with the passage.

    BERT's rule: the next window begins ``step`` tokens on, or where this one ends if that is nearer, until one
    reaches the end.
    """
    starts = [0]
    while starts[-1] + capacity < tokens:
        starts.append(starts[-1] + min(step, capacity))
    return starts


def make_windows(
    examples: list[Example],
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length: int = 384,
    stride: int = 128,
    stride_is: str = "step",
    max_question: int = 64,
    empty_windows: float = 1.0,
    seed: int = 0,
) -> Windows:
    """Tokenise examples into windows of at most ``max_length`` tokens.

    ``stride_is="step"`` moves windows by ``stride`` tokens (BERT); ``"overlap"`` lets neighbours share
    ``stride`` tokens (Hugging Face). Questions are cut to ``max_question`` tokens and the cuts are counted in
    ``notes``. ``empty_windows`` is the share of windows kept, drawn from ``seed``, among those that hold no
    answer although the question has one; scoring must keep 1.0. Every label is decoded back to text and
    compared with the answer: an answer whose ends fall inside a token is widened to whole tokens and counted.
    Raises DataError where a question has no tokens or leaves no room for its passage.
    """
    if stride_is not in ("step", "overlap"):
        raise ValueError(f"stride_is must be 'step' or 'overlap', not {stride_is!r}")
    notes: list[str] = []
    questions, question_of = _tokenise([e.question.strip() for e in examples], tokenizer)
    contexts, context_of = _tokenise([e.context for e in examples], tokenizer)
    question_ids = [ids[:max_question] for ids, _ in questions]
    cut = sum(len(ids) > max_question for ids, _ in questions)
    if cut:
        notes.append(f"{cut} questions cut to {max_question} tokens")

    rows: list[tuple[int, ...]] = []
    widened = unlabelled = 0
    for index, example in enumerate(examples):
        q, c = question_of[index], context_of[index]
        ids, chars = contexts[c]
        if len(question_ids[q]) == 0:
            raise DataError(f"question {example.id!r} has no tokens: {example.question!r}")
        capacity = max_length - len(question_ids[q]) - SPECIAL
        step = stride if stride_is == "step" else capacity - stride
        if capacity < 1 or step < 1:
            raise DataError(
                f"question {example.id!r} leaves {capacity} tokens for its passage and a step of {step}; "
                f"raise max_length ({max_length}) or lower stride ({stride}) or max_question ({max_question})"
            )
        first_token = last_token = -1
        if example.span is not None and len(ids):
            first_token, last_token = _token_span(chars, *example.span)
            found = example.context[chars[first_token][0] : chars[last_token][1]]
            unlabelled += last_token < first_token
            widened += last_token >= first_token and found != example.context[slice(*example.span)].strip()
        prefix = len(question_ids[q]) + 2
        for first in window_starts(len(ids), capacity, step):
            count = min(capacity, len(ids) - first)
            inside = first <= first_token <= last_token < first + count
            labels = (first_token - first + prefix, last_token - first + prefix) if inside else (0, 0)
            rows.append((q, c, index, first, count, *labels))
    if widened:
        notes.append(f"{widened} answers widened to whole tokens")
    if unlabelled:
        notes.append(f"{unlabelled} answers hold no token and are trained as absent")

    table = np.asarray(rows, np.int32).reshape(-1, 7)
    if empty_windows < 1.0:
        has_answer = np.asarray([e.span is not None for e in examples], bool)[table[:, 2]]
        empty = has_answer & (table[:, 5] == 0)
        drawn = np.random.default_rng(seed).random(len(table)) < empty_windows
        notes.append(f"{int((empty & ~drawn).sum())} of {len(table)} windows without their answer left out")
        table = table[~empty | drawn]
    names = ("question_W", "context_W", "example_W", "first_W", "count_W", "start_W", "end_W")
    return Windows(
        examples=examples,
        questions=Ragged.of(question_ids, np.int32),
        contexts=Ragged.of([ids for ids, _ in contexts], np.int32),
        context_chars=Ragged.of([chars for _, chars in contexts], np.int32, (2,)),
        special_ids=(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id),
        notes=notes,
        **{name: np.ascontiguousarray(table[:, column]) for column, name in enumerate(names)},
    )


def _tokenise(texts: list[str], tokenizer) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[int]]:
    """Ids and character ranges of the distinct texts, and for each text which of them it is."""
    distinct: dict[str, int] = {}
    which = [distinct.setdefault(text, len(distinct)) for text in texts]
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # some saved tokenizers cut and pad on their own
    backend.no_padding()
    rows, every = [], list(distinct)
    for begin in range(0, len(every), CHUNK):
        for encoded in backend.encode_batch(every[begin : begin + CHUNK], add_special_tokens=False):
            rows.append((np.asarray(encoded.ids, np.int32), np.asarray(encoded.offsets, np.int32).reshape(-1, 2)))
    return rows, which


def _token_span(chars: np.ndarray, start: int, end: int) -> tuple[int, int]:
    """First and last token that overlap the characters [start, end)."""
    first = int(np.searchsorted(chars[:, 1], start, side="right"))
    last = int(np.searchsorted(chars[:, 0], end, side="left")) - 1
    return min(first, len(chars) - 1), last
