"""Every refusal of a file at once, bad records left out, and examples written as SQuAD."""

import json

import pytest
from qa_files import CONTEXT, mrqa_question, question, write_mrqa, write_narrativeqa
from qa_files import write_squad as write_json

from helpers.data.examples import Corpus, DataError, Example
from helpers.data.formats.places import ALIKE
from helpers.data.formats.squad import UNPLACED, write_squad
from helpers.data.questions import load_domain, read


def refusal(path, **options):
    with pytest.raises(DataError) as error:
        read(path, **options)
    return str(error.value).replace(f"{path}", path.name).split("\n")


def bad_questions(count):
    return [question(f"bad{n}", answers=[("Paris", n)]) for n in range(count)]


def test_all_refusals_of_a_file_are_listed(tmp_path):
    lines = refusal(write_json(tmp_path / "a.json", (CONTEXT, [question(), *bad_questions(3)]), (" ", [])))
    assert lines[0] == "a.json: 4 of 5 records refused:"
    assert lines[1].startswith("  article 1, paragraph 1, question 2 (id bad0), answer 1: 'Paris' does not stand")
    assert len(lines) == 5 and lines[4] == (
        "  article 1, paragraph 2: 'context' is empty; fill it in or remove the record"
    )


def test_more_than_ten_refusals_are_counted(tmp_path):
    lines = refusal(write_json(tmp_path / "a.json", (CONTEXT, [*bad_questions(1234), question("q", answers=())])))
    assert len(lines) == 13 and lines[0] == "a.json: 1,235 of 1,235 records refused:"
    assert lines[11] == "  and 1,224 more" and "(id q): the question has no answer; setting data.unan" in lines[12]


def test_unanswered_questions_are_one_line(tmp_path):
    questions = [question(f"u{n}", answers=()) for n in range(30)]
    (line,) = refusal(write_json(tmp_path / "a.json", (CONTEXT, [question(), *questions])))
    assert line.startswith("a.json: 30 of 31 records refused: article 1, paragraph 1, question 2 (id u0): the ques")
    assert ", as have 30 in all; setting data.unanswerable to true, or to a list of such domains" in line


@pytest.mark.parametrize("write", [write_mrqa, write_narrativeqa])
def test_other_formats_list_theirs(tmp_path, write):
    if write is write_mrqa:
        path = write(tmp_path / "m.jsonl", mrqa_question(question=""), mrqa_question(answers=3), mrqa_question())
    else:
        row = ("d1", "train", "Who ?", "a girl", "the girl")
        path = write(tmp_path / "m", [("d2", *row[1:]), (*row[:2], "", *row[3:]), row])
    assert refusal(path)[0] == f"{path.name}: 2 of 3 records refused:" and len(refusal(path)) == 3


def test_no_line_of_a_message_is_long(tmp_path):
    long = "x" * 5000
    questions = [
        question(long, answers=[(long, 0)]),
        question("a") | {long: long, "question": {long: long}},
        {long + str(n): 1 for n in range(5000)},
    ]
    for line in refusal(write_json(tmp_path / "a.json", (CONTEXT, questions))):
        assert len(line) <= 502
    (tmp_path / "predictions.json").write_text(json.dumps({f"{n:024}": "an answer" for n in range(9000)}))
    (line,) = refusal(tmp_path / "predictions.json")
    assert "it holds an object with the keys '00000" in line and "and 8,992 more; expected SQuAD's JSON, " in line
    assert len(line) <= 520


def test_bad_records_are_left_out_when_asked(tmp_path):
    path = write_json(
        tmp_path / "a.json", (CONTEXT, [question(), *bad_questions(12), question(), question("n", answers=())])
    )
    corpus = read(path, drop_bad=True)
    assert [example.id for example in corpus.examples] == ["q1"]
    assert corpus.notes == ["a.json: 14 of 15 questions were left out"] and len(corpus.left_out) == 14
    assert corpus.left_out[0].startswith("article 1, paragraph 1, question 2 (id bad0), answer 1: 'Paris'")
    assert corpus.left_out[12].startswith("article 1, paragraph 1, question 14 (id q1): the id is taken by")
    assert corpus.left_out[13] == "article 1, paragraph 1, question 15 (id n): the question has no answer"
    assert len(read(path, drop_bad=True, unanswerable=True).examples) == 2
    good = read(write_json(tmp_path / "b.json", (CONTEXT, [question()])), drop_bad=True)
    assert good.left_out == [] and good.notes == []
    with pytest.raises(DataError, match="3 of 3 records refused"):
        read(write_json(tmp_path / "c.json", (CONTEXT, bad_questions(3))), drop_bad=True)
    (tmp_path / "d.json").write_text('{"data": [')
    with pytest.raises(DataError, match="not valid JSON"):
        read(tmp_path / "d.json", drop_bad=True)


