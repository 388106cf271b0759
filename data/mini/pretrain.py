"""Pretrain the miniature encoder, a larger one that grows out of it, and its student (python data/mini/pretrain.py).

An example is a cloze: a passage and, in the question's place, a statement of one of its facts with the value masked.
The encoder selects the value's span in the passage, and predicts masked words of the passage. At first a passage has
few facts and the statement is repeated word for word; later it is long and the statement is worded differently.
"""

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertForQuestionAnswering, BertModel, BertTokenizerFast

from helpers import paths
from helpers.batches import Batches
from helpers.data.examples import Example
from helpers.data.mini import world
from helpers.extractive_qa import likelihood, weighted_mean
from helpers.loop import Batch, fit, forward, training_device
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.notebooks import session
from helpers.papers.hrkd.algorithm import LiveTeacher
from helpers.papers.hrkd.losses import level_distance, score_distance
from helpers.papers.hrkd.tinybert import TinyBertStudent, keep_scores, match_layers
from helpers.presets.schema import TrainingSettings
from helpers.sequences import make_windows

CONFIG = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 256}
CONFIG |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
STUDENT = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}
VOCABULARY, LONGEST = 1500, 160  # WordPiece tokens, and those of a sequence
SPREAD = 0.08  # standard deviation of the initial weights, about 1 / sqrt(hidden size)
STEPS = {"encoder": 3000, "large": 1000, "student": 1500}
RATES = {"encoder": 2e-3, "large": 1e-3, "student": 2e-3}  # the larger encoder's layers are trained already
BATCH, CHUNK = 64, 100  # clozes of a batch, batches made and tokenised together
SETTINGS = TrainingSettings(learning_rate=2e-3, batch_size=BATCH, epochs=1.0, warmup=0.05, precision="fp32")
FEW, MANY = 4, 10  # facts of a passage at first, and when passages are full
GAP = "_"  # in a statement, in the value's place: the only token that the vocabulary does not have
GROWTH, EACH, MASKED = 0.5, 2, 0.15  # share of the training while clozes grow, clozes per passage, share masked


