"""The training of a model as a task: its settings, its checkpoint, and the model that it leaves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import nn

from helpers.batches import Batches
from helpers.loop import Fitted, Loss, Validate, fit, training_device
from helpers.models.encoders import encoder_fingerprint, load_saved, load_tokenizer, save_encoder
from helpers.presets.schema import TrainingSettings
from helpers.task import Task, with_needs

CHECKPOINT = "checkpoint.pt"  # of a long training, in its folder


@dataclass(frozen=True, kw_only=True, eq=False)
class Training(Task):
    """The training of a model from the pretrained encoder, or from the model of another training, ``start``.

    Its result has ``best``, the best validation score, ``validation``, all of them with their steps, ``steps`` and
    ``seconds``. The number of steps is no field: it follows from data and settings. A kind of training has the methods
    ``initial`` (the model), ``batches``, ``loss``, ``scores`` (of a model, by domain or task) and ``config_facts``
    (what the model's configuration records).
    """

    version = 2
    head_kind: ClassVar[str] = "spans"

    seed: int
    start: Training | None = None

    @property
    def training(self) -> TrainingSettings:
        return self.preset.training

    @property
    def stem(self) -> str:
        field = "domains" if hasattr(self, "domains") else "tasks"
        names = getattr(self, field)
        read = f"{len(names)}-{field}" if len(names) > 2 else re.sub(r"[^\w.]+", "-", "-".join(names))
        return f"{super().stem}-{read}-seed{self.seed}"

    def settings(self) -> dict:
        return {
            "encoder": encoder_fingerprint(self.preset.encoder),
            "random_layers": self.preset.random_layers,
            "training": self.training.model_dump(exclude={"checkpoint_minutes"}),
        }

    def work(self) -> dict:
        model = self.initial()
        fitted = self.fit(model, self.batches(), self.loss, self.validate)
        return self.save(model, fitted, self.config_facts())

    def validate(self, model: nn.Module) -> tuple[float, dict]:
        """Average the ``scores`` on validation examples, which select the weights; return them too."""
        scores = self.scores(model.eval())
        return float(np.mean([*scores.values()])), {"scores": scores}

    def fit(self, model: nn.Module, batches: Batches, loss: Loss, validate: Validate | None = None) -> Fitted:
        """Train a model in place. A killed training goes on from its checkpoint."""
        files = {"checkpoint": self.folder / CHECKPOINT, "label": self.label}
        return fit(model, batches, loss, self.training, seed=self.seed, validate=validate, **files)

    def save(self, model: nn.Module, fitted: Fitted, facts: dict) -> dict:
        """Save the trained model in Hugging Face format, with ``facts`` in its configuration; return the result."""
        model.eval().config.update(facts)
        save_encoder(model, load_tokenizer(self.preset.encoder), self.folder / "model")
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return {
            "best": fitted.best_score,
            "validation": fitted.history,
            "steps": fitted.steps,
            "seconds": fitted.seconds,
            "parameters": sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        }

    @property
    def best(self) -> float:
        return self.result()["best"]

    def best_scores(self) -> dict[str, float]:
        """Read the validation score of each domain or task where their mean was best; {} where none was validated."""
        history = self.result()["validation"]
        return max(history, key=lambda point: point[1])[2]["scores"] if history else {}

    def saved(self) -> Path:
        """Locate the trained model's folder. Raises DamagedFile where its weights are not as they were written."""
        return self.file("model")

    def load(self, head: str = "") -> nn.Module:
        """Load the trained model in evaluation mode, on the device. ``head`` chooses where it has several."""
        return load_saved(self.saved(), self.head_kind).to(training_device())


def trainings_of(*tasks: Task) -> list[Training]:
    """List the distinct trainings among tasks and all that they need, first ones first."""
    return [task for task in with_needs(tasks).values() if isinstance(task, Training)]
