"""How long work over spans will take on this machine: measured on a few steps, counted in tasks."""

import time
from collections.abc import Iterable
from typing import NamedTuple, Self

from helpers.models.pretrained import load_encoder
from helpers.presets.schema import Preset
from helpers.tasks import spans
from helpers.training import engine
from helpers.training.cached import Cached
from helpers.training.loop import fit, training_device

STEPS = 3  # that are measured, after one that is not
WINDOWS = 64


class Pace(NamedTuple):
    """Seconds of an optimiser step, and of reading a window, in one of so many processes."""

    step: float
    window: float
    processes: int

    @classmethod
    def measured(cls, preset: Preset) -> Self:
        """Train a few steps and read a few windows, as the preset's trainings do. Nothing is kept."""
        names, longest = list(preset.data.domains), preset.windows.max_length
        with engine.in_this_process(preset.engine):
            model = load_encoder(preset.encoder, seed=0, random_layers=preset.random_layers, max_length=longest)
            model.to(device := training_device())

            def train(steps: int) -> float:
                batches = spans.training_batches(preset, names, steps, 0, device)
                return fit(model, batches, spans.loss, preset.training, seed=0, label="measuring").seconds

            train(1)
            step = train(STEPS) / STEPS
            windows = spans.windows_over(preset, spans.windows_of(preset, names[:1], "valid").examples[:WINDOWS])
            begun = time.perf_counter()
            spans.predict(model, windows, precision=preset.training.precision)
            return cls(step, (time.perf_counter() - begun) / len(windows), engine.processes(preset.engine))

    def seconds(self, tasks: Iterable[Cached]) -> float:
        """How long tasks take one after another in one process."""
        return sum(self.step * getattr(task, "steps", 0) + self.window * task.windows_read() for task in tasks)
