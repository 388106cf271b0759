"""Questions without answers: which files hold them, and which are refused."""

import gzip
import json

import pytest

from helpers.data import unlabelled
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
        (lines([ROWS[0], {"question": WHERE}]), "1 of 2 records refused: line 2: expected a question and its passage"),
        (lines([ROWS[0], {"question": " ", "context": BO}]), "found ' ' and 'Bo Quill"),
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


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"none.json: no such file; expected questions with their passages: SQuAD"):
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
