"""The miniature labelled texts: five genres of claims about passages, and four domains of reviews.

Everything follows from one seed and the words of texts.toml. Claims stand before their passages, as the statements
that the small encoder was pretrained on do.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pydantic

from helpers.data.examples import DataError, Domain, Pair
from helpers.data.mini import entailment, reviews
from helpers.data.mini.entailment import Genre
from helpers.data.mini.reviews import Shared, Things
from helpers.data.mini.world import identifier


@dataclass(frozen=True)
class _Texts:
    genres: dict[str, Genre]
    shared: Shared
    reviews: dict[str, Things]


_TOML = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
_TEXTS = pydantic.TypeAdapter(_Texts).validate_python(_TOML)
GENRES, REVIEWS, SHARED = _TEXTS.genres, _TEXTS.reviews, _TEXTS.shared
STREAMS = {name: 200 + number for number, name in enumerate([*GENRES, *REVIEWS])}  # of random numbers


def labels(name: str) -> tuple[str, ...]:
    """The labels of a domain, in the order of their numbers. Raises DataError for a name that is none of theirs."""
    if name not in STREAMS:
        raise DataError(f"unknown miniature domain of labelled texts {name!r}; there are {', '.join(STREAMS)}")
    return entailment.LABELS if name in GENRES else reviews.LABELS


def load_domain(
    name: str, *, seed: int = 0, train_size: int = 0, valid_size: int = 100, test_size: int = 200
) -> Domain:
    """One domain of claims (claim and passage) or reviews (one text); ``train_size`` 0 takes the domain's own size.

    A smaller part is the beginning of a larger one. Raises DataError for a name that is none of theirs.
    """
    numbers = {label: number for number, label in enumerate(labels(name))}
    sizes = {"train": train_size or (GENRES | REVIEWS)[name].size, "valid": valid_size, "test": test_size}
    parts = {}
    for number, (part, size) in enumerate(sizes.items()):
        rng = np.random.default_rng([seed, STREAMS[name], number])
        rows = [_text(rng, name) for _ in range(size)]
        parts[part] = [
            Pair(identifier(name, seed, part, i), *texts, numbers[label]) for i, (*texts, label) in enumerate(rows)
        ]
    return Domain(name, **parts)


def _text(rng: np.random.Generator, name: str) -> tuple[str, str | None, str]:
    if name in REVIEWS:
        text, label = reviews.make_review(rng, REVIEWS[name], SHARED)
        return text, None, label
    claim = entailment.make_claim(rng, GENRES[name])
    return claim.text, claim.passage, claim.label
