"""Plans of tasks (`helpers.task`), carried out side by side: here, in worker processes, or on a Ray cluster's nodes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Generator, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from multiprocessing import active_children, connection, forkserver, get_context, parent_process, resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from helpers import paths
from helpers.errors import UserError
from helpers.presets.schema import EngineSettings
from helpers.progress import Progress
from helpers.task import Plan, Spent, Task, with_needs

BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
PATIENCE = 1.0  # seconds that a worker waits for a task that another run is at
REPEATABLE = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # without it, matrix products on a GPU may differ from run to run

# Types of file systems that several machines share, and options with which their locks end at one of them.
NETWORK = re.compile(r"nfs|lustre|beegfs|gpfs|cifs|smb|ceph|afs|glusterfs|9p|fuse(\.|$)")
OF_ONE_MACHINE = {"nolock", "nobrl", "localflock", "local_lock=all", "local_lock=flock"}
MOUNTS = Path("/proc/mounts")
TAKE_LOCK = """
import sys
from filelock import FileLock, Timeout
try:
    FileLock(sys.argv[1]).acquire(timeout=0)
except Timeout:
    print("taken")
"""


class TasksFailed(UserError):
    """Some tasks failed. All that does not need them is done and stays."""


class Stopped(KeyboardInterrupt):
    """An interrupt while tasks ran; its text says what is kept. A notebook shows one sentence."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        return [f"Stopped: {self}; run this cell again to go on from there"]


class Schedule:
    """The progress of some plans.

    ``tasks`` are all tasks that the plans yielded so far, with their needs, by key; ``pending`` those not done.
    ``spent`` are those whose files no plan reads itself; with ``frees`` they are deleted once nothing pending needs
    them. ``outcomes`` has the value, or the error, of each plan that ended.
    """

    def __init__(self, plans: dict[Hashable, Plan], frees: bool = False):
        self.frees = frees
        self.tasks: dict[str, Task] = {}
        self.pending: dict[str, Task] = {}
        self.spent: dict[str, Task] = {}
        self.outcomes: dict[Hashable, object] = {}
        self.plans = {name: self._follow(plan) for name, plan in plans.items()}
        self._advance_all()

    def ready(self, begun: Collection[str]) -> list[Task]:
        """List the tasks that are not ``begun`` and need no pending one."""
        free = {key: task for key, task in self.pending.items() if key not in begun}
        return [task for task in free.values() if not any(need.key in self.pending for need in task.needs)]

    def mark_done(self, key: str) -> None:
        """Mark a task as done, and advance the plans that waited for it alone."""
        del self.pending[key]
        self._advance_all()

    def state_done(self) -> str:
        """State how many tasks are done, those of earlier runs and those that no worker has reported yet among them."""
        left = [task for task in list(self.pending.values()) if task.is_freed() or not task.is_done()]
        return f"{len(self.tasks) - len(left)} of {len(self.tasks)} tasks done"

    def _advance_all(self) -> None:
        for name, plan in self.plans.items():
            if name not in self.outcomes:
                try:
                    self._advance({name: plan}, self.outcomes)
                except Exception as error:  # of this plan alone: the others go on
                    self.outcomes[name] = error
        if self.frees and self.spent:
            self._free()

    def require(self, tasks: dict[str, Task]) -> None:
        """Make the tasks pending that are not done, and those with deleted files that a pending one needs.

        ``tasks`` are complete, needs first (`with_needs`). No run goes on like this for ever: it deletes the files of a
        task once per `Spent`, and a task whose files another run deleted meanwhile is done again before what needs it.
        """
        missing, needed = set(), set()
        for key, task in reversed(tasks.items()):
            if key in self.pending or not task.is_done() or (key in needed and task.is_freed()):
                missing.add(key)
                needed |= {need.key for need in task.needs}
        self.pending |= {key: task for key, task in tasks.items() if key in missing and key not in self.pending}

    def _free(self) -> None:
        needed = {need.key for task in self.pending.values() for need in task.needs} | self.pending.keys()
        for key in [key for key in self.spent if key not in needed]:
            self.spent.pop(key).free()

    def _advance(self, plans: dict[Hashable, Generator], values: dict[Hashable, object]) -> None:
        """Advance the plans that have no value yet. Raises what a plan raises."""
        for name in [name for name in plans if name not in values]:
            try:
                next(plans[name])
            except StopIteration as stop:
                values[name] = stop.value

    def _follow(self, plan: Plan) -> Generator[None, None, object]:
        """Go on with a plan as far as possible, yield while it waits for tasks, and return its value."""
        sent = None
        while True:
            try:
                wave = plan.send(sent)
            except StopIteration as stop:
                return stop.value
            if isinstance(wave, dict):
                inner, sent = {name: self._follow(plan) for name, plan in wave.items()}, {}
                self._advance(inner, sent)
                while len(sent) < len(inner):
                    yield
                    self._advance(inner, sent)
                continue
            sent = None
            if isinstance(wave, Spent):
                self.spent |= {task.key: task for task in wave}
                continue
            self.tasks |= (tasks := with_needs(wave))
            self.require(tasks)
            while not self.pending.keys().isdisjoint(tasks):
                yield


