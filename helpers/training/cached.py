"""Work that is done once: configs with a cached ``fit``, keyed by everything that its result depends on.

Configs are flat: one that builds on trained models names them by their cache keys, so that whatever is trained in the
same way is trained once, and what changes upstream changes the key.
"""

from pathlib import Path
from typing import Any

import pydantic
import torch

from helpers.models.pretrained import load_saved, load_tokenizer, save_encoder, weights_digest
from helpers.presets.schema import Preset
from helpers.training.checkpoints import DamagedFile, load_tensors
from helpers.training.jobs import result_in
from helpers.training.loop import BatchSource, Fitted, Loss, Validate, fit, training_device


class NotDone(RuntimeError):
    """A result that was asked for before its work was done."""


class Cached(pydantic.BaseModel):
    """``preset`` carries the settings, ``label`` is what a person calls it; neither is part of the key. Results lie in
    the preset's folder of models."""

    model_config = pydantic.ConfigDict(extra="forbid")
    preset: Preset
    label: str

    @pydantic.model_validator(mode="before")
    @classmethod
    def _lies_with_the_models(cls, values: Any) -> Any:
        if isinstance(values, dict) and "infra" not in values and isinstance(values.get("preset"), Preset):
            values = {**values, "infra": {"folder": values["preset"].models}}
        return values

    @property
    def key(self) -> str:
        """The cache key, by which other configs name this one."""
        return self.infra.uid()

    def result(self) -> dict:
        """What the finished work returned. Raises NotDone; it never starts any work."""
        if self.infra.status() != "completed":
            raise NotDone(f"{self.label} is not done; run its plan first")
        return result_in(self.infra.uid_folder())

    def builds_on(self) -> list[str]:
        """The keys of the work that it reads; it cannot begin before that is done."""
        return []

    def windows_read(self) -> int:
        """How many windows it reads without training on them, about; for estimates of time."""
        return 0

    def folder_of(self, training: str) -> Path:
        """Where the trained model with this key lies, in Hugging Face format."""
        return Path(self.infra.folder) / training / "model"

    def load(self, training: str, head: str = "spans") -> torch.nn.Module:
        """The trained model with this key and head, in evaluation mode, where it can be asked."""
        return load_saved(self.folder_of(training), head).to(training_device())


class CachedTraining(Cached):
    """A training. Its key holds what the weights depend on, so no test data; its result ``weights``, a digest of them,
    ``best``, the best validation score, ``curve``, the parts of the loss on the way, ``steps`` and ``seconds``."""

    seed: int
    steps: int
    settings: dict
    start: str = ""  # key of the training whose weights it goes on from, or the pretrained encoder

    def parents(self) -> list[str]:
        """The keys of the trainings that it starts from or learns from."""
        return [self.start] if self.start else []

    def builds_on(self) -> list[str]:
        """The keys of its parents, and of what was stored of them."""
        return self.parents()

    def folder(self) -> Path:
        """Where the model lies once it is trained."""
        return self.folder_of(self.key)

    def checkpoint(self) -> Path:
        """Where a long training leaves its state."""
        return self.infra.uid_folder(create=True) / "checkpoint.safetensors"

    def train(
        self, model: torch.nn.Module, batches: BatchSource, loss: Loss, validate: Validate | None = None
    ) -> Fitted:
        """Train a model as the section [training] says, with what its own settings have instead; one that was killed
        goes on where it was."""
        settings = self.preset.training.model_copy(update=self.settings["training"])
        return fit(
            model,
            batches,
            loss,
            settings,
            seed=self.seed,
            validate=validate,
            checkpoint=self.checkpoint(),
            label=self.label,
        )

    def keep(self, model: torch.nn.Module, done: Fitted, reading: dict) -> dict:
        """Save the trained model, drop the checkpoint, and return the training's result. The model's configuration says
        by ``reading`` how it is given its texts, and what its outputs are."""
        folder = self.infra.uid_folder(create=True)
        model.config.update(reading)
        save_encoder(model, load_tokenizer(self.preset.encoder), folder / "model")
        self.checkpoint().unlink(missing_ok=True)
        return {
            "best": done.best_score,
            "validation": done.history,
            "curve": done.curve,
            "steps": done.steps,
            "seconds": done.seconds,
            "weights": weights_digest(folder / "model"),
        }


def kind_of(task: Cached) -> str:
    """What tasks have in common that take alike long: their class, and what their labels begin with."""
    return f"{type(task).__name__}, {task.label.partition(',')[0]}"


def load_outputs(path: Path, teacher: str, windows: str) -> dict[str, torch.Tensor]:
    """What the teacher with this key says of the windows with this fingerprint, as stored with both facts. Raises
    DamagedFile, also where it is another teacher's, or of other windows."""
    tensors, facts = load_tensors(path)
    if facts.get("teacher") != teacher or facts.get("windows") != windows:
        raise DamagedFile(f"{path} holds another teacher's outputs, or those for other windows")
    return tensors
