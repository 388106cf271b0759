"""Examples as token sequences: windows of passages, and the padded batches of any sequences.

Every distinct text is tokenised once. A row's texts are views of those ids, so overlapping windows and many questions
on one passage share them. Positions are positions in the whole sequence, special tokens included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from helpers.data.examples import Choice, DataError, Example, Pair, is_blank
from helpers.errors import EncoderError

CHUNK = 2000  # texts tokenised together: what the tokenizer returns is many times larger than its ids
SEGMENTS = (0, 1, 0, 2, 0)  # of a template's stretches: 1 for the first text, 2 for the second


@dataclass(frozen=True)
class Template:
    """What a tokenizer sets around texts, such as BERT's ``[CLS] first [SEP] second [SEP]``.

    Ids of the special tokens before the first text, between the two and after them; the token types of these stretches
    and of the texts, in their order; and the id of padding. Around a single text nothing stands between.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]
    padding: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast, pair: bool = True) -> Template:
        """Read the template off two short texts, or one. Raises EncoderError where no token stands before the first,
        at which "no answer" and a class are read, or where there is no padding."""
        encoded = _backend(tokenizer).encode(*("a", "b")[: 1 + pair])
        stretches, number = [[] for _ in range(5)], 0
        for text, *token in zip(encoded.sequence_ids, encoded.ids, encoded.type_ids, strict=True):
            number = number + number % 2 if text is None else 2 * text + 1
            stretches[number].append(token)
        if not pair:
            stretches[2], stretches[4] = stretches[4], stretches[2]
        if not stretches[0] or not stretches[1] or tokenizer.pad_token_id is None:
            name = tokenizer.name_or_path or "this encoder"
            problem = "sets no token before the first text, or has none for padding"
            raise EncoderError(f"the tokenizer of {name!r} {problem}; use one of BERT's kind")
        before, _, between, _, after = (tuple(token_id for token_id, _ in stretch) for stretch in stretches)
        types = tuple(stretch[0][1] if stretch else 0 for stretch in stretches)
        return cls(before, between, after, types, tokenizer.pad_token_id)

    @property
    def specials(self) -> int:
        """The number of special tokens."""
        return len(self.before + self.between + self.after)


