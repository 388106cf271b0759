"""Trainings in worker processes of this machine, or one by one in this process."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import connection, get_all_start_methods, get_context, parent_process, set_forkserver_preload
from typing import Any

import torch
from tqdm.auto import tqdm

from helpers.presets.schema import EngineSettings
from helpers.training import once
from helpers.training.schedule import Start


def processes(engine: EngineSettings) -> int:
    """How many trainings run at once: on a CPU as many as the cores allow with their threads, at most; at first one on
    each GPU."""
    if engine.processes:
        return engine.processes
    return torch.cuda.device_count() or max(1, cores() // max(1, engine.threads))


def threads(engine: EngineSettings, at_once: int, room: int = 0) -> int:
    """How many threads each of ``at_once`` trainings has where the engine says none: all that there is ``room`` for (0:
    as many as there are processes) share the cores, which takes these better than one training on all of them."""
    return engine.threads or max(1, cores() // min(room or processes(engine), at_once))


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def starter(engine: EngineSettings) -> Start:
    """What begins a task: in a worker process, or here where one alone can run."""
    workers = processes(engine)

    def start(task: Any, wait: bool, at_once: int) -> Future:
        if min(workers, at_once) == 1:
            return here(engine, task, wait)
        return in_worker(workers, fit, threads(engine, at_once), task, wait)

    return start


def here(engine: EngineSettings, task: Any, wait: bool) -> Future:
    """A task done in this process; what went wrong, or None."""
    future = Future()
    with in_this_process(engine):
        future.set_result(once.fit(task, wait))
    return future


def in_worker(workers: int, do: Callable, number: int, task: Any, *more: Any, device: str | None = None) -> Future:
    """``do(number, task, *more)`` in one of the worker processes, those of a GPU where it is named."""
    set_forkserver_preload([type(task).__module__])  # heeded by the first
    try:
        return _pool(workers, device).submit(do, number, task, *more)
    except BrokenProcessPool:  # one was killed, often for memory
        dismiss()
        return _pool(workers, device).submit(do, number, task, *more)


def dismiss() -> None:
    """Worker processes end when they have done what they are at; others begin when there is work."""
    _pool.cache_clear()


def fit(number: int, task: Any, wait: bool) -> Exception | None:
    """Do a task with a ``number`` of threads; what went wrong, or None."""
    torch.set_num_threads(number)
    return once.fit(task, wait)


@contextmanager
def in_this_process(engine: EngineSettings, at_once: int = 1) -> Iterator[None]:
    """With as many threads as a training has that runs here, or where so many run ``at_once``."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads(engine, at_once))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _pool(workers: int, device: str | None = None) -> ProcessPoolExecutor:
    """Worker processes that stay until this process ends, so that corpora are tokenised once in each. Those of a
    ``device`` see no other GPU."""
    # A fork server imports torch and the first task's module once for all workers; Windows has only spawn.
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    return ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(device,))


def _start_worker(device: str | None) -> None:
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    tqdm.set_lock(threading.RLock())  # not one that several processes share: it would be left behind by an interrupt
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))  # an interrupt ends it at once and without a traceback

    def end_with_parent() -> None:  # a killed driver cannot stop its workers, so they watch it
        connection.wait([parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
