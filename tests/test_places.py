"""Answers whose offsets or letters are not quite those of their passage."""

import json

import pytest
from qa_files import mrqa_question, question, write_squad

from helpers.data.examples import DataError
from helpers.data.formats.places import ALIKE, MOVED, NEAR, locate
from helpers.data.questions import read

VIRUS = "The virus was found in bats. In 2003 the virus was found in civets; bats\nand civets carry it."


def placed(context, text, start):
    repairs = []
    first, last = locate(context, text, start, "here", repairs)
    return first, context[first:last], repairs


def refused(context, text, start):
    with pytest.raises(DataError) as error:
        locate(context, text, start, "here", [])
    return str(error.value)


def test_an_answer_at_its_offset_needs_no_repair():
    assert placed(VIRUS, "bats", 23) == (23, "bats", [])


def test_the_only_place_is_taken_however_far_off():
    assert placed(VIRUS, "2003", 0) == (32, "2003", [MOVED])


@pytest.mark.parametrize("shift", [-5, -1, 1, 5])
def test_of_several_places_the_nearest_is_taken_within_five_characters(shift):
    assert placed(VIRUS, "virus was found", 41 + shift) == (41, "virus was found", [NEAR])


def test_further_off_the_nearest_is_refused():
    assert "'virus was found' is not at its offset 35" in refused(VIRUS, "virus was found", 35)


def test_of_two_places_equally_near_none_is_taken():
    assert "stands in the context more than once; correct the offset" in refused("to be to be", "to", 3)
    assert placed("to be to be", "to", 4) == (6, "to", [NEAR])


def test_an_offset_in_other_units_of_another_place_is_refused():
    faces = "😀😀😀😀😀😀 Bern saw Bern and Bern"  # 7 letters before the first, 13 units of JavaScript
    assert "more than once" in refused(faces, "Bern", 13) and placed(faces, "Bern", 15) == (16, "Bern", [NEAR])
    dishes = "żółć żółć zje i zje i zje"  # 10 letters before the first, 18 bytes
    assert "more than once" in refused(dishes, "zje", 18) and placed(dishes, "zje", 15) == (16, "zje", [NEAR])
    assert placed("żar zje, a żółw zje", "zje", 5) == (4, "zje", [NEAR])  # both units mean the near one


def test_a_near_place_inside_a_word_is_no_repair():
    assert "more than once" in refused("the hen and the hens", "he", 3)  # in "hen"
    assert placed("東京は日本の首都。東京駅", "東京", 8) == (9, "東京", [NEAR])  # no spaces between words


def test_other_case_and_white_space_at_the_offset_take_the_passages_own_text():
    assert placed(VIRUS, "Bats and  civets", 68) == (68, "bats\nand civets", [ALIKE])
    assert placed(VIRUS, "the Virus", 0) == (0, "The virus", [ALIKE])
    assert placed(VIRUS, " bats ", 22) == (23, "bats", [ALIKE])


def test_an_alike_text_is_taken_at_the_offset_alone_and_as_whole_words():
    assert "'BATS' does not stand in the context (at offset 24: 'ats.')" in refused(VIRUS, "BATS", 24)
    assert "does not stand" in refused("Using it", "US", 0)


def test_an_alike_text_beside_the_very_text_is_refused():
    message = refused("A b, a c", "a", 0)
    assert message.endswith("but stands at 5: either can be meant; correct the offset")


def test_files_count_repairs_apart_and_keep_answers_as_written(tmp_path):
    questions = [
        question("near", answers=[("virus was found", 42)]),
        question("alike", answers=[("Bats and civets", 68)]),
        question("moved", answers=[("2003", 0)]),
        question("two", answers=[("bats", 22), ("BATS", 23)]),
    ]
    corpus = read(write_squad(tmp_path / "covid.json", (VIRUS, questions)))
    assert corpus.notes == [f"covid.json: 2 {NEAR}", f"covid.json: 2 {ALIKE}", f"covid.json: 1 {MOVED}"]
    assert [VIRUS[slice(*example.span)] for example in corpus.examples] == [
        "virus was found",
        "bats\nand civets",
        "2003",
        "bats",
    ]
    assert corpus.examples[1].answers == ("Bats and civets",) and corpus.examples[3].answers == ("bats", "BATS")


def test_detected_answers_are_placed_likewise(tmp_path):
    detected = [{"text": "virus was found", "char_spans": [[42, 56]]}]
    line = {"context": VIRUS, "qas": [mrqa_question(answers=["Virus was found"], detected_answers=detected)]}
    (tmp_path / "m.jsonl").write_text(json.dumps(line))
    corpus = read(tmp_path / "m.jsonl")
    assert corpus.examples[0].span == (41, 56) and corpus.notes == [f"m.jsonl: 1 {NEAR}"]


def test_a_repair_of_a_refused_question_is_not_counted(tmp_path):
    questions = [question("good", answers=[("2003", 32)]), question("bad", answers=[("2003", 0), ("Paris", 0)])]
    corpus = read(write_squad(tmp_path / "a.json", (VIRUS, questions)), drop_bad=True)
    assert corpus.notes == ["a.json: 1 of 2 questions were left out"]


def test_covid_offsets_one_off_load_with_repairs(tmp_path):
    """As COVID-QA has them: most offsets one character off, the text standing more than once."""
    context = " ".join(f"Study {n} of the virus found {n} cases." for n in range(20))
    starts = [place for place in range(len(context)) if context.startswith("virus", place)]
    questions = [question(f"q{n}", answers=[("virus", start + n % 3 - 1)]) for n, start in enumerate(starts)]
    corpus = read(write_squad(tmp_path / "covid.json", (context, questions)))
    assert [example.span[0] for example in corpus.examples] == starts
    assert corpus.notes == [f"covid.json: 13 {NEAR}"]


def test_the_only_place_is_no_repair_where_it_is_a_part_of_a_word(tmp_path):
    context = "The party began. It was art deco."
    questions = [question("q1", answers=[("dec", 0)]), question("q2", answers=[("deco", 0)])]
    with pytest.raises(
        DataError, match=r"1 of 2 records refused: .*'dec' is not at its offset 0.*only as a part of a word"
    ):
        read(write_squad(tmp_path / "a.json", (context, questions)))
    inside = question("q1", answers=[("dec", 28)])  # at its offset a part of a word is what the file says
    (example,) = read(write_squad(tmp_path / "b.json", (context, [inside]))).examples
    assert context[slice(*example.span)] == "dec"
