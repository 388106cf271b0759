"""RMR, the Reinforced Mnemonic Reader (Hu et al. 2018, IJCAI-18), base reader of A2D (section 4.2).

Word pieces and their letters, one recurrent encoder for question and passage, blocks that align the passage with the
question and with itself while they remember earlier alignments, and a pointer to the answer's start and then its end.
It reads the same windows as BERT. Shapes: B windows, Q question tokens, P passage positions, d = 2 * hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
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

from helpers import paths
from helpers.batches.sequences import text_positions
from helpers.data.examples import DataError
from helpers.files import file_fingerprint
from helpers.models.dropout import QuickDropout

LETTERS = 16  # that are read of a word piece
NEVER = -1e4  # logit of a position that cannot be an answer; small enough for half precision


class MnemonicConfig(PretrainedConfig):
    """``hidden`` is the width of one direction, ``blocks`` the number of aligning layers."""

    model_type = "mnemonic"
    vocab_size: int = 1
    word_width: int = 300
    letter_width: int = 50
    hidden: int = 100
    blocks: int = 3
    gamma: float = 3.0
    dropout: float = 0.3
    fixed_words: bool = False


@dataclass
class MnemonicOutput(ModelOutput):
    """Logits B×L, as BERT's, and the attention B×P×Q of each passage token over the question's tokens."""

    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    attention: Tensor | None = None


class Recurrent(nn.Module):
    """A bidirectional LSTM, float32, that never reads padding: values B×N×in and mask B×N to B×N×(2 * hidden).

    The backward half reads each row reversed within its own length. That takes half the time of packing on a CPU.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.ahead, self.back = (nn.LSTM(width, hidden, batch_first=True) for _ in range(2))

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        place = (mask.sum(1)[:, None] - 1 - torch.arange(mask.shape[1], device=mask.device)) % mask.shape[1]

        def turned(rows: Tensor) -> Tensor:
            return rows.gather(1, place[..., None].expand(-1, -1, rows.shape[2]))

        with torch.autocast(values.device.type, enabled=False):
            values = values.float()
            return torch.cat([self.ahead(values)[0], turned(self.back(turned(values))[0])], -1)


