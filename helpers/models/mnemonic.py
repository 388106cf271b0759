"""RMR, the Reinforced Mnemonic Reader (Hu et al. 2018, IJCAI-18), base reader of A2D (section 4.2).

Word pieces and their letters, one recurrent encoder for question and passage, blocks that align the passage with the
question and with itself while they remember earlier alignments, and a pointer to the answer's start and then its end.
It reads the same windows as BERT. Shapes: B windows, Q question tokens, P passage positions, d = 2 * hidden.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    initialization,
)
from transformers.utils import ModelOutput

from helpers.batches.tensors import rows_of
from helpers.models.dropout import QuickDropout
from helpers.models.glove import read_glove
from helpers.models.words import LETTERS, Recurrent, Words

NEVER = -1e4  # logit of a position that cannot be an answer; small enough for half precision


class MnemonicConfig(PretrainedConfig):
    """``hidden`` is the width of one direction, ``blocks`` the number of aligning layers. ``reattention`` and
    ``fusion`` "relu" make the reader of the IJCAI-18 paper; without, and "tanh", that of arXiv 1705.02798v3."""

    model_type = "mnemonic"
    vocab_size: int = 1
    word_width: int = 300
    letter_width: int = 50
    hidden: int = 100
    blocks: int = 3
    reattention: bool = True
    fusion: str = "relu"
    gamma: float = 3.0
    dropout: float = 0.3
    given_words: bool = False


@dataclass
class MnemonicOutput(ModelOutput):
    """Logits B×L, as BERT's, and the attention B×P×Q of each passage token over the question's tokens."""

    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    attention: Tensor | None = None


class Similarity(nn.Module):
    """f(a, b) = relu(W1 a) . relu(W2 b) of every row of one with every row of the other: B×N×d and B×M×d to B×N×M."""

    def __init__(self, width: int):
        super().__init__()
        self.one, self.other = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return self.one(one).relu() @ self.other(other).relu().transpose(1, 2)


class Fusion(nn.Module):
    """Semantic fusion unit: a gate lets through what ``new`` adds to ``old`` (both …×d)."""

    def __init__(self, width: int, activation: str):
        super().__init__()
        self.both = nn.Linear(4 * width, 2 * width)  # candidate and gate
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[activation]

    def forward(self, old: Tensor, new: Tensor) -> Tensor:
        candidate, gate = self.both(torch.cat([old, new, old * new, old - new], -1)).chunk(2, -1)
        return old + gate.sigmoid() * (self.activation(candidate) - old)


def masked_softmax(scores: Tensor, mask: Tensor, dim: int) -> Tensor:
    """softmax along ``dim`` over what ``mask`` (broadcast) keeps; zero elsewhere. Computed in float32."""
    scores = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return scores.softmax(dim) * mask


def others(p: Tensor) -> Tensor:
    """Which positions (B×P) may be aligned with which: real ones, but none with itself; B×P×P."""
    return p[:, :, None] & p[:, None] & ~torch.eye(p.shape[1], dtype=torch.bool, device=p.device)


class Block(nn.Module):
    """One aligning layer: the passage with the question, then with itself, both helped by the block before."""

    def __init__(self, config: MnemonicConfig):
        super().__init__()
        width = 2 * config.hidden
        self.interactive, self.itself = Similarity(width), Similarity(width)
        self.fuse_question, self.fuse_passage = Fusion(width, config.fusion), Fusion(width, config.fusion)

    def forward(
        self, passage: Tensor, question: Tensor, p: Tensor, q: Tensor, memory: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Passage B×P×d, question B×Q×d, their masks B×P and B×Q, and what to add to both alignments; returns the
        passage aligned, the attention over the question B×Q×P, and the alignments E (B×Q×P) and B (B×P×P)."""
        from_question, from_itself = memory or (0.0, 0.0)
        alignment = self.interactive(question, passage).float() + from_question
        attention = masked_softmax(alignment, q[:, :, None], 1)
        passage = self.fuse_question(passage, attention.transpose(1, 2) @ question)
        itself = self.itself(passage, passage).float() + from_itself
        weights = masked_softmax(itself, others(p), 1)
        passage = self.fuse_passage(passage, weights.transpose(1, 2) @ passage)
        return passage, attention, alignment, itself


