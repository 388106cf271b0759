"""What the cached work of all papers has in common. Configs are flat: one that builds on readers names them by their
cache keys, so that whatever is trained in the same way is trained once, and what changes upstream changes the key."""

from __future__ import annotations

from pathlib import Path

import pydantic
import torch

from helpers.batches.sequences import Windows
from helpers.models.pretrained import load_saved, load_tokenizer, save_encoder, weights_digest
from helpers.presets.schema import Preset
from helpers.training.checkpoints import DamagedFile, load_tensors
from helpers.training.loop import training_device


class Task(pydantic.BaseModel):
    """``preset`` carries the settings, ``label`` is what a person calls it; neither is part of the key."""

    model_config = pydantic.ConfigDict(extra="forbid")
    preset: Preset
    label: str

    def check(self) -> None:
        """Raises DamagedFile where what is stored beside the result is not what was made; here nothing is."""

    def folder_of(self, reader: str) -> Path:
        """Where the reader with this key lies, in Hugging Face format."""
        return Path(self.infra.folder) / reader / "model"

    def load(self, reader: str) -> torch.nn.Module:
        """The trained reader with this key, in evaluation mode, where it can be asked."""
        return load_saved(self.folder_of(reader)).to(training_device())


class Training(Task):
    """A task that trains a reader. Its result holds ``weights``, a digest of them, and ``seconds``."""

    seed: int
    steps: int
    settings: dict

    def folder(self) -> Path:
        """Where the reader lies once it is trained."""
        return self.folder_of(self.infra.uid())

    def check(self) -> None:
        """Raises DamagedFile where the stored weights are not those that were trained."""
        if weights_digest(self.folder()) != self.fit()["weights"]:
            raise DamagedFile(f"{self.folder()} is damaged or gone")

    def ask(self, kind: type[Task], label: str, **parts) -> Task:
        """The task of another kind about this reader."""
        where = {"folder": self.infra.folder}
        return kind(reader=self.infra.uid(), preset=self.preset, label=label, infra=where, **parts)

    def keep(self, model: torch.nn.Module) -> str:
        """Save the trained reader, drop the checkpoint, and return the digest of the weights."""
        folder = self.infra.uid_folder(create=True)
        save_encoder(model, load_tokenizer(self.preset.encoder), folder / "model")
        self.checkpoint().unlink(missing_ok=True)
        return weights_digest(folder / "model")

    def checkpoint(self) -> Path:
        """Where a long training leaves its state."""
        return self.infra.uid_folder(create=True) / "checkpoint.safetensors"


def load_outputs(path: Path, teacher: str, windows: Windows) -> dict[str, torch.Tensor]:
    """What the teacher with this key says of ``windows``, as stored with both facts. Raises DamagedFile, also where it
    is another teacher's, or of other windows."""
    tensors, facts = load_tensors(path)
    if facts.get("teacher") != teacher or facts.get("windows") != windows.fingerprint():
        raise DamagedFile(f"{path} holds another teacher's outputs, or those for other windows")
    return tensors
