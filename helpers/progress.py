"""How far a run is: tasks done, those at work, and the minutes left by the steps done and their speed in this run."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm

from helpers.errors import UserError
from helpers.task import PROGRESS, Task

REPORTED = 60.0  # seconds between two lines on progress where there is no bar
REFRESHED = 1.0  # seconds between two looks at what is at work where there is one
FEWEST_STEPS = 10  # steps whose time says something of a training's speed
NAMED = 2  # tasks at work that a line names


class Progress:
    """The progress of the tasks of a schedule (`helpers.engine.Schedule`), of which ``room`` run at once."""

    def __init__(self, schedule, room: int):
        self.schedule, self.room = schedule, room
        self.begun: dict[str, float] = {}  # when each task at work began, by key
        self.estimates: dict[str, int] = {}  # steps of each training before it begins, by key
        self.exact: dict[str, int] = {}  # steps of each that has begun
        self.speeds: list[float] = []  # steps per second of each that ended

    def begin(self, task: Task) -> None:
        """Note that a task begins."""
        (task.folder / PROGRESS).unlink(missing_ok=True)  # of a run that was killed
        self.begun[task.key] = time.monotonic()

    def end(self, task: Task) -> None:
        """Note that a task is at work no more. Of one that is done, all its seconds count, not those of steps alone."""
        first, _, steps, _ = self.read_steps(task)
        seconds = time.monotonic() - self.begun.pop(task.key)
        if steps and task.is_done():
            self.exact[task.key] = steps
            self.speeds.append((steps - first) / seconds)
        (task.folder / PROGRESS).unlink(missing_ok=True)

    def read_steps(self, task: Task) -> tuple[int, int, int, float]:
        """Read the step with which a task at work began in this run, the steps done, all of them, and seconds since."""
        try:
            first, done, steps, seconds = (task.folder / PROGRESS).read_text().split()
        except (OSError, ValueError):  # not there yet
            return 0, 0, 0, 0.0
        return int(first), int(done), int(steps), float(seconds)

    def estimate_steps(self, task: Task) -> int:
        """Estimate the steps of a task, once; 0 for what is no training."""
        if task.key not in self.estimates:
            try:
                self.estimates[task.key] = task.estimate_steps()
            except UserError:  # which the training tells
                self.estimates[task.key] = 0
        return self.estimates[task.key]

    def announce(self) -> str:
        """State how much there is to train; "" where there is nothing."""
        trainings = [task for task in self.schedule.pending.values() if self.estimate_steps(task)]
        steps = sum(map(self.estimate_steps, trainings))
        plural = "s" if len(trainings) > 1 else ""
        at_once = f", {min(self.room, len(trainings))} at once" if plural else ""
        return f"{len(trainings)} training{plural} to do, at least {steps:,} steps{at_once}" if trainings else ""

    def estimate_minutes(self) -> tuple[float, float] | None:
        """Estimate the least and the most minutes left for the trainings; None without any, or before a speed is known.

        With R steps left on W places, C of them in one chain of needs, no order takes less than max(R / W, C) and none
        that leaves no place idle more than R / W + (1 - 1 / W) C (Graham 1969).
        """
        pending, speeds, left = dict(self.schedule.pending), [*self.speeds], {}
        for key, task in pending.items():
            first, done, steps, seconds = self.read_steps(task) if key in self.begun else (0, 0, 0, 0.0)
            if steps:
                self.exact[key] = steps
            if done - first >= FEWEST_STEPS:
                speeds.append((done - first) / seconds)
            left[key] = steps - done if steps else self.estimate_steps(task)
        both = [(self.exact[key], self.estimates[key]) for key in [*self.exact] if self.estimates.get(key)]
        scale = sum(exact for exact, _ in both) / sum(estimate for _, estimate in both) if both else 1.0
        left = {key: steps if key in self.exact else steps * scale for key, steps in left.items()}
        if not speeds or not any(left.values()):
            return None
        chains: dict[str, float] = {}

        def chain(task: Task) -> float:
            if task.key not in chains:
                needed = [chain(need) for need in task.needs if need.key in pending]
                chains[task.key] = left[task.key] + max(needed, default=0.0)
            return chains[task.key]

        longest, shared = max(map(chain, pending.values()), default=0.0), sum(left.values()) / self.room
        least, most = max(shared, longest), shared + (1 - 1 / self.room) * longest
        return least / max(speeds) / 60, most / min(speeds) / 60

    def describe(self) -> str:
        """Say which tasks are at work, and for how long all will be."""
        pending, named = dict(self.schedule.pending), []
        for key in [*self.begun]:
            if task := pending.get(key):
                _, done, steps, _ = self.read_steps(task)
                named.append(f"{task.label} ({done:,} of {steps:,} steps)" if steps else task.label)
        more = [f"{len(named) - NAMED} more"] if len(named) > NAMED else []
        texts = [" and ".join([*named[:NAMED], *more])]
        if minutes := self.estimate_minutes():
            texts.append(state_minutes(*minutes))
        return "; ".join(filter(None, texts))

    @contextmanager
    def shown(self, bar: tqdm) -> Iterator[None]:
        """Show the progress beside a bar, or where that is hidden in a line a minute, until the block ends."""
        ended = threading.Event()

        def show() -> None:
            while not ended.wait(REPORTED if bar.disable else REFRESHED):
                if bar.disable:
                    print(f"{self.schedule.state_done()}; {self.describe()}", file=sys.stderr, flush=True)
                else:
                    bar.set_postfix_str(self.describe())

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def state_minutes(least: float, most: float) -> str:
    """State a range of minutes, from two hours on in hours."""
    unit, size = ("hours", 60) if most >= 120 else ("minutes", 1)
    low, high = round(least / size), max(1, math.ceil(most / size))
    if high == 1:
        return f"less than {'an hour' if size > 1 else 'a minute'} left"
    return f"{low} to {high} {unit} left" if low < high else f"{high} {unit} left"
