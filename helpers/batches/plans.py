"""Which sequences go into which batch: mixtures of domains and tasks, up-sampling and length buckets, from one seed.

A plan is a list of arrays of sequence numbers, one array a step, over all epochs. It is made before training,
so the number of steps is exact and any step can be rebuilt: resuming needs no more than its number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice, repeat

import numpy as np
import torch
from torch import Tensor

from helpers.batches.sequences import Windows
from helpers.batches.tensors import SequenceTensors

ONCE = -2  # the domain of examples that are not up-sampled
POOL = 50  # batches sorted by length together; more leaves less padding and less chance

Epochs = Iterator[list[np.ndarray]]  # epoch after epoch, without end, the batches of each
Turn = tuple[str, np.ndarray]  # a task's name, and its sequences of one batch
Teacher = Callable[[dict[str, Tensor]], dict[str, Tensor]]  # what it has to say about a batch


def plan_steps(epochs: Iterable[list], steps: int) -> list:
    """What stands in a plan for exactly ``steps`` steps, from as many epochs as that takes."""
    return list(islice(chain.from_iterable(epochs), steps))


def upsample(sizes: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
    """For each domain, indices that repeat it to the size of the largest: whole copies, then a random part.

    IMM section 4, substep 1. Raises ValueError for an empty domain.
    """
    if min(sizes) == 0:
        raise ValueError(f"cannot up-sample an empty domain (sizes {list(sizes)})")
    most = max(sizes)
    return [np.append(np.tile(np.arange(size), most // size), rng.permutation(size)[: most % size]) for size in sizes]


def length_buckets(lengths: np.ndarray, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle, sort by length within pools of ``POOL`` batches, cut into batches, shuffle the batches.

    Every position of ``lengths`` stands in exactly one batch; only the last may be short.
    """
    order = rng.permutation(len(lengths))
    pools = np.split(order, range(POOL * batch_size, len(order), POOL * batch_size))
    by_length = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
    batches, whole = np.split(by_length, range(batch_size, len(order), batch_size)), len(order) // batch_size
    return [batches[i] for i in rng.permutation(whole)] + batches[whole:]


def bucketed(lengths: np.ndarray, *, batch_size: int, seed: int) -> Epochs:
    """Every sequence once an epoch, those of like length together. ``lengths`` counts each sequence's tokens. Raises
    ValueError where there are none."""
    if len(lengths) == 0:
        raise ValueError("cannot make batches of no sequences")
    for epoch in count():
        yield length_buckets(lengths, batch_size, np.random.default_rng([seed, epoch]))


def epochs_of(windows: Windows, domain_of_example: np.ndarray, *, batch_size: int, seed: int) -> Epochs:
    """The batches of one pass an epoch over all questions, domains up-sampled to equal size.

    ``domain_of_example`` numbers the domain of each example; one of domain ``ONCE`` comes once an epoch, as it is, and
    any other below 0 is left out. Up-sampling counts questions, as the paper's instances; all windows of a question
    come along.
    """
    counts = np.bincount(windows.example_W, minlength=len(windows.examples))
    windows_of = np.split(np.argsort(windows.example_W, kind="stable"), np.cumsum(counts)[:-1])
    members = [np.flatnonzero(domain_of_example == d) for d in np.unique(domain_of_example) if d >= 0]
    lengths, once = windows.lengths_W, np.flatnonzero(domain_of_example == ONCE)
    for epoch in count():
        rng = np.random.default_rng([seed, epoch])
        rows = upsample([len(m) for m in members], rng)
        asked = np.concatenate([*(m[r] for m, r in zip(members, rows, strict=True)), once])
        picked = np.concatenate([windows_of[e] for e in asked])
        yield [picked[b] for b in length_buckets(lengths[picked], batch_size, rng)]