def run(plan: Plan, settings: EngineSettings) -> object:
    """Carry out one plan and return its value. Raises what the plan raises, TasksFailed and Stopped."""
    outcome = carry_out({"": plan}, settings)[""]
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@contextmanager
def _stopped_by_interrupt(schedules: list[Schedule]) -> Iterator[None]:
    """Raise Stopped for an interrupt, and end all processes that this one started."""
    try:
        yield
    except KeyboardInterrupt:
        for process in active_children():
            process.kill()
        forget_workers()
        state = [f"{schedule.state_done()} and kept" for schedule in schedules if schedule.tasks]
        raise Stopped(*state or ["what is finished is kept"]) from None


def carry_out(plans: dict[Hashable, Plan], settings: EngineSettings) -> dict[Hashable, object]:
    """Carry out plans side by side; return the value of each, or its error.

    A task begins as soon as all its needs are done. Tasks with the same key run once. A failure stops only what needs
    it. The ``notes`` in a task's result are printed. Raises Stopped where it is interrupted, and as `check_locks`.
    """
    schedules: list[Schedule] = []
    with _stopped_by_interrupt(schedules):
        schedules.append(schedule := Schedule(plans, frees=settings.keep == "results"))
        failed = _do_all(schedule, settings) if schedule.pending else {}
    if failed:
        return dict.fromkeys(plans, _sum_up(failed, schedule)) | schedule.outcomes
    return schedule.outcomes


def _do_all(schedule: Schedule, settings: EngineSettings) -> dict[str, Exception]:
    """Do the pending tasks of a schedule. Return the errors of those that failed, by key."""
    check_locks(paths.trainings().resolve())
    running: dict[Future, Task] = {}
    failed: dict[str, Exception] = {}
    suspected: set[str] = set()  # tasks that were running when a worker died: each runs alone, to see which one it was
    progress = Progress(schedule, count_slots(settings))
    if text := progress.announce():
        print(text, file=sys.stderr, flush=True)
    look = {"desc": "tasks", "leave": False, "bar_format": BAR, "disable": "TQDM_DISABLE" in os.environ}
    with tqdm(total=len(schedule.pending), **look) as bar, progress.shown(bar):
        while True:
            ready = schedule.ready({task.key for task in running.values()} | failed.keys())
            suspects = [task for task in ready if task.key in suspected]
            ready = [task for task in ready if task.key not in suspected] or ([] if running else suspects[:1])
            at_once, room = len(running) + len(ready) + len(suspects), count_slots(settings) if ready else 1
            for task in ready[: max(0, room - len(running))]:
                progress.begin(task)
                running[submit(settings, task, min(room, at_once))] = task
            if not running:
                return failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task, error = running.pop(future), future.exception()
                progress.end(task)
                if isinstance(error, Timeout):  # another run is at it: others first
                    schedule.pending[task.key] = schedule.pending.pop(task.key)
                elif isinstance(error, BrokenExecutor) and task.key not in suspected:
                    suspected.add(task.key)
                elif error and any(need.is_freed() for need in task.needs):  # by another run
                    schedule.require(with_needs([task]))
                elif error:
                    failed[task.key] = error
                else:
                    schedule.mark_done(task.key)
                    set_total(bar, bar.n + 1 + len(schedule.pending))
                    bar.update()
                    for note in task.result().get("notes", []):
                        tqdm.write(note)


