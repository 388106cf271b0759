"""The miniature encoder: its vocabulary and its pretraining on unlabelled miniature text.

Each example is a passage and, in the question's place, a second wording of one of its facts with the value
masked. Two losses: select the value's span in the passage, and predict masked passage words. Passages grow
from one fact to all over the first part of the training. The names are those that no domain uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForQuestionAnswering, BertTokenizerFast

from .data import mini
from .data.examples import Example
from .data.mini_words import RELATIONS
from .data.windows import WindowTensors, make_windows
from .losses import mean, span_negative_log_likelihood

CHUNK = 100  # batches generated and tokenised together
GROWTH = 0.4  # share of the training over which passages grow to their full length
LONGEST = 10  # facts in a full passage
CLOZES_EACH = 2  # clozes on each passage
MASKED = 0.15  # share of passage tokens to predict


def clozes(rng: np.random.Generator, number: int, facts: int) -> list[Example]:
    """``number`` clozes on passages of 1 to ``facts`` facts."""
    pool, styles = mini.pools(pretraining=True), list(mini.STYLES.values())
    rows = []
    while len(rows) < number:
        style = styles[rng.integers(len(styles))]
        length = int(rng.integers(max(1, facts // 2), facts + 1))
        source = mini.passage(rng, style, pool, facts=length if facts < LONGEST else None, favourites=False)
        for _ in range(CLOZES_EACH):
            pairs = mini.chains(source.facts)
            if pairs and rng.random() < 0.5:
                one, fact = pairs[rng.integers(len(pairs))]
                subject = f"the {one.relation.noun} of {one.subject}"
            else:
                fact = source.facts[rng.integers(len(source.facts))]
                subject = fact.subject
            statement = fact.relation.statements[rng.integers(4)].format(s=subject, o="[MASK]")
            span = (fact.start, fact.start + len(fact.value))
            name = str(len(rows))
            rows.append(Example(name, statement, source.text, (fact.value,), span, name))
    return rows[:number]


def train_vocabulary(size: int, seed: int = 0) -> BertTokenizerFast:
    """An uncased WordPiece vocabulary of ``size`` from miniature text in pretraining's names."""
    rng = np.random.default_rng([seed, 1])
    texts = [text for e in clozes(rng, 30_000, LONGEST) for text in (e.question.replace("[MASK]", ""), e.context)]
    # question words and nouns are no names: every domain needs them
    texts += [f"{r.ask} {r.noun} {r.kind}" for r in RELATIONS] * 20
    texts += [question for style in mini.STYLES.values() for question in style.questions] * 200
    wordpiece = BertWordPieceTokenizer(lowercase=True)
    wordpiece.train_from_iterator(texts, vocab_size=size, min_frequency=2, show_progress=False)
    return BertTokenizerFast(tokenizer_object=wordpiece._tokenizer, do_lower_case=True)


@dataclass
class ClozeBatches:
    """Fresh clozes for every step, made in chunks from the seed alone."""

    tokenizer: BertTokenizerFast
    steps: int
    batch_size: int
    seed: int
    max_length: int
    device: torch.device | str = "cpu"

    def __post_init__(self):
        self.chunk, self.tensors, self.plan = -1, None, []

    def __len__(self) -> int:
        return self.steps

    def size(self, step: int) -> int:
        return self.batch_size

    def at(self, step: int, part: int = 0, parts: int = 1) -> dict[str, Tensor]:
        """The batch of ``step`` with ``labels`` (B×L): the original ids of masked passage tokens, -100 elsewhere."""
        chunk, within = divmod(step, CHUNK)
        if chunk != self.chunk:
            rng = np.random.default_rng([self.seed, 2, chunk])
            grown = min(1.0, step / (GROWTH * self.steps))
            examples = clozes(rng, CHUNK * self.batch_size, max(1, round(grown * LONGEST)))
            windows = make_windows(examples, self.tokenizer, max_length=self.max_length, stride=32)
            windows = windows.select(np.unique(windows.example_W, return_index=True)[1])
            by_length = np.argsort(windows.lengths_W, kind="stable")
            self.tensors, self.chunk = WindowTensors(windows, self.device), chunk
            self.plan = [by_length[i : i + self.batch_size] for i in range(0, len(by_length), self.batch_size)]
            self.plan = [self.plan[i] for i in rng.permutation(len(self.plan))]
        index = self.plan[within][part::parts]
        batch = self.tensors.gather(index)
        generator = torch.Generator().manual_seed(hash((self.seed, step, part)))
        chance = torch.rand(batch["input_ids"].shape, generator=generator).to(batch["input_ids"].device)
        special = batch["input_ids"] == self.tokenizer.sep_token_id
        masked = (chance < MASKED) & (batch["token_type_ids"] == 1) & ~special
        batch["labels"] = batch["input_ids"].masked_fill(~masked, -100)
        replaced = masked & (chance < 0.8 * MASKED)
        batch["input_ids"] = batch["input_ids"].masked_fill(replaced, self.tokenizer.mask_token_id)
        return {**batch, "window": torch.as_tensor(index)}


class Pretrainer(nn.Module):
    """A reader whose encoder also predicts masked words, through its own word embeddings."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.reader = BertForQuestionAnswering(config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, **inputs):
        output = self.reader(**inputs, output_hidden_states=True)
        return output

    def word_logits(self, hidden_NxD: Tensor) -> Tensor:
        return hidden_NxD @ self.reader.bert.embeddings.word_embeddings.weight.T.to(hidden_NxD.dtype) + self.bias


def pretraining_loss(model: Pretrainer):
    """Span selection plus masked words."""

    def loss(output, batch, progress):
        span = span_negative_log_likelihood(
            output.start_logits, output.end_logits, batch["start"], batch["end"], batch["attention_mask"]
        )
        chosen = batch["labels"] != -100
        words = model.word_logits(output.hidden_states[-1][chosen].float())
        return {"span": mean(span), "words": functional.cross_entropy(words, batch["labels"][chosen])}

    return loss
