"""What trained models give for examples: computed by one function, stored by one task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from helpers.data.load import identify_set, section_of
from helpers.loop import batch_outputs
from helpers.sequences import Sequences
from helpers.task import Task
from helpers.training import Training


@dataclass(frozen=True)
class Logits:
    """A reader's logits of all windows' real tokens, flat float32 arrays: ``lengths_W`` of each, in window order.

    ``attention`` is that of each passage token over the question's, flat: passage × question of each window.
    """

    start: np.ndarray
    end: np.ndarray
    attention: np.ndarray | None = None


def predict(
    model: nn.Module, sequences: Sequences, precision: str = "auto", *, batch_size: int = 64, attention: bool = False
) -> Logits | np.ndarray:
    """Return what a model predicts for all sequences, in their order, float32.

    A reader gives `Logits`, with ``attention`` where it keeps it (`helpers.models.attention.keep_attention`). Other
    models give the probabilities of the classes or choices (E×N), or scores (E) from a single output. Raises ValueError
    where the model is not in evaluation mode.
    """
    batches = batch_outputs(model, sequences, batch_size=batch_size, precision=precision)
    if "start" in sequences.labels:
        return _collect_logits(sequences, batches, attention)
    numbers, values = [], []
    for index, _, output in batches:
        logits = output.logits.float()
        numbers.append(index)
        values.append((logits[:, 0] if logits.shape[1] == 1 else logits.softmax(1)).cpu())
    return join_in_order(numbers, values)


def join_in_order(numbers: list[np.ndarray], values: list[Tensor]) -> np.ndarray:
    """Join the values of batches in the order of the sequences' ``numbers``."""
    return torch.cat(values).numpy()[np.argsort(np.concatenate(numbers))]


def _collect_logits(windows: Sequences, batches, attention: bool) -> Logits:
    sides = np.empty((2, windows.lengths_W.sum()), np.float32)
    blocks: list[np.ndarray] = [np.empty(0)] * len(windows) * attention
    for index, _, output in batches:
        rows = torch.stack([output.start_logits, output.end_logits], 1).float().cpu().numpy()
        for row, window in enumerate(index):
            place, length = windows.offsets_W[window], windows.lengths_W[window]
            sides[:, place : place + length] = rows[row, :, :length]
            if attention:
                block = output.attention[row, : windows.passage_len_W[window], : windows.question_len_W[window]]
                blocks[window] = block.float().cpu().numpy().ravel()
    return Logits(*sides, np.concatenate(blocks) if attention else None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outputs(Task):
    """What trained models give for sets of examples, for a table or as a teacher's outputs.

    ``models`` has the models that are asked by set (`helpers.data.load.load_set`); several of a set are an ensemble.
    ``compute`` takes these outputs, and options where it is a partial function. It returns the result as JSON has it,
    and tensors by name, which are stored beside it.
    """

    models: dict[str, tuple[Training, ...]]
    compute: Callable[[Outputs], tuple[dict, dict[str, Tensor]]]

    @property
    def sets(self) -> list[str]:
        """The names of the sets."""
        return list(self.models)

    @property
    def stem(self) -> str:
        return "".join(word.capitalize() for word in getattr(self.compute, "func", self.compute).__name__.split("_"))

    def settings(self) -> dict:
        """Return what the outputs depend on: the examples, how they are cut into tokens, and the precision."""
        cuts = {section: self._cut_of(section) for section in sorted(map(section_of, self.models))}
        examples = {name: identify_set(self.preset, name) for name in self.models}
        return {"examples": examples, "cut": cuts, "precision": self.preset.training.precision}

    def _cut_of(self, section: str) -> dict:
        if section != "data":
            return {"max_length": getattr(self.preset, section).max_length}
        return {"windows": self.preset.windows.model_dump(), "answers": self.preset.answers.model_dump()}

    def work(self) -> dict:
        result, tensors = self.compute(self)
        save_file(tensors, self.folder / "outputs.safetensors")
        return result

    def tensors(self) -> dict[str, Tensor]:
        """Read the stored tensors by name. Raises DamagedFile."""
        return load_file(self.file("outputs.safetensors"))
