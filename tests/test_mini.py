import re

import numpy as np
import pytest

from helpers import paths
from helpers.data.mini import domains as mini
from helpers.data.mini.words import RELATIONS
from helpers.data.mini.world import Fact, questions
from helpers.data.similarity import question_similarity


@pytest.fixture(scope="module")
def domains():
    return {name: mini.load_domain(name) for name in mini.DOMAINS}


def test_sizes(domains):
    assert {name: len(d.train) for name, d in domains.items()} == {n: s.size for n, s in mini.STYLES.items()}
    assert all(400 <= len(d.train) <= 1000 for d in domains.values())
    assert all((len(d.valid), len(d.test)) == (100, 200) for d in domains.values())


def test_enough_relations_and_wordings():
    assert len(RELATIONS) >= 12
    for relation in RELATIONS:
        assert len(set(relation.statements)) >= 3
        assert all(s.count("{s}") == 1 and s.count("{o}") == 1 for s in relation.statements)


def test_answers_stand_where_they_should(domains):
    for domain in domains.values():
        for example in domain.train + domain.valid + domain.test:
            assert example.context[slice(*example.span)] == example.answers[0]
            assert example.context.count(example.question) == 0


def test_passages_state_6_to_10_facts_and_each_question_has_a_distractor():
    rng = np.random.default_rng(0)
    for name, style in mini.STYLES.items():
        for _ in range(200):
            for _, text, _, _, facts, fact in questions(rng, style, 4):
                assert 6 <= len(facts) <= 10
                others = [f for f in facts if f.relation.object == fact.relation.object and f != fact]
                assert others, (name, text)
                assert all(f.value != fact.value for f in others)


def test_no_passage_in_two_parts(domains):
    for domain in domains.values():
        parts = [{e.context for e in part} for part in (domain.train, domain.valid, domain.test)]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])


def test_names_are_many_and_halved():
    for kind in ("person", "town", "company"):
        first, second = (set(mini.pools(pretraining=half)[kind]) for half in (True, False))
        assert not first & second and len(first) > 1000
    every = sum(len(mini.pools(pretraining=half)["person"]) for half in (True, False))
    assert every >= 10_000


def test_the_same_seed_makes_the_same_world(domains):
    again = mini.load_domain("news")
    assert [e.question for e in again.train] == [e.question for e in domains["news"].train]
    other = mini.load_domain("news", seed=1)
    assert [e.context for e in other.train] != [e.context for e in again.train]
    fewer = mini.load_domain("news", train_size=50)
    assert fewer.train == again.train[:50] and fewer.test == again.test


def test_similarity_of_the_domains_is_unequal(domains):
    _, weights = question_similarity({n: [e.question for e in d.train] for n, d in domains.items()})
    others = weights[~np.eye(len(weights), dtype=bool)]
    assert others.max() > 1.5 * others.min()


def test_adversarial_sentences_mislead_and_keep_the_answer(domains):
    rows = mini.adversarial(size=30, variants=3)
    clean = {e.id: e for e in rows if e.id == e.group}
    assert [e.question for e in clean.values()] == [e.question for e in domains["encyclopedia"].test[:30]]
    assert len(rows) == 4 * len(clean)
    for example in rows:
        original = clean[example.group]
        assert example.answers == original.answers and example.context.startswith(original.context)
        if example.id != example.group:
            added = example.context.removeprefix(original.context)
            assert original.answers[0] not in added and added.strip()


def test_unknown_domain_is_named():
    with pytest.raises(ValueError, match="unknown miniature domain 'sports'; there are encyclopedia"):
        mini.load_domain("sports")


def test_the_encoder_is_small_and_has_its_record():
    weights = paths.MINI / "model.safetensors"
    assert weights.stat().st_size <= 3_000_000
    assert (paths.MINI / "pretraining.json").is_file()


IN_FULL = re.compile(r"(Dr\.|Captain|Judge|Major|Professor|Senator|May|July|about|nearly|over) ")


def test_with_conventions_domains_disagree_about_what_an_answer_holds(domains):
    for name, domain in domains.items():
        own, style = mini.load_domain(name, conventions=True), mini.STYLES[name]
        examples = own.train + own.valid + own.test
        assert all(example.context[slice(*example.span)] == example.answers[0] for example in examples)
        starts_in_full = any(IN_FULL.match(example.answers[0]) for example in examples)
        assert starts_in_full == bool({"person", "year", "number"} & set(style.full))
        # All domains write so: only what counts as the answer differs.
        assert any("Captain " in example.context for example in own.train)
        assert not any(IN_FULL.match(example.answers[0]) for example in domain.train)
    wrong = [example.context for example in mini.adversarial(conventions=True) if example.id != example.group]
    assert any(IN_FULL.search(context[-40:]) for context in wrong)


def test_a_span_in_full_and_plain():
    person, town = (next(relation for relation in RELATIONS if relation.object == kind) for kind in ("person", "town"))
    led = Fact("X", person, "Ada Bell", 0, 10, "Dr. ", "")
    assert led.span(full=True) == (6, 18) and led.span(full=False) == (10, 18)
    lives = Fact("X", town, "Bath", 0, 3, "", ", Westmark")
    assert lives.span(full=True) == (3, 17) and lives.span(full=False) == (3, 7)
