"""The cached work of A2D: training a reader by Eq. 1, and what an ensemble knows of its training questions."""

import shutil
from pathlib import Path
from typing import Literal

import exca
import numpy as np
import pandas as pd
import pydantic
import torch
from pandas.io.formats.style import Styler
from torch import Tensor, nn

from helpers import paths
from helpers.batches.plans import Batches
from helpers.batches.sequences import Windows
from helpers.models.attention import attention_of, keep_attention
from helpers.models.mnemonic import make_reader
from helpers.models.pretrained import load_encoder, load_saved, load_tokenizer
from helpers.papers import examples
from helpers.presets.schema import Preset
from helpers.tasks import ensembles, spans
from helpers.tasks.distilled import joint_loss, teacher_of
from helpers.tasks.ensembles import knowledge_bytes
from helpers.training.cached import Cached, CachedTraining
from helpers.training.loop import fit, training_device

Kind = Literal["RMR", "BERT"]


class A2dTraining(CachedTraining):
    """One training of a reader: a member of an ensemble, or a student of one."""

    kind: Kind
    first_step: int = 0  # of the order of questions, which the reader it starts from began
    teacher: str = ""  # key of the knowledge that it learns from
    temperature: float = 1.0  # of that knowledge
    terms: dict[str, float] = pydantic.Field(default_factory=lambda: {"CE": 1.0})  # of Eq. 1, with their weights
    smoothing: float = 0.0  # of the labels
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="3")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select (without CE, as in a first stage, keep the last weights), save; returns the best validation
        F1, all of them, steps, seconds, the number of trained parameters and the weights' digest."""
        preset, domains = self.preset, sorted(self.preset.data.domains)
        model = self.initial()
        done = fit(
            model,
            self.batches(domains),
            joint_loss(self.terms, self.temperature, self.smoothing),
            preset.training,
            seed=self.seed,
            validate=spans.validation(preset, domains) if "CE" in self.terms else None,
            checkpoint=self.checkpoint(),
            label=self.label,
        )
        parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        return {**self.keep(model.eval(), done, spans.reading(preset, domains)), "parameters": parameters}

    def builds_on(self) -> list[str]:
        """The keys of the reader that it goes on from, and of the knowledge."""
        return [*super().builds_on(), *[self.teacher] * bool(self.teacher)]

    def initial(self) -> nn.Module:
        """The reader as its training begins."""
        preset = self.preset
        if self.start:
            folder = self.folder_of(self.start)
            model = load_saved(folder) if self.kind == "RMR" else load_encoder(str(folder), seed=self.seed)
        else:
            model = new_reader(preset, self.kind, self.seed)
        attention_of(model)  # an ensemble of readers without is of no use, so say so before it is trained
        return keep_attention(model) if "ATT" in self.terms else model

    def batches(self, domains: list[str]) -> Batches:
        """Its training batches, with what the teacher says of them."""
        last = self.first_step + self.steps
        batches = spans.training_batches(self.preset, domains, last, self.seed, training_device())
        del batches.plan[: self.first_step]
        if self.teacher:
            known = stored_knowledge(self.infra.folder, self.teacher, self.preset)
            batches.teachers.append(teacher_of(batches, known, self.terms))
        return batches


class EnsembleKnowledge(Cached):
    """What an ensemble knows of its training questions, computed once and read by all its students."""

    members: list[str]  # keys of the readers
    temperature: float
    top_k: int
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="2")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Compute and store, as `ensembles.store` does."""
        return ensembles.store(self, training_windows(self.preset), self.members, self.temperature, self.top_k)

    def builds_on(self) -> list[str]:
        """The keys of its members."""
        return self.members

    def check(self) -> None:
        """Raises DamagedFile where what is stored is not what was computed."""
        stored_knowledge(self.infra.folder, self.key, self.preset)


def example(student: A2dTraining, number: int = 0) -> Styler:
    """A training question, the ``number``-th that has a confusing answer, on its way through a student's loss: the
    terms of Eq. 1, none weighted. Where none has one, that whose window holds its answer."""
    windows, batches = training_windows(student.preset), student.batches(sorted(student.preset.data.domains))
    confusing = batches.teachers[0].of_sequences.get("confusing_start", torch.zeros(1)).cpu().numpy()
    loss = joint_loss(dict.fromkeys(student.terms, 1.0), student.temperature)
    return examples.of_question(
        *(student, windows, int(np.flatnonzero(confusing if confusing.any() else windows.labels["start"])[number])),
        *(batches, lambda output, batch: loss(output, batch, 1.0)),
        answers={"right": "", **({"confusing": "teacher_confusing_"} if confusing.any() else {})},
        temperature=student.temperature,
        prepare=keep_attention if "ATT" in student.terms else lambda model: model,
    )


def storage(preset: Preset) -> pd.DataFrame:
    """What an ensemble's outputs on the training questions will take on the disk, and what is free there."""
    windows, folder = training_windows(preset), paths.models(preset.name)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"outputs of one ensemble": knowledge_bytes(windows), "free": shutil.disk_usage(folder).free}
    table = {name: f"{size / 1e6:,.1f} MB" for name, size in sizes.items()}
    return pd.DataFrame([{"windows": f"{len(windows):,}", **table}], index=[", ".join(preset.data.domains)])


def stored_knowledge(folder: Path | str, key: str, preset: Preset) -> dict[str, Tensor]:
    """What the ``EnsembleKnowledge`` with this key stored. Raises DamagedFile."""
    return ensembles.stored(folder, key, training_windows(preset))


def new_reader(preset: Preset, kind: Kind, seed: int) -> nn.Module:
    """A reader that is not trained yet."""
    if kind == "RMR":
        return make_reader(load_tokenizer(preset.encoder), seed, **preset.mnemonic.model())
    return spans.new_reader(preset, seed)


def training_windows(preset: Preset) -> Windows:
    """The windows that readers are trained on and an ensemble is asked about."""
    return spans.windows_of(preset, sorted(preset.data.domains), "train")
