"""The labelled texts of the miniature world, from one seed and the words of tasks.toml.

Claims about passages are in five genres (after MultiNLI), reviews in four domains (after Amazon's). The ten tasks have
the shapes of GLUE's and SWAG's. Functions such as `make_claim` make one example: its texts, and its label's name, a
score, or the right ending's number. Claims and second texts are drawn alike for all labels, so none gives a label away.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import numpy as np

from helpers.data.examples import ALL_PARTS, PARTS, Choice, DataError, Domain, Pair, TaskData
from helpers.data.mini import world
from helpers.data.mini.world import RELATIONS, STYLES, Relation, Rng, Statement, Table, draw, pick, pools, relations_of

CLAIM_LABELS = ("contradicted", "entailed", "not said")
REVIEW_LABELS = ("negative", "positive")
INFERENCE_BY_CLAIM = {"entailed": "entailment", "not said": "neutral", "contradicted": "contradiction"}
RIVAL = 0.1  # share of other claims than entailed ones whose value the passage gives to another subject
NAMED_CLAIMS = 0.1  # share of claims that are not said whose subject the passage names
VERDICT = 0.1  # share of reviews with a verdict
NEGATED = 0.05  # share of opinions that negate a word of the opposite kind
SPECIFIC = 0.4  # share of a review's words that are its domain's
NEUTRAL = 0.5  # share of reviews with a sentence without an opinion
MINORITY = 0.15  # share of reviews without a verdict in which one opinion is contrary
HARD = 0.3  # share of hard cases among negative ones
# What each adds to a similarity, 5 in all.
SIMILARITY_SHARES = {"subject": 1.6, "relation": 1.4, "value": 1.4, "wording": 0.6}
SIMILARITY_NOISE = 0.3  # standard deviation of a similarity

TABLES = world.read_words("tasks.toml")
GENRES, REVIEWS, TASKS = vars(TABLES.genres), vars(TABLES.reviews), vars(TABLES.tasks)
TEXT_STREAMS = {name: 200 + number for number, name in enumerate([*GENRES, *REVIEWS])}  # of random numbers
TASK_STREAMS = {name: 300 + number for number, name in enumerate(TASKS)}


def draw_claim(rng: Rng, genre: Table) -> tuple[str, Statement, str, list[Statement]]:
    """Draw a claim's label, the statement that it makes, the name of its subject, and the statements of its passage.

    The passage also states the relation of a rival, sometimes with the claim's value: finding that is not enough."""
    style, pool, used = STYLES[genre.style], pools(), set()
    label = pick(rng, CLAIM_LABELS)
    chained = rng.random() < genre.chains
    topic = "person" if chained else world.TYPES[rng.choice(3, p=style.subjects)]
    relation, other = world.choose_relations(rng, relations_of(topic), 2, style.favourites)
    subject, rival, stranger = (draw(rng, pool[topic], used) for _ in range(3))
    value, wrong = (draw(rng, pool[relation.object], used) for _ in range(2))
    other_value = draw(rng, pool[other.object], used)
    telling = {
        "entailed": (subject, relation, value),
        "contradicted": (subject, relation, wrong),
        "not said": (subject if rng.random() < NAMED_CLAIMS else stranger, other, other_value),
    }[label]
    misleading = label != "entailed" and rng.random() < RIVAL
    statements = [telling, (rival, relation, value if misleading else draw(rng, pool[relation.object], used))]
    name = subject
    if chained:
        first = pick(rng, [r for r in RELATIONS if r.object == "person" and r.subject != "person"])
        owner, other_owner = (draw(rng, pool[first.subject], used) for _ in range(2))
        statements += [(owner, first, subject), (other_owner, first, rival)]
        name = f"the {first.nouns[0]} of {owner}"
    return label, (subject, relation, value), name, statements


def make_claim(rng: Rng, genre: Table) -> tuple[str, str, str]:
    """Make a claim and its passage; an entailed claim is in other words than the passage."""
    label, (_, relation, value), name, statements = draw_claim(rng, genre)
    passage, _ = world.state_facts(rng, STYLES[genre.style], shuffle(rng, statements))
    asks = [text.format(s=name, o=value) for text in relation.asks]
    wordings = [text.format(s=name, o=value) for text in relation.statements]
    claim = pick(rng, genre.claims).format(s=name, o=value, nouns=relation.nouns, asks=asks, statements=wordings)
    return claim.lower() if genre.typed else claim[0].upper() + claim[1:], passage, label


