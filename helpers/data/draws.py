"""The draws of a run's examples, one a seed, by name."""

from collections.abc import Collection, Iterable

from helpers.data import domains, tasks, texts
from helpers.files import fingerprint
from helpers.presets.schema import Preset


def names(preset: Preset, sections: Collection[str], seeds: Iterable[int]) -> dict[str, str]:
    """A name for all examples of some ``sections`` that each seed trains on and is tested on, by seed; empty where
    seeds have no examples of their own."""
    drawn = {seed: preset.drawn(seed) for seed in seeds}
    own = [s for s in sections if any(getattr(known, s) != getattr(preset, s) for known in drawn.values())]
    if not own:
        return {}
    return {
        str(seed): fingerprint(*(name for section in own for name in _names(known, section)))
        for seed, known in drawn.items()
    }


def _names(preset: Preset, section: str) -> list[str]:
    known = getattr(preset, section)
    if section == "data":
        return [domains.fingerprint(known, name) for name in known.domains]
    if section == "tasks":
        return [tasks.task_fingerprint(known, name) for name in known.tasks]
    return [texts.texts_fingerprint(known, name) for name in known.domains] if texts.is_given(known) else []
