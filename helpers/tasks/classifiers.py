"""Classifiers of several domains' texts: what their trainings share, what they are selected by, and what they say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import exca
import numpy as np
from torch import nn

from helpers.batches.plans import Batches, Epochs, bucketed, per_domain, plan_steps, pooled
from helpers.batches.sequences import Sequences
from helpers.batches.tensors import SequenceTensors
from helpers.data.examples import DataError
from helpers.data.sections import fingerprint
from helpers.data.texts import load_texts
from helpers.presets.schema import TextsSettings
from helpers.tasks import labels
from helpers.training.cached import Cached, CachedTraining
from helpers.training.checkpoints import DamagedFile, load_tensors, save_tensors, weights
from helpers.training.loop import BatchSource, Fitted, Loss, Validate, training_device


class ClassifierTraining(CachedTraining):
    """A training on the texts of some domains.

    ``order`` says how batches come: "mixed", all domains in one; "turns", one domain a batch; "together", as many
    texts of every domain, for which the settings' ``batch_size`` counts a domain's. Each domain has a head of its own,
    unless batches are mixed, or ``one_head`` says so.
    """

    corpus: str  # the preset's section
    domains: list[str]
    order: Literal["mixed", "turns", "together"]
    one_head: bool = False

    @property
    def texts(self) -> TextsSettings:
        """The corpus."""
        return getattr(self.preset, self.corpus)

    @property
    def heads(self) -> list[str]:
        """The domains with a head of their own; "" for one that all share."""
        return [""] if self.one_head or self.order == "mixed" else self.domains

    @property
    def classes(self) -> int:
        """How many labels there are."""
        return len(self.settings["labels"])

    def sequences(self, part: str) -> Sequences:
        """One part of all its domains, one after another."""
        return Sequences.concatenate(
            [labels.sequences_of(self.texts, self.preset.encoder, name, part) for name in self.domains]
        )

    def batches(self) -> Batches:
        """Its training batches, in an order made from the seed."""
        sequences, size, seed = self.sequences("train"), self.settings["training"]["batch_size"], self.seed
        counts = [len(load_texts(self.texts)[name].train) for name in self.domains]
        rows = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
        lengths, members = sequences.lengths_W, dict(zip(self.domains, rows, strict=True))
        whole = size * len(self.domains)
        if self.order == "together":
            epochs = per_domain(members, batch_size=size, seed=seed)
        elif self.order == "turns":
            tasks = {name: _among(own, lengths, whole, seed) for name, own in members.items()}
            epochs = ([batch for _, batch in epoch] for epoch in pooled(tasks, seed=seed))
        else:
            epochs = bucketed(lengths, batch_size=whole, seed=seed)
        return Batches(SequenceTensors(sequences, training_device()), plan_steps(epochs, self.steps))

    def reading(self) -> dict:
        """What the model's configuration says of itself."""
        names = [f"{head} {label}".strip() for head in self.heads for label in self.settings["labels"]]
        named = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
        return {"windows": {"max_length": self.texts.max_length}, "heads": self.heads, **named}

    def keep_of_domains(self) -> bool:
        """Whether each domain's best weights are kept besides those that are best on average."""
        return self.order == "together" and len(self.domains) > 1

    def train(self, model: nn.Module, batches: BatchSource, loss: Loss, validate: Validate | None = None) -> Fitted:
        """As any training; raises DamagedFile where the weights that were best on a domain are not as written."""
        done = super().train(model, batches, loss, validate)
        for name in self.domains if self.keep_of_domains() else ():
            load_tensors(weights_of(self.folder().parent, name))
        return done

    def windows_read(self) -> int:
        """Its validation texts, at every evaluation."""
        return self.preset.training.evaluations * sum(len(load_texts(self.texts)[name].valid) for name in self.domains)


