"""Files of labelled texts: what is read of each format, and what is refused."""

import gzip
import json

import datasets
import pandas
import pytest

from helpers.data.examples import DataError
from helpers.data.formats.labelled import from_rows, read_texts
from helpers.data.formats.reviews import review_files

POLAR = ["negative", "positive"]
MNLI = ["contradiction", "entailment", "neutral"]


def review(text, identifier="b1", **other):
    fields = {"unique_id": identifier, "title": "Read it", **other, "review_text": text}
    return "<review>\n" + "".join(f"<{name}>\n{value}\n</{name}>\n" for name, value in fields.items()) + "</review>\n"


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def texts_of(path, labels=POLAR, genre="", part="all"):
    records = read_texts(path, labels, genre)[0][part]
    return [(record.id, record.first, record.second, record.label) for record in records]


def refusal_of(path, labels=POLAR, genre=""):
    with pytest.raises(DataError) as refused:
        read_texts(path, labels, genre)
    return str(refused.value)


# ------------------------------------------------------------------------------------------------------------ reviews


def test_reviews_are_their_text_with_their_files_label_positive_first(tmp_path):
    write(tmp_path / "books/negative.review", review("Two\n\nlines & <b>tags</b>", "n1"))
    write(tmp_path / "books/positive.review", "<data>\n", review("Good", "p1"), review(" Fine ", "p1"), "</data>\n")
    write(tmp_path / "books/unlabeled.review", review("Unknown"))
    wanted = [
        ("p1", "Good", None, "positive"),
        ("p1", "Fine", None, "positive"),
        ("n1", "Two\n\nlines & <b>tags</b>", None, "negative"),
    ]
    assert texts_of(tmp_path / "books") == wanted
    for name in ("negative", "positive", "unlabeled"):
        (tmp_path / f"books/{name}.review").rename(tmp_path / f"books.{name}.review")
    write(tmp_path / "bookshelves.positive.review", review("Other"))
    (tmp_path / "books").rmdir()
    assert texts_of(tmp_path / "books") == wanted


def test_reviews_in_latin_1_are_read_and_noted(tmp_path):
    (tmp_path / "positive.review").write_bytes(review("Très bon").encode("latin-1"))
    parts, notes = read_texts(tmp_path, POLAR)
    assert parts["all"][0].first == "Très bon" and notes == [
        "positive.review: it is not UTF-8, and was read as Latin-1"
    ]
    (tmp_path / "positive.review").write_bytes(review("Très bon").encode())
    parts, notes = read_texts(tmp_path, POLAR)
    assert parts["all"][0].first == "Très bon" and notes == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            review("A").replace("</review>\n", "") + review("B"),
            "1 of 2 records refused: review 1 from line 1: it is not",
        ),
        (
            review("A") + review("B").replace("</review>\n", ""),
            "review 2 from line 12: it is not closed before the file",
        ),
        (review("A").replace("review_text", "text"), "review 1 from line 1: <review_text> is missing or not closed"),
        (review("A").replace("</review_text>\n", ""), "review 1 from line 1: <review_text> is missing or not closed"),
        (review("A") + "</review>\n", "1 of 2 records refused: line 12 closes no review"),
        (review("  "), "review 1 from line 1 (id b1): 'text' is empty; fill it in or remove the record"),
        ("<html>", "expected reviews, each between lines <review> and </review>; fetch the file again"),
        ("<data>\n</data>\n", "there is no labelled text in it"),
    ],
)
def test_broken_reviews_are_refused(tmp_path, content, says):
    file = write(tmp_path / "positive.review", content)
    assert (said := refusal_of(tmp_path)).startswith(f"{file}: ") and says in said


def test_a_file_of_reviews_with_an_unknown_name(tmp_path):
    write(tmp_path / "good.review", review("A"))
    assert "the label 'good' is none of negative, positive" in refusal_of(tmp_path)
    assert review_files(tmp_path / "nowhere") == []


