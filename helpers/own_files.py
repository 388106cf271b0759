"""The files of somebody's own domains: how one is given, the section of a preset that it goes into, what it holds."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from helpers import checks
from helpers.batches.sequences import Sequences
from helpers.data import warnings
from helpers.data.examples import DataError, Domain, Task
from helpers.data.sections import fingerprint, load
from helpers.data.tasks import FORMATS
from helpers.papers.card import OwnDomains
from helpers.presets.schema import Drawn, Preset, TasksSettings, TextsSettings
from helpers.tasks import kinds, labels

QUESTIONS = "questions"  # the format of questions about passages, beside those of tasks


def format_of(method: OwnDomains, file: str) -> tuple[str, str]:
    """The format before a place (FORMAT:place; "" where there is none), if the method takes formats, and the place.
    Raises DataError for a format that nothing reads."""
    if not method.questions or Path(file).expanduser().exists():
        return "", file
    form, colon, place = file.partition(":")
    if not colon:
        return "", file
    if form not in (QUESTIONS, *FORMATS):
        raise DataError(f"{form!r} is no format; write FORMAT:FILE with one of {QUESTIONS}, {', '.join(FORMATS)}")
    return form, place


def is_there(file: str) -> bool:
    """Whether something could be meant: a file or folder, one of whose genres may be named (file:genre), or files whose
    names begin so."""
    place = Path(file).expanduser()
    place = place if place.exists() else Path(file.partition(":")[0]).expanduser()
    beside = place.parent.iterdir() if place.parent.is_dir() else ()
    return place.exists() or any(other.name.startswith(place.name) for other in beside)


def located(settings: Drawn, files: dict[str, tuple[str, Path]]) -> dict[str, object]:
    """What a section says instead where it holds these files, each with its format, or none of them. A share of
    miniature examples is no share of these."""
    if isinstance(settings, TasksSettings):
        # Below the folder of all, as a path behind a format is not known to be one of this machine.
        folder = os.path.commonpath([path.parent for _, path in files.values()]) if files else ""
        places = {name: [form, os.path.relpath(path, folder)] for name, (form, path) in files.items()}
        tasks = {name: ":".join(filter(None, place)) for name, place in places.items()}
        return {"source": "files", "folder": folder, "tasks": tasks}
    if not files:
        return {"source": "files", "folder": ""}
    share = {"train_share": 1.0} if settings.source == "mini" else {}
    domains = {name: str(path) for name, (_, path) in files.items()}
    return {"source": "files", "folder": str(Path.cwd()), "domains": domains, **share}


def sections(method: OwnDomains, preset: Preset) -> Iterator[tuple[str, Drawn, list[str]]]:
    """Each section that holds some of the domains, and their names."""
    for section in filter(None, (method.section, method.questions)):
        if (settings := getattr(preset, section)).folder:
            yield section, settings, list(settings.named)


def domains_of(method: OwnDomains, preset: Preset) -> dict[str, Domain]:
    """The domains by name. Raises DataError for files that cannot be used."""
    given = sections(method, preset)
    return {name: load(known, name) for _, known, names in given for name in names}


def fingerprints(method: OwnDomains, preset: Preset) -> dict[str, str]:
    """What stands for the exact examples of each domain."""
    given = sections(method, preset)
    return {name: fingerprint(known, name) for _, known, names in given for name in names}


def elsewhere(method: OwnDomains, preset: Preset) -> dict[str, set[str] | bool]:
    """What a preset's sections say of where the domains lie, by section; all of one that holds none."""
    given = {section: {"folder", settings.names} for section, settings, _ in sections(method, preset)}
    return {section: given.get(section, True) for section in filter(None, (method.section, method.questions))}


def print_domains(method: OwnDomains, preset: Preset) -> None:
    """The sizes of all domains, and of what is learned before them, and what was done to them. Raises DataError."""
    questions: dict[str, Domain] = {}
    for section, settings, names in sections(method, preset):
        if isinstance(settings, TextsSettings):
            checks.print_texts("", settings)
            made = {name: labels.sequences_of(settings, preset.encoder, name, "train") for name in names}
        elif isinstance(settings, TasksSettings):
            checks.print_seen({name: print_task(settings, name) for name in names}, settings.source)
            made = {name: kinds.sequences_of(preset, name, "train") for name in names}
        else:
            questions |= {name: checks.print_domain(settings, name) for name in names}
            made = {}
        checks.print_lines(cuts(made, section))
    general = method.general(preset)
    before = {name: checks.print_domain(general, name).train for name in (general.domains if general else ())}
    checks.print_lines(warnings.seen_elsewhere(questions, {}, before))


def cuts(sequences: Mapping[str, Sequences], section: str) -> list[str]:
    """A line for each domain some of whose texts to train on are cut, as a section's `max_length` is too short."""
    return [
        f"warning: {name}, train: {note}; raise {section}.max_length"
        for name, known in sequences.items()
        for note in known.notes
    ]


def print_task(tasks: TasksSettings, name: str) -> Task:
    """The same of a task. Raises DataError, which says how questions are given where no format is."""
    try:
        return checks.print_task("", tasks, name)
    except DataError as error:
        if ":" in tasks.tasks[name]:
            raise
        raise DataError(f"{error}; questions about passages are given as {name}={QUESTIONS}:FILE") from None
