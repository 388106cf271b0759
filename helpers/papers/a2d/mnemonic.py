"""RMR, the Reinforced Mnemonic Reader (Hu et al. 2018, IJCAI-18), base reader of A2D (section 4.2).

Word pieces and their letters, one recurrent encoder, blocks that align the passage with the question and with itself
while they remember earlier alignments, and a pointer to the answer's start and then its end. It reads the same windows
as BERT. Shapes: B windows, Q question tokens, P passage positions, d = 2 * hidden.
"""

from functools import cache

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
from transformers.modeling_outputs import QuestionAnsweringModelOutput

from helpers import paths
from helpers.data.examples import DataError
from helpers.files import file_fingerprint
from helpers.models.attention import QuickDropout
from helpers.sequences import text_positions

LETTERS = 16  # UTF-8 bytes read per piece
NEVER = -1e4  # logit of a position that cannot be an answer; small enough for half precision


class MnemonicConfig(PretrainedConfig):
    """``hidden`` is the width of one direction, ``blocks`` the number of aligning layers, ``gamma`` the initial weight
    of the reattention."""

    model_type = "mnemonic"
    module: str = __name__  # which makes transformers know this kind of model
    vocab_size: int = 1
    word_width: int = 300
    letter_width: int = 50
    hidden: int = 100
    blocks: int = 3
    gamma: float = 3.0
    dropout: float = 0.3


