"""The miniature world: questions about passages, stories, questions without an answer, misleading sentences."""

import re
from itertools import combinations

import numpy as np
import pytest

from helpers.data.examples import DataError
from helpers.data.load import load_domains, narrative
from helpers.data.mini import world
from helpers.data.mini.world import RELATIONS, STYLES, make_questions, make_story
from helpers.data.questions import closest_span
from helpers.models.encoders import load_tokenizer
from helpers.presets.load import load_preset
from helpers.presets.schema import DataSettings

IN_FULL = re.compile(r"(Dr\.|Captain|Judge|Major|Professor|Senator|May|July|about|nearly|over) ")


@pytest.fixture(scope="module")
def domains():
    return {name: world.load_domain(name) for name in world.STREAMS}


@pytest.fixture(scope="module")
def stories(domains):
    return examples_of(domains["stories"])


def parts_of(domain):
    return domain.train, domain.valid, domain.test


def examples_of(domain):
    return [example for part in parts_of(domain) for example in part]


def test_sizes_and_no_passage_in_two_parts(domains):
    for name, domain in domains.items():
        size = STYLES[name.removesuffix("-unanswerable")].size if name != "stories" else 500
        assert [len(part) for part in parts_of(domain)] == [size, 100, 200]
        passages = [{example.context for example in part} for part in parts_of(domain)]
        assert not any(first & second for first, second in combinations(passages, 2)), name
        assert len({example.id for example in examples_of(domain)}) == size + 300


def test_another_seed_makes_another_world_and_fewer_questions_are_the_first(domains):
    for name in ("news", "stories", "search-unanswerable"):
        fewer = world.load_domain(name, train_size=50, test_size=7)
        assert fewer.train == domains[name].train[:50] and fewer.test == domains[name].test[:7]
        other = {example.context for example in world.load_domain(name, seed=1).train}
        assert not other & {example.context for example in domains[name].train}


def test_answers_stand_where_their_spans_say(domains):
    for name in set(domains) - {"stories"}:
        for example in examples_of(domains[name]):
            assert not example.answers or example.context[slice(*example.span)] == example.answers[0]
            assert example.question not in example.context and (example.span is None) == (not example.answers)


def test_passages_state_6_to_10_facts_and_each_question_has_a_distractor():
    rng = np.random.default_rng(0)
    for name, style in STYLES.items():
        for _ in range(200):
            for _, text, _, _, facts, fact in make_questions(rng, style, 4):
                assert 6 <= len(facts) <= 10
                others = [f for f in facts if f.relation.object == fact.relation.object and f != fact]
                assert others and all(f.value != fact.value for f in others), (name, text)


def test_with_conventions_domains_disagree_about_what_an_answer_holds(domains):
    for name in world.DOMAINS:
        domain = world.load_domain(name, conventions=True)
        examples = examples_of(domain)
        assert all(example.context[slice(*example.span)] == example.answers[0] for example in examples)
        full = [
            (kind in STYLES[name].full, fact.answer(True) == example.answers[0])
            for example, _, fact in world.make_examples(name, "train", 400, 0, True)
            if (kind := fact.relation.object) in vars(world.WORLD.forms)
        ]
        follows = np.mean([is_convention == is_full for is_convention, is_full in full])
        assert abs(follows - world.AGREEMENT) < 0.08, name
        # All domains write so: only what counts as the answer differs.
        assert any("Captain " in example.context for example in domain.train)
        assert not any(IN_FULL.match(example.answers[0]) for example in domains[name].train)


def test_what_a_passage_does_not_say_it_says_of_others():
    rng, names_subject = np.random.default_rng(0), []
    for _ in range(200):
        for question, passage, answers, _, facts, fact in make_questions(rng, STYLES["encyclopedia"], 4, 1.0):
            assert (answers, fact) == ((), None)
            relation, subject = parse(question)
            stated = [f for f in facts if f.relation is relation]
            assert stated and all(f.subject != subject for f in stated), (question, passage)
            names_subject.append(subject in passage)
    assert 0.05 < np.mean(names_subject) < 0.5


