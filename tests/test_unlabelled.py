"""Questions without answers: which files hold them, and which are refused."""

import gzip
import json

import pytest

from helpers.data import questions, unlabelled
from helpers.data.examples import DataError
from helpers.data.mini import domains as mini
from helpers.presets.load import load

ADA, BO = "Ada Bell leads Gamma.", "Bo Quill, 40, leads Delta."
WHO, WHERE = "Who leads Gamma?", "Where is Delta?"
ROWS = [{"context": ADA, "question": WHO}, {"context": BO, "question": WHERE}]
SQUAD = {
    "version": "v2.0",
    "data": [
        {"title": "x", "paragraphs": [{"context": r["context"], "qas": [{"question": r["question"], "id": 1}]}]}
        for r in ROWS
    ],
}
MRQA = [
    {"header": {"dataset": "x"}},
    *({"context": r["context"], "qas": [{"qid": "1", "question": r["question"]}]} for r in ROWS),
]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


FORMS = {
    "squad.json": json.dumps(SQUAD),
    "pretty.json": json.dumps(SQUAD, indent=2),
    "mrqa.jsonl": lines(MRQA),
    "rows.jsonl": lines(ROWS),
    "rows.json": json.dumps(ROWS),
    "rows.csv": f'context,question\n"{ADA}",{WHO}\n"{BO}",{WHERE}\n',
    "rows.tsv": f"question\tcontext\n{WHO}\t{ADA}\n{WHERE}\t{BO}\n",
    "answered.jsonl": lines([{**row, "id": "1", "answers": {"text": ["Gamma"], "answer_start": [15]}} for row in ROWS]),
    "twice.jsonl": lines([*ROWS, ROWS[0]]),
}


@pytest.mark.parametrize("name", FORMS)
def test_questions_with_their_passages(tmp_path, name):
    file = tmp_path / name
    file.write_text(FORMS[name])
    found = unlabelled.read(file).examples
    assert [(e.question, e.context) for e in found] == [(WHO, ADA), (WHERE, BO)]
    assert all(e.answers == () and e.span is None and e.group == e.id for e in found) and found[0].id != found[1].id
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(FORMS[name].encode()))
    assert unlabelled.read(packed).examples == found


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "rows.tsv", "twice.jsonl"])
def test_questions_to_predict_have_ids_of_their_content_where_the_file_has_none(tmp_path, name):
    (tmp_path / name).write_text(FORMS[name])
    asked = unlabelled.read_asked(tmp_path / name)
    assert [(e.question, e.context) for e in asked[:2]] == [(WHO, ADA), (WHERE, BO)]
    assert [e.id for e in asked[2:]] == [f"{asked[0].id}.2"] * (name == "twice.jsonl")
    answers = [{"text": ["Ada Bell"], "answer_start": [0]}, {"text": ["Bo Quill"], "answer_start": [0]}]
    given = [{**row, "answers": answer} for row, answer in zip(ROWS, answers, strict=True)]
    (tmp_path / "answered.json").write_text(json.dumps(given))
    assert [e.id for e in questions.read(tmp_path / "answered.json").examples] == [e.id for e in asked[:2]]


@pytest.mark.parametrize("name", ["squad.json", "mrqa.jsonl"])
def test_questions_to_predict_have_their_file_s_ids(tmp_path, name):
    (tmp_path / name).write_text(FORMS[name])
    with pytest.raises(DataError, match=r"1 of 2 records refused: (question|line) [23] \(id 1\): the id is taken by "):
        unlabelled.read_asked(tmp_path / name)
    before = '"qid": "1"' if name == "mrqa.jsonl" else '"id": 1'
    head, _, tail = FORMS[name].rpartition(before)
    (tmp_path / name).write_text(head + before.replace("1", "7") + tail)
    assert [(e.id, e.question) for e in unlabelled.read_asked(tmp_path / name)] == [("1", WHO), ("7", WHERE)]


def test_a_row_has_its_id_and_a_passage_s_question_its_qid_first(tmp_path):
    both = {"id": "a", "qid": "b"}
    (tmp_path / "rows.json").write_text(json.dumps([{**ROWS[0], **both}]))
    (tmp_path / "lines.jsonl").write_text(lines([{"context": ADA, "qas": [{"question": WHO, **both}]}]))
    assert [unlabelled.read_asked(tmp_path / name)[0].id for name in ("rows.json", "lines.jsonl")] == ["a", "b"]


def test_an_id_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text(lines([{**ROWS[0], "id": 1.5}]))
    with pytest.raises(DataError, match=r"expected 'id' to be text, found 1\.5"):
        unlabelled.read_asked(tmp_path / "rows.jsonl")


ANSWERED = [{**row, "id": f"i{n}", "answers": {"text": ["Gamma"], "answer_start": [15]}} for n, row in enumerate(ROWS)]


