"""Run many trainings: cached ones are skipped, the others go to worker processes, or run here one by one."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import connection, get_all_start_methods, get_context, parent_process, set_forkserver_preload
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from helpers.presets.schema import EngineSettings
from helpers.training.checkpoints import DamagedFile

# Yields waves of tasks, parents first, each of which is done when it goes on; returns what it made of them.
Plan = Generator[Iterable, None, object]


class TrainingsFailed(RuntimeError):
    """Some trainings of a wave failed; the others are done and kept. The message names each with its error."""


def processes(engine: EngineSettings) -> int:
    """How many trainings run at once, at most: one on a GPU, on a CPU as many as the cores allow with their threads."""
    if engine.processes:
        return engine.processes
    return 1 if torch.cuda.is_available() else max(1, cores() // max(1, engine.threads))


def threads(engine: EngineSettings, waiting: int) -> int:
    """How many threads each of ``waiting`` trainings has where the engine says none: all that run at once share the
    cores, which takes these better than one training on all of them."""
    return engine.threads or max(1, cores() // min(processes(engine), waiting))


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Outcome(NamedTuple):
    """What a plan returned, and all its tasks, parents first."""

    value: object
    tasks: list


After = Callable[[Any], None]  # is told of every task that is done, as soon as it is


def run_plans(
    plans: dict[Hashable, Plan], engine: EngineSettings, label: str = "trainings", after: After | None = None
) -> dict[Hashable, Outcome]:
    """Carry out several plans side by side, the next wave of each together. The bar is one over all waves, as far as
    they are known."""
    tasks, values = {key: [] for key in plans}, {}
    with _bar(label, after) as bar:
        while len(values) < len(plans):
            wave = []
            for key in [key for key in plans if key not in values]:
                try:
                    wave += (own := list(next(plans[key])))
                    tasks[key] += own
                except StopIteration as stop:
                    values[key] = stop.value
            _run(wave, engine, bar, after)
    return {key: Outcome(values[key], tasks[key]) for key in plans}


def run(tasks: Iterable, engine: EngineSettings, label: str = "trainings", after: After | None = None) -> None:
    """Fit every task of one wave that is not cached yet. No task may need another of the same wave.

    Tasks are pydantic configs with a cached ``fit``, a ``label`` and a ``check`` of what they stored, which is done
    again where it is damaged. A failure does not stop the others. With ``after``, which has a bar of its own, there is
    none here. Raises TrainingsFailed at the end.
    """
    with _bar(label, after) as bar:
        _run(tasks, engine, bar, after)


def _bar(label: str, after: After | None) -> tqdm:
    """A bar of nothing yet; it shows itself once there is something to do."""
    return tqdm(total=0, desc=label, leave=False, disable=after is not None, delay=1e-3)


def _run(tasks: Iterable, engine: EngineSettings, bar: tqdm, after: After | None) -> None:
    distinct = {task.infra.uid(): task for task in tasks}
    missing = [task for task in distinct.values() if not is_done(task)]
    bar.total += len(distinct)
    bar.n += len(distinct) - len(missing)
    if not missing:
        return
    bar.refresh()
    fit_all = _fit_here if min(processes(engine), len(missing)) == 1 else _fit_there
    failed: dict[str, str] = {}
    # First what is free; then what another run was training, or what a worker died of, once more.
    for wait in (False, True):
        again = []
        for task, error in fit_all(missing, engine, wait):
            if isinstance(error, Timeout | BrokenProcessPool) and not wait:
                again.append(task)
                continue
            bar.update()
            if after and error is None:
                after(task)
            if error is not None:
                failed[task.label] = f"{type(error).__name__}: {error}"
        missing = again
    if failed:
        lines = "\n  ".join(f"{name}: {error}" for name, error in failed.items())
        raise TrainingsFailed(f"{len(failed)} of {len(distinct)} trainings failed:\n  {lines}")


def _fit_here(tasks: list, engine: EngineSettings, wait: bool) -> Iterator[tuple]:
    """Each task with what went wrong, or None."""
    with in_this_process(engine):
        for task in tasks:
            yield task, _fit(task, wait)


@contextmanager
def in_this_process(engine: EngineSettings) -> Iterator[None]:
    """With as many threads as a training has that runs here."""
    before = torch.get_num_threads()
    torch.set_num_threads(engine.threads or cores())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit_there(tasks: list, engine: EngineSettings, wait: bool) -> Iterator[tuple]:
    """The same from worker processes, in the order in which they end."""
    set_forkserver_preload(sorted({type(task).__module__ for task in tasks}))

    def submit() -> dict[Future, Any]:
        pool, each = _pool(processes(engine)), threads(engine, len(tasks))
        return {pool.submit(_fit_with, each, task, wait): task for task in tasks}

    try:
        futures = submit()
    except BrokenProcessPool:  # a worker died since the last wave
        _pool.cache_clear()
        futures = submit()
    for future in as_completed(futures):
        error = future.exception() or future.result()
        if isinstance(error, BrokenProcessPool):  # killed, often for memory
            _pool.cache_clear()
        yield futures[future], error


_checked: set[str] = set()  # folders whose content was looked at by this process


def is_done(task, say: bool = True) -> bool:
    """Whether a task is cached whole. What is damaged is named and counts as not done."""
    folder = str(task.infra.uid_folder())
    try:
        if _status(task) != "completed":
            return False
        if folder not in _checked:
            task.check()
    except DamagedFile as error:
        if say:
            print(f"{task.label}: {error}; it has to be made again")
        return False
    _checked.add(folder)
    return True


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


def _status(task) -> str:
    try:
        return task.infra.status()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise DamagedFile(f"{task.infra.uid_folder()}/job.pkl cannot be read") from error


def _fit(task, wait: bool = True) -> Exception | None:
    try:
        # Two runs of one preset at once share the work.
        with FileLock(task.infra.uid_folder(create=True) / "lock", timeout=-1 if wait else 0):
            if not is_done(task, say=False):  # it may have been looked at before another run mended it
                task.infra.clear_job()
                task.fit()
    except Exception as error:  # reported for all tasks together
        return error
    return None


def _fit_with(number: int, task, wait: bool) -> Exception | None:
    torch.set_num_threads(number)
    return _fit(task, wait)


@cache
def _pool(workers: int) -> ProcessPoolExecutor:
    """Worker processes that stay until this process ends, so that corpora are tokenised once in each."""
    # A fork server imports torch and the first tasks' modules once for all workers; Windows has only spawn.
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    return ProcessPoolExecutor(workers, context, initializer=_start_worker)


def _start_worker() -> None:
    tqdm.set_lock(threading.RLock())  # not one that several processes share: it would be left behind by an interrupt
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))  # an interrupt ends it at once and without a traceback

    def end_with_parent() -> None:  # a killed driver cannot stop its workers, so they watch it
        connection.wait([parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
