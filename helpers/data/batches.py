"""Which windows go into which batch: mixing, up-sampling and length buckets, all from one seed.

A plan is a list of arrays of window numbers, one array a step, over all epochs. It is made before training,
so the number of steps is exact and any step can be rebuilt: resuming needs no more than its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .windows import Windows, WindowTensors

POOL = 50  # batches sorted by length together; more leaves less padding and less chance


def upsample(sizes: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
    """For each domain, indices that repeat it to the size of the largest: whole copies, then a random part.

    IMM section 4, substep 1. Raises ValueError for an empty domain.
    """
    if min(sizes) == 0:
        raise ValueError(f"cannot up-sample an empty domain (sizes {list(sizes)})")
    largest = max(sizes)
    rows = []
    for size in sizes:
        copies, rest = divmod(largest, size)
        rows.append(np.concatenate([np.tile(np.arange(size), copies), rng.permutation(size)[:rest]]))
    return rows


def length_buckets(lengths: np.ndarray, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle, sort by length within pools of ``POOL`` batches, cut into batches, shuffle the batches.

    Every position of ``lengths`` stands in exactly one batch; only the last may be short.
    """
    order = rng.permutation(len(lengths))
    batches, short = [], []
    for begin in range(0, len(order), POOL * batch_size):
        pool = order[begin : begin + POOL * batch_size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        cut = len(pool) // batch_size * batch_size
        batches += np.split(pool[:cut], cut // batch_size) if cut else []
        short += [pool[cut:]] if cut < len(pool) else []
    return [batches[i] for i in rng.permutation(len(batches))] + short


def plan_epochs(
    windows: Windows,
    domain_of_example: np.ndarray,
    *,
    epochs: float,
    batch_size: int,
    seed: int,
    upsampled: bool = True,
) -> list[np.ndarray]:
    """Batches of window numbers for ``epochs`` passes over all questions, domains up-sampled to equal size.

    ``domain_of_example`` numbers the domain of each example. Up-sampling counts questions, as the paper's
    instances; all windows of a question come along. A fraction of an epoch takes that share of its batches.
    """
    order = np.argsort(windows.example_W, kind="stable")
    counts = np.bincount(windows.example_W, minlength=len(windows.examples))
    starts = np.concatenate([[0], np.cumsum(counts)])
    members = [np.flatnonzero(domain_of_example == d) for d in np.unique(domain_of_example)]
    lengths = windows.lengths_W
    plan: list[np.ndarray] = []
    for epoch in range(int(np.ceil(epochs))):
        rng = np.random.default_rng([seed, epoch])
        rows = upsample([len(m) for m in members], rng) if upsampled else [np.arange(len(m)) for m in members]
        asked = np.concatenate([m[r] for m, r in zip(members, rows, strict=True)])
        picked = np.concatenate([order[starts[e] : starts[e + 1]] for e in asked])
        batches = [picked[b] for b in length_buckets(lengths[picked], batch_size, rng)]
        plan += batches[: max(1, round(len(batches) * min(1.0, epochs - epoch)))]
    return plan


@dataclass
class Batches:
    """A plan over window tensors; ``at(step)`` gathers one padded batch on the device."""

    tensors: WindowTensors
    plan: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.plan)

    def size(self, step: int) -> int:
        """Number of windows of ``step``."""
        return len(self.plan[step])

    def at(self, step: int, part: int = 0, parts: int = 1) -> dict[str, torch.Tensor]:
        """The batch of ``step``, or this process's share of it. ``window`` holds the window numbers."""
        index = self.plan[step][part::parts]
        return {**self.tensors.gather(index), "window": torch.as_tensor(index)}