# --------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("label", ["label", "gold_label", "class", "sentiment"])
@pytest.mark.parametrize(
    "columns",
    [
        ("text",),
        ("sentence",),
        ("review",),
        ("content",),
        ("premise", "hypothesis"),
        ("sentence1", "sentence2"),
        ("question", "sentence"),
        ("text", "text_pair"),
    ],
)
def test_columns_that_are_known(tmp_path, columns, label):
    rows = [
        {**dict.fromkeys(columns, 'a, "b"'), label: "positive", "other": 1},
        {**dict.fromkeys(columns, "c"), label: 0},
    ]
    table = pandas.DataFrame(rows)
    second = ('a, "b"', "c") if len(columns) == 2 else (None, None)
    wanted = [('a, "b"', second[0], "positive"), ("c", second[1], "negative")]
    write(tmp_path / "a.jsonl", *rows)
    write(tmp_path / "b.json", json.dumps(rows))
    table.to_csv(tmp_path / "c.csv", index=False)
    table.to_csv(tmp_path / "d.tsv", index=False, sep="\t")
    table.astype({label: str}).to_parquet(tmp_path / "e.parquet")
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress((tmp_path / "c.csv").read_bytes()))
    for file in sorted(tmp_path.iterdir()):
        assert [text[1:] for text in texts_of(file)] == wanted, file.name


def test_mnli_by_the_names_of_its_authors(tmp_path):
    rows = [
        {"gold_label": "neutral", "pairID": "1n", "sentence1": "A.", "sentence2": "B.", "genre": "fiction"},
        {"gold_label": "-", "pairID": "2x", "sentence1": "C.", "sentence2": "D.", "genre": "fiction"},
        {"gold_label": "entailment", "pairID": "3e", "sentence1": "E.", "sentence2": "F.", "genre": "travel"},
    ]
    file = write(tmp_path / "mnli.jsonl", *rows)
    parts, notes = read_texts(file, MNLI)
    assert [record.id for record in parts["all"]] == ["1n", "3e"]
    assert notes == ["mnli.jsonl: texts left out, as they have no agreed label: 1"]
    assert texts_of(file, MNLI, "travel") == [("3e", "E.", "F.", "entailment")]
    assert "no labelled text in it of the genre 'slate'; there are 'fiction', 'travel'" in refusal_of(
        file, MNLI, "slate"
    )


def test_a_dash_is_a_label_like_any_other_but_for_mnli(tmp_path):
    content = "text,{column}\nA,+\nB,-\n"
    for column, labels, wanted in (("label", [], "+-"), ("label", ["+", "-"], "+-"), ("gold_label", [], "+")):
        parts, notes = read_texts(write(tmp_path / "a.csv", content.format(column=column)), labels)
        assert "".join(record.label for record in parts["all"]) == wanted and len(notes) == 2 - len(wanted)
    rows = [{"premise": "A", "hypothesis": "B", "label": label} for label in ("neutral", "-")]
    for labels in (MNLI, []):
        parts, notes = read_texts(write(tmp_path / "mnli.jsonl", *rows), labels)
        assert len(parts["all"]) == 1 and notes == ["mnli.jsonl: texts left out, as they have no agreed label: 1"]
    assert "the label '-' is none of negative, positive" in refusal_of(write(tmp_path / "b.csv", "text,label\nA,-\n"))


def test_mnlis_class_numbers_are_those_of_the_hub(tmp_path):
    numbers = write(tmp_path / "m.jsonl", *({"premise": "A", "hypothesis": "B", "label": n} for n in (0, 1, 2, -1)))
    parts, notes = read_texts(numbers, MNLI)
    assert [record.label for record in parts["all"]] == ["entailment", "neutral", "contradiction"]
    assert notes[1] == "m.jsonl: labels are class numbers, read as 0 entailment, 1 neutral, 2 contradiction"


