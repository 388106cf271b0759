"""Texts and pairs of texts with a label: loss, predictions, scores, and the training of a classifier over domains.

A label is a class, or a score where the model has a single output; the endings of a multiple choice count as classes.
A classifier of D domains with a head for each has D·C logits for C classes, the first C of the first domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.batches import Batches, bucketed, per_domain, plan_steps, pooled
from helpers.data.examples import DataError
from helpers.data.load import fingerprint, label_names, load
from helpers.extractive_qa import weighted_mean
from helpers.loop import Batch, outputs
from helpers.models.encoders import copy_head, load_encoder, load_tokenizer, save_encoder
from helpers.papers.hrkd.meta_kd import token_mean
from helpers.presets.schema import TextsSettings
from helpers.sequences import Sequences, make_pairs, tokenise_part
from helpers.task import Task
from helpers.training import Training


@cache
def sequences_of(settings: TextsSettings, encoder: str, domain: str, part: str) -> Sequences:
    """Tokenise one part ("train", "valid" or "test") of a domain, once per process.

    Besides ``label`` the sequences have a label ``domain``, the domain's number in the preset.
    """
    texts, tokenizer = load(settings, domain), load_tokenizer(encoder)
    sequences = tokenise_part(make_pairs, texts, part, tokenizer, settings.max_length)
    return sequences.with_labels(domain=np.full(len(sequences), list(settings.domains).index(domain), np.int32))


def head_logits(logits_BxN: Tensor, domain_B: Tensor, classes: int) -> Tensor:
    """Select the logits of each text's domain, B×classes; all of them where the domains share one head."""
    heads = logits_BxN.shape[1] // classes
    if heads == 1:
        return logits_BxN
    return logits_BxN.view(-1, heads, classes)[torch.arange(len(domain_B), device=domain_B.device), domain_B]


def domain_means(values_B: Tensor, domain_B: Tensor, domains: int) -> Tensor:
    """Average over the texts of each domain, shape D; 0 for a domain without any."""
    sums_D, counts_D = (
        values.new_zeros(domains).index_add(0, domain_B, values)
        for values in (values_B, torch.ones_like(domain_B))  # not bincount, for which the host waits
    )
    return sums_D / counts_D.clamp_min(1)


def loss(output, batch: Batch, progress: float = 0.0) -> dict[str, Tensor]:
    """Return the cross-entropy of classes (logits B×N) or the squared error of scores (B×1), averaged over the batch.

    Texts are weighted where the batch has weights. Those without a label (-100 or nan) add nothing.
    """
    logits, label = output.logits.float(), batch["label"]
    if logits.shape[1] == 1:
        values_B = (logits[:, 0] - label.where(~label.isnan(), logits[:, 0])).square()
    else:
        values_B = functional.cross_entropy(logits, label, reduction="none")
    return {"label": weighted_mean(values_B, batch.get("weight"))}


def predict(
    model: nn.Module, sequences: Sequences, precision: str = "auto", classes: int = 0, batch_size: int = 64
) -> np.ndarray:
    """Return the probabilities of the classes (E×N), or scores (E) from a single output, of each example, float32.

    With ``classes`` the probabilities come from the head of each text's domain alone (E×classes).
    """
    values = []
    for index, batch, output in outputs(model, sequences, batch_size=batch_size, precision=precision):
        logits = head_logits(output.logits, batch["domain"], classes).float() if classes else output.logits.float()
        values.append((index, (logits[:, 0] if logits.shape[1] == 1 else logits.softmax(1)).cpu()))
    return _in_order(values)


def mean_tokens(encoder: nn.Module, sequences: Sequences, precision: str, first: int = 0) -> np.ndarray:
    """Average the tokens of each text at the encoder's levels from ``first`` on (-1: the last), E×V×F, float32."""
    means = []
    for index, batch, output in outputs(encoder, sequences, precision=precision, output_hidden_states=True):
        levels = [token_mean(level, batch["attention_mask"]) for level in output.hidden_states[first:]]
        means.append((index, torch.stack(levels, 1).cpu()))
    return _in_order(means)


