"""Sentences and pairs of them of the miniature world, in the shapes of GLUE's tasks (Wang et al. 2019, section 3), and
contexts with endings in that of SWAG's (Zellers et al. 2018).

Each function makes one example: its texts, and its label by name, a score, or the number of the right ending. What a
second text says is drawn alike for all labels, so that it gives none of them away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from helpers.data.mini.entailment import Genre, make_claim
from helpers.data.mini.reviews import Shared, Things, make_review
from helpers.data.mini.world import RELATIONS, STYLES, Relation, ask, draw, pick, pools, state

INFERENCE = {"entailed": "entailment", "not said": "neutral", "contradicted": "contradiction"}
PERSONAL = [relation for relation in RELATIONS if relation.subject == "person"]
SAME_VALUE = 0.25  # share of continuations in which a wrong value stands in the context, with somebody else
PARTS = {"subject": 1.6, "relation": 1.4, "value": 1.4, "wording": 0.6}  # of similarity: what each adds, 5 in all
NOISE = 0.3  # standard deviation of similarity

Told = tuple[str, Relation, str]  # subject, relation, value


@dataclass(frozen=True)
class Words:
    """What only these sentences use: see tasks.toml."""

    genres: tuple[str, ...]
    other_genres: tuple[str, ...]
    links: tuple[str, ...]
    agreement: dict[str, str]
    encounters: dict[Literal["a", "b"], tuple[str, ...]]


def make_acceptable(rng: np.random.Generator, agreement: dict[str, str]) -> tuple[str, None, str]:
    """A statement of a fact, or one spoilt: a verb that does not agree, or two words swapped, or one doubled or left
    out. Names and values stay as they are."""
    subject, relation, value = _told(rng, pick(rng, RELATIONS), set())
    words = pick(rng, relation.statements).split()
    if spoilt := bool(rng.integers(2)):
        plain = [i for i, word in enumerate(words) if "{" not in word]
        verbs = [i for i in plain if words[i] in agreement]
        pairs = [i for i in range(len(words) - 1) if i in plain or i + 1 in plain]
        way = pick(rng, ("agree", "swap", "double", "leave out"))
        if way == "agree" and verbs:
            at = pick(rng, verbs)
            words[at] = agreement[words[at]]
        elif way == "double":
            at = pick(rng, plain)
            words.insert(at, words[at])
        elif way == "leave out":
            del words[pick(rng, plain)]
        else:
            at = pick(rng, pairs)
            words[at : at + 2] = words[at + 1], words[at]
    return " ".join(words).format(s=subject, o=value), None, "unacceptable" if spoilt else "acceptable"


def make_sentiment(rng: np.random.Generator, things: Sequence[Things], shared: Shared) -> tuple[str, None, str]:
    """A review of any of these things."""
    text, label = make_review(rng, pick(rng, things), shared)
    return text, None, label


def make_inference(rng: np.random.Generator, genres: Sequence[Genre], labels: Sequence[str]) -> tuple[str, str, str]:
    """A claim and a passage, in any of these genres; of two ``labels``, the second is for all that is not entailed."""
    genre, label = pick(rng, genres), pick(rng, labels)
    while True:
        claim = make_claim(rng, genre)
        found = INFERENCE[claim.label]
        if label == (found if found in labels else labels[1]):
            return claim.text, claim.passage, label


def make_questions(rng: np.random.Generator) -> tuple[str, str, str]:
    """Two questions, worded differently: for the same, or for another relation, or of another subject."""
    relation = pick(rng, RELATIONS)
    used: set[str] = set()
    subject, other = (draw(rng, pools(pretraining=False)[relation.subject], used) for _ in range(2))
    first = _question(rng, subject, relation)
    if duplicate := bool(rng.integers(2)):
        other = subject
    elif rng.integers(2):
        other, relation = subject, _another(rng, relation)
    while (second := _question(rng, other, relation)) == first:
        pass
    return first, second, "duplicate" if duplicate else "not_duplicate"


def make_paraphrase(rng: np.random.Generator) -> tuple[str, str, str]:
    """Two statements, worded differently: of the same fact, or with another subject, value or relation."""
    used: set[str] = set()
    subject, relation, value = first = _told(rng, pick(rng, RELATIONS), used)
    wordings = rng.permutation(4)
    if not (same := bool(rng.integers(2))):
        changed = _told(rng, relation, used)
        first = pick(rng, ((changed[0], relation, value), (subject, relation, changed[2])))
    return (
        _stated((subject, relation, value), wordings[0]),
        _stated(first, wordings[1]),
        "equivalent" if same else "not_equivalent",
    )


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


def make_answering(rng: np.random.Generator) -> tuple[str, str, str]:
    """A question and a passage of two facts: does it answer it? If not, it tells another relation of the subject, or
    nothing of it, or the relation of another subject."""
    used: set[str] = set()
    relation = pick(rng, RELATIONS)
    told = [_told(rng, relation, used), _told(rng, _another(rng, relation), used)]
    passage = state(rng, pick(rng, list(STYLES.values())), [told[i] for i in rng.permutation(2)]).text
    subject, label = told[0][0], pick(rng, ("entailment", "not_entailment"))
    if label == "not_entailment":
        stranger = draw(rng, pools(pretraining=False)[relation.subject], used)
        subject = pick(rng, (told[1][0], stranger))
    return _question(rng, subject, relation), passage, label


def make_reference(rng: np.random.Generator, encounters: dict[str, Sequence[str]]) -> tuple[str, str, str]:
    """A sentence about two people with a pronoun, and what it tells with the right or the wrong name for that."""
    used: set[str] = set()
    subject, relation, value = _told(rng, pick(rng, PERSONAL), used)
    other = draw(rng, pools(pretraining=False)["person"], used)
    role = pick(rng, ("a", "b"))
    names = (subject, other) if role == "a" else (other, subject)
    told = relation.statements[0].format(s="", o=value).strip(" .")
    right = bool(rng.integers(2))
    sentence = pick(rng, encounters[role]).format(a=names[0], b=names[1], t=told)
    return sentence, f"{subject if right else other} {told}.", "right" if right else "wrong"


def make_continuation(rng: np.random.Generator, links: Sequence[str]) -> tuple[str, tuple[str, ...], int]:
    """A context of two facts and four endings, one of which says again what it tells: they are of its two subjects, or
    of a fact's value and another, so that each name stands in two of them."""
    used: set[str] = set()
    relation = pick(rng, RELATIONS)
    told = [_told(rng, relation, used), _told(rng, _another(rng, relation), used)]
    (subject, _, value), (rival, *_) = told
    wrong = _told(rng, relation, used)
    if rng.random() < SAME_VALUE:
        told.append(wrong)
    context = state(rng, pick(rng, list(STYLES.values())), [told[i] for i in rng.permutation(len(told))]).text
    endings = [(s, relation, v) for s in (subject, rival) for v in (value, wrong[2])]
    order = rng.permutation(4)
    wording, link = int(rng.integers(4)), pick(rng, links)
    texts = tuple(link + _stated(endings[i], wording) for i in order)
    return context, texts, int(order.argmin())


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


def _question(rng: np.random.Generator, subject: str, relation: Relation) -> str:
    return ask(rng, pick(rng, list(STYLES.values())), subject, relation)
