"""Run many trainings: cached ones are skipped, the others go to worker processes, or run here one by one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import connection, get_all_start_methods, get_context, parent_process

import torch
from tqdm.auto import tqdm

from helpers.presets import Engine


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


def run(tasks: Iterable, engine: Engine, label: str = "trainings") -> None:
    """Fit every task of one wave that is not cached yet. No task may need another of the same wave.

    Tasks are pydantic configs with a cached ``fit`` and a ``label``. A failure does not stop the others. Raises
    TrainingsFailed at the end.
    """
    distinct = {task.infra.uid(): task for task in tasks}
    missing = [task for task in distinct.values() if task.infra.status() != "completed"]
    bar = tqdm(total=len(distinct), initial=len(distinct) - len(missing), desc=label, leave=False)
    failed: list[str] = []
    workers = min(processes(engine), len(missing))

    def note(task, error: Exception | None) -> None:
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
        # A fork server imports torch once for all workers; Windows has only spawn.
        context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
        context.set_forkserver_preload(["helpers.papers.imm"])
        with ProcessPoolExecutor(
            workers, context, initializer=_start_worker, initargs=(engine.threads or max(1, cores() // workers),)
        ) as pool:
            futures = {pool.submit(_fit, task): task for task in missing}
            for future in as_completed(futures):
                error = future.exception() or future.result()
                note(futures[future], error)
    bar.close()
    if failed:
        raise TrainingsFailed(f"{len(failed)} of {len(distinct)} trainings failed:\n  " + "\n  ".join(failed))


def _fit(task) -> Exception | None:
    try:
        task.fit()
    except Exception as error:  # reported for all tasks together
        return error
    return None


def _start_worker(threads: int) -> None:
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed driver cannot stop its workers, so they watch it."""
    connection.wait([parent_process().sentinel])
    os._exit(1)