def clozes(rng: np.random.Generator, number: int, grown: float = 1.0) -> list[Example]:
    """Make ``number`` clozes; ``grown`` (0 to 1) is how far passages and rewording have grown."""
    styles, rows = [world.STYLES[name] for name in world.DOMAINS], []
    most = round(FEW + grown * (MANY - FEW))
    while len(rows) < number:
        limit = None if most == MANY else int(rng.integers(most // 2, most + 1))
        text, facts, _ = world.make_passage(rng, styles[rng.integers(len(styles))], facts=limit, pretraining=True)
        pairs = world.find_chains(facts)
        for _ in range(EACH):
            if pairs and rng.random() < 0.5:
                one, fact = pairs[rng.integers(len(pairs))]
                subject = f"the {one.relation.name} of {one.subject}"  # founder, leader, mayor
            else:
                fact = facts[rng.integers(len(facts))]
                subject = fact.subject
            wording = rng.integers(4) if rng.random() < grown else fact.wording
            statement = fact.relation.statements[wording].format(s=subject, o=GAP)
            name, span = str(len(rows)), (fact.start, fact.start + len(fact.value))
            rows.append(Example(name, statement, text, (fact.value,), span, name))
    return rows[:number]


def train_vocabulary(seed: int) -> BertTokenizerFast:
    """Train an uncased WordPiece vocabulary on miniature text in pretraining's names."""
    examples = clozes(np.random.default_rng([seed, 1]), 30_000)
    texts = [text for e in examples for text in (e.question.replace(GAP, ""), e.context)]
    # Every domain needs the words of questions, which are no names.
    texts += [text for r in world.RELATIONS for text in (*r.asks, *r.nouns)] * 20
    questions = [question for name in world.DOMAINS for question in world.STYLES[name].questions]
    texts += [re.sub(r"\{.*?\}", "", question) for question in questions] * 200
    wordpiece = BertWordPieceTokenizer(lowercase=True)
    wordpiece.train_from_iterator(texts, vocab_size=VOCABULARY, min_frequency=2, show_progress=False)
    return BertTokenizerFast(tokenizer_object=wordpiece._tokenizer, do_lower_case=True)


class ClozeBatches:
    """New clozes for every step, made in chunks from the seed alone."""

    def __init__(self, tokenizer: BertTokenizerFast, steps: int, seed: int, teacher: LiveTeacher | None = None):
        self.tokenizer, self.steps, self.seed, self.teacher = tokenizer, steps, seed, teacher
        self.chunk, self.batches = -1, None

    def __len__(self) -> int:
        return self.steps

    def micro_batches(
        self, step: int, number: int, device: torch.device, multiple: int = 8
    ) -> Iterator[tuple[float, Batch]]:
        """Yield a step's whole batch with ``words`` (B×L): the original ids of masked passage tokens, else -100."""
        if step // CHUNK != self.chunk:
            self.chunk, self.batches = step // CHUNK, self._make(step // CHUNK)
        batch = self.batches.at(step % CHUNK, device, multiple)
        ids, mask = batch["input_ids"], self.tokenizer.mask_token_id
        ids = ids.masked_fill(ids == self.tokenizer.unk_token_id, mask)
        generator = torch.Generator().manual_seed(step * 1000 + self.seed * 100)
        chance = torch.rand(ids.shape, generator=generator).to(ids.device)
        masked = (chance < MASKED) & (batch["token_type_ids"] == 1) & (ids != self.tokenizer.sep_token_id)
        batch["words"] = ids.masked_fill(~masked, -100)  # a fifth of them are shown as they are
        batch["input_ids"] = ids.masked_fill(masked & (chance <= 0.8 * MASKED), mask)
        batch["domain"] = torch.zeros_like(ids[:, 0])
        yield 1.0, batch | (self.teacher(batch) if self.teacher else {})

    def _make(self, chunk: int) -> Batches:
        rng = np.random.default_rng([self.seed, 2, chunk])
        examples = clozes(rng, CHUNK * BATCH, min(1.0, chunk * CHUNK / (GROWTH * self.steps)))
        windows = make_windows(examples, self.tokenizer, max_length=LONGEST, stride=LONGEST // 2)
        windows = windows.select(np.unique(windows.example_W, return_index=True)[1])  # the first of each
        by_length = np.argsort(windows.lengths_W, kind="stable").reshape(CHUNK, BATCH)
        return Batches(windows, list(by_length[rng.permutation(CHUNK)]))


class Pretrainer(nn.Module):
    """A reader whose encoder also predicts masked words, by its own word embeddings. Positions are initialised as
    sinusoids and query weights as key weights: tokens attend to like tokens, and it soon learns to match words."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.reader = BertForQuestionAnswering(config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        positions = self.reader.bert.embeddings.position_embeddings.weight.data
        length, width = positions.shape
        angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
        positions[:, 0::2], positions[:, 1::2] = SPREAD * torch.sin(angles), SPREAD * torch.cos(angles)
        for layer in self.reader.bert.encoder.layer:
            layer.attention.self.query.weight.data.copy_(layer.attention.self.key.weight.data)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor):
        return self.reader(input_ids, attention_mask, token_type_ids, output_hidden_states=True)

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        """Return the losses of span selection and of masked words."""
        masked, embeddings = batch["words"] != -100, self.reader.bert.embeddings.word_embeddings.weight
        logits = output.hidden_states[-1][masked].float() @ embeddings.T + self.bias
        return likelihood(output, batch) | {"words": nn.functional.cross_entropy(logits, batch["words"][masked])}


def level_losses(output, batch: Batch, progress: float) -> dict[str, Tensor]:
    """Return the losses of hidden states and of attention, summed over the levels."""
    mask_BxL, teacher_H, teacher_A = (batch[name] for name in ("attention_mask", "teacher_levels", "teacher_attention"))
    layers = match_layers(len(output.attentions_kept), len(teacher_A))
    hidden = [level_distance(H, teacher_H[m], mask_BxL) for H, m in zip(output.levels, [0, *layers], strict=True)]
    pairs = zip(output.attentions_kept, layers, strict=True)
    attention = [score_distance(A, teacher_A[m - 1], mask_BxL, mask_BxL) for A, m in pairs]
    return {"hidden": weighted_mean(sum(hidden)), "attention": weighted_mean(sum(attention))}


def pretrain(which: str, folder: Path, base: Path, steps: int, seed: int = 0) -> None:
    """Pretrain the "encoder", the "large" one or the "student"; save it in a folder, in float16, with its record.

    The larger encoder is initialised from each layer of ``base`` twice (Gong et al. 2019 stack the whole on itself).
    The student learns the hidden states and attention of ``base`` (general distillation, Jiao et al. 2020).
    """
    begun, code, teacher = time.perf_counter(), session.read_commit(), None
    if which == "encoder":
        tokenizer = train_vocabulary(seed)
        sizes = CONFIG | {"vocab_size": len(tokenizer), "max_position_embeddings": LONGEST}
    else:
        tokenizer, small = load_tokenizer(str(base)), load_encoder(str(base), "labels", seed=seed)
        sizes = small.config.to_dict() | (STUDENT if which == "student" else {"num_hidden_layers": 6})
    torch.manual_seed(seed)
    config = BertConfig(**sizes | {"initializer_range": SPREAD})
    if which == "student":
        model = TinyBertStudent(BertModel(config, add_pooling_layer=False), small.config.hidden_size, 1)
        encoder, loss = model.student, level_losses
        fields = {"levels": "hidden_states", "attention": "attentions_kept"}
        small = keep_scores(small).to(training_device()).eval()
        teacher = LiveTeacher(small, fields, {"output_hidden_states": True}, "fp32")
    else:
        model = Pretrainer(config)
        encoder, loss = model.reader.bert, model.loss
    if which == "large":
        encoder.embeddings.load_state_dict(small.bert.embeddings.state_dict())
        for number, layer in enumerate(encoder.encoder.layer):
            layer.load_state_dict(small.bert.encoder.layer[number // 2].state_dict())
    batches = ClozeBatches(tokenizer, steps, seed + (which == "student"), teacher)
    settings = SETTINGS.model_copy(update={"learning_rate": RATES[which]})
    done = fit(model, batches, loss, settings, seed=seed, label="pretraining")
    ((_, batch),) = batches.micro_batches(steps - 1, 1, training_device())
    losses = {name: round(term.item(), 5) for name, term in loss(forward(model, batch, "fp32"), batch, 1.0).items()}
    parameters = {"steps": steps, "seed": seed, **{size: sizes[size] for size in CONFIG}, **settings.model_dump()}
    run = session.describe_run(parameters, begun, code, done.seconds)
    encoder.config.initializer_range = 0.02  # for new heads
    encoder.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    record = {"losses": losses, "parameters": encoder.num_parameters(), "run": run.model_dump()}
    (folder / "pretraining.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", default=[*STEPS], help="encoder, large, student (default: all)")
    parser.add_argument("--steps", type=int, help="another number of steps, to try it")
    parser.add_argument("--out", type=Path, default=paths.MINI, help="folder to write to")
    options = parser.parse_args()
    base = options.out if "encoder" in options.which else paths.MINI
    for which in options.which:
        pretrain(which, options.out / which.removeprefix("encoder"), base, options.steps or STEPS[which])