def again(corpus, path):
    write_squad(corpus.examples, path, corpus.documents)
    return read(path, unanswerable=True)


def test_a_repaired_file_is_read_the_same_without_repairs(tmp_path):
    questions = [
        question("plain"),
        question("two", answers=[("London", 36), ("in London", 33)]),
        question("moved", answers=[("Babbage", 3)]),
        question("near", answers=[("Ada", 18)]),
        question("alike", answers=[("in  LONDON", 33)]),
        question("mixed", answers=[("London", 36), ("LONDON", 36)]),
        question("5a-b-turk0"),
        question("none", answers=(), is_impossible=True),
    ]
    path = write_json(
        tmp_path / "a.json", (CONTEXT, questions), (CONTEXT + " ", [question("other")]), title="Life of Ada"
    )
    corpus = read(path, unanswerable=True)
    assert len(corpus.notes) == 3
    copy = again(corpus, tmp_path / "out/b.json")
    assert copy == Corpus(corpus.examples, documents=["Life of Ada"] * 9)
    written = json.loads((tmp_path / "out/b.json").read_text())
    assert written["version"] == "v2.0" and [len(a["paragraphs"]) for a in written["data"]] == [2]
    for paragraph in written["data"][0]["paragraphs"]:
        for asked in paragraph["qas"]:  # as any program expects them
            assert asked["is_impossible"] == (not asked["answers"])
            for answer in asked["answers"]:
                assert paragraph["context"].startswith(answer["text"], answer["answer_start"])
    alike = written["data"][0]["paragraphs"][0]["qas"][4]
    assert alike["answers"] == [{"text": "in London", "answer_start": 33}] and alike["accepted"] == ["in  LONDON"]


def test_free_answers_are_written_beside_the_stretch_that_is_marked(tmp_path):
    rows = [("d1", "train", "Who ?", "a girl", "some girl"), ("d1", "test", "Why ?", "Nobody knows", "unclear")]
    corpus = read(write_narrativeqa(tmp_path / "stories", rows))
    copy = again(corpus, tmp_path / "b.json")
    assert copy.examples == corpus.examples and copy.documents == ["d1", "d1"]
    assert copy.notes == [f"b.json: 1 {UNPLACED}"]


def test_mrqa_is_written_as_squad(tmp_path):
    detected = [{"text": "babbage", "char_spans": [[25, 31]]}]
    loose = mrqa_question(qid="m2", answers=["London", "babbage"], detected_answers=detected)
    corpus = read(write_mrqa(tmp_path / "m.jsonl", mrqa_question(), loose))
    copy = again(corpus, tmp_path / "b.json")
    assert copy.examples == corpus.examples and copy.notes == []


def test_what_squad_cannot_say_is_refused(tmp_path):
    example = Example("q1", "Where?", CONTEXT, ("London",), (36, 42), "q0")
    with pytest.raises(ValueError, match="q1: SQuAD's ids cannot say that its group is q0"):
        write_squad([example], tmp_path / "a.json")
    with pytest.raises(ValueError, match="1 documents for 2 examples"):
        write_squad([example] * 2, tmp_path / "a.json", ["x"])


def test_what_was_read_is_split_by_its_documents(tmp_path):
    questions = [(f"{CONTEXT} {n}", [question(f"{n}")]) for n in range(8)]
    one = read(write_json(tmp_path / "a.json", *questions))
    assert one.documents == ["Ada"] * 8
    with pytest.raises(DataError, match="in too few documents"):
        load_domain("d", {"valid": one, "test": one}, seed=0)


def test_an_answer_in_another_case_is_counted_once_a_place(tmp_path):
    corpus = read(write_json(tmp_path / "a.json", (CONTEXT, [question(answers=[("LONDON", 36), ("london", 36)])])))
    assert corpus.notes == [f"a.json: 2 {ALIKE}"]


def test_real_answers_are_written_and_read_the_same(shared, tmp_path):
    for name in (
        "squad/dev-v2.0.json",
        "mrqa-sample/NewsQA_sample.jsonl",
        "squad-adversarial/sample1k-HCVerifySample.json",
    ):
        corpus = read(shared / "data/qa" / name, unanswerable=True)
        assert again(corpus, tmp_path / "b.json") == Corpus(corpus.examples, documents=corpus.documents)
