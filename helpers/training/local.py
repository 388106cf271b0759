"""Trainings in worker processes of this machine, or one by one in this process."""

import os
import signal
import threading
from collections.abc import Iterator
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
    """How many trainings run at once, at most: one on a GPU, on a CPU as many as the cores allow with their threads."""
    if engine.processes:
        return engine.processes
    return 1 if torch.cuda.is_available() else max(1, cores() // max(1, engine.threads))


def threads(engine: EngineSettings, at_once: int) -> int:
    """How many threads each of ``at_once`` trainings has where the engine says none: all that run at once share the
    cores, which takes these better than one training on all of them."""
    return engine.threads or max(1, cores() // min(processes(engine), at_once))


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def starter(engine: EngineSettings) -> Start:
    """What begins a task: in a worker process, or here where one alone can run."""
    workers = processes(engine)

    def start(task: Any, wait: bool, at_once: int) -> Future:
        if min(workers, at_once) == 1:
            with in_this_process(engine):
                return _ended(once.fit(task, wait))
        arguments = _fit_with, threads(engine, at_once), task, wait
        set_forkserver_preload([type(task).__module__])  # heeded by the first
        try:
            return _pool(workers).submit(*arguments)
        except BrokenProcessPool:  # a worker was killed, often for memory
            _pool.cache_clear()
            return _pool(workers).submit(*arguments)

    return start


@contextmanager
def in_this_process(engine: EngineSettings) -> Iterator[None]:
    """With as many threads as a training has that runs here."""
    before = torch.get_num_threads()
    torch.set_num_threads(engine.threads or cores())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _ended(result: object) -> Future:
    future = Future()
    future.set_result(result)
    return future


def _fit_with(number: int, task: Any, wait: bool) -> Exception | None:
    torch.set_num_threads(number)
    return once.fit(task, wait)


@cache
def _pool(workers: int) -> ProcessPoolExecutor:
    """Worker processes that stay until this process ends, so that corpora are tokenised once in each."""
    # A fork server imports torch and the first task's module once for all workers; Windows has only spawn.
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    return ProcessPoolExecutor(workers, context, initializer=_start_worker)


def _start_worker() -> None:
    tqdm.set_lock(threading.RLock())  # not one that several processes share: it would be left behind by an interrupt
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))  # an interrupt ends it at once and without a traceback

    def end_with_parent() -> None:  # a killed driver cannot stop its workers, so they watch it
        connection.wait([parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