def per_domain(members: Mapping[str, np.ndarray], *, batch_size: int, seed: int) -> Epochs:
    """Batches (batch_size × domains) of ``batch_size`` sequences of every domain; column d holds those of domain d.

    ``members`` gives each domain's sequence numbers. An epoch is as long as it takes to go through the largest.
    Every domain is shuffled anew each time it has been gone through, and goes on where it stopped from epoch to epoch.
    Raises ValueError for an empty domain.
    """
    if empty := [name for name, rows in members.items() if len(rows) == 0]:
        raise ValueError(f"a batch of every domain needs examples of each, but {', '.join(empty)} has none")
    streams = [
        chain.from_iterable(map(np.random.default_rng([seed, d, 1]).permutation, repeat(rows)))
        for d, rows in enumerate(members.values())
    ]
    length = max(map(len, members.values()))
    while True:
        draws = range(0, length, batch_size)
        yield [np.stack([list(islice(stream, batch_size)) for stream in streams], axis=1) for _ in draws]


def pooled(tasks: Mapping[str, Epochs], *, seed: int) -> Iterator[list[Turn]]:
    """All batches of one epoch of every task in one shuffled order, so that a task has turns by its size (MT-DNN,
    Algorithm 1)."""
    for epoch in count():
        pool = [(task, batch) for task, epochs in tasks.items() for batch in next(epochs)]
        # a tag besides seed and epoch: the tasks draw their batches from those two
        yield [pool[i] for i in np.random.default_rng([seed, epoch, 1]).permutation(len(pool))]


def weighted(
    tasks: Mapping[str, Epochs], weights: Mapping[str, float], *, epoch_of: str, seed: int
) -> Iterator[list[Turn]]:
    """Each step's task drawn with probability weight / sum of weights (weighted batch selection, He 2019, Algorithm 1).

    An epoch ends when the task ``epoch_of`` has gone through its own; the others go on where they stopped, and begin
    anew where they end. Raises ValueError where a weight is missing, unknown or below 0, and where that of
    ``epoch_of`` is 0.
    """
    if set(weights) != set(tasks) or min(weights.values()) < 0 or not weights.get(epoch_of):
        raise ValueError(
            f"weights are {dict(weights)}: give one of at least 0 for each of {', '.join(tasks)}, and more than 0 for "
            f"{epoch_of!r}, which an epoch goes through"
        )
    names = list(tasks)
    edges = np.cumsum([weights[name] for name in names])
    streams = {name: chain.from_iterable(epochs) for name, epochs in tasks.items() if name != epoch_of}
    for epoch in count():
        rng, turns, own = np.random.default_rng([seed, epoch, 1]), [], next(tasks[epoch_of])
        for batch in own:
            while (name := names[np.searchsorted(edges, rng.random() * edges[-1], side="right")]) != epoch_of:
                turns.append((name, next(streams[name])))
            turns.append((name, batch))
        yield turns


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


@dataclass
class TaskBatches:
    """A plan over the sequences of several tasks; ``at(step)`` gathers the batch of the task whose turn it is.

    ``tensors`` and ``teachers`` are by task; a task may have no teacher.
    """

    tensors: Mapping[str, SequenceTensors]
    plan: list[Turn]
    teachers: Mapping[str, Sequence[Teacher]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.plan)

    def size(self, step: int) -> int:
        """Number of sequences of ``step``."""
        return len(self.plan[step][1])

    def at(self, step: int, part: int = 0, parts: int = 1) -> dict[str, Tensor | str]:
        """The batch of ``step``, or this process's share of it. ``task`` is the task's name, ``window`` holds the
        numbers of its sequences."""
        task, index = self.plan[step]
        return gather(self.tensors[task], index[part::parts], self.teachers.get(task, ()), task=task)


def gather(tensors: SequenceTensors, index: np.ndarray, teachers: Sequence[Teacher], **known) -> dict[str, Tensor]:
    """The batch of the sequences ``index``, column after column, with what is ``known`` and what the teachers say."""
    index = index.ravel(order="F")
    batch = {**tensors.gather(index), "window": torch.as_tensor(index), **known}
    for teacher in teachers:
        batch |= teacher(batch)
    return batch
