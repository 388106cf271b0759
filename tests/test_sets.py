"""Sets of questions by name, and the fingerprints of a domain's parts."""

import pytest

from helpers.data.adversarial import load_adversarial
from helpers.data.domains import load_domains
from helpers.data.examples import DataError
from helpers.data.question_types import question_word
from helpers.data.sections import fingerprint
from helpers.data.sets import may_be_unanswerable, question_set, question_set_names
from helpers.presets.schema import DataSettings


@pytest.fixture(scope="module")
def data():
    sizes = {"train_size": 20, "valid_size": 5, "test_size": 7}
    two = {"news": "news", "quiz": "trivia"}
    return DataSettings(source="mini", domains=two, adversarial={"domain": "quiz"}, **sizes)


def test_names(data):
    of_domains = ["valid/news", "valid/quiz", "test/news", "test/quiz"]
    assert question_set_names(data) == ["valid", "test", *of_domains, "clean", "AddSent", "AddOneSent"]
    without = data.model_copy(update={"adversarial": None})
    assert question_set_names(without) == ["valid", "test", *of_domains]
    assert all(question_set(data, name) for name in question_set_names(data))


def test_a_domains_questions_are_as_they_are_and_all_together_bear_its_name(data):
    domains = load_domains(data)
    assert question_set(data, "test/quiz") == domains["quiz"].test
    assert question_set(data, "valid/news") == domains["news"].valid
    together = question_set(data, "test")
    own = [example for domain in domains.values() for example in domain.test]
    assert [e.id for e in together] == [f"{name}/{e.id}" for name in ("news", "quiz") for e in domains[name].test]
    assert [e.group for e in together] == [e.id for e in together]
    assert [(e.question, e.context, e.answers, e.span) for e in together] == [
        (e.question, e.context, e.answers, e.span) for e in own
    ]


def test_the_adversarial_sets(data):
    assert {name: question_set(data, name) for name in ("clean", "AddSent", "AddOneSent")} == load_adversarial(data)


def test_each_question_of_a_set_may_be_unanswerable_as_its_domain_says(data):
    some = data.model_copy(update={"unanswerable": ["quiz"]})
    assert may_be_unanswerable(some, "test/quiz") == [True] * 7 and not any(may_be_unanswerable(some, "test/news"))
    assert may_be_unanswerable(some, "test") == [False] * 7 + [True] * 7
    assert all(may_be_unanswerable(some, "AddSent")) and len(may_be_unanswerable(some, "AddSent")) == 28
    assert not any(may_be_unanswerable(data, "test")) and not any(may_be_unanswerable(data, "clean"))


@pytest.mark.parametrize("name", ["train", "valid/sports", "addsent", ""])
def test_an_unknown_set_is_named_with_those_that_there_are(data, name):
    with pytest.raises(DataError, match=rf"no set of questions '{name}'; there are valid, test, .*AddOneSent$"):
        question_set(data, name)
    with pytest.raises(DataError, match=r"no set of questions 'AddSent'; there are .*test/quiz$"):
        question_set(data.model_copy(update={"adversarial": None}), "AddSent")


def test_a_part_has_a_fingerprint_of_its_own(data):
    more_tests = data.model_copy(update={"test_size": 8})
    for parts in (("train",), ("valid",), ("train", "valid")):
        assert fingerprint(data, "news", *parts) == fingerprint(more_tests, "news", *parts)
    assert fingerprint(data, "news", "test") != fingerprint(more_tests, "news", "test")
    assert fingerprint(data, "news") != fingerprint(more_tests, "news")
    assert fingerprint(data, "news") == fingerprint(data, "news", "train", "valid", "test")
    parts = [("train",), ("valid",), ("test",), ("train", "valid"), ()]
    assert len({fingerprint(data, "news", *some) for some in parts}) == 5


def test_a_presets_questions_are_loaded_once(data):
    assert load_domains(data)["news"] is load_domains(data.model_copy())["news"]
    assert load_adversarial(data) is load_adversarial(DataSettings.model_validate_json(data.model_dump_json()))


def test_question_words():
    assert question_word("Quiz time! Whose is it?") == "who"
    assert question_word("Is it?") == "is" and question_word("native town Ada") == "other"
