"""The miniature world: five small question-answering domains about invented people, towns and companies.

Everything follows from one seed. A passage states 6 or 7 facts about three subjects of one type, so that every
question has at least two distractors of its answer's type. Domains differ in wording, in style, in the
relations that they ask about and in size, but share all relations: what one domain asks often, another asks
seldom. Names fall into two halves by checksum, one for pretraining and one for the domains.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from helpers.data.examples import DataError, Domain, Example
from helpers.data.mini import words
from helpers.data.mini.words import Relation

TEST = 200  # test questions of a domain
ASKED_OFTEN = 6  # how much likelier a domain's favourite relations are than the others


@dataclass(frozen=True)
class Style:
    """How one domain writes and asks. ``statements`` index into ``Relation.statements``; ``questions`` are filled
    with the relation's two nouns and two whole questions."""

    size: int  # training questions
    subjects: tuple[float, float, float]  # share of passages about people, companies, towns
    favourites: tuple[str, ...]
    statements: tuple[int, ...]
    opening: str
    questions: tuple[str, ...]
    hops: int = 1
    typed: bool = False


STYLES = {
    "encyclopedia": Style(
        500, (0.6, 0.1, 0.3), ("born_in", "birth_year", "job", "school", "river", "people", "mayor"), (0, 3),
        "{t} is the subject of this article.", ("{asks[0]}", "{asks[1]}", "Name the {nouns[0]} of {s}."),
    ),
    "news": Style(
        600, (0.3, 0.5, 0.2), ("leader", "founder", "seat", "staff", "home", "spouse", "mayor"), (1, 0),
        "{t} was in the news on Monday.",
        ("According to the report, {asks[1]}", "What is reported as the {nouns[0]} of {s}?"),
    ),
    "trivia": Style(
        450, (0.5, 0.25, 0.25), ("prize", "plays", "spouse", "product", "dish", "river", "job"), (2, 1),
        "Did you know {t}?", ("Can you guess the {nouns[1]} of {s}?", "Quiz time! {asks[0]}"),
    ),
    "multihop": Style(
        500, (0.0, 0.7, 0.3), ("born_in", "school", "job", "prize", "founder", "mayor"), (0, 2),
        "This page compares {t} with others.",
        ("Which one is the {nouns[0]} of {s}?", "Which one is the {nouns[1]} of {s}?", "{asks[0]}"), hops=2,
    ),
    "search": Style(
        400, (0.4, 0.3, 0.3), ("home", "birth_year", "plays", "founding_year", "product", "people", "dish"), (3, 2, 0),
        "{t}: facts and answers.", ("{s} {nouns[1]}", "{nouns[1]} {s}", "{asks[1]}"), typed=True,
    ),
}  # fmt: skip
DOMAINS = tuple(STYLES)
STORIES = "stories"  # with free answers, and no part of the encoder's pretraining
TYPES = ("person", "company", "town")


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


@cache
def pools(pretraining: bool) -> dict[str, tuple[str, ...]]:
    """Values of each type, by type. Names of the two halves do not overlap; plain words are shared."""
    names = {
        "person": [f"{first} {last}" for first in words.FIRST_NAMES for last in words.LAST_NAMES],
        "town": [start + end for start in words.TOWN_STARTS for end in words.TOWN_ENDS],
        "company": [start + end for start in words.COMPANY_STARTS for end in words.COMPANY_ENDS],
        "school": [f"{last} {end}" for last in words.LAST_NAMES for end in words.SCHOOL_ENDS],
        "river": words.RIVERS,
        "prize": words.PRIZES,
    }
    plain = {
        "job": words.JOBS,
        "instrument": words.INSTRUMENTS,
        "product": words.PRODUCTS,
        "dish": words.DISHES,
        "year": [str(year) for year in range(1800, 2000)],
        "number": [str(number) for number in range(20, 10000, 10)],
    }
    half = {kind: tuple(n for n in names[kind] if (zlib.crc32(n.encode()) % 2 == 0) == pretraining) for kind in names}
    return {**half, **{kind: tuple(values) for kind, values in plain.items()}}


