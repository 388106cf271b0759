"""The miniature world: facts, passages that state them, and questions about those.

A passage states 6 or 7 facts about three subjects of one type, so that every question has at least two distractors
of its answer's type.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from helpers.data.mini.words import FORMS, RELATIONS, Form, Relation, Style, pools

ASKED_OFTEN = 6  # how much likelier a domain's favourite relations are than the others
NAMED = 0.5  # share of unanswerable questions about a subject that the passage names, where there is one
TYPES = ("person", "company", "town")  # of subjects


@dataclass(frozen=True)
class Fact:
    """``subject`` has ``value`` in ``relation``, stated with wording number ``wording``; the value begins at
    character ``start`` of the passage. ``before`` and ``after`` are what it is written in full with; nothing where it
    is written plainly."""

    subject: str
    relation: Relation
    value: str
    wording: int
    start: int
    before: str = ""
    after: str = ""

    def answer(self, full: bool) -> str:
        """The value in full, or alone."""
        return self.before + self.value + self.after if full else self.value

    def span(self, full: bool) -> tuple[int, int]:
        """From where to where that goes in the passage."""
        first = self.start - len(self.before) if full else self.start
        return first, first + len(self.answer(full))


@dataclass(frozen=True)
class Passage:
    text: str
    facts: tuple[Fact, ...]
    untold: tuple[tuple[str, Relation, str], ...] = ()  # left out: subject, relation and value


def identifier(name: str, seed: int, part: str, number: int) -> str:
    """The id of an example, which names its seed where that is not the first one."""
    return f"{name}{f'.{seed}' if seed else ''}-{part}-{number}"


def pick(rng: np.random.Generator, values: Sequence):
    """Any of ``values``, all alike."""
    return values[rng.integers(len(values))]


def draw(rng: np.random.Generator, values: Sequence[str], used: set[str], names: Callable = lambda text: [text]) -> str:
    """A value of which no name (by default, the value itself) is ``used`` yet, so that every question has one answer;
    its names are then. Raises ValueError."""
    for _ in range(1000):
        value = pick(rng, values)
        if used.isdisjoint(names(value)):
            used.update(names(value))
            return value
    raise ValueError(f"a passage asks for more different values than there are, such as {values[0]!r}")


def choose(rng: np.random.Generator, relations: list[Relation], number: int, favourites: tuple[str, ...]) -> list:
    """Different ones of ``relations``; the favourites are likelier."""
    weights = np.asarray([ASKED_OFTEN if r.name in favourites else 1.0 for r in relations])
    return [relations[i] for i in rng.choice(len(relations), number, replace=False, p=weights / weights.sum())]


def passage(
    rng: np.random.Generator,
    style: Style,
    *,
    facts: int | None = None,
    pretraining: bool = False,
    untold: int = 0,
    full: bool = False,
) -> Passage:
    """One passage in a domain's style: three subjects (six for chains) with the same relations, 6 facts or 7.

    For pretraining, in names of its own, there are 2 or 3 relations of each subject and all are drawn alike;
    ``facts`` keeps only that many facts, ``untold`` leaves so many of them out, and ``full`` writes values in full.
    """
    pool, liked = pools(pretraining=pretraining), () if pretraining else style.favourites
    used: set[str] = set()
    topic = TYPES[rng.choice(3, p=style.subjects)]
    subjects = [draw(rng, pool[topic], used) for _ in range(3)]
    of_topic = [r for r in RELATIONS if r.subject == topic]
    if style.hops == 2:  # company or town -> person -> value, three times over, and one relation more
        people = [r for r in RELATIONS if r.subject == "person"]
        (first,) = choose(rng, [r for r in of_topic if r.object == "person"], 1, liked)
        (second,) = choose(rng, people, 1, liked)
        persons = [draw(rng, pool["person"], used) for _ in range(3)]
        stated = [(s, first, p) for s, p in zip(subjects, persons, strict=True)]
        stated += [(p, second, draw(rng, pool[second.object], used)) for p in persons]
    else:
        chosen = choose(rng, of_topic, int(rng.integers(2, 4 if pretraining else 3)), liked)
        stated = [(s, r, draw(rng, pool[r.object], used)) for r in chosen for s in subjects]
    if rng.integers(0, 2):  # now and then a stray fact about somebody else
        relation = pick(rng, RELATIONS)
        subject = draw(rng, pool[relation.subject], used)
        stated.append((subject, relation, draw(rng, pool[relation.object], used)))
    order = rng.permutation(len(stated))[:facts]

    opening = style.opening.format(t=subjects[0]) + " " if facts is None and rng.random() < 0.5 else ""
    told = state(rng, style, [stated[i] for i in order[untold:]], opening, full=full)
    return replace(told, untold=tuple(stated[i] for i in order[:untold]))


def state(
    rng: np.random.Generator,
    style: Style,
    stated: list[tuple[str, Relation, str]],
    text: str = "",
    *,
    full: bool = False,
) -> Passage:
    """A passage that begins with ``text`` and states each (subject, relation, value) in a wording of the style, values
    in ``full`` or plain."""
    written = []
    for subject, relation, value in stated:
        wording = pick(rng, style.statements)
        sentence = relation.statements[wording].replace("{s}", subject)
        before, after = around(rng, relation, full)
        start = len(text) + sentence.index("{o}") + len(before)
        written.append(Fact(subject, relation, value, wording, start, before, after))
        text += sentence.replace("{o}", before + value + after) + " "
    return Passage(text.rstrip(), tuple(written))


def around(rng: np.random.Generator, relation: Relation, full: bool) -> tuple[str, str]:
    """What stands before and after a relation's value where it is written in ``full``: nothing for many types, and for
    none otherwise."""
    if not full:
        return "", ""
    form = FORMS.get(relation.object, Form())
    before, after = pick(rng, form.before), pick(rng, form.after)
    return before and f"{before} ", after


def chains(facts: tuple[Fact, ...]) -> list[tuple[Fact, Fact]]:
    """Pairs of facts where the second is about the first one's value."""
    return [(first, second) for first in facts for second in facts if first.value == second.subject]