def test_wrong_answers_are_no_trouble_as_nobody_reads_them(tmp_path):
    (tmp_path / "rows.jsonl").write_text(lines(ANSWERED))
    with pytest.raises(DataError, match="'Gamma' does not stand in the context"):
        questions.read(tmp_path / "rows.jsonl")
    asked = unlabelled.read_asked(tmp_path / "rows.jsonl")
    assert [(e.id, e.question, e.context, e.answers) for e in asked] == [("i0", WHO, ADA, ()), ("i1", WHERE, BO, ())]
    (tmp_path / "rows.jsonl").write_text(lines([ROWS[0] | {"answers": ["Ada"]}, ROWS[1] | {"answers": 1}]))
    assert [e.question for e in unlabelled.read_asked(tmp_path / "rows.jsonl")] == [WHO, WHERE]
    squad = json.dumps(SQUAD).replace('"id": 1', '"id": "a", "answers": [{"text": "Gamma", "answer_start": 15}]', 1)
    (tmp_path / "squad.json").write_text(squad)  # the second question has no answers at all
    assert [e.id for e in unlabelled.read_asked(tmp_path / "squad.json")] == ["a", "1"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"context": ADA, "id": "x", "answers": {"text": [], "answer_start": []}}, "line 3 .*: 'question' is missing"),
        (ANSWERED[1], r"1 of 3 records refused: line 3 \(id i1\): the id is taken by line 2"),
        (
            {"context": " ", "question": WHO, "id": "x", "answers": {}},
            r"1 of 3 records refused: line 3 \(id x\): 'context' is empty",
        ),
    ],
)
def test_no_question_is_lost_over_wrong_answers(tmp_path, row, says):
    (tmp_path / "rows.jsonl").write_text(lines([*ANSWERED, row]))
    with pytest.raises(DataError, match=says):
        unlabelled.read_asked(tmp_path / "rows.jsonl")


def test_a_file_of_no_kind_is_refused_as_questions_are(tmp_path):
    (tmp_path / "rows.jsonl").write_text(lines([{"text": ADA}]))
    with pytest.raises(DataError, match="expected SQuAD's JSON"):
        unlabelled.read_asked(tmp_path / "rows.jsonl")


def test_parquet(tmp_path):
    import pandas as pd

    pd.DataFrame(ROWS).assign(other=1).to_parquet(tmp_path / "rows.parquet")
    assert [e.question for e in unlabelled.read(tmp_path / "rows.parquet").examples] == [WHO, WHERE]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"{ADA}\n\n{BO}\n", "there is no question in it, and a passage alone cannot be answered; expected"),
        (lines([{"context": ADA}, {"text": BO}]), "there is no question in it, and a passage alone"),
        (json.dumps([ADA, BO]), "there is no question in it, and a passage alone"),
        (json.dumps({"data": [{"paragraphs": [{"context": ADA, "qas": []}]}]}), "there is no question in it"),
        (
            lines([ROWS[0], {"question": WHERE}]),
            "1 of 2 records refused: line 2: 'context' is missing; the keys are 'question'",
        ),
        (
            lines([ROWS[0], {"question": " ", "context": BO}]),
            "1 of 2 records refused: line 2: 'question' is empty; fill it in",
        ),
        (f"context,question\n{ADA},{WHO}\n{BO},{WHERE}\n", "1 of 2 records refused: row from line 3: expected 2 cells"),
        (lines(ROWS) + '{"context": ', "not valid JSON at line 3"),
        ("PK\x03\x04", "a zip archive"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path, content, says):
    file = tmp_path / "more.jsonl"
    file.write_text(content)
    with pytest.raises(DataError) as refusal:
        unlabelled.read(file)
    assert says in str(refusal.value) and str(refusal.value).startswith(str(file)) and "\n" not in str(refusal.value)


def test_a_file_of_another_kind_is_told_that_questions_are_expected(tmp_path):
    for content in (b"%PDF-1.7", b"", json.dumps(ROWS[0], indent=1).encode()[:-1]):
        (tmp_path / "more").write_bytes(content)
        with pytest.raises(DataError, match="expected questions with their passages") as refused:
            unlabelled.read(tmp_path / "more")
        assert "texts and labels" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"none.json: no such file; .* holds nothing; expected questions with their p"):
        unlabelled.read(tmp_path / "none.json")


def test_what_a_domain_has_is_left_out(tmp_path):
    data = load("smoke").data
    domain = mini.load_domain("news", seed=data.seed, train_size=24, valid_size=8, test_size=12)
    rows = [
        {"context": e.context, "question": e.question}
        for part in ("train", "valid", "test")
        for e in getattr(domain, part)[:2]
    ]
    file = tmp_path / "more.jsonl"
    file.write_text(lines([*rows, *ROWS]))
    found = unlabelled.load_unlabelled(data, str(file))
    assert [e.question for e in found.examples] == [WHO, WHERE]
    assert found.notes == ["2 questions without an answer, 6 more are left out, as the domains have them"]
    file.write_text(lines(rows))
    unlabelled.load_unlabelled.cache_clear()
    with pytest.raises(DataError, match="the domains have all 6 questions of it; give other ones"):
        unlabelled.load_unlabelled(data, str(file))
