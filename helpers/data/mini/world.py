"""Facts of the miniature world, passages that state them, and questions about them.

A passage states 6 or 7 facts about three subjects of one type, so that every question has at least two distractors
of its answer's type.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.data.mini.words import RELATIONS, TYPES, Relation, Style, pools

ASKED_OFTEN = 6  # how much likelier a domain's favourite relations are than the others


@dataclass(frozen=True)
class Fact:
    """``subject`` has ``value`` in ``relation``, stated with wording number ``wording``; the value begins at
    character ``start`` of the passage."""

    subject: str
    relation: Relation
    value: str
    wording: int
    start: int


@dataclass(frozen=True)
class Passage:
    text: str
    facts: tuple[Fact, ...]


def pick(rng: np.random.Generator, values: Sequence):
    """Any of ``values``, all alike."""
    return values[rng.integers(len(values))]


def draw(
    rng: np.random.Generator,
    values: tuple[str, ...],
    used: set[str],
    names: Callable[[str], Iterable[str]] = lambda value: [value],
) -> str:
    """A value of which no name (by default, the value itself) is ``used`` yet, so that every question has one answer;
    its names are then. Raises ValueError."""
    for _ in range(1000):
        value = pick(rng, values)
        if used.isdisjoint(names(value)):
            used.update(names(value))
            return value
    raise ValueError(f"a passage asks for more different values than there are, such as {values[0]!r}")


def _choose(rng: np.random.Generator, relations: list[Relation], number: int, favourites: tuple[str, ...]) -> list:
    weights = np.asarray([ASKED_OFTEN if r.name in favourites else 1.0 for r in relations])
    return [relations[i] for i in rng.choice(len(relations), number, replace=False, p=weights / weights.sum())]


def passage(
    rng: np.random.Generator,
    style: Style,
    pool: dict[str, tuple[str, ...]],
    *,
    facts: int | None = None,
    favourites: bool = True,
    relations: tuple[int, int] = (2, 2),
) -> Passage:
    """One passage in a domain's style: three subjects (six for chains) with the same relations, 6 facts or 7.

    For pretraining, ``relations`` says from how many to how many there are of each subject, ``facts`` keeps only
    that many facts and ``favourites=False`` draws all relations alike.
    """
    liked = style.favourites if favourites else ()
    used: set[str] = set()
    topic = TYPES[rng.choice(3, p=style.subjects)]
    subjects = [draw(rng, pool[topic], used) for _ in range(3)]
    of_topic = [r for r in RELATIONS if r.subject == topic]
    if style.hops == 2:  # company or town -> person -> value, three times over, and one relation more
        people = [r for r in RELATIONS if r.subject == "person"]
        (first,) = _choose(rng, [r for r in of_topic if r.object == "person"], 1, liked)
        (second,) = _choose(rng, people, 1, liked)
        persons = [draw(rng, pool["person"], used) for _ in range(3)]
        stated = [(s, first, p) for s, p in zip(subjects, persons, strict=True)]
        stated += [(p, second, draw(rng, pool[second.object], used)) for p in persons]
    else:
        chosen = _choose(rng, of_topic, int(rng.integers(relations[0], relations[1] + 1)), liked)
        stated = [(s, r, draw(rng, pool[r.object], used)) for r in chosen for s in subjects]
    if rng.integers(0, 2):  # now and then a stray fact about somebody else
        relation = pick(rng, RELATIONS)
        subject = draw(rng, pool[relation.subject], used)
        stated.append((subject, relation, draw(rng, pool[relation.object], used)))
    order = rng.permutation(len(stated))[:facts]

    text = style.opening.format(t=subjects[0]) + " " if facts is None and rng.random() < 0.5 else ""
    written = []
    for subject, relation, value in (stated[i] for i in order):
        wording = pick(rng, style.statements)
        sentence = relation.statements[wording].replace("{s}", subject)
        written.append(Fact(subject, relation, value, wording, len(text) + sentence.index("{o}")))
        text += sentence.replace("{o}", value) + " "
    return Passage(text.rstrip(), tuple(written))


def _ask(rng: np.random.Generator, style: Style, relation: Relation, subject: str) -> str:
    """A question about one fact in a domain's wording. Search queries are typed in lower case."""
    template = pick(rng, style.questions)
    asks = [text.format(s=subject) for text in relation.asks]
    if ", {asks" in template:
        asks = [text[0].lower() + text[1:] for text in asks]
    question = template.format(s=subject, nouns=relation.nouns, asks=asks)
    return question.lower() if style.typed else question


def chains(facts: tuple[Fact, ...]) -> list[tuple[Fact, Fact]]:
    """Pairs of facts where the second is about the first one's value."""
    return [(first, second) for first in facts for second in facts if first.value == second.subject]


def questions(rng: np.random.Generator, style: Style, number: int) -> Iterator[tuple]:
    """Up to ``number`` questions about one new passage: question, passage, answers, span, and all facts of the
    passage and the one that answers the question."""
    source = passage(rng, style, pools(pretraining=False))
    by_name = [fact.relation.name for fact in source.facts]
    asked = [(fact.subject, fact) for fact in source.facts if by_name.count(fact.relation.name) > 1]
    if style.hops == 2:
        asked += [(f"the {one.relation.nouns[0]} of {one.subject}", two) for one, two in chains(source.facts)]
    for index in rng.permutation(len(asked))[:number]:
        subject, fact = asked[index]
        span = (fact.start, fact.start + len(fact.value))
        yield _ask(rng, style, fact.relation, subject), source.text, (fact.value,), span, source.facts, fact
