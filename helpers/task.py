"""Work that is done once: a task's fields and settings are hashed into the name of its result's folder.

A plan is a generator. It yields the tasks that it needs done next (and is sent None), or a dict of plans to carry out
side by side (and is sent their values), or `Spent` tasks. It returns its own value (`helpers.engine`).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Generator, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock
from safetensors import SafetensorError

from helpers.errors import UserError
from helpers.files import file_fingerprint, fingerprint, follow_umask, unwritten, write_whole
from helpers.presets.schema import Preset

RESULT = "result.json"
PROGRESS = "progress.txt"  # of a training at work: its first step in this run, those done, all, and seconds
FREED = "freed"  # stands beside a result whose files were deleted
Plan = Generator["Iterable[Task] | Spent | dict[Hashable, Plan]", "dict | None", object]


class NotDone(RuntimeError):
    """A result that was read before its task was done."""


class DamagedFile(UserError):
    """A file of a finished task that is not as it was written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One piece of work, done once. ``label`` is its name for people.

    A task may hold other tasks among its fields; they are done before it, and its key has theirs. It is done when
    its ``result.json`` is there. That file is written last and in one step, so a killed run leaves no half result.
    """

    version: ClassVar[int] = 1  # raise it when the code changes what comes out
    unhashed: ClassVar[tuple[str, ...]] = ("preset", "label")
    preset: Preset = field(repr=False)
    label: str

    def settings(self) -> dict:
        """Return what the result depends on besides the fields: settings of the preset, fingerprints of data."""
        return {}

    def work(self) -> dict:
        """Do the work and return its result as JSON has it. Larger things go into files of the ``folder``."""
        raise NotImplementedError

    def estimate_steps(self) -> int:
        """Estimate the optimiser steps of the work before anything is read; 0 where nothing is trained."""
        return 0

    @cached_property
    def key(self) -> str:
        """The name of the folder: the ``stem``, and a hash of version, fields and settings.

        Preset and label are not hashed. A task among the fields counts by its key, a function or class by `name_code`.
        """
        names = [field.name for field in dataclasses.fields(self) if field.name not in self.unhashed]
        facts = [self.version, {name: getattr(self, name) for name in names}, self.settings()]
        return f"{self.stem}-{fingerprint(json.dumps(facts, sort_keys=True, default=_to_json))}"

    @property
    def stem(self) -> str:
        """What the folder's name begins with; it follows from the fields, as the key does."""
        return type(self).__name__

    @cached_property
    def needs(self) -> list[Task]:
        """The tasks among the fields."""
        return _tasks_in([getattr(self, field.name) for field in dataclasses.fields(self)])

    @property
    def folder(self) -> Path:
        """Where the result lies, with what else the work leaves."""
        return self.preset.models / self.key

    def is_done(self) -> bool:
        """Return whether the result is there."""
        return (self.folder / RESULT).is_file()

    def is_freed(self) -> bool:
        """Return whether the files of the result were deleted, so that the work is done again where they are needed."""
        return (self.folder / FREED).exists()

    def result(self) -> dict:
        """Read the result. Raises NotDone, and DamagedFile where the file is not readable."""
        file = self.folder / RESULT
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(result, dict) or not isinstance(result.get("files"), dict):
                raise ValueError(f"expected an object with files, found {json.dumps(result):.40}")
            return result
        except FileNotFoundError:
            raise NotDone(f"{self.label} is not done yet; call its do(), or run the plan that yields it") from None
        except ValueError as error:
            raise DamagedFile(f"{file}: not readable ({error}); delete {self.folder} and run again") from None

    def file(self, name: str) -> Path:
        """Locate a file that the finished work left, or a folder. Raises DamagedFile where its content changed."""
        digests = self.result()["files"]
        for inner in [inner for inner in digests if Path(inner).is_relative_to(name)] or [name]:
            file = self.folder / inner
            if not file.is_file() or file_fingerprint(file) != digests.get(inner):
                problem = "deleted, as engine.keep says" if self.is_freed() else "not as it was written"
                raise DamagedFile(f"{file}: {problem}; delete {self.folder} and run again")
        return self.folder / name

    def do(self, wait: float = -1) -> None:
        """Do the work unless it is done. Raises filelock.Timeout where another run is at it for ``wait`` seconds, and
        OSError where something cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / "lock", timeout=wait).acquire()
        except PermissionError as error:  # of another user's files, in a folder that several share
            raise unwritten(f"begin {self.label}", error) from error
        with lock:
            if self.is_freed() or not self.is_done():
                try:
                    result = self.work()
                except (OSError, SafetensorError) as error:  # a full disk is either
                    raise unwritten(f"finish {self.label}", error) from error
                follow_umask(self.folder)
                files = sorted(self.folder.rglob("*.safetensors"))
                digests = {file.relative_to(self.folder).as_posix(): file_fingerprint(file) for file in files}
                write_whole(self.folder / RESULT, json.dumps({**result, "files": digests}, indent=1) + "\n")
                (self.folder / FREED).unlink(missing_ok=True)

    def free(self) -> None:
        """Delete the files of the result, which itself stays. Where they cannot be deleted they stay too.

        The lock keeps out a run that does the work again. A run may still read what is deleted: a file that is open
        stays whole, and one that is gone makes its task fail, whereupon `helpers.engine` does this one again. The mark
        is there before the first file is gone, and goes when all are back, so a kill leaves no task with half of them.
        """
        with suppress(OSError), FileLock(self.folder / "lock", timeout=0):  # its Timeout is an OSError
            files = self.result()["files"]
            (self.folder / FREED).touch()
            for name in files:
                (self.folder / name).unlink(missing_ok=True)


class Spent(tuple[Task, ...]):
    """What a plan yields to state that it reads the results of these tasks at most, and no more their files."""


def with_needs(tasks: Iterable[Task]) -> dict[str, Task]:
    """Collect tasks and all that they need, by key, needs first."""
    collected: dict[str, Task] = {}

    def add(task: Task) -> None:
        if task.key not in collected:
            for need in task.needs:
                add(need)
            collected[task.key] = task

    for task in tasks:
        add(task)
    return collected


def _to_json(value: Any) -> Any:
    if isinstance(value, Task):
        return value.key
    if isinstance(value, partial):
        return [name_code(value.func), value.keywords]
    if dataclasses.is_dataclass(value):
        return [name_code(type(value)), vars(value)]
    return name_code(value) if hasattr(value, "__name__") else str(value)


@cache
def name_code(code: Any) -> list[str]:
    """Name a function or class with its source, so that an edited one counts as another. Raises UserError without."""
    try:
        return [code.__module__, code.__qualname__, "" if inspect.isbuiltin(code) else inspect.getsource(code)]
    except (OSError, TypeError):
        raise UserError(f"{code.__qualname__}: no source is there to tell versions apart; write it in a file") from None


def _tasks_in(value: Any) -> list[Task]:
    if isinstance(value, Task):
        return [value]
    if dataclasses.is_dataclass(value) or isinstance(value, dict):
        value = list((value if isinstance(value, dict) else vars(value)).values())
    return [task for each in value for task in _tasks_in(each)] if isinstance(value, list | tuple) else []
