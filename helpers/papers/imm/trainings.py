"""The cached work of IMM: training a reader, and what it says as a teacher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import exca
import numpy as np
import pydantic
import torch
from torch import Tensor, nn

from helpers.batches.plans import Batches
from helpers.errors import UserError
from helpers.models.pretrained import load_encoder
from helpers.presets.papers import ImmSettings
from helpers.presets.schema import Preset
from helpers.tasks import spans
from helpers.tasks.soft_labels import SIDES, stored_labels, taught
from helpers.tasks.spans import windows_of
from helpers.training import losses
from helpers.training.cached import Cached, CachedTraining, load_outputs
from helpers.training.checkpoints import save_tensors
from helpers.training.loop import Batch, Loss, training_device
from helpers.training.teachers import StoredTeacher

DIVERGENCES: dict[str, Callable] = {
    "gold": losses.gold_divergence,
    "probabilities": losses.probability_divergence,
    "logits": losses.logit_divergence,
}
Readers = dict[str, "ImmTraining"]  # by domain
Teachers = dict[str, list["ImmTraining"]]  # by domain; several where they were cross-fitted
ORDERS = 1000  # more than there are seeds, which make the orders of the first round


class SwitchError(UserError):
    """A switch of IMM that does not fit the domains."""


class ImmTraining(CachedTraining):
    """One training of a reader."""

    domains: list[str]  # trained on
    target: list[str]  # validated on; a first stage has none and keeps its last weights
    teachers: dict[str, str] = pydantic.Field(default_factory=dict)  # by domain, key of the reader to learn from
    weights: dict[str, float] = pydantic.Field(default_factory=dict)  # domain -> s_ij of Eq. 7; 1 without
    folds: dict[str, list[str]] = pydantic.Field(default_factory=dict)  # by domain, teachers by the fold that they lack
    held_out: int | None = None  # the fold of questions that it is not trained on
    order: int = 0  # of the questions; each round has one of its own
    kd_space: Literal["gold", "probabilities", "logits"] = "gold"
    annealing: Literal["linear", "half", "constant"] = "linear"
    soft: dict[str, str] = pydantic.Field(default_factory=dict)  # by domain, key of soft labels to learn as well
    temperature: float = 1.0  # of these
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="4")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select, save; returns the best validation F1, all of them, steps, seconds and the weights' digest."""
        model, validate = self.initial(), spans.validation(self.preset, self.target) if self.target else None
        done = self.train(model, self.batches(training_device()), self._loss(), validate)
        return self.keep(model.eval(), done, spans.reading(self.preset, {*self.domains, *self.target}))

    def windows_read(self) -> int:
        """Those of its validation questions, at every evaluation."""
        return spans.windows_validated(self.preset, self.target)

    def parents(self) -> list[str]:
        """The keys of the readers that it starts from or learns from."""
        return [*super().parents(), *self.teachers.values(), *(key for keys in self.folds.values() for key in keys)]

    def builds_on(self) -> list[str]:
        """The keys of its parents, of what its teachers say, and of soft labels."""
        return [*super().builds_on(), *(self._teacher(name).key for name in self.teachers), *self.soft.values()]

    def initial(self) -> nn.Module:
        """The reader as its training begins."""
        preset = self.preset
        return load_encoder(
            str(self.folder_of(self.start)) if self.start else preset.encoder,
            seed=self.seed,
            random_layers=0 if self.start else preset.random_layers,
            max_length=preset.windows.max_length,
        )

    def batches(self, device: torch.device) -> Batches:
        """Its training batches, with what the teachers say of them."""
        seed = self.seed + ORDERS * self.order
        batches = spans.training_batches(self.preset, self.domains, self.steps, seed, device, self.held_out)
        if self.weights:
            sizes = [len(windows_of(self.preset, [name], "train")) for name in self.domains]
            weights = np.repeat(np.float32([self.weights[name] for name in self.domains]), sizes)
            batches.tensors.labels["weight"] = torch.as_tensor(weights, device=device)
        if self.teachers:
            stored = [self._teacher(name).stored() for name in self.domains]
            logits = {side: torch.cat([outputs[side] for outputs in stored]) for side in SIDES}
            batches.teachers.append(StoredTeacher(batches.tensors, of_tokens=logits))
        if self.soft:
            stored = [stored_labels(self.infra.folder, self.soft[name], self.preset, name) for name in self.domains]
            soft = {side: torch.cat([labels[side] for labels in stored]) for side in SIDES}
            batches.teachers.append(StoredTeacher(batches.tensors, of_tokens=soft, prefix="soft_"))
        return batches

    def _loss(self) -> Loss:
        loss = joint_loss(self.kd_space, self.annealing) if self.teachers else spans.loss
        return taught(loss, self.temperature) if self.soft else loss

    def _teacher(self, domain: str) -> TeacherLogits:
        known = {"reader": self.teachers[domain], "folds": self.folds.get(domain, [])}
        return TeacherLogits(**known, domain=domain, preset=self.preset, label=self.label)


