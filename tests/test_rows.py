"""Rows of questions as people store them: JSON, CSV, TSV, Parquet, saved datasets; told by their content."""

import gzip
import json
import re

import datasets
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from qa_files import CONTEXT, mrqa_question, question, write_many, write_mrqa, write_squad

from helpers.data.examples import DataError
from helpers.data.formats.cells import literal
from helpers.data.formats.columns import MADE, from_rows
from helpers.data.questions import load_domain, read

QUOTED = "She said: \"It's\n\tfine\", twice. It's fine."
ROWS = [
    {
        "id": "q1",
        "title": "Ada",
        "context": CONTEXT,
        "question": "Where?",
        "answers": [("London", 36), ("in London", 33)],
    },
    {"id": "q2", "title": "Ada", "context": CONTEXT, "question": "Why?", "answers": []},
    {
        "id": "q3",
        "title": "Bo",
        "context": QUOTED,
        "question": 'What, "now"?',
        "answers": [('"It\'s\n\tfine"', 10)] * 7,
    },
]
WANTED = [
    ("q1", CONTEXT, "Where?", ("London", "in London"), (36, 42)),
    ("q2", CONTEXT, "Why?", (), None),
    ("q3", QUOTED, 'What, "now"?', ('"It\'s\n\tfine"',), (10, 22)),
]


def columns(answers):
    return {"text": [text for text, _ in answers], "answer_start": [start for _, start in answers]}


def rows(**changes):
    return [row | {"answers": columns(row["answers"])} | changes for row in ROWS]


MRQA_ROW = {
    "subset": "NewsQA",
    "qid": "m1",
    "context": CONTEXT,
    "context_tokens": {"tokens": ["Ada"], "offsets": [0]},
    "question": "Where?",
    "answers": ["London", "in London"],
    "detected_answers": {
        "text": ["London", "in London"],
        "char_spans": [{"start": [36], "end": [41]}, {"start": [33], "end": [41]}],
    },
}


def said(corpus):
    return [(e.id, e.context, e.question, e.answers, e.span) for e in corpus.examples]


def to_lines(values, path, **_):
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


WRITERS = {
    "lines": to_lines,
    "list": lambda values, path: path.write_text(json.dumps(values)),
    "printed list": lambda values, path: path.write_text(json.dumps(values, indent=2)),
    "data": lambda values, path: path.write_text(json.dumps({"version": "1", "data": values})),
    "datasets' lines": lambda values, path: datasets.Dataset.from_list(values).to_json(path),
    "datasets' csv": lambda values, path: datasets.Dataset.from_list(values).to_csv(path),
    "datasets' parquet": lambda values, path: datasets.Dataset.from_list(values).to_parquet(path),
    "pandas' csv": lambda values, path: pandas.DataFrame(values).to_csv(path),
    "pandas' tsv": lambda values, path: pandas.DataFrame(values).to_csv(path, sep="\t", index=False),
    "pandas' csv of arrays": lambda values, path: datasets.Dataset.from_list(values).to_pandas().to_csv(path),
    "pandas' csv with semicolons": lambda values, path: pandas.DataFrame(values).to_csv(path, sep=";"),
    "pandas' parquet": lambda values, path: pandas.DataFrame(values).to_parquet(path),
    "pandas' records": lambda values, path: pandas.DataFrame(values).to_json(path, orient="records"),
}
TEXT = [name for name in WRITERS if "parquet" not in name]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", ["rows", "rows.json", "rows.jsonl", "rows.csv", "rows.parquet"])
def test_rows_are_read_whatever_their_suffix(tmp_path, writer, name):
    WRITERS[writer](rows(), tmp_path / name)
    corpus = read(tmp_path / name, unanswerable=True)
    assert said(corpus) == WANTED and corpus.notes == [] and corpus.documents == ["Ada", "Ada", "Bo"]


@pytest.mark.parametrize("writer", WRITERS)
def test_rows_of_mrqa(tmp_path, writer):
    WRITERS[writer]([MRQA_ROW, MRQA_ROW | {"qid": "m2"}], tmp_path / "m")
    corpus = read(tmp_path / "m")
    assert said(corpus) == [(i, CONTEXT, "Where?", ("London", "in London"), (36, 42)) for i in ("m1", "m2")]
    assert corpus.notes == []