def make_review(rng: Rng, things: Table) -> tuple[str, None, str]:
    """Make a review: opinions on a few aspects, whose majority decides its label unless there is a verdict."""
    positive = bool(rng.integers(2))
    has_verdict = rng.random() < VERDICT
    if has_verdict:
        praises = rng.random(2) < 0.5
    else:
        majority = [1, 2, 3] if rng.random() < 1 - MINORITY else [1, 2]
        praises = rng.permutation([positive if i in majority else not positive for i in (1, 2, 3)])
    aspects = rng.permutation(things.aspects.split())
    sentences = [
        pick(rng, TABLES.shared.opinions).format(a=aspect, w=pick_opinion(rng, things, praise))
        for aspect, praise in zip(aspects, praises, strict=False)
    ]
    if rng.random() < NEUTRAL:
        sentences.insert(rng.integers(len(sentences) + 1), pick(rng, things.neutral))
    if has_verdict:
        sentences.append(pick(rng, TABLES.shared.verdicts).format(w=pick_opinion(rng, things, positive)))
    return " ".join(text[0].upper() + text[1:] for text in sentences), None, REVIEW_LABELS[positive]


def pick_opinion(rng: Rng, things: Table, praise: bool) -> str:
    negated = rng.random() < NEGATED
    source = things if rng.random() < SPECIFIC else TABLES.shared
    word = pick(rng, (source.good if praise != negated else source.bad).split())
    return f"{pick(rng, TABLES.shared.negations)} {word}" if negated else word


def make_acceptable(rng: Rng) -> tuple[str, None, str]:
    subject, relation, value = draw_fact(rng, pick(rng, relations_of("person")), set())
    words = pick(rng, relation.statements).split()
    spoilt = bool(rng.integers(2))
    if spoilt:
        words = spoil(rng, words)
    return " ".join(words).format(s=subject, o=value), None, "unacceptable" if spoilt else "acceptable"


def spoil(rng: Rng, words: list[str]) -> list[str]:
    """Give a verb a wrong form, or double, leave out or move a word; placeholders stay as they are."""
    wrong_forms = vars(TABLES.words.wrong_forms)
    plain = [i for i, word in enumerate(words) if "{" not in word]
    if rng.random() >= HARD and (verbs := [i for i in plain if words[i] in wrong_forms]):
        index = pick(rng, verbs)
        return [*words[:index], wrong_forms[words[index]], *words[index + 1 :]]
    index, way = pick(rng, plain), pick(rng, ("double", "leave out", "move"))
    if way == "double":
        return words[: index + 1] + words[index:]
    rest = words[:index] + words[index + 1 :]
    if way == "leave out":
        return rest
    return [words[index], *rest] if index else [*rest, words[index]]


def make_inference(rng: Rng, genres: Sequence[str], labels: Sequence[str]) -> tuple[str, str, str]:
    """Make a claim and its passage; of two ``labels`` the second stands for all that is not entailed."""
    while True:
        claim, passage, label = make_claim(rng, GENRES[pick(rng, genres)])
        if INFERENCE_BY_CLAIM[label] in labels:
            return claim, passage, INFERENCE_BY_CLAIM[label]
        if rng.integers(2):  # there are twice as many of these
            return claim, passage, labels[1]


def make_question_pair(rng: Rng) -> tuple[str, str, str]:
    relation, used = pick(rng, RELATIONS), set()
    subject, other = (draw(rng, pools()[relation.subject], used) for _ in range(2))
    first = make_question(rng, subject, relation)
    duplicate = bool(rng.integers(2))
    if duplicate:
        other = subject
    elif rng.random() < HARD:
        other, relation = subject, pick_other(rng, relation)
    while (second := make_question(rng, other, relation)) == first:
        pass
    return first, second, "duplicate" if duplicate else "not_duplicate"