class TeacherLogits(Cached):
    """A teacher's start and end logits for every token of a domain's training windows, stored as float16; of several
    that were cross-fitted each one's for the questions that it did not see.

    All students that learn from the teacher on this domain read them.
    """

    reader: str  # key of the teacher
    domain: str
    folds: list[str] = pydantic.Field(default_factory=list)  # keys of several, each for the fold that it did not see
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="2")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Compute and store; returns the number of windows."""
        windows = windows_of(self.preset, [self.domain], "train")
        said = [
            spans.predict(self.load(key), windows, precision=self.preset.training.precision)
            for key in self.folds or [self.reader]
        ]
        which = np.repeat(spans.fold_of(windows)[windows.example_W] % len(said), windows.lengths_W)  # of every token
        tensors = {
            side: torch.from_numpy(np.choose(which, [getattr(logits, side) for logits in said])).half()
            for side in SIDES
        }
        facts = {"teacher": self.reader, "windows": windows.fingerprint()}
        save_tensors(self.infra.uid_folder(create=True) / "outputs.safetensors", tensors, facts, "teacher's outputs")
        return {"windows": len(windows)}

    def windows_read(self) -> int:
        """Those of its training questions, once."""
        return len(windows_of(self.preset, [self.domain], "train"))

    def builds_on(self) -> list[str]:
        """The keys of its teachers."""
        return self.folds or [self.reader]

    def stored(self) -> dict[str, Tensor]:
        """The stored logits, ``start`` and ``end``. Raises DamagedFile."""
        windows = windows_of(self.preset, [self.domain], "train")
        return load_outputs(self.infra.uid_folder() / "outputs.safetensors", self.reader, windows.fingerprint())


def joint_loss(kd_space: str, annealing: str) -> Loss:
    """Eqs. 6 and 11, averaged as in Eqs. 7 and 10: lambda likelihood + (1 - lambda) divergence from the teacher.

    lambda rises over the training from 0 to 1 ("linear") or from 1/2 to 1 ("half"), or is 1/2 ("constant").
    """
    divergence = DIVERGENCES[kd_space]

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        rising = {"linear": progress, "half": (1 + progress) / 2, "constant": 0.5}[annealing]
        divergence_B = divergence(
            (output.start_logits, output.end_logits),
            (batch["teacher_start"], batch["teacher_end"]),
            (batch["start"], batch["end"]),
            batch["attention_mask"],
        )
        likelihood = spans.loss(output, batch, progress)["likelihood"]
        return {
            "likelihood": rising * likelihood,
            "divergence": (1 - rising) * losses.mean(divergence_B, batch.get("weight")),
        }

    return loss


def singles(preset: Preset, seed: int) -> Readers:
    """theta^(0): a reader of each domain, trained on it alone, in one stage."""
    if preset.imm.steps == "equal" and (steps := spans.budget(preset)) < 2:
        raise SwitchError(f"training.epochs = {preset.training.epochs:g} makes {steps} step; two stages need two")
    return {i: training(preset, seed, f"Single, {i}", [i], [i], 1) for i in preset.data.domains}


def reader(
    like: ImmTraining, label: str, domains: list[str], target: list[str] | None = None, stages: int = 2, **parts
) -> ImmTraining:
    """A reader with the preset and seed of ``like``: one of two stages, unless told otherwise."""
    return training(like.preset, like.seed, label, domains, target or [], stages, **parts)


def training(
    preset: Preset, seed: int, label: str, domains: list[str], target: list[str], stages: int, **parts
) -> ImmTraining:
    """The config of one reader's training, which is one of so many ``stages``."""
    return ImmTraining(
        preset=preset,
        label=f"{label}, seed {seed}",
        domains=domains,
        target=target,
        seed=seed,
        steps=steps_of(preset, domains, stages),
        settings=spans.fit_settings(preset, sorted({*domains, *target})),
        **parts,
    )


def steps_of(preset: Preset, domains: list[str], stages: int) -> int:
    """Steps of a training on some domains: a share of what every reader has in all its ``stages``, or as many epochs
    over the domains' own questions (``imm.steps``)."""
    return spans.budget(preset) // stages if preset.imm.steps == "equal" else spans.budget(preset, domains)


def equal_steps(preset: Preset) -> Preset:
    """The preset with as many steps for every method, a control of a budget in epochs."""
    return preset.changed("imm", steps="equal").model_copy(update={"seeds": other_seeds(preset)})


def other_seeds(preset: Preset) -> int:
    """How many seeds the controls have."""
    return min(preset.seeds, preset.imm.other_seeds or preset.seeds)


def cross_fitted(theta: Readers) -> Teachers:
    """For each domain a reader for each fold of its training questions, which it has not seen."""
    return {
        i: [
            reader(single, f"Single, {i}, without fold {fold + 1}", [i], [i], 1, held_out=fold)
            for fold in range(spans.FOLDS)
        ]
        for i, single in theta.items()
    }


def teacher_logits(teachers: list[ImmTraining], domain: str) -> TeacherLogits:
    """What a reader, or several that were cross-fitted, say of a domain's training windows."""
    first, folds = teachers[0], [teacher.key for teacher in teachers] if len(teachers) > 1 else []
    return TeacherLogits(
        preset=first.preset, label=f"outputs of {first.label}", reader=first.key, folds=folds, domain=domain
    )


def lessons(teachers: Teachers, domains: list[str], switches: ImmSettings) -> dict[str, object]:
    """What a training is told of the teachers of some domains, and of what the losses of Eqs. 5, 6, 9 and 11 match."""
    folds = {j: [teacher.key for teacher in teachers[j]] for j in domains if len(teachers[j]) > 1}
    own = {"folds": folds} if folds else {}
    matched = switches.model_dump(include={"kd_space", "annealing"})
    return {"teachers": {j: teachers[j][0].key for j in domains}, **own, **matched}
