"""Which work begins when: a task as soon as what it builds on is done, a plan's next wave as soon as its last one."""

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from functools import partial
from typing import Any, NamedTuple

from filelock import Timeout

# Yields waves of tasks, each of which is done when it goes on; returns what it made of them. Tasks of a wave may build
# on each other.
Plan = Generator[Iterable, None, object]

# Begins a task: whether it is to wait where another run has it, and how many tasks are to run now. The future's result
# is what went wrong, or None; Timeout says that another run has it.
Start = Callable[[Any, bool, int], Future]


class Crowded(Exception):
    """A task that found no room beside others; it is begun again with fewer, until it is alone."""


ONCE_MORE = Timeout, BrokenExecutor  # another run was at it; a worker died of it, or beside it


class Outcome(NamedTuple):
    """What a plan returned, and all its tasks, parents first."""

    value: object
    tasks: list


class Schedule:
    """How far some plans are. Tasks that several ask for are one: those with the same ``key``.

    ``tasks`` are all that were asked for, by key; ``done`` and ``failed`` are keys, the latter with what went wrong;
    ``ready`` has the tasks that may begin, in the order in which they may.
    """

    def __init__(self, plans: dict[Hashable, Plan], is_done: Callable[[Any], bool]):
        self.tasks: dict[str, Any] = {}
        self.done: set[str] = set()
        self.failed: dict[str, Exception] = {}
        self.ready: deque = deque()
        self._plans, self._is_done = plans, is_done
        self._asked: dict[Hashable, list] = {name: [] for name in plans}
        self._values: dict[Hashable, object] = {}
        self._waiting: dict[str, list[tuple[set[str], Callable]]] = defaultdict(list)
        for name in plans:
            self._go_on(name)

    def outcomes(self) -> dict[Hashable, Outcome]:
        """What came of the plans, once nothing is left and nothing failed."""
        return {name: Outcome(self._values[name], tasks) for name, tasks in self._asked.items()}

    def never_begun(self) -> list:
        """The tasks that build on one that failed, once all others are settled."""
        return [task for key, task in self.tasks.items() if key not in self.done and key not in self.failed]

    def settle(self, task: Any, error: Exception | None) -> None:
        """A task ended; what waited for it alone may begin, or goes on."""
        if error is not None:
            self.failed[task.key] = error
            return
        self.done.add(task.key)
        for left, then in self._waiting.pop(task.key, ()):
            left.remove(task.key)
            if not left:
                then()

    def _go_on(self, name: Hashable) -> None:
        try:
            wave = list(next(self._plans[name]))
        except StopIteration as stop:
            self._values[name] = stop.value
            return
        self._asked[name] += wave
        new = {task.key: task for task in wave if task.key not in self.tasks}
        self.tasks |= new
        self.done |= {key for key, task in new.items() if self._is_done(task)}
        for task in (task for key, task in new.items() if key not in self.done):
            self._when_done(task.builds_on(), partial(self.ready.append, task))
        self._when_done((task.key for task in wave), partial(self._go_on, name))

    def _when_done(self, keys: Iterable[str], then: Callable[[], None]) -> None:
        """``then``, as soon as those of the keys that were asked for are done; others are taken to be."""
        left = {key for key in keys if key in self.tasks and key not in self.done}
        for key in left:
            self._waiting[key].append((left, then))
        if not left:
            then()


def carry_out(schedule: Schedule, start: Start, room: Callable[[], int], wait: Callable = wait) -> Iterator[tuple]:
    """Begin what is ready, as much at once as there is ``room`` for, until nothing is left that can be done; yields
    each task as it ends, with what went wrong or None. ``wait`` is that of futures, or a clock of its own."""
    running: dict[Future, Any] = {}
    again: deque = deque()  # once more, when nothing else is ready
    tried: set[tuple[str, type]] = set()  # what that was for, by key
    while running or schedule.ready or again:
        there = room()
        while len(running) < there and (schedule.ready or again):
            at_once = len(running) + len(schedule.ready) + len(again)
            task = schedule.ready.popleft() if schedule.ready else again.popleft()
            running[start(task, any((task.key, kind) in tried for kind in ONCE_MORE), at_once)] = task
        wait(running, return_when=FIRST_COMPLETED)
        for future in [future for future in running if future.done()]:
            task, error = running.pop(future), future.exception() or future.result()
            kind = next((kind for kind in ONCE_MORE if isinstance(error, kind)), None)
            if isinstance(error, Crowded) or (kind and (task.key, kind) not in tried):
                tried.add((task.key, kind))
                again.append(task)
                continue
            schedule.settle(task, error)
            yield task, error
