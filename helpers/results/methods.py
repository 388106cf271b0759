"""What rows of tables and lines of figures are, and the colour of each, the same in all figures (`methods.toml`)."""

import tomllib
from functools import cache

import seaborn

from helpers import paths
from helpers.results.records import Record

COLORS = seaborn.color_palette("colorblind")


@cache
def _known() -> dict[str, dict[str, str]]:
    return tomllib.loads((paths.PRESETS / "methods.toml").read_text(encoding="utf-8"))


def glossary(paper: str) -> dict[str, str]:
    """What each method of a paper, by its key, is; empty for a paper without."""
    return _known().get(paper, {})


def colors(record: Record, methods: list[str]) -> list[tuple[float, float, float]]:
    """A colour for each of some methods of a record: that of its place in the glossary, or else in the list."""
    known = list(glossary(record.artefact.partition("/")[0]))
    places = [known.index(name) if name in known else place for place, name in enumerate(methods)]
    return [COLORS[place % len(COLORS)] for place in places]
