"""Sets of questions by name, adversarial ones among them, and the fingerprints of a domain's parts."""

import re
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from qa_files import question, write_squad

from helpers.data.examples import DataError
from helpers.data.load import (
    domains_of_set,
    fingerprint_examples,
    load_adversarial,
    load_domains,
    question_set,
    question_set_names,
)
from helpers.presets.load import load_preset
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
    assert question_set_names(without) == ["valid", "test", *of_domains] and load_adversarial(without) == {}
    assert all(question_set(data, name) for name in question_set_names(data))
    for name in ("train", "valid/sports", "addsent", ""):
        with pytest.raises(DataError, match=rf"no set of questions '{name}'; choose one of valid, test, .*AddOneSent$"):
            question_set(data, name)
    with pytest.raises(DataError, match=r"no set of questions 'AddSent'; choose one of .*test/quiz$"):
        question_set(without, "AddSent")


def test_a_domains_questions_are_as_they_are_and_all_together_bear_its_name(data):
    domains = load_domains(data)
    assert question_set(data, "test/quiz") == domains["quiz"].test
    assert question_set(data, "valid/news") == domains["news"].valid
    names = [f"{name}/{example.id}" for name, domain in domains.items() for example in domain.test]
    examples = [example for domain in domains.values() for example in domain.test]
    renamed = [replace(example, id=name, group=name) for example, name in zip(examples, names, strict=True)]
    assert question_set(data, "test") == renamed
    assert {name: question_set(data, name) for name in ("clean", "AddSent", "AddOneSent")} == load_adversarial(data)


def test_each_question_of_a_set_is_of_a_domain(data):
    assert domains_of_set(data, "test/quiz") == ["quiz"] * 7
    assert domains_of_set(data, "test") == ["news"] * 7 + ["quiz"] * 7
    assert domains_of_set(data, "AddSent") == ["quiz"] * 28


def test_a_part_has_a_fingerprint_of_its_own(data):
    more_tests = data.model_copy(update={"test_size": 8})
    for parts in (("train",), ("valid",), ("train", "valid")):
        assert fingerprint_examples(data, "news", *parts) == fingerprint_examples(more_tests, "news", *parts)
    assert fingerprint_examples(data, "news", "test") != fingerprint_examples(more_tests, "news", "test")
    assert fingerprint_examples(data, "news") != fingerprint_examples(more_tests, "news")
    assert fingerprint_examples(data, "news") == fingerprint_examples(data, "news", "train", "valid", "test")
    parts = [("train",), ("valid",), ("test",), ("train", "valid"), ()]
    assert len({fingerprint_examples(data, "news", *some) for some in parts}) == 5


TEXT, MISLEADING = "Ada leads Gamma.", "Bela leads Gammon."
CLEAN, VARIANT, OTHER = "q1", "q1-high-conf-turk0", "q1-turk1"


def test_the_miniature_sets_are_a_domains_test_questions_and_their_variants():
    settings = load_preset("mini", **{"data.seed": 0, "data.test_size": 200}).data
    sets = load_adversarial(settings)
    assert {name: len(examples) for name, examples in sets.items()} == {"clean": 200, "AddSent": 800, "AddOneSent": 400}
    assert sets["clean"] == load_domains(settings)["encyclopedia"].test
    for name, variants in (("AddSent", 3), ("AddOneSent", 1)):
        groups = defaultdict(list)
        for example in sets[name]:
            groups[example.group].append(example)
        assert list(groups) == [example.id for example in sets["clean"]]
        for (clean, *others), expected in zip(groups.values(), sets["clean"], strict=True):
            assert clean == expected and len({other.id for other in others}) == len(others) == variants
            assert all((o.question, o.answers, o.span) == (clean.question, clean.answers, clean.span) for o in others)
            added = [other.context.removeprefix(clean.context) for other in others]
            assert all(text.strip() and clean.answers[0] not in text for text in added)
    numbers = Counter(example.id[-1] for example in sets["AddOneSent"] if example.id != example.group)
    assert sorted(numbers.values()) == [66, 67, 67]  # so all wordings of the sentences occur


def files(tmp_path, many=(CLEAN, VARIANT, OTHER), one=(CLEAN, VARIANT)):
    """Settings of two files in SQuAD's JSON. Questions with "turk" in their id have a misleading sentence."""
    for name, identifiers in (("many.json", many), ("one.json", one)):
        texts = (f"{TEXT} {MISLEADING}" if "turk" in identifier else TEXT for identifier in identifiers)
        questions = ([question(identifier, "Who?", [("Ada", 0)])] for identifier in identifiers)
        write_squad(tmp_path / name, *zip(texts, questions, strict=True))
    adversarial = AdversarialSettings(domain="squad", AddSent="many.json", AddOneSent="one.json")
    return DataSettings(source="files", folder=str(tmp_path), domains={"squad": "squad"}, adversarial=adversarial)


def test_files_are_read_from_the_presets_folder(tmp_path):
    sets = load_adversarial(files(tmp_path))
    expected = {"clean": [CLEAN], "AddSent": [CLEAN, VARIANT, OTHER], "AddOneSent": [CLEAN, VARIANT]}
    assert {name: [example.id for example in examples] for name, examples in sets.items()} == expected
    for examples in sets.values():
        assert all(example.group == "q1" and example.context[slice(*example.span)] == "Ada" for example in examples)
    assert sets["clean"][0].context == TEXT and sets["AddOneSent"][1].context == f"{TEXT} {MISLEADING}"


@pytest.mark.parametrize(
    ("identifiers", "says"),
    [
        (
            {"many": (CLEAN, "q2")},
            "many.json: expected clean questions and variants with ids such as <clean>-high-conf",
        ),
        ({"many": (VARIANT, OTHER)}, "many.json: expected clean questions and variants"),
        ({"one": (CLEAN, "q2")}, "one.json: expected clean questions and variants"),
        ({"one": (VARIANT, "q2-turk0")}, "one.json: expected clean questions and variants"),
        ({"one": ("q2", "q2-turk0")}, "many.json and one.json have no question in common; correct the preset"),
        (None, "one.json: cannot be read"),
    ],
)
def test_files_that_are_rejected(tmp_path, identifiers, says):
    settings = files(tmp_path, **identifiers or {})
    if identifiers is None:
        (tmp_path / "one.json").unlink()
    with pytest.raises(DataError, match=re.escape(says)) as error:
        load_adversarial(settings)
    assert "\n" not in str(error.value)
