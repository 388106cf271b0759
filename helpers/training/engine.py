"""Run many trainings, of one plan or several: cached ones are skipped, and none waits for what it does not need."""

import os
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from tqdm.auto import tqdm

from helpers.errors import UserError
from helpers.presets.schema import EngineSettings
from helpers.training import gpus, local
from helpers.training.local import processes
from helpers.training.once import is_done
from helpers.training.schedule import Outcome, Plan, Schedule, Start, carry_out

After = Callable[[Any], None]  # is told of every task that is done, as soon as it is


class TrainingsFailed(RuntimeError):
    """Some trainings failed; all that does not build on them is done and kept. The message names each with its error,
    and what was not begun."""


def workers(engine: EngineSettings) -> tuple[Start, Callable[[], int]]:
    """What begins a task, and how many there is room for. Raises ClusterError where Ray is asked for and not there,
    UserError in one of several processes, which would wait for each other's tasks."""
    if "LOCAL_RANK" in os.environ and (number := int(os.environ.get("WORLD_SIZE") or 1)) > 1:
        raise UserError(
            f"this is one of {number} processes (torchrun, accelerate launch); start one alone: it gives every GPU its "
            "own trainings"
        )
    if engine.kind == "local" and (names := gpus.devices()):
        run = gpus.Gpus(engine, names)
        return run.start, run.room
    if engine.kind == "local":
        return local.starter(engine), partial(processes, engine)
    from helpers.training import cluster  # imports ray, which takes a second

    return cluster.starter(engine), partial(cluster.room, engine)


def run_plans(
    plans: dict[Hashable, Plan], engine: EngineSettings, label: str = "trainings", after: After | None = None
) -> dict[Hashable, Outcome]:
    """Carry out several plans side by side.

    Tasks are pydantic configs with a cached ``fit``, a ``key``, a ``label``, and the keys of what each ``builds_on``;
    what is damaged is done again. A plan goes on when its wave is done, a task begins when what it builds on is. A
    failure stops nothing else. There is one bar over all that is known yet; with ``after``, which has a bar of its own,
    there is none here. Raises what `workers` does, and TrainingsFailed at the end.
    """
    schedule = Schedule(plans, is_done)
    with tqdm(total=len(schedule.tasks), desc=label, leave=False, disable=after is not None, delay=1e-3) as bar:

        def show() -> None:
            bar.total = len(schedule.tasks)
            bar.update(len(schedule.done) + len(schedule.failed) - bar.n)

        show()
        if schedule.ready:
            bar.refresh()
            for task, error in carry_out(schedule, *workers(engine)):
                show()
                if after and error is None:
                    after(task)
    if schedule.failed:
        raise TrainingsFailed(_failures(schedule))
    return schedule.outcomes()


def run(tasks: Iterable, engine: EngineSettings, label: str = "trainings", after: After | None = None) -> None:
    """Do every task that is not cached yet, as ``run_plans`` does."""
    run_plans({label: iter([tasks])}, engine, label, after)


def replay(plan: Plan, done: Callable[[Any], bool] = is_done) -> Outcome:
    """A plan as far as it is ``done``: its tasks up to the first wave that is not, on which others may depend, and what
    it returned, or None if it has not come to its end."""
    tasks, wave = [], []
    try:
        while all(map(done, wave)):
            tasks += (wave := list(next(plan)))
    except StopIteration as stop:
        return Outcome(stop.value, tasks)
    return Outcome(None, tasks)


def _failures(schedule: Schedule) -> str:
    lines = [f"{len(schedule.failed)} of {len(schedule.tasks)} trainings failed:"]
    lines += [f"  {schedule.tasks[key].label}: {type(e).__name__}: {e}" for key, e in schedule.failed.items()]
    if others := [task.label for task in schedule.never_begun()]:
        lines += [f"not begun, as they build on these: {'; '.join(others)}"]
    return "\n".join(lines)
