"""What a classifier costs where it is used: parameters, size on disk, and time."""

from pathlib import Path

import numpy as np
from torch import nn

from helpers.batches.sequences import Sequences
from helpers.tasks.labels import predict


def megabytes(folder: Path) -> float:
    """Size of a saved model's weights."""
    return sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6


def read(model: nn.Module, sequences: Sequences, batch_size: int) -> None:
    """Have a model classify texts in batches of this size, as they come."""
    for begin in range(0, len(sequences), batch_size):
        predict(model, sequences.select(np.arange(begin, min(begin + batch_size, len(sequences)))), "fp32")
