"""What the steps of a training lost: kept on the device and read many at once, so that no step waits for its number."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

READ_EVERY = 50  # steps


class Step(NamedTuple):
    """One step's loss and its parts, 0-dimensional and detached, and what of it an error names."""

    number: int
    loss: Tensor
    terms: dict[str, Tensor]
    window: Tensor
    task: str | None


@dataclass
class Trace:
    """The steps that were not read yet, and the ``curve`` that they add to: [step, learning rate, mean of each part of
    the loss since the point before]."""

    curve: list[list]
    unread: list[Step] = field(default_factory=list)
    since: dict[str, list[Tensor]] = field(default_factory=dict)  # the last point, by part of the loss
    points: list[tuple[int, float, dict[str, Tensor]]] = field(default_factory=list)

    def add(self, step: Step) -> None:
        """Keep a step's loss. Raises FloatingPointError, as ``read`` does, where it is time to read."""
        self.unread.append(step)
        for name, term in step.terms.items():
            self.since.setdefault(name, []).append(term)
        if len(self.unread) >= READ_EVERY:
            self.read()

    def mark(self, steps: int, rate: float) -> None:
        """End a point of the curve after so many ``steps``."""
        self.points.append((steps, rate, {name: torch.stack(values).mean() for name, values in self.since.items()}))
        self.since = {}

    def read(self) -> None:
        """Wait for the device and write the points into ``curve``. Raises FloatingPointError at the first loss that is
        not finite, with its step, windows and parts."""
        if self.unread:
            values = torch.stack([step.loss for step in self.unread]).tolist()
            for step, value in zip(self.unread, values, strict=True):
                if not math.isfinite(value):
                    raise FloatingPointError(_complaint(step))
        for steps, rate, means in self.points:
            self.curve.append([steps, rate, {name: round(float(mean), 6) for name, mean in means.items()}])
        self.unread, self.points = [], []


def _complaint(step: Step) -> str:
    values = ", ".join(f"{name} {float(term):g}" for name, term in step.terms.items())
    of_task = f" of task {step.task!r}" if step.task else ""
    return (
        f"the loss is {float(step.loss)} at step {step.number} ({values}); the batch{of_task} holds windows "
        f"{step.window.tolist()}. Lower learning_rate, or set precision to 'fp32' if it is bf16"
    )