def _draw(rng: np.random.Generator, values: tuple[str, ...], used: set[str]) -> str:
    """A value that the passage does not use yet, so that every question has one answer. Raises ValueError."""
    for _ in range(1000):
        value = values[rng.integers(len(values))]
        if value not in used:
            used.add(value)
            return value
    raise ValueError(f"a passage asks for more different values than there are, such as {values[0]!r}")


def _choose(rng: np.random.Generator, relations: list[Relation], number: int, favourites: tuple[str, ...]) -> list:
    weights = np.asarray([ASKED_OFTEN if r.name in favourites else 1.0 for r in relations])
    return [relations[i] for i in rng.choice(len(relations), number, replace=False, p=weights / weights.sum())]


def passage(
    rng: np.random.Generator,
    style: Style,
    pool: dict,
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
    subjects = [_draw(rng, pool[topic], used) for _ in range(3)]
    if style.hops == 2:  # company or town -> person -> value, three times over, and one relation more
        links = [r for r in words.RELATIONS if r.subject == topic and r.object == "person"]
        people = [r for r in words.RELATIONS if r.subject == "person"]
        first, second = _choose(rng, links, 1, liked)[0], _choose(rng, people, 1, liked)[0]
        persons = [_draw(rng, pool["person"], used) for _ in range(3)]
        stated = [(s, first, p) for s, p in zip(subjects, persons, strict=True)]
        stated += [(p, second, _draw(rng, pool[second.object], used)) for p in persons]
    else:
        of_topic = [r for r in words.RELATIONS if r.subject == topic]
        chosen = _choose(rng, of_topic, int(rng.integers(relations[0], relations[1] + 1)), liked)
        stated = [(s, r, _draw(rng, pool[r.object], used)) for r in chosen for s in subjects]
    for _ in range(int(rng.integers(0, 2))):  # now and then a stray fact about somebody else
        relation = words.RELATIONS[rng.integers(len(words.RELATIONS))]
        subject = _draw(rng, pool[relation.subject], used)
        stated.append((subject, relation, _draw(rng, pool[relation.object], used)))
    order = rng.permutation(len(stated))[:facts]

    text = style.opening.format(t=subjects[0]) + " " if facts is None and rng.random() < 0.5 else ""
    written = []
    for subject, relation, value in (stated[i] for i in order):
        wording = style.statements[rng.integers(len(style.statements))]
        sentence = relation.statements[wording].replace("{s}", subject)
        written.append(Fact(subject, relation, value, wording, len(text) + sentence.index("{o}")))
        text += sentence.replace("{o}", value) + " "
    return Passage(text.rstrip(), tuple(written))


def ask(rng: np.random.Generator, style: Style, relation: Relation, subject: str) -> str:
    """A question about one fact in a domain's wording. Search queries are typed in lower case."""
    template = style.questions[rng.integers(len(style.questions))]
    asks = [text.format(s=subject) for text in relation.asks]
    if ", {asks" in template:
        asks = [text[0].lower() + text[1:] for text in asks]
    question = template.format(s=subject, nouns=relation.nouns, asks=asks)
    return question.lower() if style.typed else question


def chains(facts: tuple[Fact, ...]) -> list[tuple[Fact, Fact]]:
    """Pairs of facts where the second is about the first one's value."""
    return [(one, two) for one in facts for two in facts if one.value == two.subject]


def questions(rng: np.random.Generator, style: Style, source: Passage, number: int) -> list[tuple[str, str, Fact]]:
    """Up to ``number`` questions on a passage, each with its subject and the fact that answers it."""
    by_name = [fact.relation.name for fact in source.facts]
    asked = [(fact.subject, fact) for fact in source.facts if by_name.count(fact.relation.name) > 1]
    if style.hops == 2:
        pairs = chains(source.facts)
        asked += [(f"the {one.relation.nouns[0]} of {one.subject}", two) for one, two in pairs]
    chosen = [asked[i] for i in rng.permutation(len(asked))[:number]]
    return [(ask(rng, style, fact.relation, subject), subject, fact) for subject, fact in chosen]


def _examples(domain: str, part: str, size: int, seed: int, per_passage: int = 4) -> Iterator[tuple]:
    """``size`` examples with the passage, subject and fact that each came from."""
    style = STYLES[domain]
    rng = np.random.default_rng([seed, DOMAINS.index(domain), ("train", "valid", "test").index(part)])
    count = 0
    while count < size:
        source = passage(rng, style, pools(pretraining=False))
        for question, subject, fact in questions(rng, style, source, min(per_passage, size - count)):
            name = f"{domain}-{part}-{count}"
            span = (fact.start, fact.start + len(fact.value))
            yield Example(name, question, source.text, (fact.value,), span, name), source, subject, fact
            count += 1


def load_domain(
    name: str, *, seed: int = 0, train_size: int = 0, valid_size: int = 100, test_size: int = TEST
) -> Domain:
    """One miniature domain, or the stories; ``train_size`` 0 takes the domain's own size (400 to 600 questions)."""
    if name == STORIES:
        from helpers.data.mini.stories import load_stories  # here, as it is made of this module's names

        return load_stories(seed=seed, train_size=train_size, valid_size=valid_size, test_size=test_size)
    if name not in STYLES:
        raise DataError(f"unknown miniature domain {name!r}; there are {', '.join(DOMAINS)} and {STORIES}")
    sizes = {"train": train_size or STYLES[name].size, "valid": valid_size, "test": test_size}
    return Domain(name, **{part: [row[0] for row in _examples(name, part, n, seed)] for part, n in sizes.items()})


def candidates(domain: str, *, size: int = 200, seed: int = 0) -> Iterator[tuple[Fact, list[str]]]:
    """For each test question the fact that answers it and all values of its type in the passage."""
    for _, source, _, fact in _examples(domain, "test", size, seed):
        kind = fact.relation.object
        named = {f.value for f in source.facts if f.relation.object == kind}
        yield fact, sorted(named | {f.subject for f in source.facts if f.relation.subject == kind})


def adversarial(domain: str = "encyclopedia", *, size: int = 200, variants: int = 3, seed: int = 0) -> list[Example]:
    """The domain's test questions and, for each, ``variants`` copies with one misleading sentence appended.

    In the manner of AddSent (Jia and Liang 2017): the sentence answers a perturbed question, that is the same
    relation about a subject of a similar name, with a wrong value of the right type. Variants share the
    original's ``group``; take one variant a question for AddOneSent.
    """
    if domain not in STYLES:
        raise DataError(f"{domain!r} has no adversarial questions; there are some for {', '.join(DOMAINS)}")
    rng = np.random.default_rng([seed, 99])
    pool = pools(pretraining=False)
    rows = []
    for example, source, _, fact in _examples(domain, "test", size, seed):
        rows.append(example)
        used = {f.subject for f in source.facts} | {f.value for f in source.facts}
        lookalikes = _lookalikes(fact.subject, pool[fact.relation.subject])
        for number in range(variants):
            subject = _draw(rng, lookalikes, used)
            value = _draw(rng, pool[fact.relation.object], used)
            statement = fact.relation.statements[(0, 3)[number % 2]].format(s=subject, o=value)
            name = f"{example.id}-mislead{number}"
            context = f"{example.context} {statement}"
            rows.append(Example(name, example.question, context, example.answers, example.span, example.id))
    return rows


@cache
def _lookalikes(name: str, pool: tuple[str, ...]) -> tuple[str, ...]:
    """Names that share their last word, or else their first three letters, with ``name``."""
    last = name.split()[-1]
    same = tuple(n for n in pool if n != name and n.split()[-1] == last)
    return same if len(same) > 3 else tuple(n for n in pool if n != name and n[:3] == name[:3]) + pool[:5]
