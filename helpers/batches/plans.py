"""Which windows go into which batch: mixing, up-sampling and length buckets, all from one seed.

A plan is a list of arrays of window numbers, one array a step, over all epochs. It is made before training,
so the number of steps is exact and any step can be rebuilt: resuming needs no more than its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch

from helpers.batches.sequences import Windows
from helpers.batches.tensors import SequenceTensors

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


def epochs_of(
    windows: Windows, domain_of_example: np.ndarray, *, batch_size: int, seed: int
) -> Iterator[list[np.ndarray]]:
    """Epoch after epoch, without end, the batches of one pass over all questions, domains up-sampled to equal size.

    ``domain_of_example`` numbers the domain of each example. Up-sampling counts questions, as the paper's
    instances; all windows of a question come along.
    """
    order = np.argsort(windows.example_W, kind="stable")
    counts = np.bincount(windows.example_W, minlength=len(windows.examples))
    starts = np.concatenate([[0], np.cumsum(counts)])
    members = [np.flatnonzero(domain_of_example == d) for d in np.unique(domain_of_example)]
    lengths = windows.lengths_W
    for epoch in count():
        rng = np.random.default_rng([seed, epoch])
        rows = upsample([len(m) for m in members], rng)
        asked = np.concatenate([m[r] for m, r in zip(members, rows, strict=True)])
        picked = np.concatenate([order[starts[e] : starts[e + 1]] for e in asked])
        yield [picked[b] for b in length_buckets(lengths[picked], batch_size, rng)]


def plan_steps(
    windows: Windows, domain_of_example: np.ndarray, *, steps: int, batch_size: int, seed: int
) -> list[np.ndarray]:
    """Batches of window numbers for exactly ``steps`` steps, over as many epochs as that takes."""
    plan: list[np.ndarray] = []
    for batches in epochs_of(windows, domain_of_example, batch_size=batch_size, seed=seed):
        plan += batches
        if len(plan) >= steps:
            return plan[:steps]


@dataclass
class Batches:
    """A plan over window tensors; ``at(step)`` gathers one padded batch on the device.

    ``of_windows`` adds to a batch what is known of each window, one value each (gathered to B), ``of_tokens`` what is
    known of each real token, all windows' one after another (gathered to B×L), ``of_pairs`` what is known of each pair
    of a passage token and a question token (gathered to B×P×Q).
    """

    tensors: SequenceTensors
    plan: list[np.ndarray]
    of_windows: dict[str, torch.Tensor] = field(default_factory=dict)
    of_tokens: dict[str, torch.Tensor] = field(default_factory=dict)
    of_pairs: dict[str, torch.Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.plan)

    def size(self, step: int) -> int:
        """Number of windows of ``step``."""
        return len(self.plan[step])

    def at(self, step: int, part: int = 0, parts: int = 1) -> dict[str, torch.Tensor]:
        """The batch of ``step``, or this process's share of it. ``window`` holds the window numbers."""
        index = self.plan[step][part::parts]
        batch = {**self.tensors.gather(index), "window": torch.as_tensor(index)}
        for name, values in self.of_windows.items():
            batch[name] = values[batch["window"].to(values.device)]
        for name, flat in self.of_tokens.items():
            batch[name] = self.tensors.gather_tokens(flat, index, batch["input_ids"].shape[1])
        for name, flat in self.of_pairs.items():
            batch[name] = self.tensors.gather_pairs(flat, index)
        return batch
