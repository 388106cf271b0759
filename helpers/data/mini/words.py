"""What the miniature world is made of: relations, styles of the domains and words by type, read from world.toml, which
says more."""

import tomllib
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import pydantic


@dataclass(frozen=True)
class Telling:
    """How stories tell, ask and answer one relation."""

    told: tuple[str, str]
    asked: tuple[str, str]
    short: str
    free: tuple[str, str, str]


@dataclass(frozen=True)
class Relation:
    """A fact's wordings. ``subject`` and ``object`` are types of words; ``{s}`` is the subject, ``{o}`` the value."""

    name: str
    subject: str
    object: str
    nouns: tuple[str, str]
    asks: tuple[str, str]
    statements: tuple[str, str, str, str]
    telling: Telling


@dataclass(frozen=True)
class Style:
    """How one domain writes and asks."""

    size: int  # training questions
    subjects: tuple[float, float, float]  # share of passages about people, companies, towns
    favourites: tuple[str, ...]  # relations
    statements: tuple[int, ...]  # of Relation.statements
    opening: str
    questions: tuple[str, ...]
    hops: int = 1
    typed: bool = False  # in lower case, as search queries are
    full: tuple[str, ...] = ()  # types of values that its answers give in full, where domains have conventions


@dataclass(frozen=True)
class Form:
    """What may stand before or after a value of one type where it is written in full."""

    before: tuple[str, ...] = ("",)
    after: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class _World:
    relations: tuple[Relation, ...]
    styles: dict[str, Style]
    stories: dict[str, tuple[str, ...]]
    forms: dict[str, Form]
    words: dict[str, Annotated[tuple[str, ...], pydantic.BeforeValidator(str.split)]]


_TOML = tomllib.loads(Path(__file__).with_name("world.toml").read_text(encoding="utf-8"))
_WORLD = pydantic.TypeAdapter(_World).validate_python(_TOML)
RELATIONS, STYLES, FORMS = _WORLD.relations, _WORLD.styles, _WORLD.forms
OPENINGS, LINKS = _WORLD.stories["openings"], _WORLD.stories["links"]


@cache
def pools(pretraining: bool) -> dict[str, tuple[str, ...]]:
    """Values of each type, by type. Names of the two halves do not overlap; plain words are shared."""
    words = _WORLD.words
    names = {
        "person": [f"{first} {last}" for first in words["first_names"] for last in words["last_names"]],
        "town": [start + end for start in words["town_starts"] for end in words["town_ends"]],
        "company": [start + end for start in words["company_starts"] for end in words["company_ends"]],
        "school": [f"{last} {end}" for last in words["last_names"] for end in words["school_ends"]],
        "river": words["river"],
        "prize": words["prize"],
    }
    plain = {kind: words[kind] for kind in ("job", "instrument", "product", "dish")}
    plain["year"] = tuple(map(str, range(1800, 2000)))
    plain["number"] = tuple(map(str, range(20, 10000, 10)))
    half = {kind: tuple(n for n in names[kind] if (zlib.crc32(n.encode()) % 2 == 0) == pretraining) for kind in names}
    return half | plain