class Recurrent(nn.Module):
    """A bidirectional LSTM, float32, that never reads padding: values B×N×in and mask B×N to B×N×(2 * hidden).

    The backward half reads each row reversed within its own length. That takes half the time of packing on a CPU.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.ahead, self.back = (nn.LSTM(width, hidden, batch_first=True) for _ in range(2))

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        place = (mask.sum(1)[:, None] - 1 - torch.arange(mask.shape[1], device=mask.device)) % mask.shape[1]

        def reverse(rows: Tensor) -> Tensor:
            return rows.gather(1, place[..., None].expand(-1, -1, rows.shape[2]))

        with torch.autocast(values.device.type, enabled=False):
            values = values.float()
            return torch.cat([self.ahead(values)[0], reverse(self.back(reverse(values))[0])], -1)


class Words(nn.Module):
    """Vectors of word pieces: the word's, learned unless it ``is_fixed``, and one made of its letters."""

    def __init__(self, vocab_size: int, word_width: int, letter_width: int):
        super().__init__()
        self.learned = nn.Embedding(vocab_size, word_width)
        self.letters = nn.Embedding(256, letter_width, padding_idx=0)
        self.speller = Recurrent(letter_width, letter_width // 2)
        self.register_buffer("spelling", torch.zeros(vocab_size, LETTERS, dtype=torch.uint8))
        self.register_buffer("is_fixed", torch.zeros(vocab_size, dtype=torch.bool))
        self.width = word_width + 2 * (letter_width // 2)

    def forward(self, *ids: Tensor) -> list[Tensor]:
        """Return the vectors of each of ``ids`` (B×N), spelling every distinct word once."""
        distinct, place = torch.cat([one.flatten() for one in ids]).unique(return_inverse=True)
        vectors = self.learned(distinct)
        vectors = torch.where(self.is_fixed[distinct, None], vectors.detach(), vectors)
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


def others(p: Tensor) -> Tensor:
    """Return which positions may be aligned with which, B×P×P: the real ones (B×P), but none with itself."""
    return p[:, :, None] & p[:, None] & ~torch.eye(p.shape[1], dtype=torch.bool, device=p.device)


class Block(nn.Module):
    """One aligning layer: the passage with the question, then with itself, both helped by the block before."""

    def __init__(self, width: int):
        super().__init__()
        self.interactive, self.itself = Similarity(width), Similarity(width)
        self.fuse_question, self.fuse_passage = Fusion(width), Fusion(width)

    def forward(self, passage: Tensor, question: Tensor, p: Tensor, q: Tensor, memory=(0.0, 0.0)) -> tuple[Tensor, ...]:
        """Return the passage aligned, the attention over the question B×Q×P, and the alignments E (B×Q×P) and B
        (B×P×P), from passage, question, their masks B×P and B×Q, and what to add to both alignments."""
        alignment = self.interactive(question, passage).float() + memory[0]
        attention = masked_softmax(alignment, q[:, :, None], 1)
        passage = self.fuse_question(passage, attention.transpose(1, 2) @ question)
        itself = self.itself(passage, passage).float() + memory[1]
        weights = masked_softmax(itself, others(p), 1)
        passage = self.fuse_passage(passage, weights.transpose(1, 2) @ passage)
        return passage, attention, alignment, itself


def reattend(alignment: Tensor, itself: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Return the re-attention of a block's alignments E (B×Q×P) and B (B×P×P), of the same shapes (Eqs. 5 and 6): two
    words are alike if the words that they attend to overlap."""
    apart = others(p)
    columns = masked_softmax(itself, apart, 1)
    return masked_softmax(alignment, p[:, None], 2) @ columns, masked_softmax(itself, apart, 2) @ columns


class Pointer(nn.Module):
    """p1(k) from a summary of the question, then p2(l | k) from the summary with what the start points at."""

    def __init__(self, width: int):
        super().__init__()
        self.summarise = nn.Linear(width, 1, bias=False)
        scorers = (nn.Sequential(nn.Linear(4 * width, width), nn.Tanh(), nn.Linear(width, 1)) for _ in range(2))
        self.start, self.end = scorers
        self.fuse = Fusion(width)

    def forward(self, passage: Tensor, question: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """Return start and end logits B×P from passage B×P×d, question B×Q×d and their masks."""

        def score(scorer: nn.Module, summary: Tensor) -> Tensor:
            summary = summary[:, None].expand_as(passage)
            return scorer(torch.cat([passage, summary, passage * summary, passage - summary], -1))[..., 0].float()

        summary = pool(self.summarise(question)[..., 0], question, q)
        start = score(self.start, summary)
        # The expected start is pooled, because position by position each end would know only its own start.
        return start, score(self.end, self.fuse(summary, pool(start, passage, p)))


class MnemonicForQuestionAnswering(PreTrainedModel):
    """The whole reader. [CLS] stands before the passage as the position of "no answer"."""

    config_class = MnemonicConfig
    base_model_prefix = "mnemonic"
    keeps_attention = True

    def __init__(self, config: MnemonicConfig):
        super().__init__(config)
        width, blocks = 2 * config.hidden, config.blocks
        self.words = Words(config.vocab_size, config.word_width, config.letter_width)
        self.encoder = Recurrent(self.words.width + 1, config.hidden)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        inputs = [width] * (blocks - 1) + [blocks * width]
        self.evidence = nn.ModuleList(Recurrent(one, config.hidden) for one in inputs)
        self.pointer = Pointer(width)
        self.gamma = nn.Parameter(torch.tensor(config.gamma))
        self.dropout = QuickDropout(config.dropout)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Give linear layers Glorot's uniform weights. With PyTorch's smaller ones alignments, which are products of
        two layers, start flat and stay so for hundreds of steps."""
        if isinstance(module, nn.Linear):
            initialization.xavier_uniform_(module.weight)
            if module.bias is not None:
                initialization.zeros_(module.bias)

    def forward(self, input_ids: Tensor, segment_ids: Tensor, **_: object) -> QuestionAnsweringModelOutput:
        """Read padded windows B×L, whose ``segment_ids`` are 1 for the question's tokens and 2 for the passage's.

        The output also has ``attention`` (B×P×Q), of each passage token over the question's, a mean over blocks.
        """
        at_q, q, at_p, p = text_positions(segment_ids)
        at_p = torch.cat([torch.zeros_like(at_p[:, :1]), at_p], 1)  # [CLS]
        p = torch.cat([torch.ones_like(p[:, :1]), p], 1)
        question_ids, passage_ids = input_ids.gather(1, at_q), input_ids.gather(1, at_p)
        same = (question_ids[:, :, None] == passage_ids[:, None]) & q[:, :, None] & p[:, None]
        words_q, words_p = self.words(question_ids, passage_ids)
        question, passage = self._encode(words_q, same.any(2), q), self._encode(words_p, same.any(1), p)

        aligned, maps, memory = [], [], (0.0, 0.0)
        for block, evidence in zip(self.blocks, self.evidence, strict=True):
            passage, attention, *alignments = block(passage, question, p, q, memory)
            maps.append(attention)
            if is_last := len(maps) == len(self.blocks):
                passage = torch.cat([passage, *aligned], -1)
            aligned.append(passage)
            passage = self.dropout(evidence(self.dropout(passage), p))
            if not is_last:
                memory = [self.gamma * alignment for alignment in reattend(*alignments, p)]
        start, end = self.pointer(passage, question, p, q)
        # One column more takes what is written for padding.
        empty = torch.full((len(p), input_ids.shape[1] + 1), NEVER, device=p.device)
        place = torch.where(p, at_p, input_ids.shape[1])
        start, end = (empty.scatter(1, place, logits)[:, :-1] for logits in (start, end))
        output = QuestionAnsweringModelOutput(start_logits=start, end_logits=end)
        output.attention = torch.stack([block.transpose(1, 2)[:, 1:] * p[:, 1:, None] for block in maps]).mean(0)
        return output

    def _encode(self, words: Tensor, shared: Tensor, mask: Tensor) -> Tensor:
        """Encode word vectors B×N×w, and whether the word stands on the other side too, to B×N×d."""
        return self.dropout(self.encoder(self.dropout(torch.cat([words, shared[..., None]], -1)), mask))


def make_reader(
    tokenizer: PreTrainedTokenizerFast, seed: int, glove: str = "", **settings
) -> MnemonicForQuestionAnswering:
    """Make a new reader of the tokenizer's word pieces, its weights drawn from ``seed``; ``settings`` are
    MnemonicConfig's. Pieces that are words of the file ``glove`` keep its vectors."""
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    torch.manual_seed(seed)
    reader = MnemonicForQuestionAnswering(MnemonicConfig(vocab_size=len(pieces), **settings))
    words, vectors = reader.words, read_glove(glove, pieces, reader.config.word_width) if glove else {}
    for row, piece in enumerate(pieces):
        letters = piece.removeprefix("##").encode()[:LETTERS]
        words.spelling[row, : len(letters)] = torch.tensor(list(letters), dtype=torch.uint8)
        if piece in vectors:
            words.learned.weight.data[row], words.is_fixed[row] = vectors[piece], True
    return reader


@cache
def glove_digest(path: str) -> str:
    """Fingerprint a file of vectors; "" for none. Raises OSError."""
    return file_fingerprint(paths.find(path)) if path else ""


def read_glove(path: str, words: list[str], width: int) -> dict[str, Tensor]:
    """Read GloVe's vectors of ``words`` from lines of a word and ``width`` numbers. Raises DataError for a bad line,
    and where no word is found."""
    vectors, pieces = {}, set(words)
    with paths.find(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            word, *values = line.rstrip().rsplit(" ", width)
            if word not in pieces or word in vectors:
                continue
            try:
                vectors[word] = torch.tensor([float(value) for value in values])
            except ValueError:
                values = []
            if len(values) != width or not vectors[word].isfinite().all():
                problem = f"expected a word and {width} finite numbers, found {line!r:.60}"
                raise DataError(f"{path}: line {number}: {problem}; fetch the file again")
    if not vectors:
        problem = f"expected {width} numbers for words such as {words[-1]!r}, found none"
        raise DataError(f"{path}: {problem}; give vectors of the same language, as wide as mnemonic.word_width")
    return vectors


AutoConfig.register(MnemonicConfig.model_type, MnemonicConfig)
AutoModelForQuestionAnswering.register(MnemonicConfig, MnemonicForQuestionAnswering)


def masked_softmax(scores: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Compute the softmax along ``dim`` where ``mask`` (broadcast) is true, in float32; zero elsewhere."""
    scores = scores.float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return scores.softmax(dim) * mask


def pool(scores_BxN: Tensor, states_BxNxH: Tensor, mask_BxN: Tensor) -> Tensor:
    """Sum the unmasked states, weighted by the softmax of their scores; B×H."""
    return (masked_softmax(scores_BxN, mask_BxN, 1)[:, None].to(states_BxNxH.dtype) @ states_BxNxH)[:, 0]
