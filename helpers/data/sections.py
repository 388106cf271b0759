"""The sections of a preset that hold examples, whichever they are: how each names its domains, loads one, and says what
is in it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from helpers.data import domains, tasks, texts
from helpers.data.examples import Domain, Task
from helpers.presets.schema import DataSettings, TasksSettings, TextsSettings

Settings = DataSettings | TextsSettings | TasksSettings


class Section(NamedTuple):
    """What a section of a preset holds: the key that names its domains, what loads one, what stands for it, whether
    the preset says where they are, and what finds the folder of files."""

    names: str
    load: Callable[..., Domain | Task]
    fingerprint: Callable[..., str]
    is_given: Callable[..., bool]
    locate_folder: Callable[..., Path]


SECTIONS = {
    DataSettings: Section("domains", domains.load_one, domains.fingerprint, lambda data: True, domains.locate_folder),
    TextsSettings: Section(
        *("domains", lambda known, name: texts.load_texts(known)[name], texts.texts_fingerprint),
        *(texts.is_given, texts.locate_folder),
    ),
    TasksSettings: Section("tasks", tasks.load_task, tasks.task_fingerprint, tasks.is_given, tasks.locate_folder),
}


def names_of(settings: Settings) -> list[str]:
    """The names of a section's domains."""
    return list(getattr(settings, SECTIONS[type(settings)].names))


def fingerprints(settings: Settings) -> Iterator[Callable[[], str]]:
    """What names the exact examples of each domain, to be called, which may raise DataError; none where the preset does
    not say where they are."""
    known = SECTIONS[type(settings)]
    if known.is_given(settings):
        yield from (partial(known.fingerprint, settings, name) for name in names_of(settings))


def check_folder(settings: Settings) -> None:
    """Raises DataError where a section's files should lie in a folder that is not there."""
    known = SECTIONS[type(settings)]
    if settings.source == "files" and known.is_given(settings):
        known.locate_folder(settings)