@cache
def check_locks(folder: Path) -> None:
    """Check that a lock in ``folder`` keeps another process out, where the file system is one that machines share.

    Raises UserError where it does not. Prints a note where locks are mounted so that they end at one machine.
    """
    lines = [line.split() for line in MOUNTS.read_text().splitlines()] if MOUNTS.exists() else []
    mounts = [(place.replace(r"\040", " "), kind, options) for _, place, kind, options, *_ in lines]
    holding = [mount for mount in mounts if folder.is_relative_to(mount[0])]
    place, kind, options = max(holding[::-1], key=lambda mount: len(mount[0]), default=("", "", ""))
    if not NETWORK.match(kind):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            TemporaryDirectory(prefix=".lock-", dir=folder) as inner,
            FileLock(file := f"{inner}/lock", timeout=PATIENCE),
        ):
            command = [sys.executable, "-c", TAKE_LOCK, file]
            is_excluded = subprocess.run(command, capture_output=True, text=True).stdout == "taken\n"
    except PermissionError:  # which the first task tells
        return
    except (OSError, NotImplementedError):  # as a mount without locks raises, by its error number or by filelock
        is_excluded = False
    if not is_excluded:
        problem = f"runs cannot share it; expected locks between processes, found none on {kind} at {place}"
        raise UserError(f"{folder}: {problem}; set HELPERS_RESULTS to a folder on another file system")
    if few := OF_ONE_MACHINE & set(options.split(",")):
        problem = f"{place} ({kind}) is mounted with {few.pop()}, so runs on several machines do the same work twice"
        print(f"{problem}; mount it without, or run on one machine at a time", file=sys.stderr)


def _sum_up(failed: dict[str, Exception], schedule: Schedule) -> TasksFailed:
    lines = [f"{len(failed)} of {len(schedule.tasks)} tasks failed:"]
    lines += [f"  {schedule.tasks[key].label}: {type(error).__name__}: {error}" for key, error in failed.items()]
    if others := [task.label for key, task in schedule.pending.items() if key not in failed]:
        lines.append(f"not begun, as a need failed: {'; '.join(others)}")
    return TasksFailed("\n".join(lines))


def set_total(bar: tqdm, total: int) -> None:
    """Change the total of a bar. One in a notebook has it in its widget too, and `tqdm.reset` would forget the time."""
    bar.total = total
    if hasattr(bar, "container"):
        bar.container.children[1].max = total


