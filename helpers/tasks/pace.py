"""How long work will take on this machine: measured on a few steps of each kind, counted in tasks."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from helpers.presets.schema import Preset
from helpers.training import engine
from helpers.training.cached import Cached
from helpers.training.local import in_this_process

STEPS = 3  # that are measured, after one that is not


class Speed(NamedTuple):
    """Seconds of an optimiser step, and of reading a window or text."""

    step: float
    window: float

    def seconds(self, task: Cached) -> float:
        """How long a task takes."""
        return self.step * getattr(task, "steps", 0) + self.window * task.windows_read()


Speeds = Callable[[Cached], Speed]  # how fast each task goes


def measured(steps: Callable[[int], float], read: Callable[[], object], windows: int) -> Speed:
    """The speed of a model: ``steps`` trains it so many and returns the seconds, ``read`` has it read so many
    ``windows``."""
    steps(1)
    step = steps(STEPS) / STEPS
    begun = time.perf_counter()
    read()
    return Speed(step, (time.perf_counter() - begun) / windows)


class Pace(NamedTuple):
    """How fast each task goes, in one of so many processes."""

    speeds: Speeds
    processes: int

    @classmethod
    def of(cls, speeds: Callable[[Preset], Speeds], preset: Preset) -> Self:
        """As ``speeds`` measures it, as the preset's trainings run. Nothing is kept."""
        with in_this_process(preset.engine):
            return cls(speeds(preset), engine.processes(preset.engine))

    def seconds(self, tasks: Iterable[Cached]) -> float:
        """How long tasks take one after another in one process."""
        return sum(self.speeds(task).seconds(task) for task in tasks)

    def steps(self, tasks: Iterable[Cached]) -> list[float]:
        """Seconds of the fastest step and of the slowest, one number where they are alike."""
        seconds = [self.speeds(task).step for task in tasks if getattr(task, "steps", 0)]
        return sorted({min(seconds), max(seconds)}) if seconds else []
