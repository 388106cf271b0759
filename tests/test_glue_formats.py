"""The files of GLUE, CODAH and SWAG: their official layouts, and rows that are refused."""

import pytest
from task_files import CODAH, LAYOUTS, PAIR, SWAG, SWAG_ROW, write, write_choices, write_task

from helpers.data.examples import DataError, Pair
from helpers.data.formats import choices, glue


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_official_layout(tmp_path, name):
    write_task(tmp_path, name)
    parts, unlabelled, _ = glue.read_glue(tmp_path, name)
    assert {part: len(records) for part, records in parts.items()} == {"train": 60, "valid": 30}
    labels = [float(label) if name == "STS-B" else label for label in LAYOUTS[name][-1].split()]
    for number, record in enumerate(parts["valid"]):
        label = record.label
        if name == "STS-B":
            label = float(label)
        elif labels[0] == "0":
            label = str(glue.GLUE[name].labels.index(label))
        assert label == labels[number % len(labels)]
    begin = "dev_matched" if name == "MNLI" else "dev"
    second = None if name in ("CoLA", "SST-2") else "other 3"
    assert (parts["valid"][3].first, parts["valid"][3].second) == (f'"{begin} 3 says so', second)
    begin = begin.replace("dev", "test")
    assert unlabelled[3] == Pair("3", f'"{begin} 3 says so', second, None) and len(unlabelled) == 5


def test_labels_by_number():
    assert {name: task.labels for name, task in glue.GLUE.items()} == {
        "CoLA": ("unacceptable", "acceptable"),
        "SST-2": ("negative", "positive"),
        "MRPC": ("not_equivalent", "equivalent"),
        "STS-B": (),
        "QQP": ("not_duplicate", "duplicate"),
        "MNLI": ("entailment", "neutral", "contradiction"),
        "QNLI": ("entailment", "not_entailment"),
        "RTE": ("entailment", "not_entailment"),
        "WNLI": ("not_entailment", "entailment"),
    }