def reattend(alignment: Tensor, itself: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """What a block remembers of the one before it (IJCAI-18, Eqs. 5 and 6): two words are alike if what they attend
    to overlaps. E (B×Q×P) and B (B×P×P) to tensors of the same shapes."""
    apart = others(p)
    columns = masked_softmax(itself, apart, 1)
    return masked_softmax(alignment, p[:, None], 2) @ columns, masked_softmax(itself, apart, 2) @ columns


class Pointer(nn.Module):
    """p1(k) from a summary of the question, then p2(l | k) from the summary with what the start points at."""

    def __init__(self, config: MnemonicConfig):
        super().__init__()
        width = 2 * config.hidden
        self.summarise = nn.Linear(width, 1, bias=False)
        self.start, self.end = (
            nn.Sequential(nn.Linear(4 * width, width), nn.Tanh(), nn.Linear(width, 1)) for _ in range(2)
        )
        self.fuse = Fusion(width, config.fusion)

    def forward(self, passage: Tensor, question: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """Passage B×P×d, question B×Q×d and masks to start and end logits B×P."""

        def scored(scorer: nn.Module, summary: Tensor) -> Tensor:
            summary = summary[:, None].expand_as(passage)
            return scorer(torch.cat([passage, summary, passage * summary, passage - summary], -1))[..., 0].float()

        weights = masked_softmax(self.summarise(question)[..., 0], q, 1)
        summary = (weights[:, None] @ question)[:, 0]
        start = scored(self.start, summary)
        chosen = masked_softmax(start, p, 1)
        # The expected start, pooled: position by position each end would know only its own start.
        return start, scored(self.end, self.fuse(summary, (chosen[:, None] @ passage)[:, 0]))


class MnemonicReader(PreTrainedModel):
    """The whole reader. [CLS] stands before the passage as the position of "no answer"."""

    config_class = MnemonicConfig
    base_model_prefix = "mnemonic"

    def __init__(self, config: MnemonicConfig):
        super().__init__(config)
        width = 2 * config.hidden
        self.words = Words(config.vocab_size, config.word_width, config.letter_width, config.given_words)
        self.encoder = Recurrent(self.words.width + 1, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        inputs = [width] * (config.blocks - 1) + [config.blocks * width]
        self.evidence = nn.ModuleList(Recurrent(one, config.hidden) for one in inputs)
        self.pointer = Pointer(config)
        self.gamma = nn.Parameter(torch.tensor(config.gamma), requires_grad=config.reattention and config.blocks > 1)
        self.dropout = QuickDropout(config.dropout)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Glorot's uniform weights for linear layers: PyTorch's own are smaller, and alignments, products of two
        layers, then start flat and stay so for hundreds of steps."""
        if isinstance(module, nn.Linear):
            initialization.xavier_uniform_(module.weight)
            if module.bias is not None:
                initialization.zeros_(module.bias)

    def forward(self, input_ids: Tensor, segment_ids: Tensor, **_: object) -> MnemonicOutput:
        """Padded windows B×L, and which of their tokens are the question's (1) and the passage's (2)."""
        at_q, q, at_p, p = rows_of(segment_ids)
        at_p = torch.cat([torch.zeros_like(at_p[:, :1]), at_p], 1)  # [CLS]
        p = torch.cat([torch.ones_like(p[:, :1]), p], 1)
        question_ids, passage_ids = input_ids.gather(1, at_q), input_ids.gather(1, at_p)
        same = (question_ids[:, :, None] == passage_ids[:, None]) & q[:, :, None] & p[:, None]
        words_q, words_p = self.words(question_ids, passage_ids)
        question = self._encode(words_q, same.any(2), q)
        passage = self._encode(words_p, same.any(1), p)

        aligned, maps, memory = [], [], None
        for block, evidence in zip(self.blocks, self.evidence, strict=True):
            found, attention, *alignments = block(passage, question, p, q, memory)
            aligned.append(found)
            maps.append(attention)
            last = len(maps) == len(self.blocks)
            passage = torch.cat([found, *aligned[:-1]], -1) if last else found
            passage = self.dropout(evidence(self.dropout(passage), p))
            if self.config.reattention and not last:
                memory = [self.gamma * alignment for alignment in reattend(*alignments, p)]
        attention = torch.stack(maps).mean(0).transpose(1, 2)[:, 1:] * p[:, 1:, None]
        start, end = self.pointer(passage, question, p, q)
        # One column more takes what is written for padding.
        empty = torch.full((len(p), input_ids.shape[1] + 1), NEVER, device=p.device)
        place = torch.where(p, at_p, input_ids.shape[1])
        start, end = (empty.scatter(1, place, logits)[:, :-1] for logits in (start, end))
        return MnemonicOutput(start_logits=start, end_logits=end, attention=attention)

    def _encode(self, words: Tensor, shared: Tensor, mask: Tensor) -> Tensor:
        """Word vectors B×N×w and whether the word stands on the other side too, to B×N×d."""
        return self.dropout(self.encoder(self.dropout(torch.cat([words, shared[..., None]], -1)), mask))


def make_reader(tokenizer: PreTrainedTokenizerFast, seed: int, glove: Path | str = "", **settings) -> MnemonicReader:
    """A new reader of the tokenizer's word pieces, its weights made from ``seed``; ``settings`` are MnemonicConfig's.

    ``glove`` names a text file of GloVe vectors of ``word_width`` numbers; pieces that stand in it as words keep its
    vectors, the others learn theirs. Raises DataError where the file cannot be used.
    """
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    torch.manual_seed(seed)
    reader = MnemonicReader(MnemonicConfig(vocab_size=len(pieces), given_words=bool(glove), **settings))
    for row, piece in enumerate(pieces):
        letters = piece.removeprefix("##").encode()[:LETTERS]
        reader.words.spelling[row, : len(letters)] = torch.tensor(list(letters), dtype=torch.uint8)
    if glove:
        reader.words.given, reader.words.is_given = read_glove(glove, pieces, reader.config.word_width)
    return reader


AutoConfig.register(MnemonicConfig.model_type, MnemonicConfig)
AutoModelForQuestionAnswering.register(MnemonicConfig, MnemonicReader)
