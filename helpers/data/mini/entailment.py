"""Claims about passages of the miniature world: five genres, after those of MultiNLI.

A claim says that a subject has a value in a relation. The passage states this fact in other words (entailed), another
value of that relation (contradicted; no relation has two values here), or nothing of that relation about that subject
(not said). Subjects, relations and values of claims are drawn alike for all three labels, so that a claim alone says
nothing. Every passage states the claim's relation of a rival; now and then the rival has the claim's value, so that a
value in the passage is not enough, and a claim that is not said is about somebody whom the passage names all the same.
A passage has two facts, or four where the claim's subject is "the founder of" somebody or the like.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.data.mini.words import RELATIONS, STYLES, Relation, pools
from helpers.data.mini.world import TYPES, Fact, choose, draw, pick, state

LABELS = ("contradicted", "entailed", "not said")
RIVAL = 0.1  # share of other claims than entailed ones whose value the passage gives to another subject
NAMED = 0.1  # share of claims that are not said whose subject the passage names


@dataclass(frozen=True)
class Genre:
    """How one domain writes passages, those of ``style`` in the world, and claims about them."""

    style: str
    size: int  # training examples
    claims: tuple[str, ...]  # filled with subject, value and the relation's nouns, asks and statements
    chains: float = 0.0  # share of claims about "the founder of" somebody
    typed: bool = False  # claims are lower case


@dataclass(frozen=True)
class Claim:
    """``subject`` has ``value`` in ``relation``, and the passage's facts; ``label`` is one of ``LABELS``."""

    text: str
    passage: str
    label: str
    subject: str
    relation: Relation
    value: str
    facts: tuple[Fact, ...]


def make_claim(rng: np.random.Generator, genre: Genre) -> Claim:
    """One claim about one new passage."""
    style, pool = STYLES[genre.style], pools(pretraining=False)
    used: set[str] = set()
    label = pick(rng, LABELS)
    chained = rng.random() < genre.chains
    topic = "person" if chained else TYPES[rng.choice(3, p=style.subjects)]
    of_topic = [r for r in RELATIONS if r.subject == topic]
    relation, other = choose(rng, of_topic, 2, style.favourites)
    subject, rival, third = (draw(rng, pool[topic], used) for _ in range(3))
    value, wrong = (draw(rng, pool[relation.object], used) for _ in range(2))
    elsewhere = draw(rng, pool[other.object], used)

    # what tells the label, and what may mislead
    said = {
        "entailed": (subject, relation, value),
        "contradicted": (subject, relation, wrong),
        "not said": (subject if rng.random() < NAMED else third, other, elsewhere),
    }[label]
    swapped = label != "entailed" and rng.random() < RIVAL
    stated = [said, (rival, relation, value if swapped else draw(rng, pool[relation.object], used))]
    name = subject
    if chained:
        first = pick(rng, [r for r in RELATIONS if r.object == "person" and r.subject != "person"])
        owner, another = (draw(rng, pool[first.subject], used) for _ in range(2))
        stated += [(owner, first, subject), (another, first, rival)]
        name = f"the {first.nouns[0]} of {owner}"
    written = state(rng, style, [stated[i] for i in rng.permutation(len(stated))])

    asks, statements = (_filled(texts, name, value) for texts in (relation.asks, relation.statements))
    template = pick(rng, genre.claims)
    text = template.format(s=name, o=value, nouns=relation.nouns, asks=asks, statements=statements)
    text = text.lower() if genre.typed else text[0].upper() + text[1:]
    return Claim(text, written.text, label, subject, relation, value, written.facts)


def _filled(texts: Sequence[str], subject: str, value: str) -> list[str]:
    return [text.format(s=subject, o=value) for text in texts]