class Words(nn.Module):
    """Vectors of word pieces: the word's, ``fixed`` or learned, and one made of its letters."""

    def __init__(self, vocab_size: int, word_width: int, letter_width: int, fixed: bool):
        super().__init__()
        self.learned = nn.Embedding(vocab_size, word_width)
        self.letters = nn.Embedding(256, letter_width, padding_idx=0)
        self.speller = Recurrent(letter_width, letter_width // 2)
        self.register_buffer("spelling", torch.zeros(vocab_size, LETTERS, dtype=torch.uint8))
        rows = vocab_size if fixed else 0
        self.register_buffer("fixed", torch.zeros(rows, word_width))
        self.register_buffer("is_fixed", torch.zeros(rows, dtype=torch.bool))
        self.width = word_width + 2 * (letter_width // 2)

    def forward(self, *ids: Tensor) -> list[Tensor]:
        """Return the vectors of each of ``ids`` (B×N), spelling every distinct word once."""
        distinct, place = torch.cat([one.flatten() for one in ids]).unique(return_inverse=True)
        vectors = self.learned(distinct)
        if len(self.fixed):
            vectors = torch.where(self.is_fixed[distinct, None], self.fixed[distinct], vectors)
        spelling = self.spelling[distinct].long()
        is_letter = spelling > 0
        is_letter[:, 0] = True  # a word of no letters has one, of value 0
        spelt = self.speller(self.letters(spelling), is_letter)
        spelt = spelt.masked_fill(~is_letter[..., None], torch.finfo(spelt.dtype).min).amax(1)
        flat = torch.cat([vectors, spelt], -1)[place]
        return [part.view(*one.shape, -1) for one, part in zip(ids, flat.split([i.numel() for i in ids]), strict=True)]


class Similarity(nn.Module):
    """f(a, b) = relu(W1 a) . relu(W2 b) of every row of one with every row of the other: B×N×d and B×M×d to B×N×M."""

    def __init__(self, width: int):
        super().__init__()
        self.one, self.other = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return self.one(one).relu() @ self.other(other).relu().transpose(1, 2)


class Fusion(nn.Module):
    """Semantic fusion unit: a gate lets through what ``new`` adds to ``old`` (both …×d)."""

    def __init__(self, width: int):
        super().__init__()
        self.both = nn.Linear(4 * width, 2 * width)  # candidate and gate

    def forward(self, old: Tensor, new: Tensor) -> Tensor:
        candidate, gate = self.both(torch.cat([old, new, old * new, old - new], -1)).chunk(2, -1)
        return old + gate.sigmoid() * (candidate.relu() - old)


def masked_softmax(scores: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Compute the softmax along ``dim`` where ``mask`` (broadcast) is true, in float32; zero elsewhere."""
    scores = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return scores.softmax(dim) * mask


def others(p: Tensor) -> Tensor:
    """Return which positions may be aligned with which, B×P×P: the real ones (B×P), but none with itself."""
    return p[:, :, None] & p[:, None] & ~torch.eye(p.shape[1], dtype=torch.bool, device=p.device)


class Block(nn.Module):
    """One aligning layer: the passage with the question, then with itself, both helped by the block before."""

    def __init__(self, config: MnemonicConfig):
        super().__init__()
        width = 2 * config.hidden
        self.interactive, self.itself = Similarity(width), Similarity(width)
        self.fuse_question, self.fuse_passage = Fusion(width), Fusion(width)

    def forward(self, passage: Tensor, question: Tensor, p: Tensor, q: Tensor, memory=None) -> tuple[Tensor, ...]:
        """Return the passage aligned, the attention over the question B×Q×P, and the alignments E (B×Q×P) and B
        (B×P×P), from passage, question, their masks B×P and B×Q, and what to add to both alignments."""
        from_question, from_itself = memory or (0.0, 0.0)
        alignment = self.interactive(question, passage).float() + from_question
        attention = masked_softmax(alignment, q[:, :, None], 1)
        passage = self.fuse_question(passage, attention.transpose(1, 2) @ question)
        itself = self.itself(passage, passage).float() + from_itself
        weights = masked_softmax(itself, others(p), 1)
        passage = self.fuse_passage(passage, weights.transpose(1, 2) @ passage)
        return passage, attention, alignment, itself


def reattend(alignment: Tensor, itself: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Return the re-attention of a block's alignments E (B×Q×P) and B (B×P×P), of the same shapes (IJCAI-18, Eqs. 5 and
    6): two words are alike if the words that they attend to overlap."""
    apart = others(p)
    columns = masked_softmax(itself, apart, 1)
    return masked_softmax(alignment, p[:, None], 2) @ columns, masked_softmax(itself, apart, 2) @ columns


class Pointer(nn.Module):
    """p1(k) from a summary of the question, then p2(l | k) from the summary with what the start points at."""

    def __init__(self, config: MnemonicConfig):
        super().__init__()
        width = 2 * config.hidden
        self.summarise = nn.Linear(width, 1, bias=False)
        scorers = (nn.Sequential(nn.Linear(4 * width, width), nn.Tanh(), nn.Linear(width, 1)) for _ in range(2))
        self.start, self.end = scorers
        self.fuse = Fusion(width)

    def forward(self, passage: Tensor, question: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """Return start and end logits B×P from passage B×P×d, question B×Q×d and their masks."""

        def scored(scorer: nn.Module, summary: Tensor) -> Tensor:
            summary = summary[:, None].expand_as(passage)
            return scorer(torch.cat([passage, summary, passage * summary, passage - summary], -1))[..., 0].float()

        weights = masked_softmax(self.summarise(question)[..., 0], q, 1)
        summary = (weights[:, None] @ question)[:, 0]
        start = scored(self.start, summary)
        chosen = masked_softmax(start, p, 1)
        # The expected start is pooled, because position by position each end would know only its own start.
        return start, scored(self.end, self.fuse(summary, (chosen[:, None] @ passage)[:, 0]))


class MnemonicReader(PreTrainedModel):
    """The whole reader. [CLS] stands before the passage as the position of "no answer"."""

    config_class = MnemonicConfig
    base_model_prefix = "mnemonic"

    def __init__(self, config: MnemonicConfig):
        super().__init__(config)
        width = 2 * config.hidden
        self.words = Words(config.vocab_size, config.word_width, config.letter_width, config.fixed_words)
        self.encoder = Recurrent(self.words.width + 1, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        inputs = [width] * (config.blocks - 1) + [config.blocks * width]
        self.evidence = nn.ModuleList(Recurrent(one, config.hidden) for one in inputs)
        self.pointer = Pointer(config)
        self.gamma = nn.Parameter(torch.tensor(config.gamma), requires_grad=config.blocks > 1)
        self.dropout = QuickDropout(config.dropout)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Give linear layers Glorot's uniform weights. With PyTorch's smaller ones alignments, which are products of
        two layers, start flat and stay so for hundreds of steps."""
        if isinstance(module, nn.Linear):
            initialization.xavier_uniform_(module.weight)
            if module.bias is not None:
                initialization.zeros_(module.bias)

    def forward(self, input_ids: Tensor, segment_ids: Tensor, **_: object) -> MnemonicOutput:
        """Read padded windows B×L; ``segment_ids`` are 1 for the question's tokens and 2 for the passage's."""
        at_q, q, at_p, p = text_positions(segment_ids)
        at_p = torch.cat([torch.zeros_like(at_p[:, :1]), at_p], 1)  # [CLS]
        p = torch.cat([torch.ones_like(p[:, :1]), p], 1)
        question_ids, passage_ids = input_ids.gather(1, at_q), input_ids.gather(1, at_p)
        same = (question_ids[:, :, None] == passage_ids[:, None]) & q[:, :, None] & p[:, None]
        words_q, words_p = self.words(question_ids, passage_ids)
        question = self._encode(words_q, same.any(2), q)
        passage = self._encode(words_p, same.any(1), p)

        aligned, maps, memory = [], [], None
        for block, evidence in zip(self.blocks, self.evidence, strict=True):
            passage, attention, *alignments = block(passage, question, p, q, memory)
            aligned.append(passage)
            maps.append(attention)
            is_last = len(maps) == len(self.blocks)
            if is_last:
                passage = torch.cat([passage, *aligned[:-1]], -1)
            passage = self.dropout(evidence(self.dropout(passage), p))
            if not is_last:
                memory = [self.gamma * alignment for alignment in reattend(*alignments, p)]
        attention = torch.stack(maps).mean(0).transpose(1, 2)[:, 1:] * p[:, 1:, None]
        start, end = self.pointer(passage, question, p, q)
        # One column more takes what is written for padding.
        empty = torch.full((len(p), input_ids.shape[1] + 1), NEVER, device=p.device)
        place = torch.where(p, at_p, input_ids.shape[1])
        start, end = (empty.scatter(1, place, logits)[:, :-1] for logits in (start, end))
        return MnemonicOutput(start_logits=start, end_logits=end, attention=attention)

    def _encode(self, words: Tensor, shared: Tensor, mask: Tensor) -> Tensor:
        """Encode word vectors B×N×w, and whether the word stands on the other side too, to B×N×d."""
        return self.dropout(self.encoder(self.dropout(torch.cat([words, shared[..., None]], -1)), mask))


def make_reader(tokenizer: PreTrainedTokenizerFast, seed: int, glove: Path | str = "", **settings) -> MnemonicReader:
    """Make a new reader of the tokenizer's word pieces, its weights drawn from ``seed``; ``settings`` are
    MnemonicConfig's. Pieces that are words of the file ``glove`` keep its vectors. Raises DataError as `read_glove`."""
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    torch.manual_seed(seed)
    reader = MnemonicReader(MnemonicConfig(vocab_size=len(pieces), fixed_words=bool(glove), **settings))
    for row, piece in enumerate(pieces):
        letters = piece.removeprefix("##").encode()[:LETTERS]
        reader.words.spelling[row, : len(letters)] = torch.tensor(list(letters), dtype=torch.uint8)
    if glove:
        reader.words.fixed, reader.words.is_fixed = read_glove(glove, pieces, reader.config.word_width)
    return reader


def find_glove(path: Path | str) -> Path:
    """Return a file, from here or from the repository's root. Raises DataError where there is none."""
    places = paths.places(path)
    if not (files := [place for place in places if place.is_file()]):
        raise DataError(f"{places[0]}: no such file; -p glove names GloVe's text file, a word and its numbers per line")
    return files[0]


@cache
def glove_digest(path: str) -> str:
    """Return sixteen hex digits of a file of vectors, "" where none is named. Raises DataError as `find_glove`."""
    return file_fingerprint(find_glove(path)) if path else ""


def read_glove(path: Path | str, words: Sequence[str], width: int) -> tuple[Tensor, Tensor]:
    """Read the vectors of ``words`` (words × width, zeros where the file lacks one) and which it has from a text file
    of GloVe, a word and ``width`` numbers per line. Raises DataError where a line is broken or no word is there."""
    rows = {word: row for row, word in enumerate(words)}
    table, is_fixed = torch.zeros(len(words), width), torch.zeros(len(words), dtype=torch.bool)
    with open(find_glove(path), encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            word, *numbers = line.rstrip().rsplit(" ", width)  # a word may hold spaces, as ". . ." in glove.840B
            row = rows.get(word)
            try:
                if len(numbers) != width:
                    raise ValueError
                if row is not None and not is_fixed[row]:
                    table[row], is_fixed[row] = torch.tensor([float(value) for value in numbers]), True
            except ValueError:
                problem = f"expected a word and {width} numbers, found {line!r:.60}"
                raise DataError(f"{path}: line {number}: {problem}; give vectors of width {width}") from None
    if not is_fixed.any() or not table.isfinite().all():
        problem = "a number is not finite" if is_fixed.any() else f"none of the {len(words):,} words is there"
        raise DataError(f"{path}: {problem}; give vectors of the encoder's language and case")
    return table, is_fixed


AutoConfig.register(MnemonicConfig.model_type, MnemonicConfig)
AutoModelForQuestionAnswering.register(MnemonicConfig, MnemonicReader)
