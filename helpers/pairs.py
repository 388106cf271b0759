"""Texts as token sequences: alone, in pairs, and with each of their choices."""

from itertools import chain

import numpy as np
from transformers import PreTrainedTokenizerFast

from helpers.data.examples import Choice, DataError, Pair
from helpers.sequences import Sequences, Template, TokenRow, tokenise


def make_pairs(
    examples: list[Pair], tokenizer: PreTrainedTokenizerFast, max_length: int = 128, *, scores: bool = False
) -> Sequences:
    """Tokenise texts, alone or in pairs, into at most ``max_length`` tokens each.

    A missing ``label`` becomes -100, or nan with ``scores``. In a pair that is too long, the longer text is cut first,
    at its end. Raises DataError where some examples have a second text and others do not, or no room is left for them.
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
    tokens, rows = tokenise(chain(*texts), tokenizer), []
    for first, second in ((tokens[one][0], tokens[other][0]) for one, other in texts):
        half = (room + (len(first) > len(second))) // 2
        first = first[: max(room - len(second), half)]
        rows.append(TokenRow(first, second[: room - len(first)]))
    missing, kind = (np.nan, np.float32) if scores else (-100, np.int32)
    labels = np.array([missing if example.label is None else example.label for example in examples], kind)
    facts = {"example_W": np.arange(len(examples), dtype=np.int32), "labels": {"label": labels}, "choices": choices}
    return Sequences(examples=examples, template=template, rows=rows, **facts)
