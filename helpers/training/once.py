"""Work is done once: whether a task is done and whole, and doing it where no other run does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from helpers.files import file_fingerprint, write_whole
from helpers.training.checkpoints import DamagedFile
from helpers.training.jobs import JOB, SEAL

LOCK = "lock"  # a file in a task's folder
_checked: set[Path] = set()  # folders whose content was looked at by this process


def is_done(task: Any, say: bool = True) -> bool:
    """Whether a task is cached whole. What is damaged is named and counts as not done."""
    folder = task.infra.uid_folder()
    if not (folder / SEAL).is_file():
        return False
    if folder not in _checked:
        try:
            check(folder)
        except DamagedFile as error:
            if say:
                print(f"{task.label}: {error}; it has to be made again")
            return False
        _checked.add(folder)
    return True


def fit(task: Any, wait: bool = True, do: Callable[[Any], object] = lambda task: task.fit()) -> Exception | None:
    """``do`` a task that is not done, and return what went wrong: Timeout where another run is at it and this one is
    not to ``wait``."""
    folder = task.infra.uid_folder(create=True)
    try:
        # Two runs of one preset at once share the work.
        with FileLock(folder / LOCK, timeout=-1 if wait else 0):
            if not is_done(task, say=False):  # it may have been looked at before another run mended it
                for parent in (Path(task.infra.folder) / key for key in task.builds_on()):
                    if (parent / SEAL).exists():
                        check(parent)  # it may have been damaged since
                for file in (folder / SEAL, folder / JOB, *folder.glob("*.yaml")):
                    file.unlink(missing_ok=True)
                do(task)
                seal(folder)
    except Exception as error:  # reported for all tasks together
        return error
    return None


def seal(folder: Path) -> None:
    """Write down what a finished task left in its folder, but for exca's description of it."""
    left = sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix != ".yaml")
    own = (LOCK, SEAL)  # a seal is there already where the files of another machine's folder came here
    known = {file.relative_to(folder).as_posix(): file_fingerprint(file) for file in left if file.name not in own}
    write_whole(folder / SEAL, json.dumps(known, indent=1) + "\n")


def check(folder: Path) -> None:
    """Raises DamagedFile where something that a finished task left there is not as it was."""
    try:
        known = dict(json.loads((folder / SEAL).read_bytes()))
        differ = [name for name, content in known.items() if file_fingerprint(folder / name) != content]
    except (OSError, ValueError, TypeError) as error:
        raise DamagedFile(f"{folder} is damaged: {error}") from error
    if differ:
        raise DamagedFile(f"{folder / differ[0]} is damaged: its content is not what was written")