def make_paraphrase(rng: Rng) -> tuple[str, str, str]:
    """Make two statements in different words: of the same fact, or with a similar subject or value."""
    subject, relation, value = first = second = draw_fact(rng, pick(rng, RELATIONS), set())
    equivalent = bool(rng.integers(2))
    if not equivalent:
        if rng.integers(2):
            second = (pick(rng, find_similar(subject, relation.subject)), relation, value)
        else:
            second = (subject, relation, pick(rng, find_similar(value, relation.object)))
    wording, other = rng.permutation(4)[:2]
    return fill(first, wording), fill(second, other), "equivalent" if equivalent else "not_equivalent"


def make_similar(rng: Rng) -> tuple[str, str, float]:
    """Make two statements and a score of how much they share (``SIMILARITY_SHARES``), with noise, 0 to 5 by 0.2."""
    used: set[str] = set()
    subject, relation, value = first = draw_fact(rng, pick(rng, RELATIONS), used)
    shares = dict(zip(SIMILARITY_SHARES, rng.random(4) < 0.5, strict=True))
    second = draw_fact(rng, relation if shares["relation"] else pick_other(rng, relation), used)
    if shares["subject"]:
        second = (subject, *second[1:])
    if shares["value"] and second[1].object == relation.object:
        second = (*second[:2], value)
    wording = int(rng.integers(4))
    other = wording if shares["wording"] else (wording + int(rng.integers(1, 4))) % 4
    common = (second[0] == subject, second[1] is relation, second[2] == value, other == wording)
    score = sum(share for share, is_shared in zip(SIMILARITY_SHARES.values(), common, strict=True) if is_shared)
    score = round(5 * float(np.clip(score + rng.normal(0, SIMILARITY_NOISE), 0, 5))) / 5
    return fill(first, wording), fill(second, other), score


def make_answering(rng: Rng) -> tuple[str, str, str]:
    """Make a question and a passage of two facts that answers it, or tells the relation of another subject."""
    used: set[str] = set()
    facts = draw_two_facts(rng, used)
    subject, relation, _ = facts[0]
    answered = bool(rng.integers(2))
    if not answered:
        stranger = draw(rng, pools()[relation.subject], used)
        subject = facts[1][0] if rng.random() < HARD else stranger
    return make_question(rng, subject, relation), tell(rng, facts), "entailment" if answered else "not_entailment"


def make_reference(rng: Rng) -> tuple[str, str, str]:
    used: set[str] = set()
    subject, relation, value = draw_fact(rng, pick(rng, relations_of("person")), used)
    other = draw(rng, pools()["person"], used)
    role, right = pick(rng, ("a", "b")), bool(rng.integers(2))
    first, second = (subject, other) if role == "a" else (other, subject)
    predicate = relation.statements[0].format(s="", o=value).strip(" .")
    sentence = pick(rng, getattr(TABLES.words.encounters, role)).format(a=first, b=second, t=predicate)
    return f"{subject if right else other} {predicate}.", sentence, "right" if right else "wrong"


def make_continuation(rng: Rng) -> tuple[str, tuple[str, ...], int]:
    """Make a context of two facts and four endings, one of which repeats the first fact.

    In hard cases each subject and each value stands in two endings."""
    used: set[str] = set()
    facts = draw_two_facts(rng, used)
    (subject, relation, value), (rival, *_) = facts
    others = [draw_fact(rng, relation, used) for _ in range(3)]
    if rng.random() < HARD:
        endings = [(s, relation, v) for s in (subject, rival) for v in (value, others[0][2])]
    else:
        endings = [facts[0], (rival, *others[0][1:]), *others[1:]]
    order = rng.permutation(4)
    wording, link = int(rng.integers(4)), pick(rng, TABLES.words.links)
    return tell(rng, facts), tuple(link + fill(endings[i], wording) for i in order), int(order.argmin())


def draw_fact(rng: Rng, relation: Relation, used: set[str]) -> Statement:
    return draw(rng, pools()[relation.subject], used), relation, draw(rng, pools()[relation.object], used)


def draw_two_facts(rng: Rng, used: set[str]) -> tuple[Statement, Statement]:
    relation = pick(rng, RELATIONS)
    return draw_fact(rng, relation, used), draw_fact(rng, pick_other(rng, relation), used)


def pick_other(rng: Rng, relation: Relation) -> Relation:
    return pick(rng, [other for other in relations_of(relation.subject) if other is not relation])


def shuffle(rng: Rng, statements: Sequence[Statement]) -> list[Statement]:
    return [statements[i] for i in rng.permutation(len(statements))]


