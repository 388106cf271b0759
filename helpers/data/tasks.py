"""The tasks of a multi-task model, from wherever a preset says, loaded once a process."""

from functools import cache

from helpers.data.examples import Choice, DataError, Task, fingerprint_of
from helpers.data.formats.folders import PARTS
from helpers.presets.schema import TasksSettings


def load_tasks(tasks: TasksSettings) -> dict[str, Task]:
    """All of them by name, in the preset's order. Raises `DataError` for data that cannot be used."""
    return {name: load_task(tasks, name) for name in tasks.tasks}


@cache
def load_task(tasks: TasksSettings, name: str) -> Task:
    """One task by its name. Raises `DataError` for data that cannot be used."""
    if tasks.source == "mini":
        from helpers.data.mini.tasks import load_task as load_mini

        sizes = {key: size for key in ("train_size", "valid_size", "test_size") if (size := getattr(tasks, key))}
        return load_mini(tasks.tasks[name], name, seed=tasks.seed, unlabelled_size=tasks.unlabelled_size, **sizes)
    raise DataError(f"{name}: files are not read yet")


@cache
def task_fingerprint(tasks: TasksSettings, name: str, *parts: str) -> str:
    """Names the exact texts and labels of ``parts`` ("train", "valid", "test", "unlabelled"; without: of the first
    three) of a task."""
    task = load_task(tasks, name)
    return fingerprint_of(map(_facts, getattr(task, part)) for part in parts or PARTS)


def _facts(example) -> tuple:
    if isinstance(example, Choice):
        return example.context, example.endings, example.label
    return example.first, example.second, example.label