class TokenRow(NamedTuple):
    """The token ids of a first and a second text, and of a stretch of a passage each token's range of characters."""

    first: np.ndarray
    second: np.ndarray
    chars: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Tokenised rows of texts. Arrays named ``_W`` have one entry per row.

    With ``choices`` > 1 that many rows, one after another, belong to one example. Labels, ``example_W``, ``lengths_W``
    and ``len`` then count examples, as an index into the sequences does.
    """

    examples: list[Example] | list[Pair] | list[Choice]
    template: Template
    rows: list[TokenRow]
    example_W: np.ndarray
    labels: dict[str, np.ndarray]
    choices: int = 1

    def __len__(self) -> int:
        return len(self.example_W)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join sequences of one tokenizer, such as those of several domains."""
        if len(parts) == 1:
            return parts[0]
        lists = {name: [*chain(*(getattr(part, name) for part in parts))] for name in ("examples", "rows")}
        labels = {name: np.concatenate([part.labels[name] for part in parts]) for name in parts[0].labels}
        shifts = np.cumsum([0, *(len(part.examples) for part in parts)], dtype=np.int32)
        example_W = np.concatenate([part.example_W + shift for part, shift in zip(parts, shifts, strict=False)])
        return dataclasses.replace(parts[0], **lists, example_W=example_W, labels=labels)

    def select(self, index: np.ndarray) -> Self:
        """Return the sequences ``index``, with all examples."""
        labels = {name: values[index] for name, values in self.labels.items()}
        rows = [self.rows[row] for row in self.rows_of(index)]
        return dataclasses.replace(self, rows=rows, example_W=self.example_W[index], labels=labels)

    def rows_of(self, index: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the numbers of the rows of the sequences ``index``."""
        return (np.arange(self.choices) + np.asarray(index)[:, None] * self.choices).ravel()

    def with_labels(self, **labels: np.ndarray) -> Self:
        """Return the same sequences with more labels, a number or a row of numbers each."""
        return dataclasses.replace(self, labels={**self.labels, **labels})

    @cached_property
    def question_len_W(self) -> np.ndarray:
        """The number of tokens of the question, or of any first text."""
        return np.array([len(row.first) for row in self.rows], np.int32)

    @cached_property
    def passage_len_W(self) -> np.ndarray:
        """The number of tokens of the passage, or of any second text."""
        return np.array([len(row.second) for row in self.rows], np.int32)

    @cached_property
    def passage_start_W(self) -> np.ndarray:
        """The position of the passage's first token, or any second text's."""
        return (self.question_len_W + len(self.template.before + self.template.between)).astype(np.int32)

    @cached_property
    def lengths_W(self) -> np.ndarray:
        """The number of tokens of each row, special ones included; of an example's choices the longest's."""
        lengths = self.passage_start_W + self.passage_len_W + len(self.template.after)
        return lengths.reshape(-1, self.choices).max(1)

    @cached_property
    def offsets_W(self) -> np.ndarray:
        """The place of each row's first token where the tokens of all rows stand one after another."""
        return np.cumsum(self.lengths_W) - self.lengths_W

    def stretches(self, row: int) -> tuple[Sequence[int], ...]:
        """Return the token ids of a row by the five stretches of its template."""
        before, between, after = self.template.before, self.template.between, self.template.after
        return before, self.rows[row].first, between, self.rows[row].second, after

    def token_ids(self, row: int) -> np.ndarray:
        """Return the token ids of a row, unpadded."""
        return np.concatenate(self.stretches(row)).astype(np.int64)  # an empty stretch makes it float


class Windows(Sequences):
    """Questions with windows of their passages.

    The labels ``start`` and ``end`` are positions of the answer's first and last token, 0 (the token that stands before
    the question) where the window does not hold the whole answer.
    """

    def positions(self, window: int, span: tuple[int, int]) -> tuple[int, int]:
        """Return the first and last token of a ``span`` of characters in a window; 0 where it lacks some."""
        chars, prefix = self.rows[window].chars, int(self.passage_start_W[window])
        if not len(chars) or span[0] < chars[0][0] or span[1] > chars[-1][1]:
            return 0, 0
        first, last = _token_span(chars, *span)
        return prefix + first, prefix + last


def window_starts(tokens: int, capacity: int, step: int) -> list[int]:
    """Return the first token of each window over ``tokens``; the last window ends with the passage.

    BERT's rule: the next window begins ``step`` tokens on, or where this one ends if that is nearer.
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

    ``stride_is="step"`` moves windows by ``stride`` tokens (BERT); "overlap" lets neighbours share ``stride`` tokens
    (Hugging Face). Questions are cut to ``max_question`` tokens. ``empty_windows`` is the share of windows kept, drawn
    from ``seed``, among those without the answer that their question has; scoring must keep 1.0. An answer whose ends
    fall inside a token is widened to whole tokens. Raises DataError where a question has no tokens or leaves no room
    for its passage, EncoderError as `Template.of` does.
    """
    template, rows, table = Template.of(tokenizer), [], []  # of the table: the number of the example, start and end
    questions = tokenise((example.question.strip() for example in examples), tokenizer)
    passages = tokenise((example.context for example in examples), tokenizer, ranges=True)
    for number, example in enumerate(examples):
        question, (ids, chars) = questions[example.question.strip()][0][:max_question], passages[example.context]
        if len(question) == 0:
            raise DataError(f"question {example.id!r} has no tokens: {example.question!r}")
        capacity = max_length - len(question) - template.specials
        step = stride if stride_is == "step" else capacity - stride
        if capacity < 1 or step < 1:
            raise DataError(
                f"question {example.id!r} leaves {capacity} tokens for its passage and a step of {step}; "
                f"raise max_length ({max_length}) or lower stride ({stride}) or max_question ({max_question})"
            )
        has_span = example.span is not None and len(chars) > 0
        first_token, last_token = _token_span(chars, *example.span) if has_span else (-1, -1)
        for first in window_starts(len(ids), capacity, step):
            stretch = slice(first, first + capacity)
            rows.append(TokenRow(question, ids[stretch], chars[stretch]))
            shift = len(question) + len(template.before) + len(template.between) - first
            is_inside = first <= first_token <= last_token < first + len(rows[-1].second)
            table.append((number, first_token + shift, last_token + shift) if is_inside else (number, 0, 0))

    example_W, start_W, end_W = np.array(table, np.int32).reshape(-1, 3).T.copy()
    labels = {"start": start_W, "end": end_W}
    windows = Windows(examples=examples, template=template, rows=rows, example_W=example_W, labels=labels)
    if empty_windows == 1.0:
        return windows
    has_answer = np.array([example.span is not None for example in examples], bool)[example_W]
    is_drawn = np.random.default_rng(seed).random(len(rows)) < empty_windows
    return windows.select(np.flatnonzero(~has_answer | (start_W > 0) | is_drawn))


def tokenise(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerFast, *, ranges: bool = False
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Return the ids of each distinct text, and with ``ranges`` each token's characters (tokens × 2, half-open).

    A text such as "<s>" is no special token. Where it is a piece of the vocabulary too, it is the unknown token.
    """
    distinct, tokens = list(dict.fromkeys(texts)), {}
    backend, unknown = _backend(tokenizer), tokenizer.unk_token_id
    specials = [token_id for token_id, token in backend.get_added_tokens_decoder().items() if token.special]
    # Some post-processors shift the ranges, as if the text had a space wherever the token has one.
    processor, backend.post_processor = backend.post_processor, None
    try:
        for begin in range(0, len(distinct), CHUNK):
            chunk = distinct[begin : begin + CHUNK]
            for text, encoded in zip(chunk, backend.encode_batch(chunk, add_special_tokens=False), strict=True):
                # arrays, because lists take many times the memory
                chars = complete_ranges(text, encoded.offsets) if ranges else None
                ids = np.asarray(encoded.ids, np.int32)
                if unknown is not None:
                    ids[np.isin(ids, specials)] = unknown
                tokens[text] = ids, chars
    finally:
        backend.post_processor = processor
    return tokens


def complete_ranges(text: str, offsets: Sequence[tuple[int, int]]) -> np.ndarray:
    """Extend tokens' character ranges over characters of no token, and trim blank ones from their ends.

    A normaliser may strip marks, such as vowels in Hindi or Thai. These belong to the token before them, or to the one
    behind them where white space or nothing stands before. White space and invisible characters (`is_blank`) belong to
    no end of a token. A range of these alone ends before it starts.
    """
    starts, ends = np.asarray(offsets, np.int32).reshape(-1, 2).T
    codes, length = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), len(text)
    blank = [character for character in set(text) if is_blank(character)]
    is_space = _find(codes, filter(str.isspace, blank))
    spaces = np.flatnonzero(is_space)
    starts, ends = _trim(starts, ends, ~is_space)
    word_ends = np.append(spaces, length)[np.searchsorted(spaces, ends)]
    ends = np.maximum(ends, np.minimum(word_ends, np.append(starts[1:], length)))
    word_starts = np.append(0, spaces + 1)[np.searchsorted(spaces, starts)]
    starts = np.minimum(starts, np.maximum(word_starts, np.append(0, ends[:-1])))
    return np.stack(_trim(starts, ends, ~_find(codes, blank)), 1).astype(np.int32)


def _find(codes: np.ndarray, characters: Iterable[str]) -> np.ndarray:
    # Tells where one of a few characters stands.
    is_one = np.zeros(len(codes), bool)
    for character in characters:
        is_one |= codes == ord(character)
    return is_one


def _trim(starts: np.ndarray, ends: np.ndarray, is_solid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Moves the ends of ranges to the next characters inside that are solid.
    solid = np.flatnonzero(is_solid)
    starts = np.append(solid, len(is_solid))[np.searchsorted(solid, starts)]
    return starts, np.append(0, solid + 1)[np.searchsorted(solid, ends)]


def _token_span(chars: np.ndarray, start: int, end: int) -> tuple[int, int]:
    """Return the first and last token that overlap the characters [start, end)."""
    first = int(np.searchsorted(chars[:, 1], start, side="right"))
    last = int(np.searchsorted(chars[:, 0], end, side="left")) - 1
    return min(first, len(chars) - 1), last


def note_unknown(sequences: Sequences, tokenizer: PreTrainedTokenizerFast, name: str) -> list[str]:
    """Return a note where the tokenizer does not know more than a twentieth of the tokens of some texts.

    Raises EncoderError where it does not know half of them: nothing can be learned from these.
    """
    ids = np.concatenate([text for row in sequences.rows for text in (row.first, row.second)])
    share = 0.0 if tokenizer.unk_token_id is None else float((ids == tokenizer.unk_token_id).mean())
    note = f"{name}: {share:.0%} of the tokens are unknown to the tokenizer {tokenizer.name_or_path!r}"
    if share > 0.5:
        raise EncoderError(f"{note}; use an encoder of the texts' language")
    return [note] if share > 0.05 else []


def _backend(tokenizer: PreTrainedTokenizerFast):
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # some saved tokenizers cut and pad on their own
    backend.no_padding()
    backend.encode_special_tokens = True  # as text, wherever they stand in one
    return backend


def collate(sequences: Sequences, index: np.ndarray, device="cpu", multiple: int = 8) -> dict[str, Tensor]:
    """Make a padded batch of the sequences ``index`` on a device; C choices of an example stand as B×C×L.

    It holds input_ids, attention_mask, token_type_ids and segment_ids (0 special or padding, 1 first text, 2 second
    text), B×L each, and the labels by name (B). L is the longest row's length, rounded up to a ``multiple``.
    """
    template, choices, rows = sequences.template, sequences.choices, sequences.rows_of(index)
    stretches = [stretch for row in rows for stretch in sequences.stretches(row)]
    sizes = np.array([len(stretch) for stretch in stretches])
    lengths = sizes.reshape(len(rows), -1).sum(1)
    is_real = np.arange(-(-lengths.max() // multiple) * multiple) < lengths[:, None]
    ids, types, segments = np.full(is_real.shape, template.padding), *np.zeros((2, *is_real.shape), int)
    ids[is_real] = np.concatenate(stretches)
    types[is_real] = np.repeat(np.tile(template.types, len(rows)), sizes)
    segments[is_real] = np.repeat(np.tile(SEGMENTS, len(rows)), sizes)
    batch = {"input_ids": ids, "attention_mask": is_real.astype(int), "token_type_ids": types, "segment_ids": segments}
    if choices > 1:
        batch = {name: values.reshape(-1, choices, values.shape[1]) for name, values in batch.items()}
    for name, values in sequences.labels.items():
        batch[name] = values[index] if values.dtype.kind == "f" else values[index].astype(int)
    return {name: upload(torch.from_numpy(values), device) for name, values in batch.items()}


def upload(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device. It goes to a GPU by pinned memory, so the host does not wait."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def text_positions(segment_ids: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the positions of the first texts' tokens in a batch (B×Q) and which are real, and the same of the second
    texts' (B×P). Positions that are not real are 0."""
    positions = []
    for segment in (1, 2):
        is_text = segment_ids == segment
        count, offset = is_text.sum(1, keepdim=True), is_text.int().argmax(1, keepdim=True)
        step = torch.arange(max(1, int(count.max())), device=segment_ids.device)
        positions += [torch.where(step < count, offset + step, 0), step < count]
    return tuple(positions)
