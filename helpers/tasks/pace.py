"""How long work will take on this machine: measured on a few steps of each kind, counted in tasks."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from helpers.presets.schema import Preset
from helpers.tasks import spans
from helpers.tasks.answering import Reader
from helpers.training import engine
from helpers.training.cached import Cached
from helpers.training.local import in_this_process
from helpers.training.loop import fit, training_device

WINDOWS = 64  # that a reader's reading is measured on
FEW = 16  # questions that a teacher's is
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
        """As ``speeds`` measures it, with the threads that trainings side by side have. Nothing is kept."""
        processes = engine.processes(preset.engine)
        with in_this_process(preset.engine, processes):
            return cls(speeds(preset), processes)

    def seconds(self, tasks: Iterable[Cached]) -> float:
        """How long tasks take one after another in one process."""
        return sum(self.speeds(task).seconds(task) for task in tasks)

    def steps(self, tasks: Iterable[Cached]) -> list[float]:
        """Seconds of the fastest step and of the slowest, one number where they are alike."""
        seconds = [self.speeds(task).step for task in tasks if getattr(task, "steps", 0)]
        return sorted({min(seconds), max(seconds)}) if seconds else []


def reader_speed(preset: Preset) -> Speed:
    """The speed of a reader of the preset's domains. Raises EncoderError where it cannot be made."""
    names, device = list(preset.data.domains), training_device()
    model = spans.new_reader(preset, 0).to(device)

    def steps(number: int) -> float:
        batches = spans.training_batches(preset, names, number, 0, device)
        return fit(model, batches, spans.loss, preset.training, seed=0, label="measuring").seconds

    windows = spans.windows_over(preset, spans.windows_of(preset, names[:1], "valid").examples[:WINDOWS])
    return measured(steps, lambda: spans.predict(model, windows, precision=preset.training.precision), len(windows))


def asking_speed(preset: Preset, reader: Reader) -> Speed:
    """The speed of a trained reader of any kind, which is asked the preset's questions and trained no more."""
    few = spans.windows_of(preset, list(preset.data.domains)[:1], "valid").examples[:FEW]
    begun = time.perf_counter()
    read, _ = reader.read(few, preset.training.precision)
    return Speed(0.0, (time.perf_counter() - begun) / len(read))
