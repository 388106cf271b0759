"""The miniature world: passages that state facts about invented people, companies and towns, and questions about them.

Everything follows from one seed and the words of world.toml. Five domains share all relations, and differ in size, in
wording and in the relations that they often ask about. Every question has two wrong answers of the right type or more,
but for the domain with unanswerable ones, where most have one. A smaller part of a domain begins a larger one. Half of
all names, chosen by checksum, are used for pretraining alone.
"""

import json
import tomllib
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from helpers.data.examples import PARTS, DataError, Domain, Example
from helpers.data.questions import closest_span
from helpers.presets.schema import GENERAL

TYPES = ("person", "company", "town")  # of subjects
FAVOURITE = 6  # how much likelier a domain's favourite relations are than the others
QUESTIONS = 4  # at most, per passage
VARIANTS_PER_QUESTION = 3  # adversarial ones per question
TEST = 200  # test questions per domain
STORIES, STORIES_SIZE = "stories", 500  # the domain with free answers, and its number of training questions
UNANSWERABLE = "-unanswerable"  # ends the name of a domain in which some questions have no answer (SQuAD 2.0)
UNANSWERABLE_SHARE = 1 / 3  # of the questions of such a domain
AGREEMENT = 0.75  # share of answers that follow their domain's convention, where it has some: annotators differ
UNTOLD = 2  # facts that its passages leave out, to ask for
BOTH_FREE = 0.25  # share of questions about stories without the short answer

Rng = np.random.Generator
Table = SimpleNamespace  # of a TOML file, which explains its keys
Relation = Style = Table
Statement = tuple[str, Relation, str]  # subject, relation, value


def read_words(file: str) -> Table:
    """Read a TOML file beside this one; its tables become attributes."""
    words = tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return json.loads(json.dumps(words), object_hook=lambda table: Table(**table))


WORLD = read_words("world.toml")
RELATIONS: list[Relation] = WORLD.relations
STYLES: dict[str, Style] = vars(WORLD.styles)
DOMAINS = tuple(name for name in STYLES if name != GENERAL)
STREAMS = {name: number for number, name in enumerate(DOMAINS)} | {STORIES: 100, GENERAL: 101}  # of random numbers
STREAMS |= {name + UNANSWERABLE: 110 + number for number, name in enumerate(DOMAINS)}


class Fact(NamedTuple):
    """A statement in a passage. Its value begins at ``start``, between ``before`` and ``after`` if it is in full."""

    subject: str
    relation: Relation
    value: str
    wording: int
    start: int
    before: str
    after: str

    def answer(self, full: bool) -> str:
        return self.before + self.value + self.after if full else self.value

    def span(self, full: bool) -> tuple[int, int]:
        first = self.start - len(self.before) if full else self.start
        return first, first + len(self.answer(full))


