"""Trainings as tasks of Ray: on this machine, or on all those of a cluster.

Results lie where they would lie without it, by the same keys. Where all nodes see that folder a task works in it, as a
process of this machine does; where not it works in a temporary folder, into which comes what it builds on, and what it
leaves comes back and is checked before it counts.
"""

import os
import platform
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from helpers.errors import UserError
from helpers.files import write_whole
from helpers.presets.schema import EngineSettings
from helpers.training import once
from helpers.training.jobs import SEAL
from helpers.training.schedule import Start

try:
    import ray
except ModuleNotFoundError:
    ray = None

RETRIES = 3  # of a task, each time that the node or the process under it dies
PATIENCE = 20.0  # seconds until a cluster answers
KEPT = 16  # parents that stay in Ray's store after those who asked for them have them
Files = dict[str, bytes]  # by path in a task's folder


class ClusterError(UserError):
    """Ray is not installed, none answers at ``engine.address``, or a node has another version of this package."""


def starter(engine: EngineSettings) -> Start:
    """What begins a task on some node. Raises ClusterError."""
    connect(engine)
    threads = engine.threads or 1
    options = {"num_cpus": threads, "num_gpus": engine.gpus, "max_retries": RETRIES}
    in_place, apart = (ray.remote(**options)(function) for function in (_fit_in_place, _fit_apart))

    def start_in_place(task: Any, wait: bool, at_once: int) -> Future:
        root = Path(task.infra.folder).resolve().parents[1]  # of all results, in which the preset's models lie
        return in_place.remote(task, task.key, str(root), threads, wait).future()

    # A model is put into Ray's store once for all who build on it, and not kept there for those who come much later.
    stored = lru_cache(KEPT)(lambda folder: ray.put(_packed(folder)))

    def fetch(task: Any) -> None:
        folder, needed = task.infra.uid_folder(create=True), task.builds_on()
        parents = [stored(Path(task.infra.folder) / key) for key in needed]
        made = ray.get(apart.remote(task, task.key, threads, needed, *parents))
        if isinstance(made, Exception):
            raise made
        _unpack(made, folder)
        once.check(folder)

    def start_apart(task: Any, wait: bool, at_once: int) -> Future:
        return _in_thread(partial(once.fit, task, wait, fetch))

    return start_in_place if engine.shared else start_apart


def room(engine: EngineSettings) -> int:
    """How many trainings run at once: as the settings say, or as many as there is room for on the nodes that are there
    now."""
    if engine.processes:
        return engine.processes
    there, each = ray.cluster_resources(), {"CPU": engine.threads or 1, "GPU": engine.gpus}
    return max(1, int(min(there.get(kind, 0) // number for kind, number in each.items() if number)))


def connect(engine: EngineSettings) -> None:
    """Connect to the cluster; without an address to that of RAY_ADDRESS or of this machine, or else begin one here.
    Raises ClusterError."""
    if ray is None:
        raise ClusterError("engine.kind is 'ray', which is not installed: pip install ray, or set it to 'local'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        return
    try:
        if engine.address:  # Ray itself would try for minutes
            host, _, port = engine.address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=PATIENCE).close()
        ray.init(address=engine.address or None, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        where = f"engine.address = {engine.address!r}; give HOST:PORT, as ray start --head says it"
        raise ClusterError(f"no Ray answers at {where} ({error})") from None


def _below(root: str, task: Any, key: str) -> Any:
    """The task as it is where results lie below ``root``, in this process from now on. Raises ClusterError where it has
    another key than there where it comes from."""
    os.environ["HELPERS_RESULTS"] = root
    made = type(task)(**{name: getattr(task, name) for name in type(task).model_fields if name != "infra"})
    if made.key != key:
        raise ClusterError(f"{platform.node()} has another version of this package; install the same on all nodes")
    return made


def _fit_in_place(task: Any, key: str, root: str, threads: int, wait: bool) -> Exception | None:
    torch.set_num_threads(threads)
    try:
        return once.fit(_below(root, task, key), wait)
    except ClusterError as error:
        return error


def _fit_apart(task: Any, key: str, threads: int, needed: list[str], *parents: Files) -> Files | Exception:
    torch.set_num_threads(threads)
    with TemporaryDirectory() as root:
        try:
            task = _below(root, task, key)
        except ClusterError as error:
            return error
        for parent, files in zip(needed, parents, strict=True):
            _unpack(files, Path(task.infra.folder) / parent)
        return once.fit(task) or _packed(task.infra.uid_folder())


def _packed(folder: Path) -> Files:
    """What a finished task left."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != once.LOCK)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def _unpack(files: Files, folder: Path) -> None:
    """The same elsewhere; that by which a task is known to be done comes last."""
    for name in sorted(files, key=lambda name: name == SEAL):
        write_whole(folder / name, files[name])


def _in_thread(work: Callable[[], object]) -> Future:
    future = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