def parse(question):
    """The relation and subject of a question of the encyclopedia."""
    for relation in RELATIONS:
        asks = [text.format(s="|") for text in relation.asks]
        for template in STYLES["encyclopedia"].questions:
            before, after = template.format(s="|", nouns=relation.nouns, asks=asks).split("|")
            if question.startswith(before) and question.endswith(after):
                return relation, question.removeprefix(before).removesuffix(after)
    raise AssertionError(question)


@pytest.mark.parametrize("style", world.DOMAINS)
def test_a_third_of_the_questions_has_no_answer(style):
    examples = world.load_domain(f"{style}-unanswerable", train_size=600).train
    empty = [example for example in examples if not example.answers]
    assert abs(len(empty) / 600 - 1 / 3) < 3.5 * np.sqrt(2 / 9 / 600)


def test_misleading_sentences_come_near_to_the_question():
    examples = world.make_adversarial("encyclopedia", size=200)
    clean = {example.id: example for example in examples if example.id == example.group}
    shared = {"0": [], "1": [], "2": []}
    for example in examples:
        if example.id != example.group:
            added = set(example.context.removeprefix(clean[example.group].context).lower().strip(".").split())
            words = set(example.question.lower().strip("?.").split())
            shared[example.id[-1]].append(len(words & added) / len(words))
    means = [np.mean(values) for values in shared.values()]
    assert means[0] < 0.3 < means[1] < means[2] + 1e-9


def test_stories_have_two_free_answers_and_the_span_nearest_to_them(stories):
    hits, little = 0, {".", "a", "the", "of", "in", "It", "They", "because"}
    for example in stories:
        assert len(set(example.answers)) == 2
        assert example.span == closest_span(example.context, example.answers)
        shared = set.intersection(*(set(answer.split()) for answer in example.answers)) - little
        hits += bool((shared - set(example.question.split())) & set(example.context[slice(*example.span)].split()))
    assert hits > 0.93 * len(stories)  # rarely free words come nearer than the answer
    absent = [[answer.removesuffix(" .") not in e.context for answer in e.answers] for e in stories]
    assert 0.4 < np.mean(absent) < 0.7 and 0.1 < np.mean([all(row) for row in absent]) < 0.3


def test_stories_are_tokenised_and_the_encoder_has_their_words(stories):
    tokenizer = load_tokenizer("data/mini")
    for example in stories:
        for text in (example.question, example.context, *example.answers):
            assert not re.search(r"\w[.,?]|[{}]", text), text
            assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"], text


def test_every_answer_of_a_story_has_a_rival_and_no_two_names_share_a_word():
    rng = np.random.default_rng(0)
    for _ in range(200):
        story, facts = make_story(rng)
        subjects = {subject for subject, _, _ in facts}
        words = [word for text in (*subjects, *(value for _, _, value in facts)) for word in text.split()]
        assert len(words) == len(set(words)), story
        relations = [relation.name for _, relation, _ in facts]
        assert len(facts) in (4, 6) and all(relations.count(name) == 2 for name in relations)


@pytest.mark.parametrize("name", ["smoke", "mini", "paper"])
def test_narrative_takes_the_place_of_the_domains(name):
    data = load_preset(name).data
    only = narrative(data)
    assert only.domains == {"stories": "narrativeqa:summaries" if name == "paper" else "stories"}
    assert only.adversarial is None and data.adversarial is not None
    replaced = {"domains", "adversarial"}
    assert only.model_dump(exclude=replaced) == data.model_dump(exclude=replaced)
    if only.source == "mini":
        assert len(load_domains(only)["stories"].test) == data.test_size


def test_errors_name_what_is_wrong():
    with pytest.raises(DataError, match=r"data\.narrative is empty; name the stories there"):
        narrative(DataSettings(source="mini", domains={"news": "news"}))
    with pytest.raises(DataError, match=r"unknown miniature domain 'tales'; there are encyclopedia, .* and stories"):
        world.load_domain("tales")
    with pytest.raises(DataError, match="'stories' has no adversarial questions; there are some for encyclopedia"):
        world.make_adversarial("stories")
