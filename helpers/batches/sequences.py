"""Examples as token sequences: windows of passages, texts alone or in pairs, choices, and the padded batches of them.

Every distinct text is tokenised once, into flat pools of ids. A row reads the first tokens of one text and a stretch of
a second one, so overlapping windows and many questions on one passage cost no memory. Positions are positions in the
whole sequence, special tokens included.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from helpers.data.examples import Choice, DataError, Example, Pair
from helpers.errors import EncoderError

CHUNK = 2000  # texts tokenised together: what the tokenizer returns is many times larger than its ids
ROW = ("first_text_W", "first_count_W", "second_text_W", "first_W", "count_W")
POOL = {"first_text_W": "first_texts", "second_text_W": "second_texts", "example_W": "examples"}  # what they number
SEGMENTS = (0, 1, 0, 2, 0)  # of a template's stretches: 1 for the first text, 2 for the second


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length in one array: row i is ``values[starts[i]:starts[i + 1]]``."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence], width: tuple[int, ...] = ()) -> Ragged:
        """Join rows of whole numbers, or of arrays of shape ``width``, as int32."""
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.concatenate([np.empty((0, *width), np.int32), *rows], dtype=np.int32), starts)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.starts[row] : self.starts[row + 1]]


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


@dataclass(frozen=True, kw_only=True)
class Sequences:
    """Rows of a first text and a stretch of a second one. Arrays named ``_W`` have one entry per row.

    With ``choices`` > 1 that many rows, one after another, belong to one example. Labels, ``example_W``, ``lengths_W``
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
        """Join sequences of one tokenizer, such as those of several domains."""
        if len(parts) == 1:
            return parts[0]
        joined = {}
        for name in (field.name for field in dataclasses.fields(cls)):
            first, *_ = values = [getattr(part, name) for part in parts]
            if isinstance(first, list):
                joined[name] = [item for part in values for item in part]
            elif isinstance(first, Ragged):
                starts = np.cumsum([0, *(size for part in values for size in part.lengths)])
                joined[name] = Ragged(np.concatenate([part.values for part in values]), starts)
            elif isinstance(first, dict):
                joined[name] = {label: np.concatenate([part[label] for part in values]) for label in first}
            elif isinstance(first, np.ndarray):
                sizes = [len(getattr(part, POOL[name])) if name in POOL else 0 for part in parts]
                shifts = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
                joined[name] = np.concatenate([part + shift for part, shift in zip(values, shifts, strict=True)])
        return dataclasses.replace(parts[0], **joined)

    @cached_property
    def prefix_W(self) -> np.ndarray:
        """The position of the second text's first token."""
        return (self.first_count_W + len(self.template.before + self.template.between)).astype(np.int32)

    @cached_property
    def lengths_W(self) -> np.ndarray:
        """The number of tokens of each row, special ones included; of an example's choices the longest's."""
        lengths = self.prefix_W + self.count_W + len(self.template.after)
        return lengths.reshape(-1, self.choices).max(1)

    def select(self, index: np.ndarray) -> Self:
        """Return those at ``index`` (whole numbers or a mask), over the same pools."""
        rows = np.arange(len(self) * self.choices).reshape(-1, self.choices)[index].ravel()
        chosen = {name: getattr(self, name)[rows] for name in ROW}
        labels = {name: values[index] for name, values in self.labels.items()}
        return dataclasses.replace(self, **chosen, example_W=self.example_W[index], labels=labels)

    def with_labels(self, **labels: np.ndarray) -> Self:
        """Return the same sequences with more labels, one value each."""
        return dataclasses.replace(self, labels={**self.labels, **labels})

    def token_ids(self, row: int) -> np.ndarray:
        """Return the token ids of one row, unpadded."""
        first, template = self.first_W[row], self.template
        first_text = self.first_texts[self.first_text_W[row]][: self.first_count_W[row]]
        second_text = self.second_texts[self.second_text_W[row]][first : first + self.count_W[row]]
        parts = (template.before, first_text, template.between, second_text, template.after)
        return np.concatenate(parts).astype(np.int64)  # an empty stretch makes it float

    def fingerprint(self) -> str:
        """Return sixteen hex digits of the exact token sequences and labels."""
        digest = hashlib.sha256(repr((self.template, sorted(self.labels), self.choices)).encode())
        pools = (self.first_texts.values, self.first_texts.starts, self.second_texts.values, self.second_texts.starts)
        for array in (*pools, *(getattr(self, n) for n in ROW), *(self.labels[n] for n in sorted(self.labels))):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Windows(Sequences):
    """Questions with windows of their passages.

    The labels ``start`` and ``end`` are positions of the answer's first and last token, 0 (the token that stands before
    the question) where the window does not hold the whole answer. ``context_chars`` gives each passage token's
    character range.
    """

    context_chars: Ragged

    def positions(self, window: int, span: tuple[int, int]) -> tuple[int, int]:
        """Return the first and last position in a window of the tokens that the characters ``span`` cover."""
        first, last = _token_span(self.context_chars[self.second_text_W[window]], *span)
        shift = self.prefix_W[window] - self.first_W[window]
        return first + shift, last + shift


