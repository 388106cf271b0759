"""Kernels forked from a process that has imported everything: imports take longer than most notebooks."""

import atexit
import logging
import os
import signal
import threading
from multiprocessing import context
from uuid import uuid4

from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from tqdm.auto import tqdm

from helpers import papers
from helpers.engine import end_with_parent, start_fork_server

IMPORTED = ["ipykernel.kernelapp", "helpers.notebooks.session", "helpers.results.report"]


def prepare() -> None:
    """Start the process that kernels and workers are forked from."""
    plans = [plan for paper in papers.list_papers() for notebook in paper.notebooks for plan in notebook.plans]
    modules = {f"helpers.papers.{plan.partition(':')[0]}" for plan in plans}
    start_fork_server(*IMPORTED, *sorted(modules))
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it prints the traceback of a cell that Ctrl-C ended


class Kernel(context.ForkServerProcess):
    """A kernel's process, with the methods of a `subprocess.Popen` that a provisioner uses."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


class Provisioner(LocalProvisioner):
    """Forks kernels instead of starting a new Python."""

    async def launch_kernel(self, cmd: list[str], **settings) -> dict:
        arguments = cmd[cmd.index("-f") :]
        self.process = Kernel(target=run_kernel, args=(arguments, dict(settings["env"]), settings.get("cwd")))
        self.process.start()
        atexit.register(self.process.kill)  # or a run that ends while its kernel starts would wait for it
        self.pid, self.cwd = self.process.pid, settings.get("cwd")
        return self.connection_info


class KernelManager(AsyncKernelManager):
    """Starts kernels by `Provisioner`."""

    async def _async_pre_start_kernel(self, **settings) -> tuple[list[str], dict]:
        self.kernel_id = self.kernel_id or str(uuid4())
        self.provisioner = Provisioner(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)
        return await super()._async_pre_start_kernel(**settings)


def run_kernel(arguments: list[str], environment: dict[str, str], folder: str | None) -> None:
    """Run a kernel in this process, until it is told to end or the process that started it has ended."""
    from ipykernel.kernelapp import launch_new_instance  # of no use to the process that starts kernels

    os.setsid()
    os.chdir(folder or ".")
    os.environ.clear()
    os.environ.update(environment)
    end_with_parent()
    tqdm.set_lock(threading.RLock())  # not one that processes share, which a kill would leave behind
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what reached the run, not this kernel; cells have a handler
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    launch_new_instance(argv=arguments)