def tell(rng: Rng, facts: Sequence[Statement]) -> str:
    return world.state_facts(rng, STYLES[pick(rng, world.DOMAINS)], shuffle(rng, facts))[0]


def fill(fact: Statement, wording: int) -> str:
    subject, relation, value = fact
    return relation.statements[wording].format(s=subject, o=value)


def make_question(rng: Rng, subject: str, relation: Relation) -> str:
    return world.ask(rng, STYLES[pick(rng, TABLES.words.styles)], subject, relation)


@cache
def find_similar(name: str, kind: str) -> list[str]:
    """Find the names of a type that begin or end as ``name`` does; all other names where none does."""
    others = [other for other in pools()[kind] if other != name]
    return [other for other in others if other[:3] == name[:3] or other[-3:] == name[-3:]] or others


MAKERS: dict[str, Callable] = {  # by task, given random numbers
    "acceptability": make_acceptable,
    "sentiment": lambda rng: make_review(rng, pick(rng, list(REVIEWS.values()))),
    "inference": partial(make_inference, genres=TABLES.words.genres, labels=TASKS["inference"].labels),
    "inference-small": partial(
        make_inference, genres=TABLES.words.other_genres, labels=TASKS["inference-small"].labels
    ),
    "paraphrase-questions": make_question_pair,
    "paraphrase": make_paraphrase,
    "similarity": make_similar,
    "answering": make_answering,
    "reference": make_reference,
    "continuation": make_continuation,
}


def label_names(domain: str) -> tuple[str, ...]:
    """Return the labels of a domain of claims or reviews, by number. Raises DataError."""
    if domain not in TEXT_STREAMS:
        raise DataError(f"unknown miniature domain of labelled texts {domain!r}; there are {', '.join(TEXT_STREAMS)}")
    return CLAIM_LABELS if domain in GENRES else REVIEW_LABELS


def load_texts(name: str, *, seed: int = 0, train_size: int = 0, valid_size: int = 100, test_size: int = 200) -> Domain:
    """Load a domain of claims or reviews; ``train_size`` 0 stands for its default size. Raises DataError."""
    labels, table = label_names(name), (GENRES | REVIEWS)[name]
    make = make_claim if name in GENRES else make_review
    sizes, parts = (train_size or table.size, valid_size, test_size), {}
    for number, (part, size) in enumerate(zip(PARTS, sizes, strict=True)):
        rng, parts[part] = np.random.default_rng([seed, TEXT_STREAMS[name], number]), []
        for i in range(size):
            *texts, label = make(rng, table)
            parts[part].append(Pair(world.make_id(name, seed, part, i), *texts, labels.index(label)))
    return Domain(name, **parts)


def load_task(
    source: str,
    name: str,
    *,
    seed: int = 0,
    train_size: int = 0,
    valid_size: int = 100,
    test_size: int = 200,
    unlabelled_size: int = 0,
) -> TaskData:
    """Load a task under a ``name``; ``train_size`` 0 stands for its default size. Raises DataError."""
    if source not in TASKS:
        raise DataError(f"{name}: unknown miniature task {source!r}; there are {', '.join(TASKS)}")
    task, parts = TASKS[source], {}
    example = Choice if task.kind == "choices" else Pair
    sizes = (train_size or task.size, valid_size, test_size, unlabelled_size)
    for number, (part, size) in enumerate(zip(ALL_PARTS, sizes, strict=True)):
        rows, parts[part] = make_distinct(source, number, seed), []
        for i in range(size):
            *texts, label = next(rows)
            label = task.labels.index(label) if task.labels else label
            label = None if part == "unlabelled" else label
            parts[part].append(example(world.make_id(name, seed, part, i), *texts, label))
    return TaskData(name, kind=task.kind, labels=tuple(task.labels), metrics=tuple(task.metrics), **parts)


def make_distinct(source: str, part: int, seed: int) -> Iterator[tuple]:
    """Make examples of one part without end, all with different first texts.

    The checksum of a first text decides in which part it may stand, so that parts share none whatever their sizes."""
    rng, seen = np.random.default_rng([seed, TASK_STREAMS[source], part]), set()
    while True:
        row = MAKERS[source](rng)
        if zlib.crc32(row[0].encode()) % len(ALL_PARTS) == part and row[0] not in seen:
            seen.add(row[0])
            yield row
