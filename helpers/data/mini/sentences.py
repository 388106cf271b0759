"""Sentences and pairs of them of the miniature world, in the shapes of GLUE's tasks (Wang et al. 2019, section 3), and
contexts with endings in that of SWAG's (Zellers et al. 2018).

Each function makes one example: its texts, and its label by name, a score, or the number of the right ending. What a
second text says is drawn alike for all labels, so that it gives none of them away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from helpers.data.mini.entailment import Genre, make_claim
from helpers.data.mini.reviews import Shared, Things, make_review
from helpers.data.mini.words import RELATIONS, STYLES, Relation, pools
from helpers.data.mini.world import ask, draw, pick, state

INFERENCE = {"entailed": "entailment", "not said": "neutral", "contradicted": "contradiction"}
PERSONAL = [relation for relation in RELATIONS if relation.subject == "person"]
HARD = 0.3  # share of hard cases among what is wrong
PARTS = {"subject": 1.6, "relation": 1.4, "value": 1.4, "wording": 0.6}  # of similarity: what each adds, 5 in all
NOISE = 0.3  # standard deviation of similarity

Told = tuple[str, Relation, str]  # subject, relation, value


@dataclass(frozen=True)
class Words:
    """What only these sentences use: see tasks.toml."""

    genres: tuple[str, ...]
    other_genres: tuple[str, ...]
    styles: tuple[str, ...]
    links: tuple[str, ...]
    wrong_forms: dict[str, str]
    encounters: dict[Literal["a", "b"], tuple[str, ...]]


def make_acceptable(rng: np.random.Generator, wrong_forms: dict[str, str]) -> tuple[str, None, str]:
    """A statement about a person, or one spoilt: by a verb's wrong form, or else by a word doubled, left out or moved
    to an end. Names and values stay as they are."""
    subject, relation, value = _told(rng, pick(rng, PERSONAL), set())
    words = pick(rng, relation.statements).split()
    if spoilt := bool(rng.integers(2)):
        words = _spoilt(rng, words, wrong_forms)
    return " ".join(words).format(s=subject, o=value), None, "unacceptable" if spoilt else "acceptable"


def make_sentiment(rng: np.random.Generator, things: Sequence[Things], shared: Shared) -> tuple[str, None, str]:
    """A review of any of these things."""
    text, label = make_review(rng, pick(rng, things), shared)
    return text, None, label


def make_inference(rng: np.random.Generator, genres: Sequence[Genre], labels: Sequence[str]) -> tuple[str, str, str]:
    """A claim and a passage, in any of these genres; of two ``labels``, the second is for all that is not entailed."""
    while True:
        claim = make_claim(rng, pick(rng, genres))
        label = INFERENCE[claim.label]
        if label in labels:
            return claim.text, claim.passage, label
        if rng.integers(2):  # there are twice as many of these
            return claim.text, claim.passage, labels[1]


def make_questions(rng: np.random.Generator, styles: Sequence[str]) -> tuple[str, str, str]:
    """Two different questions: for the same, or about another subject, or for another relation of it."""
    relation = pick(rng, RELATIONS)
    used: set[str] = set()
    subject, other = (draw(rng, pools(pretraining=False)[relation.subject], used) for _ in range(2))
    first = _question(rng, styles, subject, relation)
    if duplicate := bool(rng.integers(2)):
        other = subject
    elif rng.random() < HARD:
        other, relation = subject, _another(rng, relation)
    while (second := _question(rng, styles, other, relation)) == first:
        pass
    return first, second, "duplicate" if duplicate else "not_duplicate"


def make_paraphrase(rng: np.random.Generator) -> tuple[str, str, str]:
    """Two statements, worded differently: of the same fact, or with a similar subject or value."""
    subject, relation, value = first = second = _told(rng, pick(rng, RELATIONS), set())
    if not (same := bool(rng.integers(2))):
        if rng.integers(2):
            second = (_like(rng, subject, relation.subject), relation, value)
        else:
            second = (subject, relation, _like(rng, value, relation.object))
    one, other = rng.permutation(4)[:2]
    return _stated(first, one), _stated(second, other), "equivalent" if same else "not_equivalent"


def make_similar(rng: np.random.Generator) -> tuple[str, str, float]:
    """Two statements and a score (0 to 5) of how many of ``PARTS`` they share, with noise, rounded to 0.2."""
    used: set[str] = set()
    subject, relation, value = first = _told(rng, pick(rng, RELATIONS), used)
    shares = dict(zip(PARTS, rng.random(4) < 0.5, strict=True))
    second = _told(rng, relation if shares["relation"] else _another(rng, relation), used)
    if shares["subject"]:
        second = (subject, *second[1:])
    if shares["value"] and second[1].object == relation.object:
        second = (*second[:2], value)
    wording = int(rng.integers(4))
    other = wording if shares["wording"] else (wording + int(rng.integers(1, 4))) % 4
    common = (second[0] == subject, second[1] == relation, second[2] == value, other == wording)
    score = sum(share for share, is_shared in zip(PARTS.values(), common, strict=True) if is_shared)
    score = round(5 * float(np.clip(score + rng.normal(0, NOISE), 0, 5))) / 5
    return _stated(first, wording), _stated(second, other), score


def make_answering(rng: np.random.Generator, styles: Sequence[str]) -> tuple[str, str, str]:
    """A question and a passage of two facts: does it answer it? If not, it tells this relation of another subject, and
    nothing of the one asked about, or something else."""
    used: set[str] = set()
    told = _two_facts(rng, used)
    subject, relation, _ = told[0]
    if not (answered := bool(rng.integers(2))):
        stranger = draw(rng, pools(pretraining=False)[relation.subject], used)
        subject = told[1][0] if rng.random() < HARD else stranger
    label = "entailment" if answered else "not_entailment"
    return _question(rng, styles, subject, relation), _passage(rng, told), label


def make_reference(rng: np.random.Generator, encounters: dict[str, Sequence[str]]) -> tuple[str, str, str]:
    """What is told of one of two people, with the right or the wrong name, and a sentence about both that tells it with
    a pronoun instead."""
    used: set[str] = set()
    subject, relation, value = _told(rng, pick(rng, PERSONAL), used)
    other = draw(rng, pools(pretraining=False)["person"], used)
    role, right = pick(rng, ("a", "b")), bool(rng.integers(2))
    names = (subject, other) if role == "a" else (other, subject)
    told = relation.statements[0].format(s="", o=value).strip(" .")
    sentence = pick(rng, encounters[role]).format(a=names[0], b=names[1], t=told)
    name = subject if right else other
    return f"{name} {told}.", sentence, "right" if right else "wrong"


def make_continuation(rng: np.random.Generator, links: Sequence[str]) -> tuple[str, tuple[str, ...], int]:
    """A context of two facts and four endings, one of which says again what it tells. The others are about its other
    subject and strangers, with other values; or subjects and values stand in two endings each."""
    used: set[str] = set()
    told = _two_facts(rng, used)
    (subject, relation, value), (rival, *_) = told
    others = [_told(rng, relation, used) for _ in range(3)]
    if rng.random() < HARD:
        wrong = others[0][2]
        endings = [(s, relation, v) for s in (subject, rival) for v in (value, wrong)]
    else:
        endings = [told[0], (rival, *others[0][1:]), *others[1:]]
    order = rng.permutation(4)
    wording, link = int(rng.integers(4)), pick(rng, links)
    return _passage(rng, told), tuple(link + _stated(endings[i], wording) for i in order), int(order.argmin())


def _spoilt(rng: np.random.Generator, words: list[str], wrong_forms: dict[str, str]) -> list[str]:
    plain = [i for i, word in enumerate(words) if "{" not in word]
    if rng.random() >= HARD and (verbs := [i for i in plain if words[i] in wrong_forms]):
        at = pick(rng, verbs)
        return [*words[:at], wrong_forms[words[at]], *words[at + 1 :]]
    at, way = pick(rng, plain), pick(rng, ("double", "leave out", "move"))
    if way == "double":
        return words[: at + 1] + words[at:]
    left = words[:at] + words[at + 1 :]
    return left if way == "leave out" else [words[at], *left] if at else [*left, words[at]]


def _two_facts(rng: np.random.Generator, used: set[str]) -> tuple[Told, Told]:
    """Of two subjects of one type, in two relations."""
    relation = pick(rng, RELATIONS)
    return _told(rng, relation, used), _told(rng, _another(rng, relation), used)


def _passage(rng: np.random.Generator, told: Sequence[Told]) -> str:
    return state(rng, pick(rng, list(STYLES.values())), [told[i] for i in rng.permutation(len(told))]).text


def _told(rng: np.random.Generator, relation: Relation, used: set[str]) -> Told:
    """A new fact of this relation."""
    pool = pools(pretraining=False)
    return draw(rng, pool[relation.subject], used), relation, draw(rng, pool[relation.object], used)


def _another(rng: np.random.Generator, relation: Relation) -> Relation:
    """Another relation of the same type of subjects."""
    return pick(rng, [other for other in RELATIONS if other.subject == relation.subject and other != relation])


def _stated(told: Told, wording: int) -> str:
    subject, relation, value = told
    return relation.statements[wording].format(s=subject, o=value)


def _question(rng: np.random.Generator, styles: Sequence[str], subject: str, relation: Relation) -> str:
    return ask(rng, STYLES[pick(rng, styles)], subject, relation)


def _like(rng: np.random.Generator, name: str, kind: str) -> str:
    """Another name of this type, one that begins or ends as ``name`` does where there is such."""
    return pick(rng, _others(name, kind))


@cache
def _others(name: str, kind: str) -> list[str]:
    pool, alike = pools(pretraining=False)[kind], _by_ends(kind)
    numbers = sorted({*alike.get((name[:3], ""), ()), *alike.get(("", name[-3:]), ())})
    return [pool[number] for number in numbers if pool[number] != name] or [one for one in pool if one != name]


@cache
def _by_ends(kind: str) -> dict[tuple[str, str], list[int]]:
    """Which names of a type begin, or end, with these three letters."""
    found: dict[tuple[str, str], list[int]] = {}
    for number, name in enumerate(pools(pretraining=False)[kind]):
        for ends in ((name[:3], ""), ("", name[-3:])):
            found.setdefault(ends, []).append(number)
    return found
