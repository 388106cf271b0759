"""Batches of several domains and tasks: as many of each, in turns by size, or drawn by weight."""

from collections.abc import Iterator, Mapping
from itertools import chain, count, islice, repeat

import numpy as np

from helpers.batches import Epochs, Turn


def per_domain(members: Mapping[str, np.ndarray], *, batch_size: int, seed: int) -> Epochs:
    """Yield batches (batch_size × domains): column d holds ``batch_size`` of domain d's ``members``.

    An epoch is as long as it takes to go through the largest domain. Every domain is shuffled anew each time it has
    been gone through, and goes on where it stopped from epoch to epoch.
    """
    streams = [
        chain.from_iterable(map(np.random.default_rng([seed, d, 1]).permutation, repeat(rows)))
        for d, rows in enumerate(members.values())
    ]
    draws = range(0, max(map(len, members.values())), batch_size)
    while True:
        yield [np.stack([list(islice(stream, batch_size)) for stream in streams], axis=1) for _ in draws]


def mix_by_size(tasks: Mapping[str, Epochs], *, seed: int) -> Iterator[list[Turn]]:
    """Yield all batches of one epoch of every task in one shuffled order, so that a task has turns by its size (MT-DNN,
    Algorithm 1)."""
    for epoch in count():
        turns = [(task, batch) for task, epochs in tasks.items() for batch in next(epochs)]
        # a tag besides seed and epoch, because the tasks draw their batches from those two
        yield [turns[i] for i in np.random.default_rng([seed, epoch, 1]).permutation(len(turns))]


def mix_by_weight(
    tasks: Mapping[str, Epochs], weights: Mapping[str, float], *, epoch_of: str, seed: int
) -> Iterator[list[Turn]]:
    """Draw each step's task with probability weight / sum of weights (weighted batch selection, He 2019, Algorithm 1).

    An epoch ends when the task ``epoch_of``, of a weight above 0, has gone through its batches; the others go on where
    they stopped, and begin anew where they end.
    """
    names, edges = list(tasks), np.cumsum([weights[name] for name in tasks])
    streams = {name: chain.from_iterable(epochs) for name, epochs in tasks.items() if name != epoch_of}
    for epoch in count():
        rng, turns = np.random.default_rng([seed, epoch, 1]), []
        for batch in next(tasks[epoch_of]):
            while (name := names[np.searchsorted(edges, rng.random() * edges[-1], side="right")]) != epoch_of:
                turns.append((name, next(streams[name])))
            turns.append((name, batch))
        yield turns
