"""Trainings on the GPUs of this machine: each worker process has one of them, and each GPU as many at once as it is
faster with."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from operator import itemgetter
from statistics import mean, median
from typing import Any

import torch

from helpers.presets.schema import EngineSettings
from helpers.training import local
from helpers.training.cached import kind_of

GAIN = 1.1  # of steps a second, that more trainings at once have to bring
FULL = 0.9  # of a GPU's memory
MOST = 16  # trainings at once on one


class Crowded(BrokenExecutor):
    """A training that found no memory beside others; it is begun again when there are fewer."""


def devices() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES calls them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    known = [name.strip() for name in named.split(",")] if named else map(str, range(torch.cuda.device_count()))
    return [*known][: torch.cuda.device_count()]


def memory_used() -> float:
    """The share of its memory that is taken, of the GPU with the least left."""
    left = (torch.cuda.mem_get_info(number) for number in range(torch.cuda.device_count()))
    return max((1 - free / total for free, total in left), default=0.0)


class Width:
    """How many trainings a GPU takes at once.

    One at first; twice as many as long as these make ``GAIN`` times the steps a second together, trainings of a kind
    compared, and fit into the memory. ``number`` is what is to run now.
    """

    def __init__(self):
        self.number, self.settled = 1, False
        self._rates: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._before = 0

    def learn(self, kind: str, at_once: int, rate: float, memory: float) -> None:
        """A training of a ``kind`` made ``rate`` steps a second where ``at_once`` ran, with which so large a share of
        the ``memory`` was taken."""
        self._rates[at_once][kind].append(rate)
        now, before = self._rates[self.number], self._rates[self._before]
        if self.settled or at_once != self.number or sum(map(len, now.values())) < self.number:
            return
        if self._before:
            times = self.number / self._before
            gains = [times * mean(now[kind]) / mean(before[kind]) for kind in before if kind in now]
            if not gains:
                return  # what ran then is of other kinds
            if median(gains) < GAIN:
                self.number, self.settled = self._before, True
                return
        more = min(2 * self.number, MOST, int(FULL * self.number / memory) if memory else MOST)
        if more <= self.number:
            self.settled = True
        else:
            self._before, self.number = self.number, more

    def crowded(self) -> None:
        """So many had no room."""
        self.number, self.settled = max(1, self._before), True


class Gpus:
    """Starts trainings on GPUs, one worker process each, those with the fewest first."""

    def __init__(self, engine: EngineSettings, names: list[str], memory: Callable[[], float] = memory_used):
        self.engine, self.names, self.memory, self.width = engine, names, memory, Width()
        self._running: dict[Future, tuple[Any, str, int]] = {}

    def room(self) -> int:
        """How many trainings run at once, on all GPUs together, by what those that ended have shown."""
        for future in [future for future in self._running if future.done()]:
            task, _, at_once = self._running[future]
            error = future.exception() or future.result()
            if isinstance(error, Crowded):
                self.width.crowded()
            elif error is None and getattr(task, "steps", 0):
                self.width.learn(kind_of(task), at_once, task.steps / task.result()["seconds"], self.memory())
            del self._running[future]
        return self.engine.processes or len(self.names) * self.width.number

    def start(self, task: Any, wait: bool, at_once: int) -> Future:
        """Begin a task; in this process where it is the only one."""
        room = self.room()
        if min(room, at_once) == 1:
            return local.here(self.engine, task, wait)
        beside = Counter({name: 0 for name in self.names})
        beside.update(name for _, name, _ in self._running.values())
        name, others = min(beside.items(), key=itemgetter(1))
        number = local.threads(self.engine, at_once, room)
        future = local.in_worker(MOST, _fit, number, task, wait, others, device=name)
        self._running[future] = task, name, others + 1
        return future


def _fit(number: int, task: Any, wait: bool, others: int) -> Exception | None:
    error = local.fit(number, task, wait)
    if others and isinstance(error, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return Crowded(f"{task.label}: {error}")
    return error
