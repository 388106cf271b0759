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
from helpers.models.pretrained import load_encoder
from helpers.tasks import spans
from helpers.tasks.spans import windows_of
from helpers.training import losses
from helpers.training.cached import Cached, CachedTraining, load_outputs
from helpers.training.checkpoints import save_tensors
from helpers.training.loop import Batch, Loss, fit, training_device
from helpers.training.teachers import StoredTeacher

DIVERGENCES: dict[str, Callable] = {
    "gold": losses.gold_divergence,
    "probabilities": losses.probability_divergence,
    "logits": losses.logit_divergence,
}
SIDES = ("start", "end")


class ImmTraining(CachedTraining):
    """One training of a reader."""

    domains: list[str]  # trained on
    target: list[str]  # validated on; a first stage has none and keeps its last weights
    teachers: dict[str, str] = pydantic.Field(default_factory=dict)  # by domain, key of the reader to learn from
    weights: dict[str, float] = pydantic.Field(default_factory=dict)  # domain -> s_ij of Eq. 7; 1 without
    kd_space: Literal["gold", "probabilities", "logits"] = "gold"
    annealing: Literal["linear", "constant"] = "linear"
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="4")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select, save; returns the best validation F1, all of them, steps, seconds and the weights' digest."""
        preset = self.preset
        done = fit(
            model := self._initial(),
            self._batches(training_device()),
            joint_loss(self.kd_space, self.annealing) if self.teachers else spans.loss,
            preset.training,
            seed=self.seed,
            validate=spans.validation(preset, self.target) if self.target else None,
            checkpoint=self.checkpoint(),
            label=self.label,
        )
        return self.keep(model.eval(), done, spans.reading(preset, {*self.domains, *self.target}))

    def windows_read(self) -> int:
        """Those of its validation questions, at every evaluation."""
        once = sum(len(windows_of(self.preset, [name], "valid")) for name in self.target)
        return self.preset.training.evaluations * once

    def parents(self) -> list[str]:
        """The keys of the readers that it starts from or learns from."""
        return [*super().parents(), *self.teachers.values()]

    def _initial(self) -> nn.Module:
        preset = self.preset
        return load_encoder(
            str(self.folder_of(self.start)) if self.start else preset.encoder,
            seed=self.seed,
            random_layers=0 if self.start else preset.random_layers,
            max_length=preset.windows.max_length,
        )

    def _batches(self, device: torch.device) -> Batches:
        batches = spans.training_batches(self.preset, self.domains, self.steps, self.seed, device)
        if self.weights:
            sizes = [len(windows_of(self.preset, [name], "train")) for name in self.domains]
            weights = np.repeat(np.float32([self.weights[name] for name in self.domains]), sizes)
            batches.tensors.labels["weight"] = torch.as_tensor(weights, device=device)
        if self.teachers:
            stored = [self._teacher(name).stored() for name in self.domains]
            logits = {side: torch.cat([outputs[side] for outputs in stored]).to(device) for side in SIDES}
            batches.teachers.append(StoredTeacher(batches.tensors, of_tokens=logits))
        return batches

    def _teacher(self, domain: str) -> TeacherLogits:
        return TeacherLogits(reader=self.teachers[domain], domain=domain, preset=self.preset, label=self.label)


class TeacherLogits(Cached):
    """A teacher's start and end logits for every token of a domain's training windows, stored as float16.

    All students that learn from the teacher on this domain read them.
    """

    reader: str  # key of the teacher
    domain: str
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="2")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Compute and store; returns the number of windows."""
        windows = windows_of(self.preset, [self.domain], "train")
        logits = spans.predict(self.load(self.reader), windows, precision=self.preset.training.precision)
        tensors = {side: torch.from_numpy(getattr(logits, side)).half() for side in SIDES}
        facts = {"teacher": self.reader, "windows": windows.fingerprint()}
        save_tensors(self.infra.uid_folder(create=True) / "outputs.safetensors", tensors, facts, "teacher's outputs")
        return {"windows": len(windows)}

    def windows_read(self) -> int:
        """Those of its training questions, once."""
        return len(windows_of(self.preset, [self.domain], "train"))

    def stored(self) -> dict[str, Tensor]:
        """The stored logits, ``start`` and ``end``. Raises DamagedFile."""
        windows = windows_of(self.preset, [self.domain], "train")
        return load_outputs(self.infra.uid_folder() / "outputs.safetensors", self.reader, windows.fingerprint())

    def check(self) -> None:
        """Raises DamagedFile where the stored logits are not those that were computed."""
        self.stored()


def joint_loss(kd_space: str, annealing: str) -> Loss:
    """Eqs. 6 and 11, averaged as in Eqs. 7 and 10: lambda likelihood + (1 - lambda) divergence from the teacher.

    lambda rises from 0 to 1 over the training ("linear"), or is 1/2 ("constant").
    """
    divergence = DIVERGENCES[kd_space]

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        rising = progress if annealing == "linear" else 0.5
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