def _in_order(batches: list[tuple[np.ndarray, Tensor]]) -> np.ndarray:
    """Join the values of batches in the order of the examples, whose numbers stand before them."""
    index, values = zip(*batches, strict=True)
    return torch.cat(values).numpy()[np.argsort(np.concatenate(index))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Classifier(Training):
    """The training of a classifier on the texts of some ``domains`` of a ``corpus``, a section of the preset.

    ``order`` says what a batch holds: "mixed", texts of all domains; "turns", texts of one domain; "together",
    ``batch_size`` texts of each domain, whose mean losses are summed. Each domain has a head, but in the order "mixed"
    all share one. It keeps the weights with the best accuracy on the validation texts, averaged over the domains.
    """

    head_kind = "labels"
    corpus: str
    domains: tuple[str, ...]
    order: Literal["mixed", "turns", "together"]

    @property
    def texts(self) -> TextsSettings:
        return getattr(self.preset, self.corpus)

    @property
    def heads(self) -> list[str]:
        """The domain of each head; "" for a head that all domains share."""
        return [""] if self.order == "mixed" else list(self.domains)

    @property
    def classes(self) -> int:
        return len(label_names(self.texts))

    def settings(self) -> dict:
        data = {name: fingerprint(self.texts, name, "train", "valid") for name in self.domains}
        facts = {"texts": data, "labels": list(label_names(self.texts)), "max_length": self.texts.max_length}
        return super().settings() | facts

    def steps(self) -> int:
        """Count the steps: epochs over the largest domain where a step has texts of each, else over all domains.

        Raises DataError where that makes no step.
        """
        sizes = [len(load(self.texts, name).train) for name in self.domains]
        size, whole = self.training.batch_size, self.training.batch_size * len(sizes)
        steps = {
            "together": max(sizes) / size,
            "mixed": sum(sizes) / whole,
            "turns": sum(math.ceil(number / whole) for number in sizes),  # a domain's last batch may be a short one
        }
        if number := round(self.training.epochs * steps[self.order]):
            return number
        amount = f"{self.training.epochs:g} epochs of {max(sizes)} texts"
        raise DataError(f"{amount} make no step of {size}; raise epochs, or give more texts")

    def initial(self) -> nn.Module:
        return load_encoder(self.preset.encoder, "labels", **self.sizes())

    def sizes(self) -> dict:
        """Return the sizes and seed of a new classifier."""
        sizes = {"classes": self.classes * len(self.heads), "max_length": self.texts.max_length}
        return {"seed": self.seed, "random_layers": self.preset.random_layers, **sizes}

    def sequences(self, part: str, *domains: str) -> Sequences:
        """Tokenise one part of some of its domains, or of all, one domain after another."""
        names = domains or self.domains
        return Sequences.concatenate([sequences_of(self.texts, self.preset.encoder, name, part) for name in names])

    def batches(self) -> Batches:
        sequences, size = self.sequences("train"), self.training.batch_size
        lengths, domain_W = sequences.lengths_W, sequences.labels["domain"]
        members = {str(number): np.flatnonzero(domain_W == number) for number in np.unique(domain_W)}
        whole = {"batch_size": size * len(members), "seed": self.seed}
        if self.order == "together":
            epochs = per_domain(members, batch_size=size, seed=self.seed)
        elif self.order == "turns":
            turns = {name: bucketed(lengths, rows, **whole) for name, rows in members.items()}
            epochs = ([batch for _, batch in epoch] for epoch in pooled(turns, seed=self.seed))
        else:
            epochs = bucketed(lengths, **whole)
        return Batches(sequences, plan_steps(epochs, self.steps()))

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        logits_BxC = head_logits(output.logits, batch["domain"], self.classes).float()
        values_B = functional.cross_entropy(logits_BxC, batch["label"], reduction="none")
        if self.order == "together" and len(self.domains) > 1:
            return {"label": domain_means(values_B, batch["domain"], len(self.domains)).sum()}
        return {"label": weighted_mean(values_B, batch.get("weight"))}

    def classify(self, model: nn.Module, part: str) -> dict[str, np.ndarray]:
        """Return the number of the likeliest class of each text of a part, by domain."""
        sequences, precision = {name: self.sequences(part, name) for name in self.domains}, self.training.precision
        return {name: predict(model, texts, precision, self.classes).argmax(1) for name, texts in sequences.items()}

    def scores(self, model: nn.Module) -> dict[str, float]:
        numbers = self.classify(model, "valid")
        right = {name: classes == self.sequences("valid", name).labels["label"] for name, classes in numbers.items()}
        return {name: 100 * float(hits.mean()) for name, hits in right.items()}

    def config_facts(self) -> dict:
        names = [f"{head} {label}".strip() for head in self.heads for label in label_names(self.texts)]
        named = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
        return {"windows": {"max_length": self.texts.max_length}, "heads": self.heads, **named}

    def save_head(self, domain: str, folder: Path) -> None:
        """Save the trained classifier with the head of one domain alone, in Hugging Face format."""
        save_encoder(copy_head(self.load(), domain), load_tokenizer(self.preset.encoder), folder)


@dataclass(frozen=True, kw_only=True, eq=False)
class Labels(Task):
    """The classes that a classifier predicts for its test texts; a separate task, so new texts retrain nothing."""

    classifier: Classifier

    def settings(self) -> dict:
        return {name: fingerprint(self.classifier.texts, name, "test") for name in self.classifier.domains}

    def work(self) -> dict:
        classes = self.classifier.classify(self.classifier.load(), "test")
        return {"classes": {name: numbers.tolist() for name, numbers in classes.items()}}

    def hits(self, domain: str) -> list[float]:
        """Return 100 for each test text of a domain whose class is right, else 0."""
        texts, classes = load(self.classifier.texts, domain).test, self.result()["classes"][domain]
        return [100.0 * (number == text.label) for number, text in zip(classes, texts, strict=True)]