def window_starts(tokens: int, capacity: int, step: int) -> list[int]:
    """Return the first token of each window over ``tokens``; the last window ends with the passage.

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

    ``stride_is="step"`` moves windows by ``stride`` tokens (BERT); "overlap" lets neighbours share ``stride`` tokens
    (Hugging Face). Questions are cut to ``max_question`` tokens. ``empty_windows`` is the share of windows kept, drawn
    from ``seed``, among those without the answer that their question has; scoring must keep 1.0. An answer whose ends
    fall inside a token is widened to whole tokens. All of this is counted in ``notes``. Raises DataError where a
    question has no tokens or leaves no room for its passage, EncoderError as `Template.of` does.
    """
    template, notes = Template.of(tokenizer), []
    questions, _, question_of = tokenise([e.question.strip() for e in examples], tokenizer)
    contexts, context_chars, context_of = tokenise([e.context for e in examples], tokenizer)
    if cut := int((questions.lengths > max_question).sum()):
        notes.append(f"{cut} questions cut to {max_question} tokens")

    rows: list[tuple[int, ...]] = []
    widened = unlabelled = 0
    for index, (example, q, c) in enumerate(zip(examples, question_of, context_of, strict=True)):
        question_count, chars = min(len(questions[q]), max_question), context_chars[c]
        if question_count == 0:
            raise DataError(f"question {example.id!r} has no tokens: {example.question!r}")
        capacity = max_length - question_count - template.specials
        step = stride if stride_is == "step" else capacity - stride
        if capacity < 1 or step < 1:
            raise DataError(
                f"question {example.id!r} leaves {capacity} tokens for its passage and a step of {step}; "
                f"raise max_length ({max_length}) or lower stride ({stride}) or max_question ({max_question})"
            )
        first_token = last_token = -1
        if example.span is not None and len(chars):
            first_token, last_token = _token_span(chars, *example.span)
            text = example.context[chars[first_token][0] : chars[last_token][1]]
            unlabelled += last_token < first_token
            widened += last_token >= first_token and text != example.context[slice(*example.span)].strip()
        prefix = question_count + len(template.before) + len(template.between)
        for first in window_starts(len(chars), capacity, step):
            size = min(capacity, len(chars) - first)
            inside = first <= first_token <= last_token < first + size
            labels = (first_token - first + prefix, last_token - first + prefix) if inside else (0, 0)
            rows.append((q, question_count, c, first, size, index, *labels))
    if widened:
        notes.append(f"{widened} answers widened to whole tokens")
    if unlabelled:
        notes.append(f"{unlabelled} answers hold no token and are trained as absent")

    table = np.asarray(rows, np.int32).reshape(-1, 8)
    if empty_windows < 1.0:
        has_answer = np.asarray([e.span is not None for e in examples], bool)[table[:, 5]]
        empty = has_answer & (table[:, 6] == 0)
        drawn = np.random.default_rng(seed).random(len(table)) < empty_windows
        notes.append(f"{int((empty & ~drawn).sum())} of {len(table)} windows without their answer left out")
        table = table[~empty | drawn]
    *row, example_W, start_W, end_W = np.ascontiguousarray(table.T)
    pools = {"first_texts": questions, "second_texts": contexts, "context_chars": context_chars}
    row, labels = dict(zip(ROW, row, strict=True)), {"start": start_W, "end": end_W}
    return Windows(
        examples=examples, template=template, **pools, **row, example_W=example_W, labels=labels, notes=notes
    )


def make_pairs(
    examples: list[Pair], tokenizer: PreTrainedTokenizerFast, max_length: int = 128, *, scores: bool = False
) -> Sequences:
    """Tokenise texts, alone or in pairs, into at most ``max_length`` tokens each.

    Where there is no ``label``, that of a class is -100, and that of ``scores`` nan. Of a pair that is too long the
    longer text is cut first, at its end; cuts are counted in ``notes``. Raises DataError where some examples have a
    second text and others do not, or no room is left for them.
    """
    is_pair = bool(examples) and examples[0].second is not None
    if mixed := [example.id for example in examples if (example.second is not None) != is_pair]:
        raise DataError(f"example {mixed[0]!r} has {'no' if is_pair else 'a'} second text, unlike those before it")
    texts = [(example.first, example.second or "") for example in examples]
    return _make_texts(examples, texts, tokenizer, max_length, is_pair=is_pair, scores=scores)