@cache
def pools(pretraining: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the names and words of each type. The names for pretraining are different from those of the domains."""
    words = {kind: tuple(text.split()) for kind, text in vars(WORLD.words).items()}
    names = {
        "person": [f"{first} {last}" for first in words["first_names"] for last in words["last_names"]],
        "town": [start + end for start in words["town_starts"] for end in words["town_ends"]],
        "company": [start + end for start in words["company_starts"] for end in words["company_ends"]],
        "school": [f"{last} {end}" for last in words["last_names"] for end in words["school_ends"]],
        "river": words["river"],
        "prize": words["prize"],
    }
    pool = {kind: words[kind] for kind in ("job", "instrument", "product", "dish")}
    pool |= {"year": tuple(map(str, range(1800, 2000))), "number": tuple(map(str, range(20, 10000, 10)))}
    for kind, every in names.items():
        pool[kind] = tuple(name for name in every if (zlib.crc32(name.encode()) % 2 == 0) == pretraining)
    return pool


def pick(rng: Rng, values: Sequence):
    return values[rng.integers(len(values))]


def draw(rng: Rng, values: Sequence[str], used: set[str], split: Callable = lambda value: [value]) -> str:
    """Draw a value that shares no part (see ``split``) with those ``used``, and add its parts. Raises ValueError."""
    for _ in range(1000):
        value = pick(rng, values)
        if used.isdisjoint(split(value)):
            used.update(split(value))
            return value
    raise ValueError(f"a passage needs more different values than there are, such as {values[0]!r}")


def relations_of(kind: str) -> list[Relation]:
    return [relation for relation in RELATIONS if relation.subject == kind]


def choose_relations(rng: Rng, relations: list[Relation], number: int, favourites: Sequence[str]) -> list[Relation]:
    weights = np.asarray([FAVOURITE if relation.name in favourites else 1.0 for relation in relations])
    return [relations[i] for i in rng.choice(len(relations), number, replace=False, p=weights / weights.sum())]


def make_passage(
    rng: Rng, style: Style, *, facts: int | None = None, pretraining: bool = False, untold: int = 0, full: bool = False
) -> tuple[str, list[Fact], list[Statement]]:
    """Make a passage about three subjects (six for chains) with the same relations: text, facts, and what is untold.

    For pretraining all relations are equally likely. ``facts`` limits the number of statements, ``untold`` of which are
    left out of the text. With ``full`` values are written in full."""
    pool, favourites, used = pools(pretraining), () if pretraining else style.favourites, set()
    topic = TYPES[rng.choice(3, p=style.subjects)]
    subjects = [draw(rng, pool[topic], used) for _ in range(3)]
    if style.hops == 2:  # company or town -> person -> value, three times
        (first,) = choose_relations(rng, [r for r in relations_of(topic) if r.object == "person"], 1, favourites)
        (second,) = choose_relations(rng, relations_of("person"), 1, favourites)
        persons = [draw(rng, pool["person"], used) for _ in range(3)]
        statements = [(subject, first, person) for subject, person in zip(subjects, persons, strict=True)]
        statements += [(person, second, draw(rng, pool[second.object], used)) for person in persons]
    else:
        chosen = choose_relations(rng, relations_of(topic), int(rng.integers(2, 4 if pretraining else 3)), favourites)
        statements = [(s, relation, draw(rng, pool[relation.object], used)) for relation in chosen for s in subjects]
    if rng.integers(0, 2):  # a fact about somebody else
        relation = pick(rng, RELATIONS)
        subject = draw(rng, pool[relation.subject], used)
        statements.append((subject, relation, draw(rng, pool[relation.object], used)))
    shuffled = [statements[i] for i in rng.permutation(len(statements))[:facts]]
    opening = style.opening.format(t=subjects[0]) + " " if facts is None and rng.random() < 0.5 else ""
    return *state_facts(rng, style, shuffled[untold:], opening, full), shuffled[:untold]


def state_facts(
    rng: Rng, style: Style, statements: Sequence[Statement], opening: str = "", full: bool = False
) -> tuple[str, list[Fact]]:
    """State facts in a passage. Returns its text, and the facts with their places in it."""
    text, facts = opening, []
    for subject, relation, value in statements:
        wording = pick(rng, style.statements)
        sentence = relation.statements[wording].replace("{s}", subject)
        before, after = pick_affixes(rng, relation, full)
        start = len(text) + sentence.index("{o}") + len(before)
        facts.append(Fact(subject, relation, value, wording, start, before, after))
        text += sentence.replace("{o}", before + value + after) + " "
    return text.rstrip(), facts


def pick_affixes(rng: Rng, relation: Relation, full: bool) -> tuple[str, str]:
    if not full:
        return "", ""
    form = getattr(WORLD.forms, relation.object, Table(before=[""], after=[""]))
    before, after = pick(rng, form.before), pick(rng, form.after)
    return before and f"{before} ", after


def find_chains(facts: Sequence[Fact]) -> list[tuple[Fact, Fact]]:
    return [(first, second) for first in facts for second in facts if first.value == second.subject]


def ask(rng: Rng, style: Style, subject: str, relation: Relation) -> str:
    template, asks = pick(rng, style.questions), [text.format(s=subject) for text in relation.asks]
    if ", {asks" in template:
        asks = [text[0].lower() + text[1:] for text in asks]
    question = template.format(s=subject, nouns=relation.nouns, asks=asks)
    return question.lower() if style.typed else question


def make_questions(
    rng: Rng, style: Style, number: int, unanswerable: float = 0.0, conventions: bool = False
) -> Iterator[tuple]:
    """Make up to ``number`` questions about a new passage: question, text, answers, span, facts, the fact that answers.

    An ``unanswerable`` share asks for a relation that the passage states of others alone, so that there is a plausible
    wrong answer (Rajpurkar et al. 2018, section 2); of a subject that it names, as long as facts are untold. With
    ``conventions`` passages write values in full, and the style decides which of most answers include that."""
    text, facts, untold = make_passage(rng, style, untold=UNTOLD if unanswerable else 0, full=conventions)
    stated = [fact.relation.name for fact in facts]
    targets = [(fact.subject, fact) for fact in facts if stated.count(fact.relation.name) > 1]
    if style.hops == 2:
        chains = find_chains(facts)
        targets += [(f"the {first.relation.nouns[0]} of {first.subject}", second) for first, second in chains]
    names = {name for fact in facts for name in (fact.subject, fact.value)}
    unsaid = [(subject, relation) for subject, relation, _ in untold if subject in names and relation.name in stated]
    for index in rng.permutation(len(targets))[:number]:
        subject, fact = targets[index]
        if unanswerable and rng.random() < unanswerable:
            target = unsaid.pop() if unsaid else (draw(rng, pools()[fact.relation.subject], names), fact.relation)
            yield ask(rng, style, *target), text, (), None, facts, None
        else:
            question, full = ask(rng, style, subject, fact.relation), fact.relation.object in style.full
            if conventions and rng.random() >= AGREEMENT:
                full = not full
            yield question, text, (fact.answer(full),), fact.span(full), facts, fact


def make_story(rng: Rng) -> tuple[str, list[Statement]]:
    """Tell a story of 4 to 6 facts; no two names in it share a word. Returns it and the facts to ask for.

    Each relation is told of two subjects. The last of an odd number of facts has no rival and is not returned."""
    pool, used = pools(), set()
    cast = {kind: [draw(rng, pool[kind], used, str.split) for _ in range(2)] for kind in TYPES}
    size = int(rng.integers(4, 7))
    facts = [
        (subject.split()[0], relation, draw(rng, pool[relation.object], used, str.split))
        for relation in (RELATIONS[i] for i in rng.permutation(len(RELATIONS)))
        for subject in cast[relation.subject]
    ][:size]
    sentences = [pick(rng, WORLD.stories.openings).format(*cast["person"])]
    for index in rng.permutation(size):
        subject, relation, value = facts[index]
        sentence = pick(rng, WORLD.stories.links) + pick(rng, relation.telling.told).format(s=subject, o=value)
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(sentences), facts[: size - size % 2]


def make_story_questions(rng: Rng, number: int) -> Iterator[tuple]:
    """Make up to ``number`` questions about a new story, with two free answers and the span nearest to them."""
    story, facts = make_story(rng)
    for index in rng.permutation(len(facts))[:number]:
        subject, relation, value = facts[index]
        telling = relation.telling
        question = pick(rng, telling.asked).format(s=subject)
        forms = [telling.free[i] for i in rng.permutation(len(telling.free))][:2]
        if rng.random() >= BOTH_FREE:
            forms = [telling.short + pick(rng, ("", " .")), forms[0]][:: 1 if rng.random() < 0.5 else -1]
        answers = tuple(form.format(s=subject, o=value) for form in forms)
        yield question, story, answers, closest_span(story, answers)


def make_id(name: str, seed: int, part: str, number: int) -> str:
    """Name an example; the first seed is left out."""
    return f"{name}{f'.{seed}' if seed else ''}-{part}-{number}"


def make_examples(domain: str, part: str, size: int, seed: int, conventions: bool) -> Iterator[tuple]:
    """Make ``size`` examples, each with its passage's facts and the one that answers it; those of stories alone."""
    rng = np.random.default_rng([seed, STREAMS[domain], PARTS.index(part)])
    style = STYLES.get(domain.removesuffix(UNANSWERABLE))
    unanswerable = UNANSWERABLE_SHARE if domain.endswith(UNANSWERABLE) else 0.0
    count = 0
    while count < size:
        number = min(QUESTIONS, size - count)
        if style:
            rows = make_questions(rng, style, number, unanswerable, conventions)
        else:
            rows = make_story_questions(rng, number)
        for question, context, answers, span, *facts in rows:
            name = make_id(domain, seed, part, count)
            yield Example(name, question, context, answers, span, name), *facts
            count += 1


def load_domain(
    name: str,
    *,
    seed: int = 0,
    train_size: int = 0,
    valid_size: int = 100,
    test_size: int = TEST,
    conventions: bool = False,
) -> Domain:
    """Load a miniature domain, or the stories; ``train_size`` 0 stands for its default size. Raises DataError."""
    if name not in STREAMS:
        raise DataError(
            f"unknown miniature domain {name!r}; there are {', '.join(DOMAINS)}, each also with the ending "
            f"{UNANSWERABLE}, {GENERAL} and {STORIES}"
        )
    default = STORIES_SIZE if name == STORIES else STYLES[name.removesuffix(UNANSWERABLE)].size
    sizes = dict(zip(PARTS, (train_size or default, valid_size, test_size), strict=True))
    parts = {part: make_examples(name, part, size, seed, conventions) for part, size in sizes.items()}
    return Domain(name, **{part: [example for example, *_ in rows] for part, rows in parts.items()})


def list_candidates(
    domain: str, *, size: int = TEST, seed: int = 0, conventions: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """List the answer of each test question that has one, with all values of its type in the passage, in its form."""
    for example, facts, fact in make_examples(domain, "test", size, seed, conventions):
        if fact is not None:
            kind = fact.relation.object
            full = example.answers[0] == fact.answer(True)
            values = {other.answer(full) for other in facts if other.relation.object == kind}
            yield example.answers[0], sorted(values | {f.subject for f in facts if f.relation.subject == kind})


def make_adversarial(domain: str, *, size: int = TEST, seed: int = 0, conventions: bool = False) -> list[Example]:
    """Make `VARIANTS_PER_QUESTION` of each test question, which follow it and share its group.

    A variant ends with a misleading sentence. As in AddSent (Jia and Liang 2017), the sentence answers a similar
    question, in words of this one: it states the same relation of a subject with a similar name, with a wrong value.
    Raises DataError."""
    if domain not in DOMAINS:
        raise DataError(f"{domain!r} has no adversarial questions; there are some for {', '.join(DOMAINS)}")
    rng, examples = np.random.default_rng([seed, 99]), []
    for example, facts, fact in make_examples(domain, "test", size, seed, conventions):
        examples.append(example)
        used = {other.subject for other in facts} | {other.value for other in facts}
        lookalikes = find_lookalikes(fact.subject, fact.relation.subject)
        for number in range(VARIANTS_PER_QUESTION):
            subject = draw(rng, lookalikes, used)
            value = draw(rng, pools()[fact.relation.object], used)
            before, after = pick_affixes(rng, fact.relation, conventions)
            nouns = [noun for noun in fact.relation.nouns if noun in example.question] or fact.relation.nouns
            sentence = (fact.relation.statements[0], "The {n} of {s} is {o}.", "{o} is the {n} of {s}.")[number]
            sentence = sentence.format(n=nouns[0], s=subject, o=before + value + after)
            context = f"{example.context} {sentence}"
            name = f"{example.id}-mislead{number}"
            examples.append(Example(name, example.question, context, example.answers, example.span, example.id))
    return examples


@cache
def find_lookalikes(name: str, kind: str) -> tuple[str, ...]:
    """Find the names of a type that share their last word with ``name``, or else their first three letters."""
    pool, last = pools()[kind], name.split()[-1]
    same = tuple(other for other in pool if other != name and other.split()[-1] == last)
    return same if len(same) > 3 else tuple(o for o in pool if o != name and o[:3] == name[:3]) + pool[:5]
