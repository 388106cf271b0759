"""Stories of the miniature world: summaries with free answers, two to a question, as NarrativeQA has them.

A story tells 4 to 6 facts about two people, two companies and two towns, in words of its own. Answers are worded
freely, so part of them does not stand in the story: as in NarrativeQA, the stretch that comes nearest is trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from helpers.data.examples import Domain, Example
from helpers.data.formats.narrativeqa import closest_span, word_positions
from helpers.data.mini import words
from helpers.data.mini.domains import STORIES, TEST, TYPES, pools

TRAIN = 500  # training questions
ASKED = 4  # questions on a story
BOTH_FREE = 0.25  # share of questions without the short answer
STREAM = 100  # of random numbers, beyond those of the other miniature domains

OPENINGS = (
    "This is the story of {0} and {1} .",
    "{0} and {1} grew up as neighbours .",
    "In a hard winter {0} makes friends with {1} .",
    "Two strangers , {0} and {1} , meet on a train .",
)
LINKS = ("", "", "", "It is said that ", "As we learn , ", "Later we hear that ")


class Telling(NamedTuple):
    """How stories tell, ask and answer one relation. ``{s}`` is the subject, ``{o}`` the value; spaces set off all
    punctuation. Both tellings hold the short answer, and every answer fits both questions."""

    told: tuple[str, str]
    asked: tuple[str, str]
    short: str
    free: tuple[str, str, str]


TELLINGS = {
    "born_in": Telling(
        ("the cradle of {s} stood in {o} .", "{s} leaves {o} , the place of an unhappy childhood ."),
        ("Where does {s} come from ?", "In which town did {s} grow up ?"),
        "{o}",
        ("from {o} .", "{s} is a child of {o} .", "{s} grew up in {o}"),
    ),
    "birth_year": Telling(
        ("the mother of {s} gave birth in {o} .", "the church book has {s} down for {o} ."),
        ("When was {s} born ?", "What is the year of birth of {s} ?"),
        "{o}",
        ("in {o} .", "in the year {o}", "{s} was born in {o} ."),
    ),
    "job": Telling(
        ("{s} gets up before dawn to work as a {o} .", "{s} finds a post as a {o} and is happy ."),
        ("How does {s} make a living ?", "What is the profession of {s} ?"),
        "a {o}",
        ("as a {o} .", "{s} worked as a {o} .", "{s} was employed as a {o}"),
    ),
    "spouse": Telling(
        ("{s} falls in love with {o} , and soon there is a wedding .", "{s} and {o} become husband and wife ."),
        ("Who does {s} marry ?", "With whom does {s} fall in love ?"),
        "{o}",
        ("{s} marries {o} .", "a stranger named {o}", "with {o}"),
    ),
    "school": Telling(
        ("an uncle sends {s} to {o} .", "{s} runs away from {o} after a quarrel with a teacher ."),
        ("Which school does {s} go to ?", "Where does {s} get an education ?"),
        "{o}",
        ("at {o} .", "{s} was a pupil of {o} .", "in the rooms of {o}"),
    ),
    "plays": Telling(
        ("at night {s} plays the {o} by an open window .", "{s} learns to play the {o} from a beggar ."),
        ("Why do the neighbours visit {s} ?", "Why do people stop at the window of {s} ?"),
        "the {o}",
        ("because {s} plays the {o}", "to hear the {o} .", "{s} can play the {o} ."),
    ),
    "home": Telling(
        ("{s} rents a small room in {o} .", "{s} buys a house with a garden in {o} ."),
        ("Where does {s} live ?", "In what town is the house of {s} ?"),
        "{o}",
        ("in {o} .", "{s} has a home in {o} .", "somewhere in {o}"),
    ),
    "prize": Telling(
        ("to the surprise of all {s} is given the {o} Prize .", "{s} comes home with the {o} Prize ."),
        ("Why is there a feast for {s} ?", "Why is {s} famous ?"),
        "the {o} Prize",
        ("for winning the {o} Prize .", "{s} won the {o} Prize .", "because of the {o} Prize"),
    ),
    "founder": Telling(
        ("{o} borrows money and opens {s} .", "{s} is the dream of {o} , who began it in a cellar ."),
        ("Who set up {s} ?", "Whose idea was {s} ?"),
        "{o}",
        ("{o} set it up .", "It was the idea of {o} .", "an inventor called {o}"),
    ),
    "founding_year": Telling(
        ("{s} opens its doors in {o} .", "the sign over {s} bears the year {o} ."),
        ("When was {s} founded ?", "Since when does {s} exist ?"),
        "{o}",
        ("in {o} .", "since {o}", "It was founded in {o} ."),
    ),
    "seat": Telling(
        ("{s} has its office at the market of {o} .", "from a tower in {o} one sees the chimneys of {s} ."),
        ("Where is {s} ?", "Which town is {s} in ?"),
        "{o}",
        ("in {o} .", "It is in the town of {o} .", "near the market of {o}"),
    ),
    "product": Telling(
        ("people queue at {s} for its {o} .", "{s} grows rich with {o} ."),
        ("What is {s} selling ?", "What do people buy from {s} ?"),
        "{o}",
        ("It sells {o} .", "its fine {o}", "they trade in {o} ."),
    ),
    "leader": Telling(
        ("{s} is run by {o} with an iron hand .", "at {s} everybody fears {o} , the director ."),
        ("Who is the director of {s} ?", "Who gives orders at {s} ?"),
        "{o}",
        ("{o} runs it .", "a director called {o}", "It obeys {o} ."),
    ),
    "staff": Telling(
        ("{s} gives work to {o} people .", "{o} men and women walk through the gates of {s} every morning ."),
        ("How many people work at {s} ?", "How many men and women does {s} need ?"),
        "{o}",
        ("{o} people .", "It has {o} workers .", "about {o} hands"),
    ),
    "mayor": Telling(
        ("in {s} the voters choose {o} as their mayor .", "{s} is in the hands of {o} , the mayor ."),
        ("Who becomes mayor of {s} ?", "Who is in power in {s} ?"),
        "{o}",
        ("{o} is the mayor there .", "Mayor {o}", "It is ruled by {o} ."),
    ),
    "river": Telling(
        ("the {o} bursts its banks and floods {s} .", "children swim in the {o} , which runs through {s} ."),
        ("What river is near {s} ?", "Where do people of {s} go to swim ?"),
        "the {o}",
        ("the river {o}", "They swim in the {o} .", "along the banks of the {o}"),
    ),
    "people": Telling(
        ("{s} is a sleepy place of {o} souls .", "all {o} people of {s} come to the fair ."),
        ("How many people live in {s} ?", "How big is {s} ?"),
        "{o}",
        ("{o} people .", "It has {o} inhabitants .", "there are {o}"),
    ),
    "dish": Telling(
        ("in {s} every guest gets {o} .", "the inn at {s} smells of {o} ."),
        ("What do they eat in {s} ?", "What is cooked at the inn of {s} ?"),
        "{o}",
        ("They eat {o} there .", "a plate of {o}", "{o} from the pot ."),
    ),
}  # fmt: skip


def _draw(rng: np.random.Generator, values: tuple[str, ...], told: set[str]) -> str:
    """A value that shares no word with the story so far: first names are clear, and every question has one answer."""
    while True:
        value = values[rng.integers(len(values))]
        if told.isdisjoint(value.split()):
            told.update(value.split())
            return value


def _pick(rng: np.random.Generator, texts: tuple[str, ...]) -> str:
    return texts[rng.integers(len(texts))]


def story(rng: np.random.Generator) -> tuple[str, list[tuple[str, str, str]]]:
    """A summary, and its facts as (subject, relation, value). Each relation is told of two subjects, so that every
    answer has a rival; with an odd number of facts, the last one has none and is not among those returned."""
    pool = pools(pretraining=False)
    told: set[str] = set()
    cast = {kind: [_draw(rng, pool[kind], told) for _ in range(2)] for kind in TYPES}
    number = int(rng.integers(4, 7))
    relations = [words.RELATIONS[i] for i in rng.permutation(len(words.RELATIONS))]
    facts = [(s.split()[0], r, _draw(rng, pool[r.object], told)) for r in relations for s in cast[r.subject]][:number]
    sentences = [_pick(rng, OPENINGS).format(*cast["person"])]
    for index in rng.permutation(number):
        subject, relation, value = facts[index]
        sentence = _pick(rng, LINKS) + _pick(rng, TELLINGS[relation.name].told).format(s=subject, o=value)
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(sentences), [(s, r.name, value) for s, r, value in facts[: number - number % 2]]


def _references(rng: np.random.Generator, telling: Telling) -> list[str]:
    """Two ways to answer: mostly the short one, with a full stop or without, and a free one; now and then both free."""
    free = [telling.free[i] for i in rng.permutation(len(telling.free))]
    if rng.random() < BOTH_FREE:
        return free[:2]
    pair = [telling.short + _pick(rng, ("", " .")), free[0]]
    return pair if rng.random() < 0.5 else pair[::-1]


def _examples(part: str, size: int, seed: int) -> Iterator[Example]:
    rng = np.random.default_rng([seed, STREAM, ("train", "valid", "test").index(part)])
    count = 0
    while count < size:
        summary, facts = story(rng)
        positions = word_positions(summary)
        for index in rng.permutation(len(facts))[: min(ASKED, size - count)]:
            subject, relation, value = facts[index]
            telling = TELLINGS[relation]
            question = _pick(rng, telling.asked).format(s=subject)
            answers = tuple(text.format(s=subject, o=value) for text in _references(rng, telling))
            name = f"{STORIES}-{part}-{count}"
            yield Example(name, question, summary, answers, closest_span(positions, answers), name)
            count += 1


def load_stories(*, seed: int = 0, train_size: int = TRAIN, valid_size: int = 100, test_size: int = TEST) -> Domain:
    """The stories: questions about summaries, each with two free answers and the span that comes nearest to them."""
    sizes = {"train": train_size or TRAIN, "valid": valid_size, "test": test_size}
    return Domain(STORIES, **{part: list(_examples(part, size, seed)) for part, size in sizes.items()})