def make_choices(examples: list[Choice], tokenizer: PreTrainedTokenizerFast, max_length: int = 128) -> Sequences:
    """Tokenise each example's context with each of its endings into rows, cut as those of pairs are.

    Raises DataError where an example has another number of endings than the first, or fewer than two.
    """
    choices = len(examples[0].endings) if examples else 2
    for example in examples:
        if len(example.endings) != choices or choices < 2:
            raise DataError(f"example {example.id!r} has {len(example.endings)} endings; all need {max(2, choices)}")
    texts = [(example.context, ending) for example in examples for ending in example.endings]
    return _make_texts(examples, texts, tokenizer, max_length, choices=choices)


def _make_texts(examples, texts, tokenizer, max_length, *, is_pair=True, choices=1, scores=False) -> Sequences:
    template = Template.of(tokenizer, is_pair)
    if (room := max_length - template.specials) < 2:
        raise DataError(f"max_length ({max_length}) leaves {room} tokens for the texts; raise it")
    firsts, _, first_of = tokenise([first for first, _ in texts], tokenizer)
    seconds, _, second_of = tokenise([second for _, second in texts], tokenizer)
    first_size, second_size = firsts.lengths[first_of], seconds.lengths[second_of]
    half = np.where(first_size > second_size, room - room // 2, room // 2)
    first_count = np.minimum(first_size, np.maximum(room - second_size, half))
    count = np.minimum(second_size, room - first_count)
    cut = int((first_count + count < first_size + second_size).sum())
    rows = (first_of, first_count, second_of, np.zeros_like(count), count)
    missing, kind = (np.nan, np.float32) if scores else (-100, np.int32)
    labels = [missing if example.label is None else example.label for example in examples]
    return Sequences(
        examples=examples,
        template=template,
        first_texts=firsts,
        second_texts=seconds,
        **{name: values.astype(np.int32) for name, values in zip(ROW, rows, strict=True)},
        example_W=np.arange(len(examples), dtype=np.int32),
        labels={"label": np.asarray(labels, kind)},
        notes=[f"{cut:,} of {len(texts):,} texts are cut to {max_length} tokens"] if cut else [],
        choices=choices,
    )


def tokenise(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> tuple[Ragged, Ragged, np.ndarray]:
    """Return ids and character ranges (tokens × 2) of the distinct texts, and which of them each text is.

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
    """Cut character ranges to what is no space; a range of spaces alone ends before it starts."""
    solid = np.flatnonzero([not character.isspace() for character in text])
    starts = np.append(solid, len(text))[np.searchsorted(solid, spans[:, 0])]
    ends = np.append(0, solid + 1)[np.searchsorted(solid, spans[:, 1])]
    return np.stack([starts, ends], 1).astype(np.int32)


def _token_span(chars: np.ndarray, start: int, end: int) -> tuple[int, int]:
    """Return the first and last token that overlap the characters [start, end)."""
    first = int(np.searchsorted(chars[:, 1], start, side="right"))
    last = int(np.searchsorted(chars[:, 0], end, side="left")) - 1
    return min(first, len(chars) - 1), last


def _backend(tokenizer: PreTrainedTokenizerFast):
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # some saved tokenizers cut and pad on their own
    backend.no_padding()
    return backend


def collate(sequences: Sequences, index: np.ndarray, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Make a padded batch of the sequences ``index`` on a device; C choices of an example stand as B×C×L.

    It holds input_ids, attention_mask, token_type_ids and segment_ids (0 special or padding, 1 first text, 2 second
    text), B×L each, and the labels by name (B). L is the longest row's length, rounded up to a multiple of 8.
    """
    template, choices = sequences.template, sequences.choices
    rows = (np.arange(choices) + np.asarray(index)[:, None] * choices).ravel()
    counts = np.empty((len(rows), 5), int)  # tokens of each stretch of the template
    counts[:, ::2] = len(template.before), len(template.between), len(template.after)
    counts[:, 1], counts[:, 3] = sequences.first_count_W[rows], sequences.count_W[rows]
    length = -(-int(counts.sum(1).max()) // 8) * 8
    is_real = np.arange(length) < counts.sum(1)[:, None]
    stretch = np.repeat(np.tile(np.arange(5), len(rows)), counts.ravel())
    ids, types, segments = np.full(is_real.shape, template.padding), *np.zeros((2, *is_real.shape), int)
    ids[is_real] = np.concatenate([sequences.token_ids(row) for row in rows])
    types[is_real], segments[is_real] = np.array(template.types)[stretch], np.array(SEGMENTS)[stretch]
    batch = {"input_ids": ids, "attention_mask": is_real.astype(int), "token_type_ids": types, "segment_ids": segments}
    if choices > 1:
        batch = {name: values.reshape(-1, choices, length) for name, values in batch.items()}
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
