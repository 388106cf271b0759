"""The outputs of a teacher for a batch, stored or computed anew."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from helpers.loop import Batch, forward
from helpers.sequences import Sequences, upload


@dataclass
class StoredTeacher:
    """Outputs of a teacher for some sequences, kept on the host.

    ``of_tokens`` holds one value per real token, all sequences' one after another (B×L in a batch), and ``of_pairs``
    one per passage token and question token, all of a passage token's together (B×P×Q), padded with 0. A batch has
    them behind "teacher_", on its device.
    """

    sequences: Sequences
    of_tokens: Mapping[str, Tensor] = field(default_factory=dict)
    of_pairs: Mapping[str, Tensor] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        index, ids = batch["window"].numpy(), batch["input_ids"]
        tokens, passage, question = self.sequences.lengths_W, self.sequences.count_W, self.sequences.first_count_W
        values = {}
        for name, flat in self.of_tokens.items():
            values[name] = pad_tables(flat, tokens, np.ones_like(tokens), index, (ids.shape[1], 1))[..., 0]
        for name, flat in self.of_pairs.items():
            shape = max(1, passage[index].max()), max(1, question[index].max())
            values[name] = pad_tables(flat, passage, question, index, shape)
        return {f"teacher_{name}": upload(value, ids.device) for name, value in values.items()}


def pad_tables(flat: Tensor, rows_W: np.ndarray, columns_W: np.ndarray, index: np.ndarray, shape: tuple) -> Tensor:
    """Return the tables ``index`` of those in ``flat``, row after row, table after table, as B×N×M, padded with 0."""
    sizes = rows_W.astype(np.int64) * columns_W
    starts = np.cumsum(sizes) - sizes
    start, rows, columns = (values[index][:, None, None] for values in (starts, rows_W, columns_W))
    row, column = np.arange(shape[0])[:, None], np.arange(shape[1])
    is_real = (row < rows) & (column < columns)
    place = np.where(is_real, start + row * columns + column, 0)
    return torch.where(torch.from_numpy(is_real), flat[torch.from_numpy(place)], 0)


@dataclass
class LiveTeacher:
    """A model that computes its outputs for every batch, because they are too large to store, such as hidden states.

    ``fields`` maps names in the batch, without "teacher_", to fields of the model's output. ``arguments`` go to the
    model. Raises ValueError where it is in training mode.
    """

    model: nn.Module
    fields: Mapping[str, str]
    arguments: Mapping[str, object] = field(default_factory=dict)
    precision: str = "auto"

    @torch.no_grad()  # not inference mode: a loss may have to keep the outputs for its gradient
    def __call__(self, batch: Batch) -> dict[str, Tensor | tuple[Tensor, ...]]:
        if any(module.training for module in self.model.modules()):
            raise ValueError("a teacher is in training mode, so its dropout is on: call eval() on it")
        output = forward(self.model, batch, self.precision, **self.arguments)
        return {f"teacher_{name}": getattr(output, source) for name, source in self.fields.items()}