@pytest.mark.parametrize("writer", TEXT)
def test_a_byte_order_mark_and_gzip_change_nothing(tmp_path, writer):
    WRITERS[writer](rows(), tmp_path / "rows")
    whole = b"\xef\xbb\xbf" + (tmp_path / "rows").read_bytes()
    for name, content in (("marked", whole), ("zipped", gzip.compress(whole)), ("rows.txt.gz", gzip.compress(whole))):
        (tmp_path / name).write_bytes(content)
        assert said(read(tmp_path / name, unanswerable=True)) == WANTED


@pytest.mark.parametrize("name", ["a", "a.json", "a.jsonl", "a.csv", "a.gz"])
def test_squad_and_mrqa_are_told_by_their_content(tmp_path, name):
    assert read(write_squad(tmp_path / name, (CONTEXT, [question()]))).examples[0].id == "q1"
    assert read(write_mrqa(tmp_path / name, mrqa_question())).examples[0].id == "m1"
    assert read(write_mrqa(tmp_path / name, mrqa_question(), header=False)).examples[0].id == "m1"


def test_one_article_need_not_stand_in_a_list(tmp_path):
    article = {"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": [question()]}]}
    for value in ({"data": article}, {"data": [article]}, [article]):
        (tmp_path / "a.json").write_text(json.dumps(value))
        assert read(tmp_path / "a.json").examples[0].id == "q1"


def test_dialogues_with_turns_as_their_context(tmp_path):
    """As FriendsQA and Molweni are converted: a speaker and an utterance a line; one object holds all dialogues."""
    context = "Ross: Where is the monkey?\nRachel: I thought the monkey was with you!\nRoss: With me?"
    questions = [
        question("f1", "Who asks?", [("Ross", 0)], is_impossible=False),
        question("f2", "What is lost?", [("the monkey", 45)], is_impossible=False),
        question("f3", "Who has it?", (), is_impossible=True, plausible_answers=[{"text": "you", "answer_start": 64}]),
    ]
    dialogue = {"context": context, "qas": questions, "edus": [], "relations": []}
    (tmp_path / "dev.json").write_text(json.dumps({"data": {"title": "dev", "dialogues": [dialogue]}}, indent=4))
    corpus = read(tmp_path / "dev.json", unanswerable=True)
    assert [example.span for example in corpus.examples] == [(0, 4), (45, 55), None] and corpus.notes == []


@pytest.mark.parametrize("text", ["answer", "answer_text"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "lines"])
def test_an_answer_may_have_two_columns(tmp_path, text, kind):
    values = [{"id": "q1", "context": CONTEXT, "question": "Where?", text: "London", "answer_start": 36}]
    values.append(values[0] | {"id": "q2", text: None, "answer_start": None})  # which makes pandas' numbers 36.0
    values.append(values[0] | {"id": "q3", text: "", "answer_start": -1})
    frame = pandas.DataFrame(values)
    if kind == "csv":
        frame.to_csv(tmp_path / "rows", index=False)
    else:
        frame.to_parquet(tmp_path / "rows") if kind == "parquet" else to_lines(values, tmp_path / "rows")
    corpus = read(tmp_path / "rows", unanswerable=True)
    assert [(e.answers, e.span) for e in corpus.examples] == [(("London",), (36, 42)), ((), None), ((), None)]
    values[1]["answer_start"] = 3
    to_lines(values, tmp_path / "rows")
    with pytest.raises(DataError, match=rf"line 2: '{text}' and 'answer_start' come together; found None and 3"):
        read(tmp_path / "rows")


@pytest.mark.parametrize("writer", ["lines", "datasets' csv", "datasets' parquet", "pandas' csv"])
def test_rows_without_ids_get_them_from_their_content(tmp_path, writer):
    values = [{key: value for key, value in row.items() if key != "id"} for row in [*rows(), rows()[0]]]
    WRITERS[writer](values, tmp_path / "rows")
    corpus = read(tmp_path / "rows", unanswerable=True)
    first, *_, again = [example.id for example in corpus.examples]
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{8}", first) and again == first + ".2"
    assert len({example.id for example in corpus.examples}) == 4 and corpus.notes == [f"rows: 4 {MADE}"]
    WRITERS[writer](values[:3][::-1], tmp_path / "rows")
    assert {example.id for example in read(tmp_path / "rows", unanswerable=True).examples} == {
        example.id for example in corpus.examples[:3]
    }


