"""Run many trainings: cached ones are skipped, the others go to worker processes, or run here one by one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Hashable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import connection, get_all_start_methods, get_context, parent_process
from typing import NamedTuple

import torch
from filelock import FileLock
from tqdm.auto import tqdm

from helpers.presets import Engine

# Yields waves of tasks, parents first, each of which is done when it goes on; returns what it made of them.
Plan = Generator[Iterable, None, object]


class TrainingsFailed(RuntimeError):
    """Some trainings of a wave failed; the others are done and kept. The message names each with its error."""


def processes(engine: Engine) -> int:
    """How many trainings run at once: one on a GPU, on a CPU as many as the cores allow with their threads."""
    if engine.processes:
        return engine.processes
    if torch.cuda.is_available() or engine.threads == 0:
        return 1
    return max(1, cores() // engine.threads)


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Outcome(NamedTuple):
    """What a plan returned, and all its tasks, parents first."""

    value: object
    tasks: list


def run_plans(plans: dict[Hashable, Plan], engine: Engine, label: str = "trainings") -> dict[Hashable, Outcome]:
    """Carry out several plans side by side, the next wave of each together."""
    outcomes, waiting = {}, {key: (plan, []) for key, plan in plans.items()}
    while waiting:
        wave: list = []
        for key, (plan, tasks) in list(waiting.items()):
            try:
                wave += (own := list(next(plan)))
                tasks += own
            except StopIteration as stop:
                outcomes[key] = Outcome(stop.value, tasks)
                del waiting[key]
        run(wave, engine, label)
    return {key: outcomes[key] for key in plans}


def replay(plan: Plan) -> Outcome:
    """A plan as far as it is done: its tasks up to the first wave that is not, on which others may depend, and what
    it returned, or None if it has not come to its end."""
    tasks: list = []
    while True:
        try:
            own = list(next(plan))
        except StopIteration as stop:
            return Outcome(stop.value, tasks)
        tasks += own
        if not all(is_done(task) for task in own):
            return Outcome(None, tasks)


def run(tasks: Iterable, engine: Engine, label: str = "trainings") -> None:
    """Fit every task of one wave that is not cached yet. No task may need another of the same wave.

    Tasks are pydantic configs with a cached ``fit``, a ``label`` and a ``check`` of what they stored, which is done
    again where it is damaged. A failure does not stop the others. Raises TrainingsFailed at the end.
    """
    distinct = {task.infra.uid(): task for task in tasks}
    missing = [task for task in distinct.values() if not is_done(task)]
    if not missing:
        return
    bar = tqdm(total=len(distinct), initial=len(distinct) - len(missing), desc=label, leave=False)
    failed: list[str] = []
    workers = min(processes(engine), len(missing))

    def note(task, error: BaseException | None) -> None:
        bar.update()
        if error is not None:
            failed.append(f"{task.label}: {type(error).__name__}: {error}")

    if workers <= 1:
        before = torch.get_num_threads()
        torch.set_num_threads(engine.threads or cores())
        for task in missing:
            note(task, _fit(task))
        torch.set_num_threads(before)
    else:
        sizes = processes(engine), engine.threads or max(1, cores() // processes(engine))
        try:
            futures = {_pool(*sizes).submit(_fit, task): task for task in missing}
        except BrokenProcessPool:  # a worker died since the last wave
            _pool.cache_clear()
            futures = {_pool(*sizes).submit(_fit, task): task for task in missing}
        for future in as_completed(futures):
            error = future.exception() or future.result()
            if isinstance(error, BrokenProcessPool):
                _pool.cache_clear()  # the next wave starts a new one
            note(futures[future], error)
    bar.close()
    if failed:
        raise TrainingsFailed(f"{len(failed)} of {len(distinct)} trainings failed:\n  " + "\n  ".join(failed))


_checked: set[str] = set()  # folders whose content was looked at by this process


def is_done(task) -> bool:
    """Whether a task is cached whole. What is damaged is named and counts as not done."""
    try:
        if task.infra.status() != "completed":
            return False
        if str(task.infra.uid_folder()) not in _checked:
            task.check()
    except Exception as error:  # a damaged pickle can raise anything
        print(f"{task.label}: {error or type(error).__name__}; it is made again")
        task.infra.clear_job()
        return False
    _checked.add(str(task.infra.uid_folder()))
    return True


def _fit(task) -> Exception | None:
    try:
        with FileLock(task.infra.uid_folder(create=True) / "lock"):  # two runs of one preset at once share the work
            task.fit()
    except Exception as error:  # reported for all tasks together
        return error
    return None


@cache
def _pool(workers: int, threads: int) -> ProcessPoolExecutor:
    """Worker processes that stay until this process ends, so that corpora are tokenised once in each."""
    # A fork server imports torch once for all workers; Windows has only spawn.
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    context.set_forkserver_preload(["helpers.papers.imm_tasks"])
    return ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(threads,))


def _start_worker(threads: int) -> None:
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))  # an interrupt ends it at once and without a traceback
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed driver cannot stop its workers, so they watch it."""
    connection.wait([parent_process().sentinel])
    os._exit(1)