def submit(settings: EngineSettings, task: Task, at_once: int) -> Future:
    """Begin a task where there is room for ``at_once``: a single one in this process, several in workers."""
    share = settings.threads or max(1, cores() // at_once)
    if settings.kind == "local" and at_once == 1:
        return _do_here(task, share)
    if settings.kind == "local":
        start_fork_server(type(task).__module__)
    results = str(paths.trainings().resolve())
    try:
        return workers(settings).submit(do_there, task, share, results)
    except BrokenExecutor:  # a worker was killed, often for memory: those that stay are of no use
        forget_workers()
        return workers(settings).submit(do_there, task, share, results)


def count_slots(settings: EngineSettings) -> int:
    """Count the tasks that run at once: HELPERS_PROCESSES, or ``processes``, or one per GPU, or the cores divided by
    ``threads``. Raises UserError where the first is no number."""
    number = os.environ.get("HELPERS_PROCESSES") or settings.processes
    if not str(number).isdecimal():
        raise UserError(f"HELPERS_PROCESSES: expected a number of processes, found {number!r}; correct it, or unset it")
    if int(number):
        return int(number)
    if settings.kind == "ray":
        return workers(settings).room()
    return torch.cuda.device_count() or max(1, cores() // max(1, settings.threads))


def cores() -> int:
    """Count the processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def do_there(task: Task, threads: int, results: str) -> None:
    """Do a task in a worker. Its HELPERS_RESULTS may be out of date, so set it to ``results``."""
    os.environ["HELPERS_RESULTS"] = results
    do(task, min(threads, cores()))


def do(task: Task, threads: int) -> None:
    """Do a task with some ``threads``. Raises filelock.Timeout where another run is at it."""
    torch.set_num_threads(threads)
    with _deterministic(task.preset.engine.deterministic):
        task.do(wait=PATIENCE)


@contextmanager
def _deterministic(is_on: bool) -> Iterator[None]:
    """Compute the same digits every time on a GPU, if ``is_on``. On a CPU they are the same anyway."""
    if not (is_on and torch.cuda.is_available()):
        yield  # at once, as torch would import its compiler, which takes seconds
        return
    before = torch.are_deterministic_algorithms_enabled()
    os.environ.update(REPEATABLE)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads what was not written
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _do_here(task: Task, threads: int) -> Future:
    future, before = Future(), torch.get_num_threads()
    try:
        future.set_result(do(task, threads))
    except Exception as error:
        future.set_exception(error)
    finally:
        torch.set_num_threads(before)
    return future


@cache
def workers(settings: EngineSettings) -> Executor:
    """Start the workers, which stay until this process ends: each tokenises a corpus once."""
    if settings.kind == "ray":
        from helpers.cluster import Cluster  # imports ray, which takes a second

        return Cluster(settings)
    context, slots, gpus = get_context("forkserver"), count_slots(settings), torch.cuda.device_count()
    numbers, environment, pinned = context.Queue(), {}, 0
    for number in range(slots):
        numbers.put(number)
    if settings.mps and slots > gpus > 0:
        from helpers import mps  # here, because only processes that share a GPU need it

        environment = dict(mps.start())
        pinned = slots if environment else 0
    environment |= REPEATABLE if settings.deterministic else {}
    return ProcessPoolExecutor(slots, context, initializer=_start_worker, initargs=(numbers, pinned, environment))


def forget_workers() -> None:
    """Let the next task start new workers. The service by which those before shared a GPU ends."""
    from helpers import mps  # here, because few runs have one

    workers.cache_clear()
    mps.stop()


def cores_of(number: int, slots: int) -> list[int]:
    """Return the cores of one of the ``slots``; where these are more than the cores, some share one."""
    there = sorted(os.sched_getaffinity(0))
    each = max(1, len(there) // slots)
    first = number * each % len(there)
    return there[first : first + each]


def start_fork_server(*modules: str) -> None:
    """Start the process that workers and kernels are forked from, unless it runs; it imports torch once for all.

    Interrupts are for this process alone, so they are blocked in that one, and in all that it forks.
    """
    forkserver.set_forkserver_preload([*modules])
    resource_tracker.ensure_running()  # which unblocks interrupts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(numbers, pinned: int, environment: dict[str, str]) -> None:
    """Give a worker a GPU, and cores of its own where ``pinned``, the number of workers, is not 0. A killed run takes
    its workers along."""
    number = numbers.get()
    os.environ.update(environment)  # before CUDA starts, which reads it once
    if pinned:
        os.sched_setaffinity(0, cores_of(number, pinned))
    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())
    tqdm.set_lock(threading.RLock())  # not one that processes share, which a kill would leave locked
    end_with_parent()


def end_with_parent() -> None:
    """End this process as soon as the one that started it has ended."""

    def watch() -> None:
        connection.wait([parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
