"""Files of labelled texts and of choices: what every format gives, and what is rejected."""

import json
import re

import pandas
import pytest
from task_files import CODAH, LAYOUTS, PAIR, SWAG, SWAG_ROW, write_choices, write_task
from task_files import write as write_glue

from helpers.data.examples import DataError
from helpers.data.load import label_names, load, load_domains
from helpers.data.rows import REJECTED
from helpers.data.texts import find_reviews, read_choices, read_glue, read_texts
from helpers.presets.schema import TasksSettings, TextsSettings

POLAR = ["negative", "positive"]
MNLI = ["contradiction", "entailment", "neutral"]


def review(text, identifier="b1"):
    fields = {"unique_id": identifier, "title": "Read it", "review_text": text}
    return "<review>\n" + "".join(f"<{name}>\n{value}\n</{name}>\n" for name, value in fields.items()) + "</review>\n"


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def texts_of(path, labels=POLAR, genre="", part="all"):
    return [tuple(text) for text in read_texts(path, labels, genre)[0][part]]


def labels_of(path, labels=POLAR):
    return [text.label for text in read_texts(path, labels)[0]["all"]]


def error_of(read, *arguments):
    with pytest.raises(DataError) as error:
        read(*arguments)
    return str(error.value)


def test_reviews_are_their_text_with_their_files_label_positive_first(tmp_path):
    write(tmp_path / "books/negative.review", review("Two\n\nlines & <b>tags</b>", "n1"))
    write(tmp_path / "books/positive.review", "<data>\n", review("Good", "p1"), review(" Fine ", "p1"), "</data>\n")
    write(tmp_path / "books/unlabeled.review", review("Unknown"))
    expected = [("p1", "Good", None, "positive"), ("p1", "Fine", None, "positive")]
    expected.append(("n1", "Two\n\nlines & <b>tags</b>", None, "negative"))
    assert texts_of(tmp_path / "books") == expected
    for name in ("negative", "positive"):
        (tmp_path / f"books/{name}.review").rename(tmp_path / f"books.{name}.review")
    (tmp_path / "books/unlabeled.review").unlink()
    (tmp_path / "books").rmdir()
    assert texts_of(tmp_path / "books") == expected and find_reviews(tmp_path / "nowhere") == []


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig"])
def test_reviews_may_be_in_latin_1(tmp_path, encoding):
    (tmp_path / "positive.review").write_bytes(review("Très bon").encode(encoding))
    assert texts_of(tmp_path) == [("b1", "Très bon", None, "positive")]


def test_broken_reviews_are_rejected(tmp_path):
    one, two = review("A"), review("B")
    unclosed = [
        one.replace("</review>\n", "") + two,
        one + two.replace("</review>\n", ""),
        one + "</review>\n",
        "<html>",
    ]
    broken = dict.fromkeys(unclosed, "expected reviews, each between the lines <review>")
    broken[one.replace("</review_text>\n", "")] = "1 of 1 records rejected:\n  review 1: 'text' is empty"
    broken[review("  ")] = "1 of 1 records rejected:\n  review 1: 'text' is empty; fill it in, or remove the record"
    for content, says in broken.items():
        file = write(tmp_path / "positive.review", content)
        assert error_of(read_texts, tmp_path, POLAR).startswith(f"{file}: {says}")


@pytest.mark.parametrize(
    "columns",
    ["text label", "sentence gold_label", "review class", "content sentiment", "premise hypothesis label",
     "sentence1 sentence2 gold_label", "question sentence class", "text text_pair sentiment"],
)  # fmt: skip
def test_columns_that_are_known(tmp_path, columns):
    *names, label = columns.split()
    rows = [dict.fromkeys(names, 'a, "b"') | {label: "positive", "other": 1}, dict.fromkeys(names, "c") | {label: 0}]
    table = pandas.DataFrame(rows)
    second = ('a, "b"', "c") if len(names) == 2 else (None, None)
    expected = [('a, "b"', second[0], "positive"), ("c", second[1], "negative")]
    write(tmp_path / "a.jsonl", *rows)
    table.to_csv(tmp_path / "c.csv", index=False)
    table.astype({label: str}).to_parquet(tmp_path / "e.parquet")
    for file in sorted(tmp_path.iterdir()):
        assert [text[1:] for text in texts_of(file)] == expected, file.name


def test_mnli_by_the_names_of_its_authors(tmp_path):
    rows = [
        {"gold_label": "neutral", "pairID": "1n", "sentence1": "A.", "sentence2": "B.", "genre": "fiction"},
        {"gold_label": "-", "pairID": "2x", "sentence1": "C.", "sentence2": "D.", "genre": "fiction"},
        {"gold_label": "entailment", "pairID": "3e", "sentence1": "E.", "sentence2": "F.", "genre": "travel"},
    ]
    file = write(tmp_path / "mnli.jsonl", *rows)
    assert [text[0] for text in texts_of(file, MNLI)] == ["1n", "3e"]
    assert texts_of(file, MNLI, "travel") == [("3e", "E.", "F.", "entailment")]
    assert "(genre slate): has no usable record" in error_of(read_texts, file, MNLI, "slate")


