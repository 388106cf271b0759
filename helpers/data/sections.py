"""The sections of a preset that hold examples, whichever they are: what loads a domain or task of one, and what says
what is in it."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial

from helpers.data import domains, tasks, texts
from helpers.data.examples import Choice, Domain, Example, Pair, fingerprint_of
from helpers.data.formats.folders import PARTS, locate_folder
from helpers.files import fingerprint as of_all
from helpers.presets.schema import Drawn, Preset, TasksSettings, TextsSettings


def load(settings: Drawn, name: str) -> Domain:
    """A domain, or task, of a section. Raises DataError."""
    if isinstance(settings, TextsSettings):
        return texts.load_texts(settings)[name]
    return (tasks.load_task if isinstance(settings, TasksSettings) else domains.load_one)(settings, name)


@cache
def fingerprint(settings: Drawn, name: str, *parts: str) -> str:
    """Names the exact examples of ``parts`` ("train", "valid", "test", of a task "unlabelled"; without: of the first
    three) of a domain or task; part of the key of what is trained on them, or asked."""
    known = load(settings, name)
    return fingerprint_of(map(_facts, getattr(known, part)) for part in parts or PARTS)


def _facts(example: Example | Pair | Choice) -> tuple:
    """All of an example but its id and group; one field more, and everything is trained anew."""
    return tuple(getattr(example, field) for field in example.__slots__ if field not in ("id", "group"))


def fingerprints(settings: Drawn) -> Iterator[Callable[[], str]]:
    """What names the exact examples of each domain, to be called, which may raise DataError; none where the preset does
    not say where they are."""
    if settings.is_given:
        yield from (partial(fingerprint, settings, name) for name in settings.named)


def draws(preset: Preset, sections: Collection[str], seeds: Iterable[int]) -> dict[str, str]:
    """A name for all examples of some ``sections`` that each seed trains on and is tested on, by seed; empty where
    seeds have no examples of their own."""
    drawn = {seed: preset.drawn(seed) for seed in seeds}
    own = [s for s in sections if any(getattr(known, s) != getattr(preset, s) for known in drawn.values())]
    if not own:
        return {}
    return {
        str(seed): of_all(*(name() for section in own for name in fingerprints(getattr(known, section))))
        for seed, known in drawn.items()
    }


def check_folder(settings: Drawn) -> None:
    """Raises DataError where a section's files should lie in a folder that is not there."""
    if settings.source == "files" and settings.is_given:
        locate_folder(settings)