@pytest.mark.parametrize(
    ("name", "row", "says"),
    [
        (
            "CoLA",
            "gj04\t2\t\tText.",
            "expected 'label' to be one of unacceptable, acceptable, or its number, found '2'",
        ),
        ("CoLA", "gj04\t1\tText.", "expected 4 cells between tabs ('source', 'label', 'mark', 'sentence'), found 3"),
        ("SST-2", " \t1", "'sentence' is empty"),
        (
            "RTE",
            "9\tText.\tOther.\tneutral",
            "'label' to be one of entailment, not_entailment, or its number, found 'n",
        ),
        ("RTE", "9\tText.\tOther.", "expected 4 cells between tabs"),
        ("STS-B", "9\tg\tf\ty\to\ts\tt\tText.\tOther.\t5.1", "expected 'score' to be a score from 0 to 5, found '5.1'"),
        ("STS-B", "9\tg\tf\ty\to\ts\tt\tText.\tOther.\tnan", "expected 'score' to be a score from 0 to 5, found 'nan'"),
        ("STS-B", "9\tg\tf\ty\to\ts\tt\tText.\tOther.\tfour", "a score from 0 to 5, found 'four'"),
        ("MRPC", "1\t1\t2\tText.\t", "'sentence2' is empty"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, name, row, says):
    write_task(tmp_path, name)
    number = len((tmp_path / "train.tsv").read_text().splitlines()) + 1
    with (tmp_path / "train.tsv").open("a") as file:
        file.write(f"{row}\n")
    with pytest.raises(DataError) as raised:
        glue.read_glue(tmp_path, name)
    said = str(raised.value)
    assert said.startswith(f"{tmp_path}/train.tsv: 1 of 61 records refused: line {number}: ") and says in said


def test_all_bad_rows_are_in_one_message(tmp_path):
    write(tmp_path / "train.tsv", *PAIR, 3, ["entailment", "maybe", "perhaps"])
    with pytest.raises(DataError, match=r"2 of 3 records refused:\n  line 3: .*'maybe'.*\n  line 4: .*'perhaps'"):
        glue.read_glue(tmp_path, "RTE")


def test_broken_rows_that_are_known_are_left_out_and_counted(tmp_path):
    write_task(tmp_path, "QQP")
    with (tmp_path / "train.tsv").open("a") as file:
        file.write('"\tWhat is the evidence?\t0\n61\t1\t2\tHow can I?\t\t0\n')
    parts, _, notes = glue.read_glue(tmp_path, "QQP")
    assert len(parts["train"]) == 60
    assert notes == ["train.tsv: broken rows, known of the official files, left out: 2"]


def test_files_that_are_missing(tmp_path):
    with pytest.raises(DataError, match=r"RTE: no such folder; .* holds nothing; expected one with train.tsv, dev.tsv"):
        glue.read_glue(tmp_path / "RTE", "RTE")
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE/notes.txt").touch()
    with pytest.raises(DataError, match=r"RTE: expected train.tsv, dev.tsv; it holds notes.txt"):
        glue.read_glue(tmp_path / "RTE", "RTE")
    write(tmp_path / "RTE/dev.tsv", "number\ttext\tlabel", "{n}\t{first}\t{label}", 3)
    with pytest.raises(
        DataError, match=r"dev.tsv: line 1 has to name the columns \['sentence1', 'sentence2'\]; the co"
    ):
        glue.read_glue(tmp_path / "RTE", "RTE")
    (tmp_path / "RTE/dev.tsv").write_text("")
    with pytest.raises(DataError, match=r"dev.tsv: there is no labelled text in it"):
        glue.read_glue(tmp_path / "RTE", "RTE")


def test_genres_in_files_of_their_own_are_one_task(tmp_path):
    line = '{{"genre": "{genre}", "premise": "{genre} {n}", "hypothesis": "so", "label": "neutral"}}\n'
    for genre, size in (("slate", 3), ("travel", 4)):
        for part in ("train", "dev_matched"):
            rows = (line.format(genre=genre, n=f"{part} {n}") for n in range(size))
            (tmp_path / f"{genre}.{part}.jsonl").write_text("".join(rows))
    parts, unlabelled, _ = glue.read_glue(tmp_path, "MNLI")
    assert (len(parts["train"]), len(parts["valid"]), unlabelled) == (7, 7, [])
    (tmp_path / "travel.dev_matched.jsonl").unlink()
    with pytest.raises(DataError, match=r"expected travel.dev_matched.jsonl as well; it holds slate.dev_matched.jsonl"):
        glue.read_glue(tmp_path, "MNLI")


# ------------------------------------------------------------------------------------------------------------ choices


def test_codah(tmp_path):
    write_choices(tmp_path, "", CODAH, train_tsv=8, dev_tsv=4, test_tsv=5)
    parts = choices.read_choices(tmp_path, "codah")
    assert {part: len(records) for part, records in parts.items()} == {"train": 8, "valid": 4, "test": 5}
    record = parts["train"][6]
    assert record.first == 'The "driver train_tsv 6 stopped. He' and record.label == "2"
    assert record.second == ("walked.", "ran.", "sat.", "slept.")


def test_swag(tmp_path):
    write_choices(tmp_path, SWAG, SWAG_ROW, train_csv=8, val_csv=4)
    (tmp_path / "test.csv").write_text(SWAG.replace(",label", ""))
    (tmp_path / "train_full.csv").write_text("video-id\n")
    parts = choices.read_choices(tmp_path, "swag")
    assert {part: len(records) for part, records in parts.items()} == {"train": 8, "valid": 4}
    assert parts["valid"][3].first == "The driver, val_csv 3, stopped. He" and parts["valid"][3].label == "3"


@pytest.mark.parametrize(
    ("name", "file", "row", "says"),
    [
        ("codah", "dev.tsv", CODAH.format(n=9, right=4), "line 5: expected the number of the right ending, 0 to 3, f"),
        ("codah", "dev.tsv", CODAH.replace("sat.", ""), r"line 5, ending 3: it is empty"),
        ("codah", "dev.tsv", "o\tHe\twalked.\tran.\t1\n", "line 5: expected 7 cells between tabs"),
        ("swag", "val.csv", SWAG_ROW.format(n=9, right=""), "row from line 6: expected the number of the right ending"),
        ("swag", "val.csv", "v,1,He,a,b,gold,walked.,ran.,1\n", "row from line 6: expected 11 cells"),
    ],
)
def test_a_bad_choice_is_named_by_file_and_line(tmp_path, name, file, row, says):
    write_choices(tmp_path, "", CODAH, train_tsv=4, dev_tsv=4)
    write_choices(tmp_path, SWAG, SWAG_ROW, train_csv=4, val_csv=4)
    with (tmp_path / file).open("a") as opened:
        opened.write(row)
    with pytest.raises(DataError, match=f"{file}: 1 of 5 records refused: {says}"):
        choices.read_choices(tmp_path, name)
