"""Stories of the miniature world: summaries with free answers, two to a question, as NarrativeQA has them.

A story tells 4 to 6 facts about two people, two companies and two towns, in words of its own. Answers are worded
freely, so part of them does not stand in the story: as in NarrativeQA, the stretch that comes nearest is trained on.
"""

from collections.abc import Iterator

import numpy as np

from helpers.data.formats.narrativeqa import closest_span
from helpers.data.mini.words import LINKS, OPENINGS, RELATIONS, Relation, pools
from helpers.data.mini.world import TYPES, draw, pick

TRAIN = 500  # training questions
BOTH_FREE = 0.25  # share of questions without the short answer


def story(rng: np.random.Generator) -> tuple[str, list[tuple[str, Relation, str]]]:
    """A summary, and its facts as (subject, relation, value). Each relation is told of two subjects, so that every
    answer has a rival; with an odd number of facts, the last one has none and is not among those returned.

    No two names share a word: first names are clear, and every question has one answer.
    """
    pool = pools(pretraining=False)
    told: set[str] = set()
    cast = {kind: [draw(rng, pool[kind], told, str.split) for _ in range(2)] for kind in TYPES}
    number = int(rng.integers(4, 7))
    facts = [
        (subject.split()[0], relation, draw(rng, pool[relation.object], told, str.split))
        for relation in (RELATIONS[i] for i in rng.permutation(len(RELATIONS)))
        for subject in cast[relation.subject]
    ][:number]
    sentences = [pick(rng, OPENINGS).format(*cast["person"])]
    for index in rng.permutation(number):
        subject, relation, value = facts[index]
        sentence = pick(rng, LINKS) + pick(rng, relation.telling.told).format(s=subject, o=value)
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(sentences), facts[: number - number % 2]


def questions(rng: np.random.Generator, number: int) -> Iterator[tuple[str, str, tuple[str, ...], tuple[int, int]]]:
    """Up to ``number`` questions about one story: question, summary, two answers, and the span nearest to them.

    One answer is mostly the short one, with a full stop or without, the other a free one; now and then both are free.
    """
    summary, facts = story(rng)
    for index in rng.permutation(len(facts))[:number]:
        subject, relation, value = facts[index]
        telling = relation.telling
        question = pick(rng, telling.asked).format(s=subject)
        texts = [telling.free[i] for i in rng.permutation(len(telling.free))][:2]
        if rng.random() >= BOTH_FREE:
            texts = [telling.short + pick(rng, ("", " .")), texts[0]][:: 1 if rng.random() < 0.5 else -1]
        answers = tuple(text.format(s=subject, o=value) for text in texts)
        yield question, summary, answers, closest_span(summary, answers)
