"""The draws of a run's examples, one a seed, by name."""

from collections.abc import Collection, Iterable

from helpers.data.sections import fingerprints
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
        str(seed): fingerprint(*(name() for section in own for name in fingerprints(getattr(known, section))))
        for seed, known in drawn.items()
    }
