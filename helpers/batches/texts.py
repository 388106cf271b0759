"""Rows of tokens: distinct texts as flat pools of ids, special tokens around them, and which row reads what of them.

Every distinct text is tokenised once. A row is five numbers (first text and how many of its tokens, second text, the
first of its tokens and how many), so overlapping windows and many questions on one passage cost no memory.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from transformers import PreTrainedTokenizerFast

from helpers.data.examples import Choice, Example, Pair
from helpers.errors import UserError

CHUNK = 2000  # texts tokenised together; what the tokenizer returns is many times larger than its ids
ROW = ("first_text_W", "first_count_W", "second_text_W", "first_W", "count_W")
POOL = {"first_text_W": "first_texts", "second_text_W": "second_texts", "example_W": "examples"}  # what they number


class EncoderError(UserError):
    """An encoder or tokenizer that cannot be used; the message says which and what to do."""


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length in one array: row i is ``values[starts[i]:starts[i + 1]]``."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence], width: tuple[int, ...] = ()) -> Ragged:
        """Whole numbers, or arrays of shape ``width`` of them, as int32."""
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.concatenate([np.empty((0, *width), np.int32), *rows], dtype=np.int32), starts)

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), np.append(0, np.cumsum(lengths)))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.starts[row] : self.starts[row + 1]]


@dataclass(frozen=True)
class Template:
    """What stands around texts: ids of the special tokens before the first, between the two, and after them; the token
    type of these stretches and of the texts, in their order; and the id of padding, whose type is 0.

    BERT's is ``[CLS] first [SEP] second [SEP]``. Around a single text nothing stands between, and no second.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]
    padding: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast, pair: bool = True) -> Template:
        """As the tokenizer itself sets two short texts, or one. Raises EncoderError where no token stands before the
        first, at which "no answer" and a class are read, or where there is no padding."""
        encoded = _backend(tokenizer).encode(*("a", "b")[: 1 + pair])
        stretches, number = [[] for _ in range(5)], 0
        for text, *token in zip(encoded.sequence_ids, encoded.ids, encoded.type_ids, strict=True):
            number = number + number % 2 if text is None else 2 * text + 1
            stretches[number].append(token)
        if not pair:
            stretches[2], stretches[4] = stretches[4], stretches[2]
        if not stretches[0] or not stretches[1] or tokenizer.pad_token_id is None:
            raise EncoderError(
                f"the tokenizer of {tokenizer.name_or_path or 'this encoder'!r} sets no token before the first text, "
                "or has none for padding; use one of BERT's kind"
            )
        before, _, between, _, after = (tuple(token_id for token_id, _ in stretch) for stretch in stretches)
        types = tuple(stretch[0][1] if stretch else 0 for stretch in stretches)
        return cls(before, between, after, types, tokenizer.pad_token_id)

    @property
    def specials(self) -> int:
        """Number of special tokens."""
        return len(self.before + self.between + self.after)


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Rows of a first text and a stretch of a second one. Arrays named ``_W`` have one entry a row.

    With ``choices`` > 1 that many rows, one after another, belong to one example: labels, ``example_W``, ``lengths_W``
    and ``len`` then count examples, as an index into the sequences does.
    """

    examples: list[Example] | list[Pair] | list[Choice]
    template: Template
    first_texts: Ragged
    second_texts: Ragged
    first_text_W: np.ndarray
    first_count_W: np.ndarray
    second_text_W: np.ndarray
    first_W: np.ndarray  # of the second text's tokens
    count_W: np.ndarray
    example_W: np.ndarray
    labels: dict[str, np.ndarray]
    notes: list[str]
    choices: int = 1

    def __len__(self) -> int:
        return len(self.example_W)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """All parts one after another, such as those of several domains. One tokenizer is assumed."""
        if len(parts) == 1:
            return parts[0]
        joined = {}
        for name, first in vars(parts[0]).items():
            values = [getattr(part, name) for part in parts]
            if isinstance(first, list):
                joined[name] = [item for part in values for item in part]
            elif isinstance(first, Ragged):
                joined[name] = Ragged.concatenate(values)
            elif isinstance(first, dict):
                joined[name] = {label: np.concatenate([part[label] for part in values]) for label in first}
            elif isinstance(first, np.ndarray):
                sizes = [len(getattr(part, POOL[name])) if name in POOL else 0 for part in parts]
                shifts = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
                joined[name] = np.concatenate([part + shift for part, shift in zip(values, shifts, strict=True)])
        return dataclasses.replace(parts[0], **joined)

    @property
    def prefix_W(self) -> np.ndarray:
        """Position of the second text's first token."""
        return (self.first_count_W + len(self.template.before + self.template.between)).astype(np.int32)

    @property
    def lengths_W(self) -> np.ndarray:
        """Number of tokens of each row, special ones included; of an example's choices the longest's."""
        lengths = self.prefix_W + self.count_W + len(self.template.after)
        return lengths.reshape(-1, self.choices).max(1)

    def select(self, index: np.ndarray) -> Self:
        """Those at ``index`` (whole numbers or a mask), over the same pools."""
        rows = np.arange(len(self) * self.choices).reshape(-1, self.choices)[index].ravel()
        chosen = {name: getattr(self, name)[rows] for name in ROW}
        labels = {name: values[index] for name, values in self.labels.items()}
        return dataclasses.replace(self, **chosen, example_W=self.example_W[index], labels=labels)

    def token_ids(self, row: int) -> np.ndarray:
        """Token ids of one row, unpadded."""
        template, first = self.template, self.first_W[row]
        first_text = self.first_texts[self.first_text_W[row]][: self.first_count_W[row]]
        second_text = self.second_texts[self.second_text_W[row]][first : first + self.count_W[row]]
        parts = (template.before, first_text, template.between, second_text, template.after)
        return np.concatenate(parts).astype(np.int64)

    def fingerprint(self) -> str:
        """Names the exact token sequences and labels; stored beside anything computed from them."""
        digest = hashlib.sha256(repr((self.template, sorted(self.labels), self.choices)).encode())
        pools = (self.first_texts.values, self.first_texts.starts, self.second_texts.values, self.second_texts.starts)
        for array in (*pools, *(getattr(self, n) for n in ROW), *(self.labels[n] for n in sorted(self.labels))):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def tokenise(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> tuple[Ragged, Ragged, np.ndarray]:
    """Ids and character ranges (2 a token) of the distinct texts, and for each text which of them it is.

    Some tokenizers count the space before a word as the word's; ranges come without it.
    """
    distinct: dict[str, int] = {}
    which = np.asarray([distinct.setdefault(text, len(distinct)) for text in texts], np.int32)
    backend, every, probe = _backend(tokenizer), list(distinct), "a b"
    has_spaces = any(" " in probe[slice(*span)] for span in backend.encode(probe).offsets)
    ids, chars = [], []
    for begin in range(0, len(every), CHUNK):
        chunk = every[begin : begin + CHUNK]
        for text, encoded in zip(chunk, backend.encode_batch(chunk, add_special_tokens=False), strict=True):
            spans = np.asarray(encoded.offsets, np.int32).reshape(-1, 2)
            ids.append(np.asarray(encoded.ids, np.int32))  # a list takes many times the memory
            chars.append(_without_spaces(text, spans) if has_spaces else spans)
    return Ragged.of(ids), Ragged.of(chars, (2,)), which


def _without_spaces(text: str, spans: np.ndarray) -> np.ndarray:
    """Character ranges cut to what is no space; one of spaces alone ends before it starts."""
    solid = np.flatnonzero([not character.isspace() for character in text])
    starts = np.append(solid, len(text))[np.searchsorted(solid, spans[:, 0])]
    ends = np.append(0, solid + 1)[np.searchsorted(solid, spans[:, 1])]
    return np.stack([starts, ends], 1).astype(np.int32)


def _backend(tokenizer: PreTrainedTokenizerFast):
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # some saved tokenizers cut and pad on their own
    backend.no_padding()
    return backend
