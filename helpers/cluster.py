"""Tasks on the nodes of a Ray cluster, or of Ray on this machine. All nodes see the folder of results at one path."""

from __future__ import annotations

import dataclasses
import os
import platform
import socket
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path

from helpers.errors import UserError
from helpers.presets.schema import EngineSettings
from helpers.task import Task

try:
    import ray
except ModuleNotFoundError:
    ray = None

RETRIES = 3  # of a task, each time that the node or the process under it dies
CONNECT_SECONDS = 20.0  # seconds until a cluster answers


class ClusterError(UserError):
    """Ray is not installed, none answers at ``engine.address``, or a node has another version of this package."""


class Cluster(Executor):
    """Runs tasks on some node of the cluster at ``engine.address``, else of that at RAY_ADDRESS or of this machine.

    Begins one here where there is none. Raises ClusterError when it is made and cannot connect.
    """

    def __init__(self, settings: EngineSettings):
        if ray is None:
            raise ClusterError("engine.kind is 'ray', which is not installed; pip install ray, or set it to 'local'")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        address = settings.address or None
        try:
            if address and not ray.is_initialized():  # Ray itself would try for minutes
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        except (OSError, ValueError, RuntimeError) as error:
            where = f"engine.address = {address!r}; give HOST:PORT, as ray start --head prints it"
            raise ClusterError(f"no Ray answers at {where} ({error})") from None
        self.needs = {"CPU": settings.threads or 1, "GPU": settings.gpus}
        options = {"num_cpus": self.needs["CPU"], "num_gpus": settings.gpus, "max_retries": RETRIES}
        self.run = ray.remote(**options)(do_on_node)

    def submit(self, do: Callable[[Task, int, str], None], task: Task, threads: int, results: str) -> Future:
        """Begin a task with as many threads as it has cores; the future's error is what went wrong."""
        Path(results).mkdir(parents=True, exist_ok=True)  # so that a node without it has another file system
        return self.run.remote(do, task, task.key, self.needs["CPU"], results).future()

    def room(self) -> int:
        """Count the tasks that the nodes there now have room for."""
        there = ray.cluster_resources()
        return max(1, int(min(there.get(kind, 0) // number for kind, number in self.needs.items() if number)))


def do_on_node(do: Callable[[Task, int, str], None], task: Task, key: str, threads: int, results: str) -> None:
    """Do a task on this node. Raises what goes wrong, and ClusterError where the task has another key here."""
    if not Path(results).is_dir():
        raise ClusterError(f"{platform.node()}: no folder {results}; mount the results there on all nodes")
    task = dataclasses.replace(task)  # computes the key anew
    if task.key != key:
        raise ClusterError(f"{platform.node()} has another version of this package; install the same on all nodes")
    do(task, threads, results)