def test_labels_by_name_and_number(tmp_path):
    def labels(content, names):
        return labels_of(write(tmp_path / "a.csv", "text,label\n", *(f"A,{value}\n" for value in content)), names)

    numbers = write(tmp_path / "m.jsonl", *({"premise": "A", "hypothesis": "B", "label": n} for n in (0, 1, 2, -1)))
    assert labels_of(numbers, MNLI) == ["entailment", "neutral", "contradiction"]  # the Hub's order
    assert labels(("1.0", "-1.0", "0"), ["a", "b"]) == ["b", "a"]  # pandas beside gaps
    # Names that are numbers are no places in the list.
    assert labels(("-1", "1", "0.0"), ["-1", "0.0", "1"]) == ["-1", "1", "0.0"]
    # One label may have a point in one file and none in another.
    assert labels(("-1", "1.0", "0.0", "0.5", "v1.0"), []) == ["-1", "1", "0", "0.5", "v1.0"]
    assert labels(("1.0", "2"), ["1", "2", "3"]) == ["1", "2"]
    floats = write(tmp_path / "b.jsonl", {"text": "A", "label": 1.0}, {"text": "B", "label": 0})
    assert labels_of(floats, ["0", "1"]) == labels_of(floats, []) == ["1", "0"]
    # A dash is MNLI's sign for no agreed label, elsewhere a name.
    assert labels("+-", []) == labels("+-", ["+", "-"]) == ["+", "-"]
    bad = (("-", POLAR, "'-' is none of"), ("0", ["1", "2"], "'0' is none of 1, 2"), ("2", POLAR, "'2'"))
    for content, names, says in bad:
        with pytest.raises(DataError, match=f"line 2: the label {says}"):
            labels((content,), names)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": "A", "label": "good"}, "line 2: the label 'good' is none of negative, positive; correct it, or name"),
        ({"text": "A", "label": 0.5}, "expected 'label' to be a label's name or class number, found 0.5"),
        ({"text": "A", "label": None}, "line 2: 'label' is empty; fill in a label, or remove the record"),
        ({"text": "A", "label": " "}, "line 2: 'label' is empty"),
        ({"text": "A"}, "and a column label or gold_label or class or sentiment; found 'text'"),
        ({"text": " ", "label": 1}, "line 2: 'text' is empty; fill it in, or remove the record"),
        ({"label": 1}, "line 2: expected a column text (or sentence, review, content), or two such as premise"),
        ({"text": 3, "label": 1}, "line 2: expected text in 'text', found 3"),
        ([1], "line 2: expected an object with a text and a label, found [1]"),
    ],
)
def test_rows_that_are_rejected(tmp_path, row, says):
    file = write(tmp_path / "a.jsonl", {"text": "A", "label": "positive"}, row)
    message = error_of(read_texts, file, POLAR)
    assert message.startswith(f"{file}: 1 of 2 records rejected:\n  ") and says in message


def test_rows_that_an_annotator_rejected_are_left_out(tmp_path):
    verdicts = ["accept", "reject", "ignore", "accept"]
    rows = [{"text": f"A {n}", "label": "positive", "answer": verdict} for n, verdict in enumerate(verdicts)]
    file = write(tmp_path / "a\x1b.jsonl", *rows)
    assert [text[1] for text in texts_of(file)] == ["A 0", "A 3"]
    assert read_texts(file)[1] == [rf"a\x1b.jsonl: 2 {REJECTED}"]
    file = write(tmp_path / "b.jsonl", *rows[1:3])
    assert "has no usable record" in error_of(read_texts, file)
    for other in ("no", ["reject"], 1):  # a column of another kind
        file = write(tmp_path / "c.jsonl", *rows, rows[0] | {"answer": other})
        assert len(texts_of(file)) == 5 and read_texts(file)[1] == []


def test_labels_that_look_alike_are_rejected_unless_they_are_named(tmp_path):
    labels = ["good", "Good", "bad", "bad\u200b", "b a", "b\u00a0a", "Ärger", "A\u0308rger", "neutral"]
    file = write(tmp_path / "a.jsonl", *({"text": f"A {label}", "label": label} for label in labels))
    message = error_of(read_texts, file)
    assert (
        message.startswith(f"{file}: labels differ only by case or characters that do not show: ")
        and "neutral" not in message
    )
    assert all(pair in message for pair in ("'Good', 'good'", r"'bad', 'bad\u200b'", r"'b a', 'b\xa0a'"))
    assert message.count(" and ") == 3 and message.endswith("that mean something else")
    assert labels_of(file, labels) == labels


