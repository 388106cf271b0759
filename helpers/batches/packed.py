"""Where the real tokens of a padded batch lie, to lay them end to end and to put them back."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from helpers.batches.tensors import upload

MULTIPLE = 128  # of which the number of tokens laid end to end is one, so that few distinct shapes occur


class Packing(NamedTuple):
    """The ``total`` real tokens of B rows of L end to end, and filling behind them up to T, at least one token.

    ``place_T`` says where each stands in the batch flattened to B·L (the filling is a copy of its first token, and goes
    nowhere); ``edges`` (B+2, int32) where each row begins and the last ends, the filling being a row of its own, of
    which the longest has ``longest`` tokens. Sizes are known to the host.
    """

    place_T: Tensor
    edges: Tensor
    total: int
    longest: int
    shape: tuple[int, int]

    def pack(self, values_BxLxF: Tensor) -> Tensor:
        """The tokens end to end, 1×T×F."""
        return values_BxLxF.flatten(0, 1).index_select(0, self.place_T)[None]

    def unpack(self, values_1xTxF: Tensor) -> Tensor:
        """The tokens where they were, B×L×F, padded with 0."""
        rows, length = self.shape
        width = values_1xTxF.shape[-1]
        flat = values_1xTxF.new_zeros(rows * length, width)
        return flat.index_copy(0, self.place_T[: self.total], values_1xTxF[0, : self.total]).view(rows, length, width)


def packing(lengths_B: Tensor, length: int, device: torch.device) -> Packing:
    """How to pack rows of so many tokens (on the host), each padded to ``length``."""
    lengths = lengths_B.numpy()
    rows, total = len(lengths), int(lengths.sum())
    size = (total // MULTIPLE + 1) * MULTIPLE
    starts = np.cumsum(lengths) - lengths
    place = np.zeros(size, np.int64)
    place[:total] = np.arange(total) + np.repeat(np.arange(rows) * length - starts, lengths)
    sent = upload(np.concatenate([place, starts, [total, size]]), device)  # one copy is sooner there than two
    return Packing(sent[:size], sent[size:].int(), total, max(int(lengths.max()), size - total), (rows, length))
