"""Which sequences go into which batch: mixtures of domains and tasks, up-sampling and length buckets, from one seed.

A schedule is a list of arrays of sequence numbers, one array per step, over all epochs. It is made before training, so
the number of steps is exact, and any step can be rebuilt: resuming needs no more than its number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice

import numpy as np
import torch
from torch import Tensor

from helpers.sequences import Sequences, Windows, collate

POOL = 50  # batches sorted by length together: more leaves less padding and less chance

Epochs = Iterator[list[np.ndarray]]  # epoch after epoch, without end, the batches of each
Turn = tuple[str, np.ndarray]  # a task's name, and its sequences of one batch
BatchTeacher = Callable[[dict[str, Tensor]], dict[str, Tensor]]  # outputs for a batch


def plan_steps(epochs: Iterable[list], steps: int) -> list:
    """Return the batches of exactly ``steps`` steps, from as many epochs as that takes."""
    return list(islice(chain.from_iterable(epochs), steps))


def upsample(sizes: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
    """Repeat each domain to the size of the largest, as indices: whole copies, then a random part (IMM, section 4)."""
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


def bucketed(lengths: np.ndarray, rows: np.ndarray | None = None, *, batch_size: int, seed: int) -> Epochs:
    """Yield every sequence once per epoch, or each of ``rows``, those of like ``lengths`` (in tokens) together."""
    rows = np.arange(len(lengths)) if rows is None else rows
    for epoch in count():
        batches = length_buckets(lengths[rows], batch_size, np.random.default_rng([seed, epoch]))
        yield [rows[batch] for batch in batches]


def upsampled(windows: Windows, domain_of_example: np.ndarray, *, batch_size: int, seed: int) -> Epochs:
    """Yield epochs over all questions with all their windows, domains up-sampled to equal numbers of questions.

    ``domain_of_example`` numbers the domain of each example.
    """
    counts = np.bincount(windows.example_W, minlength=len(windows.examples))
    windows_of = np.split(np.argsort(windows.example_W, kind="stable"), np.cumsum(counts)[:-1])
    members = [np.flatnonzero(domain_of_example == d) for d in np.unique(domain_of_example)]
    for epoch in count():
        rng = np.random.default_rng([seed, epoch])
        rows = upsample([len(m) for m in members], rng)
        examples = np.concatenate([m[r] for m, r in zip(members, rows, strict=True)])
        picked = np.concatenate([windows_of[example] for example in examples])
        yield [picked[batch] for batch in length_buckets(windows.lengths_W[picked], batch_size, rng)]


@dataclass
class Batches:
    """A schedule of sequences, and the teachers that add their outputs to each batch.

    A schedule's array may have a second axis, one column per domain: a row is never parted. Of several tasks
    ``sequences`` are by task, the schedule holds turns, and a batch names its ``task``.
    """

    sequences: Sequences | Mapping[str, Sequences]
    schedule: list[np.ndarray] | list[Turn]
    teachers: list[BatchTeacher] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.schedule)

    def at(self, step: int, device: torch.device | str = "cpu", multiple: int = 8) -> dict[str, Tensor]:
        ((_, batch),) = self.micro_batches(step, 1, device, multiple)
        return batch

    def micro_batches(
        self, step: int, number: int, device="cpu", multiple=8
    ) -> Iterator[tuple[float, dict[str, Tensor]]]:
        """Yield the batch of ``step`` in at most ``number`` micro-batches, each with its share of the rows.

        A batch is collated column after column, padded to a ``multiple``. Its ``window`` numbers them, on the host.
        """
        sequences, rows, names = self.sequences, self.schedule[step], {}
        if isinstance(rows, tuple):
            task, rows = rows
            sequences, names = sequences[task], {"task": task}
        for first in range(min(number, len(rows))):
            part = rows[first::number]
            index = part.ravel(order="F")
            batch = {**collate(sequences, index, device, multiple), "window": torch.as_tensor(index), **names}
            for teacher in self.teachers:
                batch |= teacher(batch)
            yield len(part) / len(rows), batch
