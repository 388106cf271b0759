"""The miniature encoder: its vocabulary and its pretraining on unlabelled miniature text; a larger one that grows out
of it, pretrained further on such text; and its student, smaller and taught by it on such text.

Each example is a passage and, in the question's place, a statement of one of its facts with the value masked.
Two losses: select the value's span in the passage, and predict masked passage words. Both passages and the
distance between the two wordings grow: at first a passage has few facts and the statement is repeated word for
word, later it is long and the statement is worded anew. The names are those that no domain uses.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForQuestionAnswering, BertModel, BertTokenizerFast

from helpers import paths
from helpers.batches.plans import Batches
from helpers.batches.sequences import make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.examples import Example
from helpers.data.mini import words
from helpers.data.mini import world as mini
from helpers.models.attention import keep_levels
from helpers.models.distilled import Distilled, matched
from helpers.models.pretrained import load_encoder, load_tokenizer
from helpers.presets.schema import TrainingSettings
from helpers.results import provenance
from helpers.tasks import decoding, metrics
from helpers.tasks.spans import predict
from helpers.training.distillation import level_distances
from helpers.training.loop import fit, forward, training_device
from helpers.training.losses import mean, span_negative_log_likelihood
from helpers.training.teachers import LiveTeacher

VOCABULARY = 1500  # WordPiece tokens
CONFIG = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256}
LONGEST = 160  # tokens of a sequence
SPREAD = 0.08  # standard deviation of the first weights, about 1 / sqrt(hidden size)
STEPS, LARGE_STEPS, BATCH = 3000, 1000, 64
STUDENT = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}
SETTINGS = TrainingSettings(learning_rate=2e-3, batch_size=BATCH, epochs=1.0, warmup=0.05, precision="fp32")
LARGE_SETTINGS = SETTINGS.model_copy(update={"learning_rate": 1e-3})  # it has learnt before
CHUNK = 100  # batches generated and tokenised together
FEW, MANY = 4, 10  # facts in the first passages, and in full ones
GROWTH = 0.5  # share of the training over which passages and rewording grow
EACH = 2  # clozes on each passage
MASKED = 0.15  # share of passage tokens to predict


def clozes(rng: np.random.Generator, number: int, grown: float = 1.0) -> list[Example]:
    """``number`` clozes; ``grown`` (0-1) is how far passages and rewording have grown."""
    styles = list(words.STYLES.values())
    most = round(FEW + grown * (MANY - FEW))
    rows: list[Example] = []
    while len(rows) < number:
        facts = None if most == MANY else int(rng.integers(most // 2, most + 1))
        style = styles[rng.integers(len(styles))]
        source = mini.passage(rng, style, facts=facts, pretraining=True)
        pairs = mini.chains(source.facts)
        for _ in range(EACH):
            if pairs and rng.random() < 0.5:
                one, fact = pairs[rng.integers(len(pairs))]
                subject = f"the {one.relation.name} of {one.subject}"  # founder, leader, mayor
            else:
                fact = source.facts[rng.integers(len(source.facts))]
                subject = fact.subject
            wording = rng.integers(4) if rng.random() < grown else fact.wording
            statement = fact.relation.statements[wording].format(s=subject, o="[MASK]")
            span = (fact.start, fact.start + len(fact.value))
            name = str(len(rows))
            rows.append(Example(name, statement, source.text, (fact.value,), span, name))
    return rows[:number]


def train_vocabulary(size: int = VOCABULARY, seed: int = 0) -> BertTokenizerFast:
    """An uncased WordPiece vocabulary of ``size`` tokens from miniature text in pretraining's names."""
    rng = np.random.default_rng([seed, 1])
    texts = [text for e in clozes(rng, 30_000) for text in (e.question.replace("[MASK]", ""), e.context)]
    # the words of questions are no names: every domain needs them
    texts += [text for r in words.RELATIONS for text in (*r.asks, *r.nouns)] * 20
    texts += [re.sub(r"\{.*?\}", "", asked) for style in words.STYLES.values() for asked in style.questions] * 200
    wordpiece = BertWordPieceTokenizer(lowercase=True)
    wordpiece.train_from_iterator(texts, vocab_size=size, min_frequency=2, show_progress=False)
    return BertTokenizerFast(tokenizer_object=wordpiece._tokenizer, do_lower_case=True)


