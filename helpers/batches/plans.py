"""Which sequences go into which batch: mixing, up-sampling and length buckets, all from one seed.

A plan is a list of arrays of sequence numbers, one array a step, over all epochs. It is made before training,
so the number of steps is exact and any step can be rebuilt: resuming needs no more than its number.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from helpers.batches.sequences import Windows
from helpers.batches.tensors import SequenceTensors

POOL = 50  # batches sorted by length together; more leaves less padding and less chance

Epochs = Iterator[list[np.ndarray]]  # epoch after epoch, without end, the batches of each


def plan_steps(epochs: Iterable[list], steps: int) -> list:
    """What stands in a plan for exactly ``steps`` steps, from as many epochs as that takes."""
    return list(islice(chain.from_iterable(epochs), steps))


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


def bucketed(lengths: np.ndarray, *, batch_size: int, seed: int) -> Epochs:
    """Every sequence once an epoch, those of like length together. ``lengths`` counts each sequence's tokens. Raises
    ValueError where there are none."""
    if len(lengths) == 0:
        raise ValueError("cannot make batches of no sequences")
    for epoch in count():
        yield length_buckets(lengths, batch_size, np.random.default_rng([seed, epoch]))


def epochs_of(windows: Windows, domain_of_example: np.ndarray, *, batch_size: int, seed: int) -> Epochs:
    """The batches of one pass an epoch over all questions, domains up-sampled to equal size.

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


class Teacher(Protocol):
    """Whoever has something to say about a batch."""

    def outputs(self, batch: dict[str, Tensor]) -> dict[str, Tensor]: ...


@dataclass
class Batches:
    """A plan over sequences; ``at(step)`` gathers one padded batch on the device, with what ``teachers`` say of it.

    A plan's array may have a second axis, one column a domain: what stands in a row is never parted.
    """

    tensors: SequenceTensors
    plan: list[np.ndarray]
    teachers: list[Teacher] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.plan)

    def size(self, step: int) -> int:
        """Number of sequences of ``step``, or of rows where there is a column a domain."""
        return len(self.plan[step])

    def at(self, step: int, part: int = 0, parts: int = 1) -> dict[str, Tensor]:
        """The batch of ``step``, or this process's share of it, one domain after another. ``window`` holds the numbers
        of its sequences."""
        return gather(self.tensors, self.plan[step][part::parts], self.teachers)


def gather(tensors: SequenceTensors, index: np.ndarray, teachers: Sequence[Teacher], **known) -> dict[str, Tensor]:
    """The batch of the sequences ``index``, column after column, with what is ``known`` and what the teachers say."""
    index = index.ravel(order="F")
    batch = {**tensors.gather(index), "window": torch.as_tensor(index), **known}
    for teacher in teachers:
        batch |= teacher.outputs(batch)
    return batch