def test_labels_that_are_numbers_by_name(tmp_path):
    file = write(tmp_path / "a.csv", "text,label\nA,-1\nB,1\nC,0.0\n")
    assert [text[3] for text in texts_of(file, ["-1", "0.0", "1"])] == ["-1", "1", "0.0"]
    assert [text[3] for text in texts_of(file, [])] == ["-1", "1", "0.0"]
    file = write(tmp_path / "b.jsonl", {"text": "A", "label": 1.0}, {"text": "B", "label": 0})
    parts, notes = read_texts(file, ["0", "1"])
    assert [record.label for record in parts["all"]] == ["1", "0"] and notes == []


def test_whole_numbers_as_pandas_writes_them_beside_gaps(tmp_path):
    file = write(tmp_path / "a.csv", "text,label\nA,1.0\nB,-1.0\nC,2.0\n")
    for labels, wanted in (
        (["1", "2"], ["1", "2"]),
        (["a", "b", "c"], ["b", "c"]),
        (MNLI, ["neutral", "contradiction"]),
    ):
        assert [text[3] for text in texts_of(file, labels)] == wanted
    assert [text[3] for text in texts_of(file, [])] == ["1.0", "-1.0", "2.0"]


def test_labels_whose_names_are_numbers_are_no_places(tmp_path):
    file = write(tmp_path / "a.jsonl", {"text": "A", "label": 1.0}, {"text": "B", "label": 2})
    for labels in (["1.0", "2.0", "3.0"], ["1", "2", "3"]):
        parts, notes = read_texts(file, labels)
        assert [record.label for record in parts["all"]] == labels[:2] and notes == []
    assert "the label 'v2.0' is none of v1, v2" in refusal_of(
        write(tmp_path / "c.csv", "text,label\nA,v2.0\n"), ["v1", "v2"]
    )
    stars = ["1", "2", "3", "4", "5"]
    assert "line 2: the label '0' is none of 1, 2" in refusal_of(write(tmp_path / "b.csv", "text,label\nA,0\n"), stars)


def test_the_hubs_own_names_of_classes_decide(tmp_path):
    features = datasets.Features(
        {
            "premise": datasets.Value("string"),
            "hypothesis": datasets.Value("string"),
            "genre": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["neutral", "contradiction", "entailment"]),
        }
    )
    columns = {
        "premise": list("ABCD"),
        "hypothesis": list("abcd"),
        "genre": ["x", "y", "x", "x"],
        "label": [0, 1, 2, -1],
    }
    rows = datasets.Dataset.from_dict(columns, features=features)
    records, notes = from_rows(rows, "own/d[train]", MNLI, "x")
    assert [(record.first, record.label) for record in records] == [("A", "neutral"), ("C", "entailment")]
    assert notes == ["d[train]: texts left out, as they have no agreed label: 1"]
    records, notes = from_rows(rows, "own/d[train]")
    assert [record.label for record in records] == ["neutral", "contradiction", "entailment"] and len(notes) == 1
    with pytest.raises(DataError, match=r"own/d\[train\]: .*of the genre 'z'; there are 'x', 'y'"):
        from_rows(rows, "own/d[train]", MNLI, "z")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": "A", "label": "good"}, "line 2: the label 'good' is none of negative, positive; correct it, or name"),
        ({"text": "A", "label": 2}, "line 2: the label '2' is none of negative, positive"),
        ({"text": "A", "label": 0.5}, "expected 'label' to be one of negative, positive or a class number, found 0.5"),
        ({"text": "A", "label": None}, "line 2: the label is missing in 'label'; fill in one of negative, positive"),
        ({"text": "A", "label": ""}, "line 2: the label is missing in 'label'"),
        ({"text": "A"}, "line 2: the label is missing in 'label'"),
        ({"text": "A", "label": " "}, "line 2: the label is missing in 'label'"),
        ({"text": " ", "label": 1}, "line 2: 'text' is empty; fill it in or remove the record"),
        ({"label": 1}, "line 2: 'text' is missing; the keys are 'label'"),
        ({"text": 3, "label": 1}, "line 2: expected 'text' to be text, found 3"),
        ([1], "line 2: expected an object with 'text', found [1]"),
    ],
)
def test_rows_that_are_refused(tmp_path, row, says):
    file = write(tmp_path / "a.jsonl", {"text": "A", "label": "positive"}, row)
    assert refusal_of(file).startswith(f"{file}: 1 of 2 records refused: ") and says in refusal_of(file)


