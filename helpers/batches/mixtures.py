"""Batches of several domains or tasks, from one seed: some of every domain in each step, or tasks that take turns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice

import numpy as np
from torch import Tensor

from helpers.batches.plans import Epochs, Teacher, gather
from helpers.batches.tensors import SequenceTensors

Turn = tuple[str, np.ndarray]  # a task's name, and its sequences of one batch


def per_domain(members: Mapping[str, np.ndarray], *, batch_size: int, seed: int, epoch_of: str = "") -> Epochs:
    """Batches (batch_size × domains) of ``batch_size`` sequences of every domain; column d holds those of domain d.

    ``members`` gives each domain's sequence numbers. An epoch is as long as it takes to go through the domain
    ``epoch_of``, or through the largest. Every domain is shuffled anew each time it has been gone through, and goes on
    where it stopped from epoch to epoch. Raises ValueError for an empty domain and for an ``epoch_of`` that is none.
    """
    empty = [name for name, rows in members.items() if len(rows) == 0]
    if empty or epoch_of not in {"", *members}:
        raise ValueError(
            f"a batch of every domain needs examples of each, but {', '.join(empty)} has none"
            if empty
            else f"epoch_of is {epoch_of!r}, but there are {', '.join(members)}"
        )
    streams = [_shuffled(rows, np.random.default_rng([seed, d, 1])) for d, rows in enumerate(members.values())]
    length = len(members[epoch_of]) if epoch_of else max(map(len, members.values()))
    while True:
        draws = range(-(-length // batch_size))
        yield [np.stack([list(islice(s, batch_size)) for s in streams], axis=1) for _ in draws]


def _shuffled(rows: np.ndarray, rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from rng.permutation(rows)


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
