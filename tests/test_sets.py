"""Sets of questions by name, adversarial ones among them, and the fingerprints of a domain's parts."""

import json
import re
from collections import Counter

import pytest

from helpers.data.examples import DataError
from helpers.data.load import fingerprint, load_domains
from helpers.data.question_types import question_word
from helpers.data.sets import load_adversarial, may_be_unanswerable, question_set, question_set_names
from helpers.presets.load import load as load_preset
from helpers.presets.schema import AdversarialSettings, DataSettings


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
    with pytest.raises(DataError, match=rf"no set of questions '{name}'; choose one of valid, test, .*AddOneSent$"):
        question_set(data, name)
    with pytest.raises(DataError, match=r"no set of questions 'AddSent'; choose one of .*test/quiz$"):
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


# --------------------------------------------------------------------------------------------- adversarial questions

TEXT = "Ada leads Gamma."
MISLEADING = "Bela leads Gammon."


def by_group(examples):
    groups = {}
    for example in examples:
        groups.setdefault(example.group, []).append(example)
    return groups


def test_the_miniature_sets_are_a_domains_test_questions_and_their_variants():
    sets = load_adversarial(load_preset("mini", **{"data.seed": 0}).data)
    assert {name: len(examples) for name, examples in sets.items()} == {"clean": 200, "AddSent": 800, "AddOneSent": 400}
    assert [example.id for example in sets["clean"]] == [f"encyclopedia-test-{number}" for number in range(200)]
    for name, variants in (("AddSent", 3), ("AddOneSent", 1)):
        groups = by_group(sets[name])
        assert list(groups) == [example.id for example in sets["clean"]]
        for (clean, *others), expected in zip(groups.values(), sets["clean"], strict=True):
            assert clean == expected and len({other.id for other in others}) == len(others) == variants
            assert all((o.question, o.answers, o.span) == (clean.question, clean.answers, clean.span) for o in others)
    numbers = Counter(example.id[-1] for example in sets["AddOneSent"] if example.id != example.group)
    assert sorted(numbers.values()) == [66, 67, 67]  # so all wordings of the sentences occur


def test_a_preset_without_adversarial_questions_has_none():
    assert load_adversarial(load_preset("smoke").data.model_copy(update={"adversarial": None})) == {}


def write(path, *identifiers):
    """SQuAD's JSON with these questions; those with "turk" in their id have a passage with a misleading sentence."""
    paragraphs = []
    for identifier in identifiers:
        context = f"{TEXT} {MISLEADING}" if "turk" in identifier else TEXT
        answers = [{"text": "Ada", "answer_start": 0}]
        paragraphs.append({"context": context, "qas": [{"id": identifier, "question": "Who?", "answers": answers}]})
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "Gamma", "paragraphs": paragraphs}]}))


CLEAN, VARIANT, OTHER = "q1", "q1-high-conf-turk0", "q1-turk1"


def files(tmp_path, many=(CLEAN, VARIANT, OTHER), one=(CLEAN, VARIANT)):
    write(tmp_path / "many.json", *many)
    write(tmp_path / "one.json", *one)
    given = AdversarialSettings(domain="squad", AddSent="many.json", AddOneSent="one.json")
    return DataSettings(source="files", folder=str(tmp_path), domains={"squad": "squad"}, adversarial=given)


def test_files_are_read_from_the_presets_folder(tmp_path):
    sets = load_adversarial(files(tmp_path))
    assert {name: [example.id for example in examples] for name, examples in sets.items()} == {
        "clean": [CLEAN],
        "AddSent": [CLEAN, VARIANT, OTHER],
        "AddOneSent": [CLEAN, VARIANT],
    }
    for examples in sets.values():
        assert all(example.group == "q1" and example.context[slice(*example.span)] == "Ada" for example in examples)
    assert sets["clean"][0].context == TEXT and sets["AddOneSent"][1].context == f"{TEXT} {MISLEADING}"


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ({"many": (CLEAN, "q2")}, "many.json"),
        ({"many": (VARIANT, OTHER)}, "many.json"),
        ({"one": (CLEAN, "q2")}, "one.json"),
        ({"one": (VARIANT, "q2-turk0")}, "one.json"),
    ],
)
def test_a_file_without_variants_or_without_clean_questions_is_one_clear_error(tmp_path, given, file):
    with pytest.raises(DataError, match=re.escape(file)) as error:
        load_adversarial(files(tmp_path, **given))
    assert "\n" not in str(error.value) and "high-conf-turk0" in str(error.value)


@pytest.mark.parametrize("file", ["many.json", "one.json"])
def test_a_file_that_is_not_there_is_named(tmp_path, file):
    data = files(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(DataError, match=re.escape(file)) as error:
        load_adversarial(data)
    assert "\n" not in str(error.value)