def test_errors_hold_no_escape_sequences(tmp_path):
    rows = [{"\x1b[31m": "A"}, {"text": "A", "label": "\x1b[2J"}, {"text": "A", "\x9b": 1}]
    file = write(tmp_path / "a\x1b.jsonl", *rows)
    message = error_of(read_texts, file, POLAR)
    assert "3 of 3 records" in message and all(c.isprintable() or c == "\n" for c in message)
    file.rename(tmp_path / "positive\x1b.review")
    assert "\x1b" not in error_of(read_texts, tmp_path / "positive\x1b.review")


def test_reviews_that_do_not_fit_into_memory_are_named(tmp_path, monkeypatch):
    file = write(tmp_path / "positive.review", review("A"))

    def read_bytes(path):
        raise MemoryError

    monkeypatch.setattr(type(file), "read_bytes", read_bytes)
    assert (
        error_of(read_texts, tmp_path) == f"{file}: is too large for this machine's memory; split it into smaller files"
    )


def test_shards_are_read_together(tmp_path):
    for number in range(2):
        table = pandas.DataFrame({"text": [f"A{number}"], "label": [number]})
        table.to_parquet(tmp_path / f"train-{number:05}-of-00002.parquet")
    assert [text[1] for text in texts_of(tmp_path, part="train")] == ["A0", "A1"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_official_layout_of_glue(tmp_path, name):
    write_task(tmp_path, name)
    parts = read_glue(tmp_path, name)
    assert {part: len(texts) for part, texts in parts.items()} == {"train": 60, "valid": 30, "unlabelled": 5}
    begin, second = "dev_matched" if name == "MNLI" else "dev", None if name in ("CoLA", "SST-2") else "other 3"
    assert re.fullmatch("[0-9a-f]{16}", parts["valid"][3].id)  # by content, as on the Hub
    assert parts["valid"][3][1:3] == (f'"{begin} 3 says so', second)
    assert tuple(parts["unlabelled"][3]) == ("3", f'"{begin.replace("dev", "test")} 3 says so', second, "")
    (tmp_path / "train.tsv").unlink()
    assert read_glue(tmp_path, name)["all"] == parts["valid"]


@pytest.mark.parametrize(
    ("name", "row", "says"),
    [
        ("CoLA", "gj04\t2\t\tText.", "the label '2' is none of unacceptable, acceptable"),
        ("CoLA", "gj04\t1\tText.", "expected 4 cells, found 3"),
        ("SST-2", " \t1", "'sentence' is empty"),
        ("RTE", "9\tText.\tOther.\tneutral", "the label 'neutral' is none of entailment, not_entailment"),
        ("STS-B", "9\tg\tf\ty\to\ts\tt\tText.\tOther.\t5.1", "expected a score from 0 to 5, found '5.1'"),
        ("STS-B", "9\tg\tf\ty\to\ts\tt\tText.\tOther.\tnan", "expected a score from 0 to 5, found 'nan'"),
        ("MRPC", "1\t1\t2\tText.\t", "'#2 String' is empty"),
    ],
)
def test_a_bad_row_of_glue_is_named_by_file_and_line(tmp_path, name, row, says):
    write_task(tmp_path, name)
    number = len((tmp_path / "train.tsv").read_text().splitlines()) + 1
    with (tmp_path / "train.tsv").open("a") as file:
        file.write(f"{row}\n")
    message = error_of(read_glue, tmp_path, name)
    assert message.startswith(f"{tmp_path}/train.tsv: 1 of 61 records rejected:\n  line {number}: ") and says in message


def test_broken_rows_of_qqp_are_left_out(tmp_path):
    write_task(tmp_path, "QQP")
    with (tmp_path / "train.tsv").open("a") as file:
        file.write('"\tWhat is the evidence?\t0\n61\t1\t2\tHow can I?\t\t0\n')
    assert len(read_glue(tmp_path, "QQP")["train"]) == 60


def test_files_of_glue_that_are_missing(tmp_path):
    assert "RTE: expected train.tsv, dev.tsv, found none" in error_of(read_glue, tmp_path / "RTE", "RTE")
    write_glue(tmp_path / "RTE/dev.tsv", *PAIR, 3, ["entailment", "maybe", "perhaps"])
    message = error_of(read_glue, tmp_path / "RTE", "RTE")
    assert "2 of 3 records rejected:" in message and "line 3: " in message and "line 4: " in message
    (tmp_path / "RTE/dev.tsv").write_text("")
    assert "dev.tsv: is empty" in error_of(read_glue, tmp_path / "RTE", "RTE")


def test_genres_in_files_of_their_own_are_one_task(tmp_path):
    for genre, size in (("slate", 3), ("travel", 4)):
        for part in ("train", "dev_matched"):
            rows = [{"premise": f"{genre} {part} {n}", "hypothesis": "so", "label": "neutral"} for n in range(size)]
            write(tmp_path / f"{genre}.{part}.jsonl", *rows)
    assert {part: len(texts) for part, texts in read_glue(tmp_path, "MNLI").items()} == {"train": 7, "valid": 7}
    (tmp_path / "travel.dev_matched.jsonl").unlink()
    assert "expected a train and a dev file of travel" in error_of(read_glue, tmp_path, "MNLI")


def test_choices(tmp_path):
    write_choices(tmp_path / "codah", "", CODAH, train_tsv=8, dev_tsv=4, test_tsv=5)
    parts = read_choices(tmp_path / "codah", "codah")
    assert {part: len(texts) for part, texts in parts.items()} == {"train": 8, "valid": 4, "test": 5}
    assert parts["train"][6][1:] == ('The "driver train_tsv 6 stopped. He', ("walked.", "ran.", "sat.", "slept."), "2")
    write_choices(tmp_path / "swag", SWAG, SWAG_ROW, train_csv=8, val_csv=4)
    (tmp_path / "swag/test.csv").write_text(SWAG.replace(",label", ""))
    parts = read_choices(tmp_path / "swag", "swag")
    assert {part: len(texts) for part, texts in parts.items()} == {"train": 8, "valid": 4}
    assert parts["valid"][3].first == "The driver, val_csv 3, stopped. He" and parts["valid"][3].label == "3"


@pytest.mark.parametrize(
    ("name", "file", "row", "says"),
    [
        ("codah", "dev.tsv", CODAH.format(n=9, right=4), "line 5: expected the number of the right ending in 'label'"),
        ("codah", "dev.tsv", CODAH.replace("sat.", ""), "line 5: 'ending2' is empty"),
        ("codah", "dev.tsv", "o\tHe\twalked.\tran.\t1\n", "line 5: expected 7 cells, found 5"),
        ("swag", "val.csv", SWAG_ROW.format(n=9, right=""), "line 6: expected the number of the right ending"),
        ("swag", "val.csv", "v,1,He,a,b,gold,walked.,ran.,1\n", "line 6: expected 11 cells, found 9"),
    ],
)
def test_a_bad_choice_is_named_by_file_and_line(tmp_path, name, file, row, says):
    write_choices(tmp_path, "", CODAH, train_tsv=4, dev_tsv=4)
    write_choices(tmp_path, SWAG, SWAG_ROW, train_csv=4, val_csv=4)
    with (tmp_path / file).open("a") as opened:
        opened.write(row)
    assert f"{file}: 1 of 5 records rejected:\n  {says}" in error_of(read_choices, tmp_path, name)


def test_domains_count_rejected_rows_and_compare_their_labels(tmp_path):
    rows = [{"text": f"A {n}", "label": "+-"[n % 2], "answer": "accept"} for n in range(60)]
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", *rows, {"text": "no", "label": "?", "answer": "reject"})
    settings = TextsSettings(folder=str(tmp_path), domains={"x": "a.jsonl", "y": "b.jsonl"})
    assert [domain.notes[0] for domain in load_domains(settings).values()] == [f"{n}.jsonl: 1 {REJECTED}" for n in "ab"]
    tasks = TasksSettings(folder=str(tmp_path), tasks={"x": "a.jsonl"})
    assert load(tasks, "x").notes[0] == f"a.jsonl: 1 {REJECTED}" and load(tasks, "x").labels == ("+", "-")
    for name, labels in (("c", ("good", "bad")), ("d", ("Good", "bad"))):
        write(tmp_path / f"{name}.jsonl", *(row | {"label": labels[n % 2]} for n, row in enumerate(rows)))
    settings = TextsSettings(folder=str(tmp_path), domains={"x": "c.jsonl", "y": "d.jsonl"})
    assert error_of(load_domains, settings).startswith("all domains: labels differ only by case ")


def test_a_label_may_be_written_with_a_point_in_a_shard(tmp_path):
    for part, labels, size in (("train", ("0", "1"), 40), ("test", ("0.0", "1.0"), 20)):
        lines = [f"{part} {n},{labels[n % 2]}\n" for n in range(size)]
        write(tmp_path / f"shop.{part}.csv", "text,label\n", *lines)
    settings = TextsSettings(folder=str(tmp_path), domains={"x": "shop"})
    assert label_names(settings) == ("0", "1")
    assert all(pair.label == int(pair.first.split()[1]) % 2 for pair in load_domains(settings)["x"].test)
