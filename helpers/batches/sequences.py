"""Examples as what an encoder reads: questions with windows of their passages, texts alone or in pairs, and choices.

Positions below are positions in the whole sequence, special tokens included.
"""

from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerFast

from helpers.batches.texts import ROW, Ragged, Sequences, Template, tokenise
from helpers.data.examples import Choice, DataError, Example, Pair


@dataclass(frozen=True, kw_only=True)
class Windows(Sequences):
    """Questions with windows of their passages.

    The labels ``start`` and ``end`` are positions of the answer's first and last token, 0 (the token that stands before
    the question) where the window does not hold the whole answer. ``context_chars`` gives each passage token's
    character range.
    """

    context_chars: Ragged

    def positions(self, window: int, span: tuple[int, int]) -> tuple[int, int]:
        """The first and last position in a window of the tokens that the characters ``span`` of its passage cover."""
        first, last = _token_span(self.context_chars[self.second_text_W[window]], *span)
        shift = self.prefix_W[window] - self.first_W[window]
        return first + shift, last + shift


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
    Raises DataError where a question has no tokens or leaves no room for its passage, EncoderError where the
    tokenizer does not mark the beginning.
    """
    if stride_is not in ("step", "overlap"):
        raise ValueError(f"stride_is must be 'step' or 'overlap', not {stride_is!r}")
    notes: list[str] = []
    template = Template.of(tokenizer)
    questions, _, question_of = tokenise([e.question.strip() for e in examples], tokenizer)
    contexts, context_chars, context_of = tokenise([e.context for e in examples], tokenizer)
    if cut := int((questions.lengths > max_question).sum()):
        notes.append(f"{cut} questions cut to {max_question} tokens")

    rows: list[tuple[int, ...]] = []
    widened = unlabelled = 0
    for index, (example, q, c) in enumerate(zip(examples, question_of, context_of, strict=True)):
        asked, chars = min(len(questions[q]), max_question), context_chars[c]
        count = len(chars)
        if asked == 0:
            raise DataError(f"question {example.id!r} has no tokens: {example.question!r}")
        capacity = max_length - asked - template.specials
        step = stride if stride_is == "step" else capacity - stride
        if capacity < 1 or step < 1:
            raise DataError(
                f"question {example.id!r} leaves {capacity} tokens for its passage and a step of {step}; "
                f"raise max_length ({max_length}) or lower stride ({stride}) or max_question ({max_question})"
            )
        first_token = last_token = -1
        if example.span is not None and count:
            first_token, last_token = _token_span(chars, *example.span)
            text = example.context[chars[first_token][0] : chars[last_token][1]]
            unlabelled += last_token < first_token
            widened += last_token >= first_token and text != example.context[slice(*example.span)].strip()
        prefix = asked + len(template.before) + len(template.between)
        for first in window_starts(count, capacity, step):
            size = min(capacity, count - first)
            inside = first <= first_token <= last_token < first + size
            labels = (first_token - first + prefix, last_token - first + prefix) if inside else (0, 0)
            rows.append((q, asked, c, first, size, index, *labels))
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
    return Windows(
        examples=examples,
        template=template,
        first_texts=questions,
        second_texts=contexts,
        context_chars=context_chars,
        **dict(zip(ROW, row, strict=True)),
        example_W=example_W,
        labels={"start": start_W, "end": end_W},
        notes=notes,
    )


def make_pairs(
    examples: list[Pair], tokenizer: PreTrainedTokenizerFast, max_length: int = 128, *, scores: bool = False
) -> Sequences:
    """Texts alone or in pairs, at most ``max_length`` tokens each, with their ``label``: -100 for a class and nan where
    labels are ``scores`` if there is none.

    Of a pair that is too long the longer text is cut first, at its end; cuts are counted in ``notes``. Raises DataError
    where some examples have a second text and others do not, or no room is left for them.
    """
    pair = bool(examples) and examples[0].second is not None
    for example in examples:
        if (example.second is not None) != pair:
            raise DataError(f"example {example.id!r} has {'no' if pair else 'a'} second text, unlike those before it")
    texts = [(example.first, example.second or "") for example in examples]
    return _make(examples, texts, tokenizer, max_length, pair=pair, scores=scores)


def make_choices(examples: list[Choice], tokenizer: PreTrainedTokenizerFast, max_length: int = 128) -> Sequences:
    """For each example as many rows as it has endings, each of its context and an ending, cut as those of pairs are.

    Raises DataError where an example has another number of endings than the first, or fewer than two.
    """
    choices = len(examples[0].endings) if examples else 2
    for example in examples:
        if len(example.endings) != choices or choices < 2:
            raise DataError(f"example {example.id!r} has {len(example.endings)} endings; all need {max(2, choices)}")
    texts = [(example.context, ending) for example in examples for ending in example.endings]
    return _make(examples, texts, tokenizer, max_length, choices=choices)


def _make(
    examples: list,
    texts: list[tuple[str, str]],
    tokenizer,
    max_length: int,
    pair: bool = True,
    choices: int = 1,
    scores: bool = False,
) -> Sequences:
    template = Template.of(tokenizer, pair)
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
    labels = [example.label for example in examples]
    missing, kind = (np.nan, np.float32) if scores else (-100, np.int32)
    return Sequences(
        examples=examples,
        template=template,
        first_texts=firsts,
        second_texts=seconds,
        **{name: values.astype(np.int32) for name, values in zip(ROW, rows, strict=True)},
        example_W=np.arange(len(examples), dtype=np.int32),
        labels={"label": np.asarray([missing if label is None else label for label in labels], kind)},
        notes=[f"{cut:,} of {len(texts):,} texts are cut to {max_length} tokens"] if cut else [],
        choices=choices,
    )


def _token_span(chars: np.ndarray, start: int, end: int) -> tuple[int, int]:
    """First and last token that overlap the characters [start, end)."""
    first = int(np.searchsorted(chars[:, 1], start, side="right"))
    last = int(np.searchsorted(chars[:, 0], end, side="left")) - 1
    return min(first, len(chars) - 1), last
