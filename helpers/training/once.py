"""Work is done once: whether a task is done and whole, and doing it where no other run does."""

from collections.abc import Callable
from typing import Any

from filelock import FileLock

from helpers.training.checkpoints import DamagedFile

LOCK = "lock"  # a file in a task's folder
_checked: set[str] = set()  # folders whose content was looked at by this process


def is_done(task: Any, say: bool = True) -> bool:
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


def fit(task: Any, wait: bool = True, do: Callable[[Any], object] = lambda task: task.fit()) -> Exception | None:
    """``do`` a task that is not done, and return what went wrong: Timeout where another run is at it and this one is
    not to ``wait``."""
    try:
        # Two runs of one preset at once share the work.
        with FileLock(task.infra.uid_folder(create=True) / LOCK, timeout=-1 if wait else 0):
            if not is_done(task, say=False):  # it may have been looked at before another run mended it
                task.infra.clear_job()
                do(task)
    except Exception as error:  # reported for all tasks together
        return error
    return None


def _status(task: Any) -> str:
    try:
        return task.infra.status()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise DamagedFile(f"{task.infra.uid_folder()}/job.pkl cannot be read") from error
