"""The cached work of IMM: training a reader, what it says as a teacher, and how it does on questions of other kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import exca
import pydantic
import torch
from torch import Tensor

from helpers.batches.plans import Batches
from helpers.data.adversarial import load_adversarial
from helpers.models.pretrained import load_encoder
from helpers.tasks import metrics
from helpers.tasks.spans import answers, batches_of, example_scores, span_loss, validation, windows_of, windows_over
from helpers.training import losses
from helpers.training.cached import Task, Training, load_outputs
from helpers.training.checkpoints import save_tensors
from helpers.training.loop import Batch, Loss, fit, predict, training_device

DIVERGENCES: dict[str, Callable] = {
    "gold": losses.gold_divergence,
    "probabilities": losses.probability_divergence,
    "logits": losses.logit_divergence,
}


class Reader(Training):
    """One trained reader. Cached by everything that its weights and scores depend on."""

    domains: list[str]  # trained on
    target: list[str]  # validated and tested on; a first stage has none and keeps its last weights
    start: str = ""  # key of the reader whose weights it starts from, or the pretrained encoder
    teachers: dict[str, str] = pydantic.Field(default_factory=dict)  # by domain, key of the reader to learn from
    weights: dict[str, float] = pydantic.Field(default_factory=dict)  # domain -> s_ij of Eq. 7; 1 without
    kd_space: Literal["gold", "probabilities", "logits"] = "gold"
    annealing: Literal["linear", "constant"] = "linear"
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="2")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select, save; returns test F1 and EM per example and domain, validation scores, steps and seconds."""
        preset, device = self.preset, training_device()
        done = fit(
            model := self._initial(),
            self._batches(device),
            joint_loss(self.kd_space, self.annealing) if self.teachers else span_loss,
            preset.training,
            seed=self.seed,
            validate=validation(preset, self.target) if self.target else None,
            checkpoint=self.checkpoint(),
            label=self.label,
        )
        model.eval()
        scores = {name: example_scores(preset, model, name, "test") for name in self.target}
        return {
            "f1": {name: score.f1.tolist() for name, score in scores.items()},
            "exact": {name: score.em.tolist() for name, score in scores.items()},
            "best": done.best_score,
            "validation": done.history,
            "steps": done.steps,
            "seconds": done.seconds,
            "weights": self.keep(model),
        }

    def _initial(self) -> torch.nn.Module:
        preset = self.preset
        source = str(self.folder_of(self.start)) if self.start else preset.encoder
        return load_encoder(
            source,
            seed=self.seed,
            random_layers=0 if self.start else preset.random_layers,
            max_length=preset.windows.max_length,
        )

    def _batches(self, device: torch.device) -> Batches:
        batches = batches_of(self.preset, self.domains, self.steps, self.seed, device)
        sizes = [len(windows_of(self.preset, [name], "train")) for name in self.domains]
        if self.weights:
            each = torch.tensor([self.weights[name] for name in self.domains], device=device)
            batches.of_windows["weight"] = each.repeat_interleave(torch.tensor(sizes, device=device))
        if self.teachers:
            stored = [self._outputs(name).stored() for name in self.domains]
            for side in ("start", "end"):
                flat = torch.cat([outputs[side] for outputs in stored])
                batches.of_tokens[f"teacher_{side}"] = flat.to(device)
        return batches

    def _outputs(self, domain: str) -> Outputs:
        where = {"folder": self.infra.folder}
        return Outputs(reader=self.teachers[domain], domain=domain, preset=self.preset, label=self.label, infra=where)


class Outputs(Task):
    """A teacher's start and end logits for every token of a domain's training windows, stored as float16.

    All students that learn from the teacher on this domain read them.
    """

    reader: str  # key of the teacher
    domain: str
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Compute and store; returns the number of windows."""
        model = self.load(self.reader)
        windows = windows_of(self.preset, [self.domain], "train")
        logits = predict(model, windows, precision=self.preset.training.precision)
        tensors = {side: torch.from_numpy(getattr(logits, side)).half() for side in ("start", "end")}
        facts = {"teacher": self.reader, "windows": windows.fingerprint()}
        save_tensors(self.infra.uid_folder(create=True) / "outputs.safetensors", tensors, facts, "teacher's outputs")
        return {"windows": len(windows)}

    def stored(self) -> dict[str, Tensor]:
        """The stored logits, ``start`` and ``end``. Raises DamagedFile."""
        windows = windows_of(self.preset, [self.domain], "train")
        return load_outputs(self.infra.uid_folder() / "outputs.safetensors", self.reader, windows)

    def check(self) -> None:
        """Raises DamagedFile where the stored outputs are not those that were computed."""
        self.stored()


class Elsewhere(Task):
    """How a reader does on another domain's validation questions, for the similarity "measured"."""

    reader: str  # key of the reader
    domain: dict[str, str]  # the other domain's name and fingerprint
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Mean F1."""
        (name,) = self.domain
        model = self.load(self.reader)
        return {"f1": float(example_scores(self.preset, model, name, "valid").f1.mean())}


class Adversarial(Task):
    """How a reader answers the preset's adversarial questions: F1 of each, the least over a question's variants."""

    reader: str  # key of the reader
    questions: str  # their fingerprint
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """F1 of each question by set: the clean ones, AddSent, AddOneSent."""
        model = self.load(self.reader)
        scores = {}
        for name, examples in load_adversarial(self.preset.data).items():
            found = answers(self.preset, model, windows_over(self.preset, examples))
            scores[name] = metrics.group_minima(examples, metrics.score(examples, found)).f1.tolist()
        return {"f1": scores}


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
        likelihood = span_loss(output, batch, progress)["likelihood"]
        return {
            "likelihood": rising * likelihood,
            "divergence": (1 - rising) * losses.mean(divergence_B, batch.get("weight")),
        }

    return loss