@dataclass
class ClozeBatches:
    """Fresh clozes for every step, made in chunks from the seed alone."""

    tokenizer: BertTokenizerFast
    steps: int
    batch_size: int = BATCH
    seed: int = 0
    device: torch.device | str = "cpu"
    teacher: LiveTeacher | None = None

    def __post_init__(self):
        self.chunk, self.batches = -1, None

    def __len__(self) -> int:
        return self.steps

    def size(self, step: int) -> int:
        return self.batch_size

    def at(self, step: int, part: int = 0, parts: int = 1) -> dict[str, Tensor]:
        """The batch of ``step`` with ``words`` (B×L): the original ids of masked passage tokens, -100 elsewhere."""
        chunk, within = divmod(step, CHUNK)
        if chunk != self.chunk:
            self.chunk, self.batches = chunk, self._make(chunk)
        batch = self.batches.at(within, part, parts)
        ids = batch["input_ids"]
        generator = torch.Generator().manual_seed(step * 1000 + self.seed * 100 + part)
        chance = torch.rand(ids.shape, generator=generator).to(ids.device)
        masked = (chance < MASKED) & (batch["token_type_ids"] == 1) & (ids != self.tokenizer.sep_token_id)
        batch["words"] = ids.masked_fill(~masked, -100)
        shown = masked & (chance > 0.8 * MASKED)  # a fifth of them stay as they are
        batch["input_ids"] = ids.masked_fill(masked & ~shown, self.tokenizer.mask_token_id)
        batch["domain"] = torch.zeros_like(ids[:, 0])
        return batch | (self.teacher(batch) if self.teacher else {})

    def _make(self, chunk: int) -> Batches:
        rng = np.random.default_rng([self.seed, 2, chunk])
        grown = min(1.0, chunk * CHUNK / (GROWTH * self.steps))
        examples = clozes(rng, CHUNK * self.batch_size, grown)
        windows = make_windows(examples, self.tokenizer, max_length=LONGEST, stride=LONGEST // 2)
        windows = windows.select(np.unique(windows.example_W, return_index=True)[1])  # the first of each
        by_length = np.argsort(windows.lengths_W, kind="stable").reshape(CHUNK, self.batch_size)
        return Batches(SequenceTensors(windows, self.device), list(by_length[rng.permutation(CHUNK)]))


class Pretrainer(nn.Module):
    """A reader whose encoder also predicts masked words, through its own word embeddings.

    Two starting values help a model of this size to learn matching words soon: positions start as sinusoids, and
    each attention's query weights start as its key weights, so that it attends to like tokens from the beginning.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.reader = BertForQuestionAnswering(config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        positions = self.reader.bert.embeddings.position_embeddings.weight.data
        length, width = positions.shape
        angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
        positions[:, 0::2], positions[:, 1::2] = SPREAD * torch.sin(angles), SPREAD * torch.cos(angles)
        for layer in self.reader.bert.encoder.layer:
            attention = layer.attention.self
            attention.query.weight.data.copy_(attention.key.weight.data)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor):
        return self.reader(input_ids, attention_mask, token_type_ids, output_hidden_states=True)

    def loss(self, output, batch: dict[str, Tensor], progress: float) -> dict[str, Tensor]:
        """Span selection plus masked words."""
        span_B = span_negative_log_likelihood(
            output.start_logits, output.end_logits, batch["start"], batch["end"], batch["attention_mask"]
        )
        masked = batch["words"] != -100
        embeddings = self.reader.bert.embeddings.word_embeddings.weight
        logits = output.hidden_states[-1][masked].float() @ embeddings.T + self.bias
        return {"span": mean(span_B), "words": functional.cross_entropy(logits, batch["words"][masked])}


def pretrain(folder: Path, *, steps: int = STEPS, seed: int = 0) -> Path:
    """Train vocabulary and encoder and write them, in float16, to ``folder`` with their record; returns the record."""
    start = time.perf_counter(), provenance.code()
    tokenizer = train_vocabulary(seed=seed)
    config = BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=LONGEST, initializer_range=SPREAD,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **CONFIG,
    )  # fmt: skip
    torch.manual_seed(seed)
    batches = ClozeBatches(tokenizer, steps, seed=seed, device=training_device())
    return _train(folder, "miniature encoder", Pretrainer(config), batches, SETTINGS, start)


def enlarge(folder: Path, encoder: str = str(paths.MINI), *, steps: int = LARGE_STEPS, seed: int = 0) -> Path:
    """Pretrain further an encoder that begins with each layer of ``encoder`` twice (after Gong et al. 2019, who stack
    the whole on itself), and write it, in float16, to ``folder`` with its record; returns the record."""
    start = time.perf_counter(), provenance.code()
    small = load_encoder(encoder, "labels", seed=seed).base_model
    changes = {"num_hidden_layers": 2 * small.config.num_hidden_layers, "initializer_range": SPREAD}
    torch.manual_seed(seed)
    model = Pretrainer(BertConfig(**small.config.to_dict() | changes))
    model.reader.bert.embeddings.load_state_dict(small.embeddings.state_dict())
    for number, layer in enumerate(model.reader.bert.encoder.layer):
        layer.load_state_dict(small.encoder.layer[number // 2].state_dict())
    batches = ClozeBatches(load_tokenizer(encoder), steps, seed=seed, device=training_device())
    return _train(folder, "larger miniature encoder", model, batches, LARGE_SETTINGS, start)


def _train(folder: Path, name: str, model: Pretrainer, batches: ClozeBatches, settings: TrainingSettings, start: tuple):
    """Train ``model`` on clozes, ask it others, and write its encoder and record; returns the record's path."""
    tokenizer, seed = batches.tokenizer, batches.seed
    done = fit(model, batches, model.loss, settings, seed=seed, label="pretraining")
    held_out = make_windows(clozes(np.random.default_rng([seed, 3]), 1000), tokenizer, max_length=LONGEST, stride=80)
    answers = decoding.decode(held_out, predict(model.reader.eval(), held_out, precision="fp32"))
    found = {"questions": len(held_out.examples), **metrics.score(held_out.examples, answers).means()}
    encoder = model.reader.bert
    sizes = {"vocabulary": len(tokenizer), **{size: getattr(encoder.config, size) for size in CONFIG}}
    parameters = {"steps": batches.steps, "seed": seed, **sizes, **settings.model_dump()}
    made = parameters, *start, done.seconds
    return _write(folder, f"Pretraining of the {name}", encoder, tokenizer, made, clozes=found)


def distil(folder: Path, encoder: str = str(paths.MINI), *, steps: int = STEPS // 2, seed: int = 0) -> Path:
    """Teach a smaller encoder the levels and attention of ``encoder`` on the text that it was pretrained on (general
    distillation, Jiao et al. 2020), and write it, in float16, to ``folder`` with its record; returns the record."""
    start = time.perf_counter(), provenance.code()
    teacher = keep_levels(load_encoder(encoder, "labels", seed=seed), "scores").to(device := training_device()).eval()
    torch.manual_seed(seed)
    config = BertConfig(**teacher.config.to_dict() | STUDENT | {"initializer_range": SPREAD})
    learner = Distilled(BertModel(config, add_pooling_layer=False), teacher.config.hidden_size, 1)
    fields = {"levels": "hidden_states", "attention": "attentions_kept"}
    live = LiveTeacher(teacher, fields, {"output_hidden_states": True}, "fp32")
    batches = ClozeBatches(load_tokenizer(encoder), steps, seed=seed + 1, device=device, teacher=live)
    layers = matched(config.num_hidden_layers, teacher.config.num_hidden_layers)

    def loss(output, batch: dict, progress: float) -> dict[str, Tensor]:
        hidden, attention = level_distances(output, batch, layers)
        return {"hidden": mean(sum(hidden)), "attention": mean(sum(attention))}

    done = fit(learner, batches, loss, SETTINGS, seed=seed, label="general distillation")
    last = loss(forward(learner.eval(), batch := batches.at(steps - 1), "fp32"), batch, 1.0)
    losses = {name: round(value.item(), 5) for name, value in last.items()}
    made = {"steps": steps, "seed": seed, **STUDENT, **SETTINGS.model_dump()}, *start, done.seconds
    title = "General distillation of the miniature student"
    return _write(folder, title, learner.student, load_tokenizer(encoder), made, losses=losses)


def _write(
    folder: Path, title: str, encoder: nn.Module, tokenizer: BertTokenizerFast, made: tuple, **found: dict
) -> Path:
    """Write an encoder and, beside it, how it was ``made`` and what was ``found``; returns where that is."""
    encoder.config.initializer_range = 0.02  # for new heads
    encoder.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    found = {**found, "parameters": encoder.num_parameters()}
    record = {"title": title, **found, "run": provenance.run_info(*made).model_dump()}
    path = Path(folder) / "pretraining.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path