def test_ten_refusals_are_listed(tmp_path):
    said = refusal_of(write(tmp_path / "a.jsonl", *[{"text": "", "label": 1}] * 12, {"text": "A", "label": 1}))
    assert "12 of 13 records refused" in said and said.count("\n") == 11 and said.endswith("and 2 more")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no row is in it"),
        (b"text,label\n", "no row is in it"),
        (b"[]", "no row is in it"),
        (b'{"text": "A"', "not valid JSON at line 1"),
        (b'{\n "text": "A",\n "label": 1\n}', "expected rows of texts and labels as JSON (an object a line, or a list"),
        (b'{\n "text": "A",\n "label": 1\n}', "; write each object on one line"),
        (b"text,stars\nA,1\n", "found 'text', 'stars'"),
        (b"text,label\nA,1,2\n", "row from line 2: expected 2 cells, as line 1 has, found 3; check its quotes"),
        (b"text,label\nA\xe9,1\n", "line 2 is not UTF-8: byte 12 of the file is 0xe9; save the file as UTF-8"),
        (b'text\tlabel\n"Hello there\t1\nand goodbye"\t0\n', "row from line 2: a quote at the beginning of a cell"),
        (b"PK\x03\x04", "it is a zip archive or a spreadsheet: unpack it, or save it as CSV"),
        (b"PAR1 and no more", "expected a whole Parquet file"),
        (gzip.compress(b"text,label\nA,1\n" * 99)[:-9], "fetch the file again"),
    ],
)
def test_files_that_are_refused(tmp_path, content, says):
    (tmp_path / "a.csv").write_bytes(content)
    assert refusal_of(tmp_path / "a.csv").startswith(f"{tmp_path / 'a.csv'}: ")
    assert says in refusal_of(tmp_path / "a.csv") and "\n" not in refusal_of(tmp_path / "a.csv")


# -------------------------------------------------------------------------------------------------------------- parts


def test_files_say_their_parts_in_a_folder_or_by_its_name(tmp_path):
    row = {"text": "A", "label": 1}
    for name in (
        "fiction.train.jsonl",
        "fiction.dev_matched.jsonl",
        "fictional.train.jsonl",
        "own/trn.csv",
        "own/tst.csv",
    ):
        write(tmp_path / name, row if name.endswith("jsonl") else "text,label\nB,0\n")
    parts, _ = read_texts(tmp_path / "fiction", POLAR)
    assert set(parts) == {"train", "valid"} and len(parts["train"]) == 1
    assert set(read_texts(tmp_path / "own", POLAR)[0]) == {"train", "test"}
    assert parts["train"][0].where == f"{tmp_path / 'fiction.train.jsonl'}: line 1"


def test_a_part_of_no_known_form_is_named(tmp_path):
    write(tmp_path / "own" / "test.csv", "text,label\nB,0\n")
    (tmp_path / "own" / "train.xlsx").write_bytes(b"PK\x03\x04")
    assert "own: not read, as they are of no known form: train.xlsx" in read_texts(tmp_path / "own", POLAR)[1]


def test_shards_are_one_file(tmp_path):
    for number in range(2):
        table = pandas.DataFrame({"text": [f"A{number}"], "label": [number]})
        table.to_parquet(tmp_path / f"train-{number:05}-of-00002.parquet")
    assert [text[1] for text in texts_of(tmp_path)] == ["A0", "A1"]


def test_missing_places_are_refused(tmp_path):
    write(tmp_path / "fiction.train.jsonl", {"text": "A", "label": 1})
    assert f"{tmp_path}: no domain 'travel' here" in refusal_of(tmp_path / "travel")
    assert "fiction.train.jsonl" in refusal_of(tmp_path / "travel")
    assert "not/there: no such file; expected" in refusal_of(tmp_path / "not/there")
    assert "cannot be read (No such file or directory)" in refusal_of(tmp_path / "positive.review")
