"""The miniature domains: five in their own styles, each with unanswerable questions too where its name ends so, the
stories, and adversarial questions.

Everything follows from one seed. Domains differ in wording, in style, in the relations that they ask about and in
size, but share all relations: what one domain asks often, another asks seldom. Names fall into two halves by
checksum, one for pretraining and one for the domains.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from helpers.data.examples import DataError, Domain, Example
from helpers.data.mini import stories, world
from helpers.data.mini.words import STYLES, pools
from helpers.data.mini.world import draw

DOMAINS = tuple(STYLES)
STORIES = "stories"  # with free answers, and no part of the encoder's pretraining
TEST = 200  # test questions of a domain
ASKED = 4  # questions on a passage, or fewer
UNANSWERABLE = "-unanswerable"  # ends the name of a domain in which some questions have no answer (SQuAD 2.0)
SHARE = 1 / 3  # of those questions
STREAMS = {name: number for number, name in enumerate(DOMAINS)} | {STORIES: 100}  # of random numbers
STREAMS |= {name + UNANSWERABLE: 110 + number for number, name in enumerate(DOMAINS)}


def _examples(domain: str, part: str, size: int, seed: int, conventions: bool = False) -> Iterator[tuple]:
    """``size`` examples, each with its passage's facts and the one that answers it; those of stories alone."""
    rng = np.random.default_rng([seed, STREAMS[domain], ("train", "valid", "test").index(part)])
    style, unanswerable = STYLES.get(_style(domain)), SHARE if domain.endswith(UNANSWERABLE) else 0.0
    count = 0
    while count < size:
        number = min(ASKED, size - count)
        if style:
            asked = world.questions(rng, style, number, unanswerable, conventions)
        else:
            asked = stories.questions(rng, number)
        for question, context, answers, span, *facts in asked:
            name = world.identifier(domain, seed, part, count)
            yield Example(name, question, context, answers, span, name), *facts
            count += 1


def _style(domain: str) -> str:
    return domain.removesuffix(UNANSWERABLE)


def load_domain(
    name: str,
    *,
    seed: int = 0,
    train_size: int = 0,
    valid_size: int = 100,
    test_size: int = TEST,
    conventions: bool = False,
) -> Domain:
    """One miniature domain, or the stories; ``train_size`` 0 takes the domain's own size (400 to 600 questions).

    In a domain such as "encyclopedia-unanswerable" a third of the questions has no answer. With ``conventions``
    domains disagree about what an answer holds. Raises DataError for a name that is none of theirs.
    """
    if name not in STREAMS:
        raise DataError(
            f"unknown miniature domain {name!r}; there are {', '.join(DOMAINS)}, each with {UNANSWERABLE} behind it "
            f"too, and {STORIES}"
        )
    train_size = train_size or (stories.TRAIN if name == STORIES else STYLES[_style(name)].size)
    sizes = {"train": train_size, "valid": valid_size, "test": test_size}
    parts = {part: _examples(name, part, size, seed, conventions) for part, size in sizes.items()}
    return Domain(name, **{part: [row[0] for row in rows] for part, rows in parts.items()})


def candidates(
    domain: str, *, size: int = TEST, seed: int = 0, conventions: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """For each test question with an answer that answer and all values of its type in the passage, in its form."""
    for example, facts, fact in _examples(domain, "test", size, seed, conventions):
        if fact is None:
            continue
        kind = fact.relation.object
        named = {f.answer(kind in STYLES[_style(domain)].full) for f in facts if f.relation.object == kind}
        yield example.answers[0], sorted(named | {f.subject for f in facts if f.relation.subject == kind})


def adversarial(
    domain: str = "encyclopedia", *, size: int = TEST, variants: int = 3, seed: int = 0, conventions: bool = False
) -> list[Example]:
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
    for example, facts, fact in _examples(domain, "test", size, seed, conventions):
        rows.append(example)
        used = {f.subject for f in facts} | {f.value for f in facts}
        lookalikes = _lookalikes(fact.subject, pool[fact.relation.subject])
        for number in range(variants):
            subject = draw(rng, lookalikes, used)
            value = draw(rng, pool[fact.relation.object], used)
            before, after = world.around(rng, fact.relation, conventions)
            statement = fact.relation.statements[(0, 3)[number % 2]].format(s=subject, o=before + value + after)
            name, context = f"{example.id}-mislead{number}", f"{example.context} {statement}"
            rows.append(Example(name, example.question, context, example.answers, example.span, example.id))
    return rows


@cache
def _lookalikes(name: str, pool: tuple[str, ...]) -> tuple[str, ...]:
    """Names that share their last word, or else their first three letters, with ``name``."""
    last = name.split()[-1]
    same = tuple(n for n in pool if n != name and n.split()[-1] == last)
    return same if len(same) > 3 else tuple(n for n in pool if n != name and n[:3] == name[:3]) + pool[:5]
