"""What readers give every token of every window, as flat arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from helpers.batches.sequences import Windows


@dataclass(frozen=True)
class Logits:
    """Flat float32 arrays: the logits of all windows' real tokens, ``windows.lengths_W`` of each, in window order."""

    start: np.ndarray
    end: np.ndarray

    @classmethod
    def collect(cls, windows: Windows, batches: Iterable[tuple]) -> Logits:
        """From padded batches ``(index, start, end)``, in any order: window numbers (B), arrays or tensors (B×L).

        Raises ValueError where a window never comes.
        """
        lengths, offsets = windows.lengths_W, np.cumsum(windows.lengths_W) - windows.lengths_W
        flat = np.empty((2, int(lengths.sum())), np.float32)
        missing = np.ones(len(windows), bool)
        for index, *logits in batches:
            start, end = (torch.as_tensor(padded).detach().float().cpu().numpy() for padded in logits)
            real = np.arange(start.shape[1]) < lengths[index][:, None]
            place = (offsets[index][:, None] + np.arange(start.shape[1]))[real]
            flat[0, place], flat[1, place] = start[real], end[real]
            missing[index] = False
        if missing.any():
            raise ValueError(f"no logits for {missing.sum()} of {len(windows)} windows, first {missing.argmax()}")
        return cls(*flat)