def test_an_id_that_only_some_rows_lack_is_refused(tmp_path):
    values = rows()
    del values[1]["id"]
    to_lines(values, tmp_path / "rows")
    with pytest.raises(DataError, match=r"1 of 3 records refused: line 2: 'qid' is missing|line 2: 'id' is missing"):
        read(tmp_path / "rows", unanswerable=True)
    datasets.Dataset.from_list([*rows(), rows(id=None)[0]]).to_parquet(tmp_path / "rows")
    with pytest.raises(DataError, match=r"1 of 4 records refused: row 4: expected 'id' to be text, found None"):
        read(tmp_path / "rows", unanswerable=True)


def many(tag, count):
    context = "{} passage {} speaks of thing{}."
    return [
        {
            "id": f"{tag}{n}",
            "context": (text := context.format(tag, n, n)),
            "question": "What?",
            "answers": columns([(f"thing{n}", text.index(f"thing{n}"))]),
        }
        for n in range(count)
    ]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_shards_of_a_part_are_read_together(tmp_path, suffix):
    for part, count in (("train", 3), ("validation", 1), ("test", 2)):
        for number in range(count):
            data = datasets.Dataset.from_list(many(f"{part}{number}-", 4))
            getattr(data, "to_json" if suffix == "jsonl" else f"to_{suffix}")(
                tmp_path / f"{part}-{number:05}-of-{count:05}.{suffix}"
            )
    domain = load_domain("d", tmp_path, seed=0)
    assert [len(part) for part in (domain.train, domain.valid, domain.test)] == [12, 4, 8]
    (tmp_path / f"train-00001-of-00003.{suffix}").unlink()
    with pytest.raises(DataError, match=r"is in 3 shards, of which 1 are missing, the first with the number 00001"):
        load_domain("d", tmp_path, seed=0)


def test_one_shard_alone_is_noted(tmp_path):
    path = tmp_path / "train-00001-of-00003.csv"
    datasets.Dataset.from_list(many("x", 4)).to_csv(path)
    assert read(path).notes == [f"{path.name}: one of 3 shards; their folder's name gives all of them"]


def test_a_part_of_no_known_form_is_noted(tmp_path):
    write_many(tmp_path / "d/train.json", 30)
    (tmp_path / "d/dev.xlsx").write_bytes(b"PK\x03\x04")
    domain = load_domain("d", tmp_path / "d", seed=0, valid_size=10)
    assert domain.notes[0] == "d: not read, as they are of no known form: dev.xlsx"


def test_a_refusal_names_its_shard(tmp_path):
    for number in range(2):
        values = many("x", 4) if number else many("y", 3)
        datasets.Dataset.from_list(values).to_parquet(tmp_path / f"train-{number:05}-of-00002.parquet")
    datasets.Dataset.from_list([many("x", 1)[0]] * 2).to_parquet(tmp_path / "train-00001-of-00002.parquet")
    with pytest.raises(
        DataError, match=r"train-\*-of-00002\.parquet: 1 of 5 .*train-00001-of-00002\.parquet: row 2 \(id x0\)"
    ):
        load_domain("d", tmp_path, seed=0)


def test_saved_datasets(tmp_path):
    datasets.Dataset.from_list(rows()).save_to_disk(tmp_path / "one", num_shards=2)
    assert said(read(tmp_path / "one", unanswerable=True)) == WANTED
    parts = {part: datasets.Dataset.from_list(many(part, 9)) for part in ("train", "validation", "test")}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "all")
    domain = load_domain("d", tmp_path / "all", seed=0)
    assert [{e.id[:4] for e in part} for part in (domain.train, domain.valid, domain.test)] == [
        {"trai"},
        {"vali"},
        {"test"},
    ]
    next((tmp_path / "one").glob("data-00001*")).unlink()
    with pytest.raises(DataError, match=r"one: expected a whole folder .*save_to_disk .*00001-of-00002\.arrow"):
        read(tmp_path / "one")
    (tmp_path / "one/state.json").write_text("{}")
    with pytest.raises(DataError, match=r"one: expected a whole folder that datasets\.save_to_disk wrote \("):
        read(tmp_path / "one")
    file = next((tmp_path / "all/train").glob("*.arrow"))
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(DataError, match=r"all/train: expected a whole folder that datasets\.save_to_disk wrote"):
        load_domain("d", tmp_path / "all", seed=0)
    with pytest.raises(DataError, match=r"is a file of a dataset that datasets\.save_to_disk wrote: give its folder"):
        read(file)
    (tmp_path / "all/test/state.json").unlink()
    with pytest.raises(DataError, match=r"dataset_dict\.json: expected 'splits' .* beside it \(test is none\)"):
        load_domain("d", tmp_path / "all", seed=0)


