"""What a teacher says about a batch: read from a store, or asked anew."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from helpers.batches.tensors import SequenceTensors
from helpers.training.loop import Batch, forward

SHARE = 0.25  # of a GPU's free memory, at most, that what one teacher stored may take


@dataclass
class StoredTeacher:
    """What was stored once about a list of sequences, such as logits and attention. It lies on the device of the
    sequences where it takes at most ``SHARE`` of the memory that is free there; or else on the host, from where each
    batch's own is copied.

    ``of_sequences`` holds one value for each sequence (gathered to B), ``of_tokens`` one for each real token, all
    sequences' one after another (gathered to B×L), ``of_pairs`` one for each pair of a passage token and a question
    token (gathered to B×P×Q). All are padded with 0.
    """

    tensors: SequenceTensors
    of_sequences: Mapping[str, Tensor] = field(default_factory=dict)
    of_tokens: Mapping[str, Tensor] = field(default_factory=dict)
    of_pairs: Mapping[str, Tensor] = field(default_factory=dict)
    prefix: str = "teacher_"

    def __post_init__(self):
        device, parts = self.tensors.pool.device, ("of_sequences", "of_tokens", "of_pairs")
        stored = [values for part in parts for values in getattr(self, part).values()]
        if has_room(sum(values.nbytes for values in stored), device):
            for part in parts:
                setattr(self, part, {name: values.to(device) for name, values in getattr(self, part).items()})

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """What is stored about the batch's sequences, named with ``prefix``."""
        index, length = batch["window"].numpy(), batch["input_ids"].shape[1]
        said = {name: self.tensors.gather_sequences(values, index) for name, values in self.of_sequences.items()}
        said |= {name: self.tensors.gather_tokens(flat, index, length) for name, flat in self.of_tokens.items()}
        said |= {name: self.tensors.gather_pairs(flat, index) for name, flat in self.of_pairs.items()}
        return {self.prefix + name: values for name, values in said.items()}


def has_room(size: int, device: torch.device) -> bool:
    """Whether so many bytes are at most ``SHARE`` of a GPU's free memory; on another device nothing has to be moved."""
    return device.type != "cuda" or size <= SHARE * torch.cuda.mem_get_info(device)[0]


@dataclass
class LiveTeacher:
    """A model that is asked about every batch, for what is too large to store, such as hidden states.

    ``fields`` names, by what they are called in the batch, the fields wanted of the model's output, passed on as they
    are, hidden states as a tuple. ``arguments`` go to the model, such as output_hidden_states=True.
    """

    model: nn.Module
    fields: Mapping[str, str]
    arguments: Mapping[str, object] = field(default_factory=dict)
    precision: str = "auto"
    prefix: str = "teacher_"

    @torch.no_grad()  # not inference mode: a loss may have to keep what a teacher says for its gradient
    def __call__(self, batch: Batch) -> dict[str, Tensor | tuple[Tensor, ...]]:
        """What the model says, named with ``prefix``. Raises ValueError where it is not in evaluation mode."""
        if any(module.training for module in self.model.modules()):
            raise ValueError("a teacher is in training mode, so its dropout would be learnt: call eval() on it")
        output = forward(self.model, batch, self.precision, **self.arguments)
        return {self.prefix + name: getattr(output, source) for name, source in self.fields.items()}