def ask(rng: np.random.Generator, style: Style, subject: str, relation: Relation) -> str:
    """A question of the style for the value that ``subject`` has in ``relation``."""
    template = pick(rng, style.questions)
    asks = [text.format(s=subject) for text in relation.asks]
    if ", {asks" in template:
        asks = [text[0].lower() + text[1:] for text in asks]
    question = template.format(s=subject, nouns=relation.nouns, asks=asks)
    return question.lower() if style.typed else question


def questions(
    rng: np.random.Generator, style: Style, number: int, unanswerable: float = 0.0, conventions: bool = False
) -> Iterator[tuple]:
    """Up to ``number`` questions about one new passage: question, passage, answers, span, and all facts of the
    passage and the one that answers the question.

    A share of ``unanswerable`` ones, with no answer, None and None, asks for a relation that the passage tells of
    others alone: one that it leaves out of a subject that it names, or any of a subject that it does not name. So the
    passage has a plausible wrong answer (Rajpurkar et al. 2018, section 2). With ``conventions`` values are written in
    full, and the style says which answers give them so.
    """
    source = passage(rng, style, untold=1 if unanswerable else 0, full=conventions)
    by_name = [fact.relation.name for fact in source.facts]
    asked = [(fact.subject, fact) for fact in source.facts if by_name.count(fact.relation.name) > 1]
    if style.hops == 2:
        asked += [(f"the {one.relation.nouns[0]} of {one.subject}", two) for one, two in chains(source.facts)]
    named = {name for fact in source.facts for name in (fact.subject, fact.value)}
    left_out = [(s, relation) for s, relation, _ in source.untold if s in named and relation.name in by_name]
    for index in rng.permutation(len(asked))[:number]:
        subject, fact = asked[index]
        if unanswerable and rng.random() < unanswerable:
            stranger = draw(rng, pools(pretraining=False)[fact.relation.subject], named), fact.relation
            unsaid = left_out.pop() if left_out and rng.random() < NAMED else stranger
            yield ask(rng, style, *unsaid), source.text, (), None, source.facts, None
        else:
            full = fact.relation.object in style.full
            answers = (fact.answer(full),)
            yield ask(rng, style, subject, fact.relation), source.text, answers, fact.span(full), source.facts, fact