def test_a_saved_dataset_s_own_format_and_broken_text_make_no_difference(tmp_path):
    datasets.Dataset.from_list(rows()).with_format("numpy").save_to_disk(tmp_path / "one")
    assert said(read(tmp_path / "one", unanswerable=True)) == WANTED
    names = pyarrow.array([b"\xff\xfe", b"a", b"b"]).view(pyarrow.string())
    datasets.Dataset.from_list(rows()).add_column("other", names).save_to_disk(tmp_path / "two")
    with pytest.raises(DataError, match=r"two: expected a whole folder that datasets\.save_to_disk wrote \(.*UTF8"):
        read(tmp_path / "two", unanswerable=True)


def test_narrativeqa_of_the_hub_in_files(tmp_path):
    row = {
        "document": {"id": "d1", "text": "long", "summary": {"text": "A young girl slept .", "tokens": ["A"]}},
        "question": {"text": "Who ?", "tokens": ["Who", "?"]},
        "answers": [{"text": "young girl", "tokens": []}, {"text": "She", "tokens": []}],
    }
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "a")
    to_lines([row], tmp_path / "b")
    datasets.Dataset.from_list([row]).save_to_disk(tmp_path / "c")
    for name in "abc":
        (example,) = read(tmp_path / name).examples
        assert (example.question, example.answers, example.span) == ("Who ?", ("young girl", "She"), (2, 12))


def test_files_without_a_suffix_make_a_domain(tmp_path):
    for part, count in (("train", 9), ("dev", 3), ("test", 4)):
        write_many(tmp_path / "d" / part, count, tag=part)
    (tmp_path / "d/README.md").write_text("# Data\n")
    (tmp_path / "d/.train.json").write_text("{}")
    assert len(load_domain("d", tmp_path / "d", seed=0).train) == 18


def test_what_cells_print():
    assert literal("['a' 'b']") == ["a", "b"] and literal("['it''s']") == ["its"]
    assert literal("[{'a': array([1, 2])}\n {'a': array([], dtype=int64)}]") == [{"a": [1, 2]}, {"a": []}]
    assert literal('{"text": [null, true]}') == {"text": [None, True]}
    for text in ("array(", "__import__('os')", "open('x')", "", "[" * 9000, "1 +", "{[]: 1}"):
        assert literal(text) == text


# ------------------------------------------------------------------------------------------------------ broken files


def message(path, **options):
    with pytest.raises(DataError) as error:
        read(path, **options)
    assert str(error.value).startswith(str(path))
    return str(error.value).removeprefix(f"{path}: ")


