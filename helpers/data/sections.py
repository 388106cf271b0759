"""The sections of a preset that hold examples, whichever they are: how each names its domains, loads one, and says what
is in it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from helpers.data import domains, tasks, texts
from helpers.data.examples import Domain, Task
from helpers.presets.schema import DataSettings, TasksSettings, TextsSettings

Settings = DataSettings | TextsSettings | TasksSettings


class Section(NamedTuple):
    """What a section of a preset holds: the key that names its domains, what loads one, what stands for it, and whether
    the preset says where they are."""

    names: str
    load: Callable[..., Domain | Task]
    fingerprint: Callable[..., str]
    is_given: Callable[..., bool]


SECTIONS = {
    DataSettings: Section("domains", domains.load_one, domains.fingerprint, lambda data: True),
    TextsSettings: Section(
        "domains", lambda known, name: texts.load_texts(known)[name], texts.texts_fingerprint, texts.is_given
    ),
    TasksSettings: Section("tasks", tasks.load_task, tasks.task_fingerprint, tasks.is_given),
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
