import json
import re
from collections import Counter

import pytest

from helpers.data.adversarial import load_adversarial
from helpers.data.examples import DataError
from helpers.data.mini.words import RELATIONS
from helpers.presets.load import load
from helpers.presets.schema import AdversarialSettings, DataSettings

TEXT = "Ada leads Gamma."
MISLEADING = "Bela leads Gammon."


@pytest.fixture(scope="module")
def sets():
    asked = {"data.adversarial": {"domain": "encyclopedia"}, "data.seed": 0}
    return load_adversarial(load("mini", **asked).data)


def by_group(examples):
    groups = {}
    for example in examples:
        groups.setdefault(example.group, []).append(example)
    return groups


def wordings(clean, variant):
    """Numbers of the wordings that the sentence added to a passage may have, and the value that it states."""
    assert variant.context.startswith(clean.context + " ")
    added = variant.context[len(clean.context) + 1 :]
    found = set()
    for relation in RELATIONS:
        for number, statement in enumerate(relation.statements):
            pattern = re.escape(statement).replace(r"\{s\}", ".+").replace(r"\{o\}", ".+")
            if re.fullmatch(pattern, added):
                found.add(number)
    return found


def test_the_sets_are_the_domains_test_questions_and_their_variants(sets):
    assert list(sets) == ["clean", "AddSent", "AddOneSent"]
    assert [len(examples) for examples in sets.values()] == [200, 800, 400]
    clean = [example.id for example in sets["clean"]]
    assert clean == [f"encyclopedia-test-{number}" for number in range(200)]
    for name in ("AddSent", "AddOneSent"):
        assert [example for example in sets[name] if example.id == example.group] == sets["clean"]
    assert {example.id for example in sets["AddOneSent"]} < {example.id for example in sets["AddSent"]}


def test_a_group_is_a_question_and_its_variants(sets):
    for name, variants in (("AddSent", 3), ("AddOneSent", 1)):
        groups = by_group(sets[name])
        assert list(groups) == [example.id for example in sets["clean"]]
        for (clean, *others), expected in zip(groups.values(), sets["clean"], strict=True):
            assert clean == expected and len({other.id for other in others}) == len(others) == variants
            assert all((o.question, o.answers) == (clean.question, clean.answers) for o in others)


def test_every_answer_is_where_its_span_says(sets):
    for examples in sets.values():
        assert all(example.context[slice(*example.span)] == example.answers[0] for example in examples)


def test_the_single_variants_have_all_numbers_and_both_wordings(sets):
    pairs = by_group(sets["AddOneSent"]).values()
    numbers = Counter(int(variant.id[-1]) for _, variant in pairs)
    assert sorted(numbers.values()) == [66, 67, 67]
    used = [wordings(clean, variant) for clean, variant in pairs]
    assert all(found & {0, 3} for found in used)
    formal, plain = (sum(found == {number} for found in used) for number in (0, 3))
    assert min(formal, plain) > 40


def test_a_preset_without_adversarial_questions_has_none():
    assert load_adversarial(load("smoke").data.model_copy(update={"adversarial": None})) == {}


def test_sizes_and_seed_are_the_presets():
    changes = {"data.adversarial": {"domain": "other"}, "data.domains": {"other": "search"}}
    few = load_adversarial(load("smoke", **changes).data)
    assert [len(examples) for examples in few.values()] == [12, 48, 24]
    assert few["clean"][0].id == "search-test-0"
    another = load_adversarial(load("smoke", **changes, **{"data.seed": 1}).data)
    assert [e.context for e in few["clean"]] != [e.context for e in another["clean"]]


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


def test_real_files_have_a_thousand_questions(shared):
    names = {"AddSent": "HCVerifyAll", "AddOneSent": "HCVerifySample"}
    given = {key: f"squad-adversarial/sample1k-{name}.json" for key, name in names.items()}
    folder = str(shared / "data/qa")
    data = DataSettings(
        source="files", folder=folder, domains={"squad": "squad"}, adversarial={"domain": "squad", **given}
    )
    sets = load_adversarial(data)
    assert [len(examples) for examples in sets.values()] == [1000, 3560, 1787]
    assert {example.group for example in sets["AddOneSent"]} == {example.id for example in sets["clean"]}
    assert max(len(group) for group in by_group(sets["AddOneSent"]).values()) == 2
