"""Reviews of the miniature world, after Amazon's: a few opinions about aspects of a thing, some of them contrary.

Some words of praise and complaint are every domain's, others one's own: what is good in one is bad in another, or
means nothing there. What most opinions say decides, unless a verdict stands at the end.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pydantic

from helpers.data.mini.world import pick

LABELS = ("negative", "positive")
VERDICT = 0.1  # share of reviews with a verdict
NEGATED = 0.05  # share of opinions that negate a word of the opposite kind
OWN = 0.4  # share of words that are the domain's own
NEUTRAL = 0.5  # share of reviews with a sentence that says nothing
MINORITY = 0.15  # share of reviews without a verdict in which one opinion is contrary

Words = Annotated[tuple[str, ...], pydantic.BeforeValidator(str.split)]


@dataclass(frozen=True)
class Shared:
    """What all domains have in common; ``{a}`` is an aspect, ``{w}`` a word with or without a negation."""

    opinions: tuple[str, ...]
    verdicts: tuple[str, ...]
    negations: tuple[str, ...]
    good: Words
    bad: Words


@dataclass(frozen=True)
class Things:
    """The things that one domain reviews: their aspects, and words of praise and complaint that fit them."""

    size: int  # training examples
    aspects: Words
    good: Words
    bad: Words
    neutral: tuple[str, ...]


def make_review(rng: np.random.Generator, things: Things, shared: Shared) -> tuple[str, str]:
    """One review and its label."""
    positive = bool(rng.integers(2))
    if verdict := rng.random() < VERDICT:
        praises = rng.random(2) < 0.5
    else:
        contrary = [1, 2, 3] if rng.random() < 1 - MINORITY else [1, 2]
        praises = rng.permutation([positive if i in contrary else not positive for i in (1, 2, 3)])
    aspects = rng.permutation(things.aspects)
    sentences = [
        pick(rng, shared.opinions).format(a=aspect, w=_word(rng, things, shared, praise))
        for aspect, praise in zip(aspects, praises, strict=False)
    ]
    if rng.random() < NEUTRAL:
        sentences.insert(rng.integers(len(sentences) + 1), pick(rng, things.neutral))
    if verdict:
        sentences.append(pick(rng, shared.verdicts).format(w=_word(rng, things, shared, positive)))
    return " ".join(text[0].upper() + text[1:] for text in sentences), LABELS[positive]


def _word(rng: np.random.Generator, things: Things, shared: Shared, praise: bool) -> str:
    negated = rng.random() < NEGATED
    source = things if rng.random() < OWN else shared
    word = pick(rng, source.good if praise != negated else source.bad)
    return f"{pick(rng, shared.negations)} {word}" if negated else word
