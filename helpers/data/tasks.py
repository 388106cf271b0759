"""The tasks of a multi-task model, from wherever a preset says, loaded once a process.

What a task's files are decides its parts as it does those of labelled texts (`helpers.data.texts`): GLUE's dev part is
the test part, and a tenth of train, by content, is valid.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

from helpers.data import warnings
from helpers.data.examples import Choice, DataError, Pair, Task
from helpers.data.formats import choices, glue
from helpers.data.formats.folders import ALL_PARTS, PARTS, locate_folder
from helpers.data.formats.glue import GLUE
from helpers.data.formats.labelled import Labelled, Parts, read_texts
from helpers.data.formats.rows import Dataset
from helpers.data.splits import in_order
from helpers.data.texts import check, complete, cut, examples_of
from helpers.presets.downloads import Collection
from helpers.presets.schema import TasksSettings

FORMATS = (*GLUE, *choices.FILES, "texts")
SWAG_CONFIGURATION = "regular"


class _Read(NamedTuple):
    """What was read of a task: its format, its parts as far as files say them, texts without a label, and notes."""

    format: str
    parts: Parts
    unlabelled: list[Pair]
    notes: list[str]


def load_tasks(tasks: TasksSettings) -> dict[str, Task]:
    """All of them by name, in the preset's order. Raises `DataError` for data that cannot be used."""
    return {name: load_task(tasks, name) for name in tasks.tasks}


@cache
def load_task(tasks: TasksSettings, name: str) -> Task:
    """One task by its name. Raises `DataError` for data that cannot be used."""
    if tasks.source == "mini":
        from helpers.data.mini.tasks import load_task as load_mini

        sizes = {key: size for key in ("train_size", "valid_size", "test_size") if (size := getattr(tasks, key))}
        known = {"times": tasks.train_times, "unlabelled_size": tasks.unlabelled_size, **sizes}
        return load_mini(tasks.tasks[name], name, seed=tasks.drawn_by, **known)
    read = _from_hub(tasks, name) if tasks.source == "hub" else _from_files(tasks, name)
    kind, labels, metrics = _asked(read)
    parts, completed = complete(name, read.parts, tasks)
    check(name, parts, classes=kind == "labels")
    examples, numbered = examples_of(name, parts, lambda record: _example(record, labels))
    notes, unlabelled = [*read.notes, *completed, *numbered], in_order(read.unlabelled, tasks.seed)
    task = Task(name, kind=kind, labels=labels, metrics=metrics, **examples, unlabelled=unlabelled, notes=notes)
    task = cut(tasks, task, ALL_PARTS if unlabelled else PARTS)
    if kind == "score":  # of which no accuracy is taken
        return task
    return replace(task, notes=[*task.notes, *warnings.of_texts(task, labels)])


def test_texts(tasks: TasksSettings, name: str) -> dict[str, list[Pair]]:
    """The texts of official files whose labels GLUE's server alone has, in their order, by the name of the file that it
    expects of them (CoLA.tsv; of MNLI MNLI-m.tsv, MNLI-mm.tsv and, where the diagnostic texts are there, AX.tsv); ids
    are the server's.

    Raises `DataError` for a file that is missing, or a task that is none of GLUE.
    """
    form, place = _located(tasks, name)
    if form not in GLUE:
        raise DataError(f"{name}: GLUE's server has no labels of it; its tasks are {', '.join(GLUE)}")
    return glue.read_tests(locate_folder(tasks) / place, form)


def _located(tasks: TasksSettings, name: str) -> tuple[str, str]:
    """The format of a task ("" of a miniature one), and its place below the folder or on the Hub.

    Raises `DataError` for a format or configuration that nothing reads.
    """
    value = tasks.tasks[name]
    if tasks.source == "mini":
        return "", value
    if tasks.source == "files":
        form, colon, place = value.partition(":")
        if not colon:
            return (name if name in FORMATS else "texts"), value
        if form in FORMATS:
            return form, place
        raise DataError(f"{name}: {value!r} names no format of {', '.join(FORMATS)}; write FORMAT:place in the preset")
    known = {task.configuration: form for form, task in GLUE.items()} | {SWAG_CONFIGURATION: "swag"}
    if form := known.get(value.partition(":")[2]):
        return form, value
    raise DataError(f"{name}: {value!r} names no configuration of {', '.join(known)}; write dataset:configuration")


def _from_files(tasks: TasksSettings, name: str) -> _Read:
    form, place = _located(tasks, name)
    path = locate_folder(tasks) / place
    try:
        if form == "texts":
            parts, notes = read_texts(path, [])
            return _Read(form, parts, [], notes)
        if form in GLUE:
            return _Read(form, *glue.read_glue(path, form))
        return _Read(form, choices.read_choices(path, form), [], [])
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def _from_hub(tasks: TasksSettings, name: str) -> _Read:
    form, place = _located(tasks, name)
    variant = GLUE[form].variant if form in GLUE else ""
    splits = {"train": "train", "valid": f"validation{variant}"}
    rows = {part: _rows(tasks, place, split) for part, split in splits.items()}
    if form not in GLUE:
        return _Read(form, {part: choices.from_hub(*given) for part, given in rows.items()}, [], [])
    parts, notes = {}, []
    for part, given in rows.items():
        parts[part], new = glue.from_hub(*given, form)
        notes += new
    return _Read(form, parts, glue.test_from_hub(*_rows(tasks, place, f"test{variant}")), notes)


def _rows(tasks: TasksSettings, place: str, split: str) -> tuple[Dataset, str]:
    """The rows of a split of what a preset calls dataset:configuration, and how messages call it."""
    from helpers.data.formats.hub import hub_rows  # imports `datasets`, which takes a second

    dataset, _, configuration = place.partition(":")
    known = tasks.downloads.get(dataset)
    if isinstance(known, Collection):
        raise DataError(f"{place}: tasks are read from the Hub, and {dataset} is a download by URL; name a dataset")
    return hub_rows(dataset, split, configuration, pinned=known), f"{place}[{split}]"


def _asked(read: _Read) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """What is asked for in a task of this format, its labels by number, and its metrics."""
    if task := GLUE.get(read.format):
        return task.kind, task.labels, task.metrics
    if read.format != "texts":
        return "choices", (), ("accuracy",)
    names = {record.label for part in ("all", "train") for record in read.parts.get(part, ())}
    return "labels", tuple(sorted(names)), ("accuracy",)


def _example(record: Labelled, labels: tuple[str, ...]) -> Pair | Choice:
    if isinstance(record.second, tuple):
        return Choice(record.id, record.first, record.second, int(record.label))
    label = labels.index(record.label) if labels else float(record.label)
    return Pair(record.id, record.first, record.second, label)