class Validation:
    """Accuracy on a training's validation texts, averaged over its domains; keeps each domain's best weights on disk.

    ``classifier`` is the part of the trained model that is asked; ``note`` says what else is to be remembered of it.
    """

    def __init__(
        self,
        training: ClassifierTraining,
        classifier: Callable[[nn.Module], nn.Module],
        note: Callable[[nn.Module], dict] = lambda model: {},
    ):
        self.training, self.classifier, self.note = training, classifier, note
        self.folder = training.infra.uid_folder(create=True)
        self.best = self._kept() if training.checkpoint().exists() else {}

    def __call__(self, model: nn.Module) -> tuple[float, dict]:
        model.eval()
        training, classifier, scores = self.training, self.classifier(model), {}
        for name in training.domains:
            sequences = labels.sequences_of(training.texts, training.preset.encoder, name, "valid")
            said = labels.predict(classifier, sequences, training.preset.training.precision, training.classes)
            scores[name] = 100 * float((said.argmax(1) == sequences.labels["label"]).mean())
            if training.keep_of_domains() and scores[name] > self.best.get(name, -1.0):
                self.best[name] = scores[name]
                facts = {"score": json.dumps(scores[name])}
                save_tensors(weights_of(self.folder, name), weights(classifier), facts, "weights of a domain")
        return float(np.mean([*scores.values()])), {"domains": scores, **self.note(model)}

    def _kept(self) -> dict[str, float]:
        """Each domain's best accuracy yet, where a killed training goes on; one with damaged weights starts again."""
        files = {name: weights_of(self.folder, name) for name in self.training.domains}
        try:
            return {name: json.loads(load_tensors(file)[1]["score"]) for name, file in files.items() if file.exists()}
        except DamagedFile as error:
            print(f"{error}; this training starts again")
            self.training.checkpoint().unlink(missing_ok=True)
            return {}


class Labelling(Cached):
    """The classes that a trained model gives to the texts of its domains' part; apart from the trainings, so that other
    test texts train nothing. With ``of_domains`` each domain is labelled by the weights that were best on it."""

    corpus: str  # the preset's section
    training: str  # key
    texts: dict[str, str]  # domain -> fingerprint of the part
    part: Literal["valid", "test"] = "test"
    classes: int
    of_domains: bool = False
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict[str, list[int]]:
        """The number of the likeliest class of each text, by domain."""
        model, found = self.load(self.training, "labels"), {}
        for name in self.texts:
            if self.of_domains:
                path = weights_of(self.folder_of(self.training).parent, name)
                model.load_state_dict(load_tensors(path)[0], strict=False)
            sequences = labels.sequences_of(getattr(self.preset, self.corpus), self.preset.encoder, name, self.part)
            said = labels.predict(model, sequences, self.preset.training.precision, self.classes)
            found[name] = said.argmax(1).tolist()
        return found

    def builds_on(self) -> list[str]:
        """The key of its model."""
        return [self.training]

    def windows_read(self) -> int:
        """The texts of the part."""
        domains = load_texts(getattr(self.preset, self.corpus))
        return sum(len(getattr(domains[name], self.part)) for name in self.texts)


def steps_for(sizes: Sequence[int], order: str, batch_size: int, epochs: float) -> int:
    """Steps of so many epochs over domains of these sizes: over the largest where each step has texts of all, else over
    all of them. Raises DataError where that is not one."""
    whole = batch_size * len(sizes)
    steps = {
        "together": max(sizes) / batch_size,
        "mixed": sum(sizes) / whole,
        "turns": sum(math.ceil(size / whole) for size in sizes),  # a domain's last batch is a short one
    }
    if (number := round(epochs * steps[order])) < 1:
        raise DataError(
            f"{epochs:g} epochs of {max(sizes)} texts make no step of {batch_size}: raise epochs, or give more texts"
        )
    return number


def _among(rows: np.ndarray, lengths: np.ndarray, batch_size: int, seed: int) -> Epochs:
    """Batches of these of many sequences."""
    for epoch in bucketed(lengths[rows], batch_size=batch_size, seed=seed):
        yield [rows[batch] for batch in epoch]


def weights_of(folder: Path, domain: str) -> Path:
    """Where the weights lie that were best on a domain."""
    return folder / f"best-{domain}.safetensors"


def labelling(model: ClassifierTraining, *, of_domains: bool = False) -> Labelling:
    """The task of asking a trained model for the classes of its domains' test texts."""
    return Labelling(
        preset=model.preset,
        label=f"classes by {model.label}",
        corpus=model.corpus,
        training=model.key,
        texts={name: fingerprint(model.texts, name, "test") for name in model.domains},
        part="test",
        classes=model.classes,
        of_domains=of_domains,
    )
