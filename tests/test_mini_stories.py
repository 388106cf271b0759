"""The miniature world's stories: free answers about summaries, and the settings that name them."""

import re

import numpy as np
import pytest

from helpers.data.domains import load_domains, narrative
from helpers.data.examples import DataError
from helpers.data.formats.narrativeqa import closest_span
from helpers.data.mini import domains as mini
from helpers.data.mini.stories import story
from helpers.data.mini.words import RELATIONS
from helpers.data.question_types import QUESTION_TYPES, question_type
from helpers.data.sections import fingerprint
from helpers.models.pretrained import load_tokenizer
from helpers.papers.corpora.tables import type_guess
from helpers.presets.load import load
from helpers.presets.schema import DataSettings


@pytest.fixture(scope="module")
def stories():
    return mini.load_domain("stories")


@pytest.fixture(scope="module")
def examples(stories):
    return stories.train + stories.valid + stories.test


def test_sizes_and_names(stories, examples):
    assert (stories.name, len(stories.train), len(stories.valid), len(stories.test)) == ("stories", 500, 100, 200)
    assert len({e.id for e in examples}) == 800 and all(e.id == e.group for e in examples)


def test_the_same_seed_tells_the_same_stories(stories):
    assert mini.load_domain("stories") == stories
    fewer = mini.load_domain("stories", train_size=30, test_size=7)
    assert fewer.train == stories.train[:30] and fewer.test == stories.test[:7]
    other = {e.context for e in mini.load_domain("stories", seed=1).train}
    assert not other & {e.context for e in stories.train}


def test_no_summary_in_two_parts(stories):
    train, valid, test = ({e.context for e in part} for part in (stories.train, stories.valid, stories.test))
    assert not (train & valid or train & test or valid & test)


def test_every_relation_is_told(examples):
    for telling in (relation.telling for relation in RELATIONS):
        assert all(text.count("{s}") == 1 and telling.short in text for text in telling.told)
        assert all(text.count("{s}") == 1 for text in telling.asked)
        assert len({telling.short, *telling.free}) == 4 and all("{o}" in text for text in telling.free)


def test_summaries_tell_5_to_9_facts(examples):
    told = {e.context.count(" .") - 1 for e in examples}  # less the opening, which tells none
    assert told == {4, 5, 6}


def test_texts_are_tokenised_and_known_to_the_encoder(examples):
    tokenizer = load_tokenizer("data/mini")
    for example in examples:
        assert example.question.endswith(" ?") and example.context.endswith(" .")
        for text in (example.question, example.context, *example.answers):
            assert not re.search(r"\w[.,?]|[{}]", text), text
            assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"], text


def test_two_references_and_the_span_nearest_to_them(examples):
    for example in examples:
        assert len(set(example.answers)) == 2
        assert example.span == closest_span(example.context, example.answers)
        assert example.context[slice(*example.span)].strip()


def test_a_share_of_the_references_does_not_stand_in_the_summary(examples):
    free = [[answer.removesuffix(" .") not in e.context for answer in e.answers] for e in examples]
    assert 0.4 < sum(map(sum, free)) / (2 * len(free)) < 0.7
    assert 0.1 < sum(map(all, free)) / len(free) < 0.3


def test_spans_hold_the_answer(examples):
    """What both references say and the question does not is in the span; rarely free words come nearer than it."""
    little = {".", "a", "the", "of", "in", "It", "They", "because"}
    hits = 0
    for example in examples:
        said = set.intersection(*(set(answer.split()) for answer in example.answers)) - little
        hits += bool((said - set(example.question.split())) & set(example.context[slice(*example.span)].split()))
    assert hits > 0.93 * len(examples)


def test_every_answer_has_a_rival(examples):
    """Each relation that is asked about is told of two subjects, so its type alone gives no answer away."""
    forms = {text: relation.telling for relation in RELATIONS for text in relation.telling.asked}
    for example in examples:
        telling = next(t for form, t in forms.items() if re.fullmatch(_pattern(form), example.question))
        told = [re.search(_pattern(text), example.context, re.I) for text in telling.told]
        count = sum(len(re.findall(_pattern(text), example.context, re.I)) for text in telling.told)
        assert any(told) and count >= 2, example


def test_no_two_names_or_values_of_a_story_share_a_word():
    rng = np.random.default_rng(0)
    for _ in range(200):
        summary, facts = story(rng)
        subjects = {subject for subject, _, _ in facts}
        said = [word for text in (*subjects, *(value for _, _, value in facts)) for word in text.split()]
        assert len(said) == len(set(said)), summary


def _pattern(template: str) -> str:
    return re.escape(template).replace(r"\{s\}", r"\w+").replace(r"\{o\}", r"\w+(?: \w+)?")


def test_questions_are_of_many_types(examples):
    types = [question_type(e.question) for e in examples]
    assert all(types.count(kind) > 25 for kind in QUESTION_TYPES[:-1]) and "other" not in types


# As computed before there were stories.
BEFORE = {"encyclopedia": "07c45c00e1000b0a", "multihop": "a589a097e6f32d2d", "search": "22cfe2fcad6e07d5"}


@pytest.mark.parametrize("name", BEFORE)
def test_the_other_domains_are_what_they_were(name):
    data = DataSettings(source="mini", domains={name: name}, valid_size=100, test_size=200)
    assert fingerprint(data, name) == BEFORE[name]
    assert mini.DOMAINS == ("encyclopedia", "news", "trivia", "multihop", "search")


def test_a_preset_may_name_the_stories():
    data = DataSettings(source="mini", domains={"tales": "stories"}, train_size=24, valid_size=8, test_size=12)
    tales = load_domains(data)["tales"]
    assert (tales.name, len(tales.train), len(tales.valid), len(tales.test)) == ("tales", 24, 8, 12)
    assert type_guess(data) == {}


@pytest.mark.parametrize("name", ["smoke", "mini", "lab", "paper"])
def test_narrative_takes_the_place_of_the_domains(name):
    data = load(name).data
    only = narrative(data)
    assert only.domains == {"stories": "narrativeqa:summaries" if name == "paper" else "stories"}
    assert only.adversarial is None and data.adversarial is not None
    kept = {"domains", "adversarial"}
    assert only.model_dump(exclude=kept) == data.model_dump(exclude=kept)
    if only.source == "mini":
        assert len(load_domains(only)["stories"].test) == data.test_size


def test_errors_name_what_is_wrong():
    with pytest.raises(DataError, match=r"data\.narrative is empty; name there, as data.source has it"):
        narrative(DataSettings(source="mini", domains={"news": "news"}))
    with pytest.raises(DataError, match=r"unknown miniature domain 'tales'; there are encyclopedia.* and stories"):
        mini.load_domain("tales")
    with pytest.raises(DataError, match="'stories' has no adversarial questions; there are some for encyclopedia"):
        mini.adversarial("stories")
