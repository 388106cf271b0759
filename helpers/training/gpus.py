"""Trainings on the GPUs of this machine: each worker process has one of them, and each GPU as many at once as it is
faster with."""

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from operator import itemgetter
from statistics import mean, median
from typing import Any, NamedTuple

import torch

from helpers.presets.schema import EngineSettings
from helpers.training import local
from helpers.training.cached import kind_of
from helpers.training.schedule import Crowded

GAIN = 1.1  # of steps a second, that more trainings at once have to bring
FULL = 0.9  # of a GPU's memory
MOST = 16  # trainings at once on one


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
    compared, and fit into the memory. Or as many as ``asked`` for. ``number`` is what is to run now.
    """

    def __init__(self, asked: int = 0):
        self.number, self.settled = asked or 1, bool(asked)
        self._rates: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._before = 0

    def learn(self, kind: str, at_once: int, rate: float, memory: float) -> None:
        """A training of a ``kind`` made ``rate`` steps a second where ``at_once`` ran, with which so large a share of
        the ``memory`` was taken."""
        if self.settled or at_once != self.number:
            return
        now, before = self._rates[self.number], self._rates[self._before]
        now[kind].append(rate)
        if sum(map(len, now.values())) < self.number:
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

    def crowded(self, number: int) -> None:
        """There was no room for one where this ``number`` was to run."""
        self.number, self.settled = min(self.number, max(1, number // 2)), True


class Begun(NamedTuple):
    """A training on the GPU ``device``: how many run there with it, and how many were to."""

    task: Any
    device: str
    at_once: int
    number: int


class Gpus:
    """Starts trainings on GPUs, one worker process each, those with the fewest first."""

    def __init__(self, engine: EngineSettings, names: list[str], memory: Callable[[], float] = memory_used):
        self.engine, self.names, self.memory = engine, names, memory
        self.width = Width(math.ceil(engine.processes / len(names)))
        self._running: dict[Future, Begun] = {}
        self._workers = False  # whether there are any
        self._shared = False  # whether others that rest may hold memory

    def room(self) -> int:
        """How many trainings run at once, on all GPUs together, by what those that ended have shown."""
        number, crowded = self.width.number, False
        for future in [future for future in self._running if future.done()]:
            begun = self._running.pop(future)
            error = future.exception() or future.result()
            if isinstance(error, Crowded):
                self.width.crowded(begun.number)
                crowded = True
            elif error is None and getattr(begun.task, "steps", 0):
                rate = begun.task.steps / begun.task.result()["seconds"]
                self.width.learn(kind_of(begun.task), begun.at_once, rate, self.memory())
        if crowded or self.width.number < number:
            local.dismiss()  # workers that rest make room
            self._shared = False
        room = len(self.names) * self.width.number
        return min(room, self.engine.processes or room)

    def start(self, task: Any, wait: bool, at_once: int) -> Future:
        """Begin a task; in this process where it is the only one and no worker holds memory."""
        room = self.room()
        if self.engine.processes == 1 or (at_once == 1 and not self._workers):
            return local.here(self.engine, task, wait)
        beside = Counter({name: 0 for name in self.names})
        beside.update(begun.device for begun in self._running.values())
        name, others = min(beside.items(), key=itemgetter(1))
        self._workers, self._shared = True, self._shared or others > 0
        number = local.threads(self.engine, at_once, room)
        future = local.in_worker(MOST, _fit, number, task, wait, self._shared, device=name)
        self._running[future] = Begun(task, name, others + 1, self.width.number)
        return future


def _fit(number: int, task: Any, wait: bool, shared: bool) -> Exception | None:
    error = local.fit(number, task, wait)
    if isinstance(error, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        if shared:
            return Crowded(f"{task.label}: {error}")
    return error