UNKNOWN = {
    "zip": (b"PK\x03\x04xxxx", "it is a zip archive or a spreadsheet"),
    "web page": (b"<!DOCTYPE html>\n<html>", "it is a web page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "it is Git's pointer to a large file"),
    "UTF-16": ("id,context".encode("utf-16"), "it is text in UTF-16: save it as UTF-8"),
    "empty": (b"", "the file is empty"),
    "prose": (b"Once upon a time.\n", "it begins with 'Once upon a time.'; expected SQuAD's JSON"),
    "predictions": (b'{"q1": "London", "q2": "Ada"}', "it holds an object with the keys 'q1', 'q2'; expected SQuAD's"),
    "numbers": (b"[1, 2]", "it holds a list, the first of which is 1; expected"),
    "other rows": (b'{"text": "x"}\n{"text": "y"}\n', "line 1 holds an object with the keys 'text'; expected"),
    "deep": (b"[" * 100_000, "the JSON from line 1 is nested too deeply"),
    "deep object": (b'{"a":' * 100_000, "the JSON from line 1 is nested too deeply"),
    "long number": (b'{"data": ' + b"9" * 5000 + b"}", "the JSON from line 1 has a number too long to read"),
    "key twice": (b'{"data": [], "data": []}', "a JSON object has the key 'data' twice; keep one of them"),
    "half parquet": (b"PAR1" + b"\0" * 100, "expected a whole Parquet file (Parquet magic bytes not found"),
    "tiny parquet": (b"PAR1", "expected a whole Parquet file ("),
}


@pytest.mark.parametrize("case", UNKNOWN)
@pytest.mark.parametrize("suffix", ["", ".json", ".csv", ".parquet"])
def test_what_a_file_is_instead(tmp_path, case, suffix):
    content, expected = UNKNOWN[case]
    (tmp_path / f"bad{suffix}").write_bytes(content)
    says = message(tmp_path / f"bad{suffix}")
    if case == "prose" and suffix == ".csv":
        expected = "it begins with 'Once upon"
    assert says.startswith(expected) and len(says) <= 500


GOOD_CSV = "id,context,question,answer,answer_start\nq1,Ada met Bo,Who?,Bo,8\n"
BAD_TABLES = {
    "no columns": ("id,passage,query\n1,2,3\n", "expected the columns id, context, question and answers"),
    "one column": ("id|passage\n1|2\n", "expected the columns id, context, question and answers"),
    "column twice": (GOOD_CSV.replace("id,", "id,id,"), "line 1 names the column 'id' twice"),
    "open quote": (
        GOOD_CSV + 'q2,"Ada met Bo,Who?,Bo,8\n',
        "row from line 3 is not valid CSV (unexpected end of data); check its quotes: one that is opened and never clo",
    ),
    "open quote in a long file": (
        GOOD_CSV + 'q2,"Ada met Bo,Who?,Bo,8\n' + "q3,Ada met Bo,Who?,Bo,8\n" * 9000,
        "row from line 3 is not valid CSV (unexpected end of data); check its quotes: one that is opened and never clo",
    ),
    "odd quote": (GOOD_CSV + 'q2,"Ada" met Bo,Who?,Bo,8\n', "row from line 3 is not valid CSV (',' expected after"),
    "too few cells": (GOOD_CSV + "q2,Ada\n", "1 of 2 records refused: row from line 3: expected 5 cells, as line 1"),
    "other delimiter": (
        GOOD_CSV.replace("Ada met Bo,Who?,Bo", "Ada met Bo;Who?;Bo"),
        "1 of 1 records refused: row from",
    ),
    "NUL": (GOOD_CSV + "q2,Ada\0 met Bo,Who?,Bo,8\n", "line 3 holds a NUL byte"),
    "offset": (
        GOOD_CSV + "q2,Ada met Bo,Who?,Bo,eight\n",
        "1 of 2 records refused: row from line 3 (id q2), answer 1: exp",
    ),
    "latin": ((GOOD_CSV + "é").encode("latin-1"), "line 3 is not UTF-8"),
    "no rows": (GOOD_CSV.split("\n")[0], "there is no question in it"),
    "returns": (GOOD_CSV.replace("\n", "\r"), "it begins with"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_broken_tables(tmp_path, case):
    content, expected = BAD_TABLES[case]
    (tmp_path / "bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    says = message(tmp_path / "bad.csv")
    assert expected in says and len(says) <= 500


def write_table(path, **changes):
    """A Parquet file of one good row, but for ``changes``: pyarrow arrays or None to leave a column out."""
    fields = {
        "id": pyarrow.array(["q1"]),
        "context": pyarrow.array([CONTEXT]),
        "question": pyarrow.array(["Where?"]),
        "answers": pyarrow.array([columns([("London", 36)])]),
    } | changes
    pyarrow.parquet.write_table(
        pyarrow.table({name: value for name, value in fields.items() if value is not None}), path
    )
    return path


lengths = pyarrow.array([{"text": ["London", "Ada"], "answer_start": [36]}])
BAD_PARQUET = {
    "numbers": ({"context": pyarrow.array([3])}, "row 1 (id q1): expected 'context' to be text, found 3"),
    "bytes": ({"context": pyarrow.array([b"x"])}, "row 1 (id q1): expected 'context' to be text, found b'x'"),
    "null": ({"question": pyarrow.array([None], pyarrow.string())}, "expected 'question' to be text, found None"),
    "null answers": ({"answers": pyarrow.nulls(1)}, "expected 'answers' to be a list, found None"),
    "lengths": (
        {"answers": lengths},
        "expected 'answers' to be lists of one length (2 in 'text' and 1 in 'answer_start')",
    ),
    "text for answers": ({"answers": pyarrow.array(["London"])}, "expected 'answers' to be a list, found 'London'"),
    "no context": ({"context": None}, "expected the columns id, context, question and answers"),
    "not UTF-8": (
        {"context": pyarrow.array([b"\xff\xfe"]).view(pyarrow.string())},
        "expected a whole Parquet file (",
    ),
}


@pytest.mark.parametrize("case", BAD_PARQUET)
def test_broken_columns_of_parquet(tmp_path, case):
    changes, expected = BAD_PARQUET[case]
    says = message(write_table(tmp_path / "bad.parquet", **changes))
    assert expected in says and len(says) <= 500


def test_cut_parquet_files_and_folders_of_them(tmp_path):
    whole = write_table(tmp_path / "train.parquet").read_bytes()
    for size in range(4, len(whole), 97):
        (tmp_path / "train.parquet").write_bytes(whole[:size])
        assert message(tmp_path / "train.parquet").startswith("expected a whole Parquet file (")
        with pytest.raises(DataError, match=r"train\.parquet: expected a whole Parquet file"):
            load_domain("d", tmp_path, seed=0)
    (tmp_path / "train.parquet").write_bytes(gzip.compress(whole))
    assert "it is a gzipped Parquet file: unzip it" in message(tmp_path / "train.parquet")


def test_documents_that_are_no_stories_are_refused_by_their_columns(tmp_path):
    rows = [{"document": "Ada met Babbage.", "question": "Who?", "answers": ["Babbage"]}]
    table = datasets.Dataset.from_list(rows)
    table.save_to_disk(tmp_path / "saved")
    table.to_parquet(tmp_path / "rows.parquet")
    table.to_json(tmp_path / "rows.jsonl")
    for path in (tmp_path / "saved", tmp_path / "rows.parquet", tmp_path / "rows.jsonl"):
        says = r"expected the columns id, context|expected 'document' to have an id"
        with pytest.raises(DataError, match=says) as error:
            read(path)
        assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="expected the columns id, context"):
        from_rows(table, "x")


@pytest.mark.parametrize("quote", ["", '"'])
def test_cells_may_be_longer_than_a_csv_reader_s_first_limit(tmp_path, quote):
    context = f"{CONTEXT} {'x' * 300_000}"
    (tmp_path / "a.csv").write_text(f"{GOOD_CSV}q2,{quote}{context}{quote},Where?,London,36\n")
    last = read(tmp_path / "a.csv").examples[-1]
    assert (last.context, last.span) == (context, (36, 42))


def test_a_table_may_begin_as_a_zip_archive_does(tmp_path):
    (tmp_path / "a.csv").write_text(f"PK,context,question,answer,answer_start\n1,{CONTEXT},Where?,London,36\n")
    assert read(tmp_path / "a.csv").examples[0].span == (36, 42)


def test_blank_lines_before_a_table_are_skipped(tmp_path):
    (tmp_path / "a.csv").write_text(f"\n\nid,context,question,answer,answer_start\nq1,{CONTEXT},Where?,London,36\n")
    assert read(tmp_path / "a.csv").examples[0].span == (36, 42)
    (tmp_path / "b.csv").write_text(f"\n\nid,context,question,answer,answer_start\nq1,{CONTEXT},Where?\n")
    with pytest.raises(DataError, match="row from line 4: expected 5 cells, as line 3 has, found 3"):
        read(tmp_path / "b.csv")


def test_an_offset_of_thousands_of_digits_is_refused(tmp_path):
    row = f"q1,{CONTEXT},Where?,London,{'9' * 5000}"
    (tmp_path / "a.csv").write_text(f"id,context,question,answer,answer_start\n{row}\n")
    with pytest.raises(DataError, match="answer_start' to be a whole number, found '999"):
        read(tmp_path / "a.csv")
