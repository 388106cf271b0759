"""Files of questions: what every format gives, where an answer is, and what is rejected."""

import gzip
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter

import datasets
import pandas
import pyarrow
import pytest
from qa_files import CONTEXT, mrqa_question, question, write_mrqa, write_narrativeqa, write_squad

from helpers.data.examples import DataError
from helpers.data.questions import (
    ANSWERS_LEFT_OUT,
    EMPTY,
    EXPECTED,
    LOOSE,
    MOVED,
    OTHER,
    UNPLACED,
    closest_span,
    locate_answer,
    read_questions,
)
from helpers.data.rows import REJECTED as LEFT_BY_ANNOTATORS
from helpers.data.rows import find_parts

VIRUS = "The virus was found in bats. In 2003 the virus was found in civets; bats\nand civets carry it."


def read(path, unanswerable=False):
    return [record.example for record in read_questions(path, unanswerable)[0]]


def error_of(path, unanswerable=False):
    with pytest.raises(DataError) as error:
        read_questions(path, unanswerable)
    assert str(error.value).startswith(str(path))
    return str(error.value).removeprefix(f"{path}: ")


def test_squad(tmp_path):
    answers = [("London", 36), ("in London", 33), ("London", 36)]
    path = write_squad(tmp_path / "a.json", (CONTEXT, [question(7, answers=answers)]))
    ((example, document, _),), notes = read_questions(path)
    assert (example.id, example.group, example.question, example.context) == ("7", "7", "Where?", CONTEXT)
    assert example.answers == ("London", "in London") and example.span == (36, 42)  # distinct, in order
    assert (document, notes) == ("Ada", [])


def test_squad_2_may_have_unanswerable_questions(tmp_path):
    questions = [question(), question("q2", "When?", (), is_impossible=True, plausible_answers=[])]
    path = write_squad(tmp_path / "a.json", (CONTEXT, questions))
    assert [(e.answers, e.span) for e in read(path, True)] == [(("London",), (36, 42)), ((), None)]
    says = error_of(path)
    assert says.startswith("1 of 2 records rejected:\n  article 1, paragraph 1, question 2 (id 'q2'): has no answer; ")
    assert "data.unanswerable" in says


def test_adversarial_variants_share_the_group_of_their_question(tmp_path):
    ids = ["5a-b", "5a-b-turk0", "5a-b-high-conf-turk12", "turk0"]
    examples = read(write_squad(tmp_path / "a.json", (CONTEXT, [question(i) for i in ids])))
    assert [example.group for example in examples] == ["5a-b", "5a-b", "5a-b", "turk0"]


@pytest.mark.parametrize("header", [True, False])
def test_mrqa(tmp_path, header):
    answers = ["London", "London", "in London"]
    detected = [{"text": "London", "char_spans": [[36, 41], [0, 2]]}, {"text": "Ada", "char_spans": [[0, 2]]}]
    path = write_mrqa(tmp_path / "m", mrqa_question(answers=answers, detected_answers=detected[:1]), header=header)
    path.write_bytes(gzip.compress(path.read_bytes()))
    (example,) = read(path)
    assert (example.id, example.answers) == ("m1", ("London", "in London"))
    assert CONTEXT[slice(*example.span)] == "London"  # the first place; its end is inclusive in the file


@pytest.mark.parametrize(
    ("text", "pair", "note"),
    [
        ("babbage", [25, 31], LOOSE),
        ("Babbage", [25, 32], LOOSE),  # an end that is not inclusive
        ("Babbage", [3, 9], MOVED),
        ("Babbage", [-1, 9999], MOVED),
    ],
)
def test_places_of_mrqa_that_do_not_fit(tmp_path, text, pair, note):
    detected = [{"text": text, "char_spans": [pair]}]
    path = write_mrqa(tmp_path / "m.jsonl", mrqa_question(answers=[text], detected_answers=detected))
    (record,), notes = read_questions(path)
    assert CONTEXT[slice(*record.example.span)] == "Babbage" and notes == [f"m.jsonl: 1 {note}"]


def test_notes_on_mrqas_answers(tmp_path):
    other, unplaced = mrqa_question(qid="m2", answers=["Paris"]), mrqa_question(qid="m3", detected_answers=[])
    records, notes = read_questions(write_mrqa(tmp_path / "m.jsonl", mrqa_question(), other, unplaced))
    assert records[2].example.span is None and set(notes) == {f"m.jsonl: 1 {OTHER}", f"m.jsonl: 1 {UNPLACED}"}


def test_narrativeqa(tmp_path):
    rows = [("d1", "train", "Who found it ?", "a girl", "some young girl")] * 2
    rows.append(("d1", "test", "Why ?", "Nobody knows", "unclear"))
    records, notes = read_questions(write_narrativeqa(tmp_path / "stories", rows))
    first, again, last = (record.example for record in records)
    assert first.answers == ("a girl", "some young girl") and again.id == f"{first.id}.2"
    # "A young girl" has LCS 2 with "a girl" (F = 2·2/(2+3) = 0.8); "young girl" LCS 2 with the other (2·2/(3+2) = 0.8).
    assert first.context[slice(*first.span)] == "A young girl" and last.span is None
    assert [(r.document, r.part) for r in records] == [("d1", "train"), ("d1", "train"), ("d1", "test")]
    assert notes == [f"stories: 1 {UNPLACED}"]


def rouge_l(window, reference):
    """F by the textbook table."""
    table = [[0] * (len(reference) + 1) for _ in range(len(window) + 1)]
    for i, j in itertools.product(range(len(window)), range(len(reference))):
        same = window[i] == reference[j]
        table[i + 1][j + 1] = table[i][j] + 1 if same else max(table[i][j + 1], table[i + 1][j])
    return 2 * table[-1][-1] / (len(window) + len(reference))


def test_closest_span_is_the_best_of_all_windows():
    draw = random.Random(0)
    for _ in range(100):
        context = [draw.choice("abcdefgh") for _ in range(draw.randint(1, 14))]
        references = [[draw.choice("abcxyz") for _ in range(draw.randint(1, 5))] for _ in range(2)]
        windows = [context[i:j] for i in range(len(context)) for j in range(i + 1, len(context) + 1)]
        best = max(rouge_l(window, reference) for window in windows for reference in references)
        text = " ".join(context)
        span = closest_span(text, [" ".join(reference) for reference in references])
        score = max(rouge_l(text[slice(*span)].split(), reference) for reference in references) if span else 0
        assert score == pytest.approx(best)
    assert closest_span("red fox. Red fox", ["RED", "fox"]) == (0, 3)  # of equals the earliest
    assert closest_span("red fox", ["?!"]) is None


QUOTED = "She said: \"It's\n\tfine\", twice. It's fine."
ROWS = [
    {"id": "q1", "title": "Ada", "context": CONTEXT, "question": "Where?"},
    {"id": "q2", "title": "Ada", "context": CONTEXT, "question": "Why?"},
    {"id": "q3", "title": "Bo", "context": QUOTED, "question": 'What, "now"?'},
]
ANSWERS = [[("London", 36), ("in London", 33)], [], [('"It\'s\n\tfine"', 10)] * 7]
PLACED = [(("London", "in London"), (36, 42)), ((), None), (('"It\'s\n\tfine"',), (10, 22))]


def rows():
    columns = [{"text": [text for text, _ in one], "answer_start": [start for _, start in one]} for one in ANSWERS]
    return [row | {"answers": answers} for row, answers in zip(ROWS, columns, strict=True)]


WRITERS = {
    "lines": lambda values, path: path.write_text("".join(json.dumps(value) + "\n" for value in values)),
    "list": lambda values, path: path.write_text(json.dumps(values, indent=2)),
    "csv": lambda values, path: pandas.DataFrame(values).to_csv(path),
    "csv with semicolons": lambda values, path: pandas.DataFrame(values).to_csv(path, sep=";"),
    "tsv": lambda values, path: pandas.DataFrame(values).to_csv(path, sep="\t", index=False),
    "parquet": lambda values, path: pandas.DataFrame(values).to_parquet(path),
    "the Hub's parquet": lambda values, path: datasets.Dataset.from_list(values).to_parquet(path),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", ["rows", "rows.csv", "rows.parquet"])
def test_rows_are_read_whatever_their_suffix(tmp_path, writer, name):
    WRITERS[writer](rows(), path := tmp_path / name)
    records, notes = read_questions(path, True)
    fields = [{"id": e.id, "title": of, "context": e.context, "question": e.question} for e, of, _ in records]
    assert (fields, notes) == (ROWS, []) and [(e.answers, e.span) for e, *_ in records] == PLACED
    if "parquet" not in writer:  # a byte-order mark and gzip change nothing
        path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + path.read_bytes()))
        assert read(path, True) == [record.example for record in records]


@pytest.mark.parametrize(("text", "writer"), [("answer", "csv"), ("answer_text", "parquet"), ("answer", "lines")])
def test_an_answer_may_be_in_two_columns(tmp_path, text, writer):
    values = [{"id": "q1", "context": CONTEXT, "question": "Where?", text: "London", "answer_start": 36}]
    values.append(values[0] | {"id": "q2", text: None, "answer_start": None})  # which makes pandas' numbers 36.0
    values.append(values[0] | {"id": "q3", text: "", "answer_start": -1})
    WRITERS[writer](values, tmp_path / "rows")
    expected = [(("London",), (36, 42)), ((), None), ((), None)]
    assert [(e.answers, e.span) for e in read(tmp_path / "rows", True)] == expected
    values[1]["answer_start"] = 3
    WRITERS["lines"](values, tmp_path / "rows")
    assert "line 2: 'answers.0.text': Input should be a valid string; found None" in error_of(tmp_path / "rows", True)


@pytest.mark.parametrize("writer", ["lines", "csv", "parquet"])
def test_rows_without_ids_get_them_from_their_content(tmp_path, writer):
    values = [{key: value for key, value in row.items() if key != "id"} for row in [*rows(), rows()[0]]]
    WRITERS[writer](values, tmp_path / "rows")
    first, *_, again = ids = [example.id for example in read(tmp_path / "rows", True)]
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{8}", first) and again == f"{first}.2" and len(set(ids)) == 4
    values = rows()
    del values[1]["id"]
    WRITERS["lines"](values, tmp_path / "rows")
    assert "1 of 3 records rejected:\n  line 2: it has no id, unlike others" in error_of(tmp_path / "rows", True)


def placed(context, text, start):
    notes = Counter()
    first, last = locate_answer(context, text, start, notes)
    return first, context[first:last], notes[MOVED], notes[LOOSE]


def test_an_answer_is_at_its_offset_or_at_the_only_place_near_it_or_at_the_only_place():
    assert placed(VIRUS, "bats", 23) == (23, "bats", 0, 0)
    assert placed(VIRUS, "2003", 0) == (32, "2003", 1, 0)
    for shift in (-5, -1, 1, 5):
        assert placed(VIRUS, "virus was found", 41 + shift) == (41, "virus was found", 1, 0)
    assert placed(VIRUS, "bats  and civets", 67) == (68, "bats\nand civets", 1, 0)  # white space is ignored
    assert placed("東京は日本の首都。東京駅", "東京", 8) == (9, "東京", 1, 0)  # no spaces between words
    assert placed('He said "yes", she "no"', '"no"', 0) == (19, '"no"', 1, 0)
    assert placed("art deco", "dec", 4) == (4, "dec", 0, 0)  # at its offset a part of a word is what the file says


def test_an_answer_may_differ_at_its_offset_in_case_punctuation_and_the_kind_of_white_space():
    assert placed(VIRUS, "BATS", 23) == (23, "bats", 0, 1)
    assert placed("Bats eat. The bats", "bats", 0) == (0, "Bats", 0, 1)  # the same word elsewhere changes nothing
    assert placed("She said \u201cIt\u2019s\u201d", '"It\'s"', 9) == (9, "\u201cIt\u2019s\u201d", 0, 1)
    assert placed(VIRUS, "bats and civets", 68) == (68, "bats\nand civets", 0, 1)
    for start in (22, 23):  # a space before the answer, counted or not
        assert placed(VIRUS, " bats ", start) == (23, "bats", 0, 1)
    assert placed("She was born in Arlford.", " Arlf", 16) == (16, "Arlf", 0, 1)  # no search, which cuts no word
    for context, text in (("It cost 1,5.", "155"), ("a ! b", "?"), ("a 5 b", "-5"), ("दुल", "दिल")):
        with pytest.raises(DataError, match="occurs at no places"):
            locate_answer(context, text, context.index(" ") + 1 if " " in context else 0, Counter())


@pytest.mark.parametrize(
    ("context", "text", "start", "says"),
    [
        (VIRUS, "virus was found", 35, "offset 35, where the passage has '3 the virus was', and occurs at 2 places"),
        ("to be to be", "to", 3, "occurs at 2 places; correct the offset"),
        ("The party began. It was art deco.", "dec", 0, "occurs at no places"),  # only as a part of a word
        (VIRUS, "BATS", 24, "occurs at no places"),
        (CONTEXT, "Paris", 36, "'Paris' is not at its offset 36, where the passage has 'Londo'"),
        (CONTEXT, "Ada", -43, "'Ada' is not at its offset -43"),
    ],
)
def test_other_answers_are_rejected(context, text, start, says):
    with pytest.raises(DataError, match=says):
        locate_answer(context, text, start, Counter())


def test_one_answer_that_is_nowhere_does_not_cost_its_question(tmp_path):
    answers = [("Ada Bell", 0), ("Bo Carr", 3)]
    path = write_squad(tmp_path / "a.json", ("Ada Bell leads Gamma.", [question(answers=answers)]))
    (record,), notes = read_questions(path)
    assert record.example.answers == ("Ada Bell",) and record.example.span == (0, 8)
    assert notes == [f"a.json: 1 {ANSWERS_LEFT_OUT}"]
    write_squad(path, ("Ada Bell leads Gamma.", [question(answers=answers[1:])]))
    assert "'Bo Carr' is not at its offset 3" in error_of(path)


def test_places_that_differ_by_white_space_alone_are_one(tmp_path):
    path = tmp_path / "a.json"
    write_squad(path, ("Ada Bell leads Gamma. Gamma sells lamps.", [question(answers=[(" leads Gamma", 9)])]))
    assert read(path)[0].span == (9, 20)


def test_answers_without_a_text_are_left_out(tmp_path):
    """Where another one, no offset or is_impossible says that nothing is lost."""
    path, answers = tmp_path / "a.json", [("London", 36), (" \u200b", 3), ("", -1)]
    write_squad(path, (CONTEXT, [question(answers=answers)]))
    (record,), notes = read_questions(path)
    assert record.example.answers == ("London",) and notes == [f"a.json: 2 {EMPTY}"]
    write_squad(path, (CONTEXT, [question(), question("q2", answers=[("", 0)], is_impossible=True)]))
    records, notes = read_questions(path, True)
    assert [record.example.answers for record in records] == [("London",), ()] and notes == [f"a.json: 1 {EMPTY}"]
    assert "question 2 (id 'q2'): has no answer; " in error_of(path)
    WRITERS["lines"]([rows()[0] | {"answers": {"text": [""], "answer_start": [-1]}}], path)
    assert read(path, True)[0].answers == ()
    write_mrqa(path, mrqa_question(answers=["London", ""]))
    assert read(path)[0].answers == ("London",)
    write_squad(path, (CONTEXT, [question(answers=[("", 0)], is_impossible=False)]))
    assert "is_impossible is False, but it has 0 answers; correct one" in error_of(path, True)


@pytest.mark.parametrize("start", ["36", 36.0, "36.0", " 36"])
def test_offsets_may_be_text_or_have_a_point(tmp_path, start):
    path = write_squad(tmp_path / "a.json", (CONTEXT, [question(7.0, answers=[("London", start)])]))
    assert read(path)[0].span == (36, 42) and read(path)[0].id == "7"
    detected = [{"text": "London", "char_spans": [[start, 41.0]]}]
    assert read(write_mrqa(path, mrqa_question(detected_answers=detected)))[0].span == (36, 42)


@pytest.mark.parametrize("place", ["rows", "passages"])
def test_rows_and_passages_may_stand_below_data(tmp_path, place):
    rows_below = [rows()[0], rows()[2]] if place == "rows" else [{"context": CONTEXT, "qas": [question()]}] * 1
    (tmp_path / "a.json").write_text(json.dumps({"version": "0.1.0", "data": rows_below}))
    assert read(tmp_path / "a.json")[0].span == (36, 42) and len(read(tmp_path / "a.json")) == len(rows_below)
    (tmp_path / "a.json").write_text(json.dumps({"data": [*rows_below, {"x": 1}]}))
    assert f"row {len(rows_below) + 1} of its data: {EXPECTED}; found 'x'" in error_of(tmp_path / "a.json")


INVISIBLE = ["\u200b", "\u00ad", "\u200e", "\ufeff", "\x10", "\u2060", "\U000e0020"]


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_invisible_characters_at_an_answers_ends_are_no_part_of_it(tmp_path, character):
    context = f"Ada met {character}Bob{character} here."
    answers = [(f"{character}Bob {character}".replace(" ", ""), 8), ("Bob", 9)]
    path = write_squad(tmp_path / "a.json", (context, [question(answers=answers)]))
    (example,) = read(path)
    assert example.answers == ("Bob",) and example.span == (9, 12)
    write_squad(path, (context, [question(answers=[(character, 8)])]))
    assert "'answers.0.text': is empty" in error_of(path)


def test_rows_that_an_annotator_rejected_are_left_out(tmp_path):
    verdicts = ["accept", "reject", "ignore"]
    values = [row | {"answer": verdict} for row, verdict in zip(rows(), verdicts, strict=True)]
    WRITERS["lines"](values, tmp_path / "a.jsonl")
    records, notes = read_questions(tmp_path / "a.jsonl")
    assert [record.example.id for record in records] == ["q1"] and notes == [f"a.jsonl: 2 {LEFT_BY_ANNOTATORS}"]
    cells = "context,question,answer,answer_start\nThey reject it,What?,reject,5\n"
    (tmp_path / "a.csv").write_text(cells)  # here it is the answer
    assert read(tmp_path / "a.csv")[0].answers == ("reject",)


@pytest.mark.parametrize(
    "cell",
    [
        "{'text': [np.str_('London')], 'answer_start': [np.int64(36)]}",
        "{'text': array(['London'], dtype=object), 'answer_start': array([36], dtype=int32)}",
        "[{'text': 'London', 'answer_start': np.int32(36)}]",
    ],
)
def test_cells_that_pandas_wrote_of_numpys_values(tmp_path, cell):
    pandas.DataFrame([ROWS[0] | {"answers": cell}]).to_csv(tmp_path / "a.csv")
    assert read(tmp_path / "a.csv")[0].span == (36, 42)
    pandas.DataFrame([ROWS[0] | {"answers": cell.replace("36", "open('x')")}]).to_csv(tmp_path / "a.csv")
    assert "answers are neither JSON nor a Python value" in error_of(tmp_path / "a.csv")


@pytest.mark.parametrize("line", ["sep=;\r\n", "sep=|\n", "sep=\t\n"])
def test_the_line_that_names_the_delimiter_for_excel_is_no_header(tmp_path, line):
    content = line + GOOD_CSV.replace(",", line[4])
    (tmp_path / "a.csv").write_text(content, newline="")
    assert read(tmp_path / "a.csv")[0].answers == ("Bo",)
    (tmp_path / "a.csv").write_text(content + "q2\n", newline="")
    assert "line 4: expected 5 cells, found 1" in error_of(tmp_path / "a.csv")


def test_a_folder_of_save_to_disk_is_not_read(tmp_path):
    parts = datasets.DatasetDict({"train": datasets.Dataset.from_list(rows())})
    parts.save_to_disk(tmp_path / "saved")
    arrow = next((tmp_path / "saved/train").glob("*.arrow"))
    for place in (tmp_path / "saved", tmp_path / "saved/train", tmp_path / "saved/dataset_dict.json", arrow):
        with pytest.raises(DataError, match=r"is Arrow, as save_to_disk of `datasets` .* export .*to_parquet\("):
            find_parts(place)
    with pytest.raises(DataError, match="is Arrow"):
        read_questions(arrow)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_file_that_does_not_fit_into_memory_is_named(tmp_path, name):
    """In a process with little memory, and a file of which only the end is written."""
    path = tmp_path / name
    if name.endswith(".gz"):
        with gzip.open(path, "wb", 1) as file:
            for _ in range(64):
                file.write(b" " * (1 << 23))
    else:
        with path.open("wb") as file:
            file.truncate(1 << 36)
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29)); import sys, pathlib; "
    code += "from helpers.data.questions import read_questions; read_questions(pathlib.Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    says = f"DataError: {path}: is too large for this machine's memory; split it into smaller files"
    assert done.stderr.splitlines()[-1].endswith(says)


@pytest.mark.parametrize("value", [{"\x1b[31mE\x9b": 1}, [question("\x1b[2J", text="")], "columns", "columns twice"])
def test_errors_hold_no_escape_sequences(tmp_path, value):
    path = tmp_path / "a\x1b[2J.json"
    if isinstance(value, str):
        header = "id,\x1b[31m,context,question," + "\x1b[31m," * (value == "columns twice") + "answer_start\n"
        path.write_text(header + ",".join("a" * header.count(",")) + ",1\n")
    else:
        path.write_text(json.dumps({"context": "a", "qas": value} if isinstance(value, list) else value))
    with pytest.raises(DataError, match=r"^.*a\\x1b\[2J\.json: ") as error:
        read_questions(path)
    message = str(error.value)
    assert message.count("\\x1b") >= 2 and all(c.isprintable() or c == "\n" for c in message)


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe.json")
    assert error_of(pipe) == "is no regular file; save what it gives in a file"
    assert find_parts(pipe) == {"all": [pipe]}


def test_files_count_moved_answers(tmp_path):
    questions = [question(f"q{n}", answers=[("virus was found", start)]) for n, start in enumerate((4, 42, 40))]
    records, notes = read_questions(write_squad(tmp_path / "covid.json", (VIRUS, questions)))
    assert [record.example.span[0] for record in records] == [4, 41, 41] and notes == [f"covid.json: 2 {MOVED}"]


SQUAD = "article 1, paragraph 1, question 2 (id 'q"
BAD_QUESTIONS = [
    ({"id": "q1", "answers": []}, "1'): 'question' is missing; its keys are 'id', 'answers'"),
    ({"id": "q1", "question": "Where?"}, "1'): 'answer' and 'answers' are missing"),
    (question() | {"answers": {}}, "1'): 'answers': Input should be a valid list; found {}"),
    (question() | {"answers": ["London"]}, "1'): an answer has no answer_start"),
    (question(answers=[("London", "thirty")]), "1'): 'answers.0.answer_start': Input should be a valid integer"),
    (question(text=" "), "1'): 'question': is empty; fill it in"),
    (question(answers=[("", 0)]), "1'): 'answers.0.text': is empty"),
    (question(is_impossible=True), "1'): is_impossible is True, but it has 1 answers"),
    (question(answers=(), is_impossible=False), "1'): is_impossible is False, but it has 0"),
    (question(text="What \ud83d?"), "1'): 'question': 'utf-8' codec can't encode"),  # half a character
    (question("q0"), "0'): the id 'q0' is used twice"),
]
MRQA = "line 2, question 1 (id 'm1'): "
BAD_MRQA = [
    ({"detected_answers": [{"text": "London"}]}, "'detected_answers.0.char_spans' is missing"),
    ({"detected_answers": [{"text": "Ada", "char_spans": [[8, 10]]}]}, "the answer 'Ada' is not at its offset 8"),
    ({"answers": []}, "it has detected_answers, but no answers to score with"),
    ({"answers": [], "detected_answers": []}, "has no answer"),
]


def test_bad_questions_are_named_by_their_place(tmp_path):
    for bad, says in BAD_QUESTIONS:
        path = write_squad(tmp_path / "bad.json", (CONTEXT, [question("q0"), bad]))
        assert error_of(path).startswith(f"1 of 2 records rejected:\n  {SQUAD}{says}")
    for changes, says in BAD_MRQA:
        path = write_mrqa(tmp_path / "bad.jsonl", mrqa_question(**changes))
        assert error_of(path).startswith(f"1 of 1 records rejected:\n  {MRQA}{says}")


GOOD_CSV = "id,context,question,answer,answer_start\nq1,Ada met Bo,Who?,Bo,8\n"
GOOD_TSV = GOOD_CSV.replace(",", "\t")
REJECTED = "1 of 2 records rejected:\n  "
BAD_FILES = [
    ("", "is empty"),
    ('{"data": [\n {"title": "x",\n "par', "is not valid JSON: Unterminated string starting at: line 3"),
    ('{"header": {}}\n{"context": "x", "qas": [', "1 of 1 records rejected:\n  line 2: Expecting value"),
    ("[]", "has no usable record"),
    ('{"q1": "London"}', "line 1: expected SQuAD's JSON, MRQA's JSON lines, or rows"),
    ('{"data": [{"paragraphs": [{"context": "", "qas": []}]}]}', "paragraphs.0.context': is empty"),
    ("[" * 100_000, "is not valid JSON"),
    ('{"data": [], "data": []}', "an object has the key 'data' twice; keep one of them"),
    ('{"data": []}\n{"a": 1, "a": 2}', "line 2: an object has the key 'a' twice"),
    ("PAR1" + "\0" * 100, "is not a readable Parquet file: Parquet magic bytes not found"),
    (GOOD_CSV.replace("id,", "id,id,"), "line 1 names a column twice"),
    (GOOD_CSV + 'q2,"Ada met Bo,Who?,Bo,8\nq3,Ada met Bo,Who?,Bo,8\n', "line 3: unexpected end of data"),
    (GOOD_CSV + "q2,Ada\n", f"{REJECTED}line 3: expected 5 cells, found 2"),
    ("\n\n" + GOOD_CSV + "q2,Ada\n", f"{REJECTED}line 5: expected 5 cells"),
    (GOOD_CSV + "q2,Ada\0 met Bo,Who?,Bo,8\n", "line 3 holds a NUL byte"),
    (
        GOOD_TSV + 'q2\t"Ada met Bo\tWho?\tBo\t8\nq3\tAda met Bo"\tWho?\tBo\t8\n',
        "line 3: a quote that begins a cell swallows the lines below it",
    ),
    (GOOD_CSV + "q2,Ada met Bo,Who?,Bo,eight\n", "line 3: 'answers.0.answer_start': Input should be a valid"),
    (GOOD_CSV.replace(",answer,", ",text,"), "the column 'answer' beside 'answer_start' is missing, found 'id', "),
    (GOOD_CSV.replace("answer_start", "start"), "the column 'answer_start' beside 'answer' is missing, found 'id', "),
    ((GOOD_CSV + "é").encode("latin-1"), "line 3 is not UTF-8"),
    (gzip.compress(GOOD_CSV.encode() * 99)[:-9], "cannot be read: "),
]


@pytest.mark.parametrize(("content", "says"), BAD_FILES, ids=[says for _, says in BAD_FILES])
def test_bad_file(tmp_path, content, says):
    (tmp_path / "bad.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    message = error_of(tmp_path / "bad.csv")
    assert says in message and max(map(len, message.split("\n"))) <= 500


def test_rows_that_are_rejected_for_one_reason_share_a_line(tmp_path):
    (tmp_path / "a.csv").write_text("context,question,answer\n" + "In Paris,Where?,Paris\n" * 150)
    head, line = error_of(tmp_path / "a.csv").split("\n")
    assert head == "150 of 150 records rejected:"
    assert line.startswith("  line 2 and 149 more: the column 'answer_start' beside 'answer' is missing")


def test_rows_that_are_rejected_are_listed_and_counted(tmp_path):
    bad = [question(f"bad{n}", answers=[("Paris" * 200, n)]) for n in range(1234)]
    lines = error_of(write_squad(tmp_path / "a.json", (CONTEXT, [question(), *bad]))).split("\n")
    assert lines[0] == "1,234 of 1,235 records rejected:" and len(lines) == 12 and lines[11] == "  and 1,224 more"
    assert all(len(line) <= 402 for line in lines)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"context": pyarrow.array([b"x"])}, "row 1: 'context': Input should be a valid string; found b'x'"),
        ({"answers": pyarrow.array([{"text": ["London"], "answer_start": [36, 3]}])}, "row 1: 'answers': "),
        ({"context": pyarrow.array([b"\xff\xfe"]).view(pyarrow.string())}, "is not a readable Parquet file"),
    ],
)
def test_bad_parquet(tmp_path, changes, says):
    fields = {name: pyarrow.array([value]) for name, value in rows()[0].items()} | changes
    pyarrow.parquet.write_table(pyarrow.table(fields), tmp_path / "bad.parquet")
    assert says in error_of(tmp_path / "bad.parquet")


STORY = ("d1", "train", "Who ?", "a girl", "the girl")


@pytest.mark.parametrize(
    ("stories", "says"),
    [
        ([("d9", *STORY[1:])], "qaps.csv, line 2: the document 'd9' is not in summaries.csv"),
        ([(*STORY[:4], "")], "qaps.csv, line 2: 'answer2': is empty"),
        ([STORY[:4]], "qaps.csv, line 2: expected 5 cells, found 4"),
        ([], "stories: has no usable record"),
    ],
)
def test_bad_narrativeqa(tmp_path, stories, says):
    with pytest.raises(DataError, match=re.escape(says)):
        read_questions(write_narrativeqa(tmp_path / "stories", stories))


def test_two_summaries_of_one_document_are_rejected(tmp_path):
    folder = write_narrativeqa(tmp_path / "stories", [STORY], summaries=[("d1", "A girl ."), ("d1", "A boy .")])
    with pytest.raises(DataError, match=r"summaries\.csv: line 3: 'd1' has a summary already"):
        read_questions(folder)
    (folder / "summaries.csv").write_text("document_id,text\nd1,x\n")
    with pytest.raises(DataError, match=r"summaries\.csv: line 2: expected document_id and summary"):
        read_questions(folder)


def test_missing_files(tmp_path):
    assert error_of(tmp_path / "gone.json").startswith("cannot be read: No such file")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"no data file; expected \.json, .*, found notes\.txt in "):
        find_parts(tmp_path)
    for name in ("train-00000-of-00003.csv", "train-00002-of-00003.csv", "test.csv"):
        (tmp_path / name).write_text(GOOD_CSV)
    with pytest.raises(DataError, match="expected 3 files of train, found 2; fetch the others"):
        find_parts(tmp_path)
    (tmp_path / "other.csv").write_text(GOOD_CSV)
    with pytest.raises(DataError, match=r"other\.csv: its part is unclear; write exactly one of train, valid and test"):
        find_parts(tmp_path)


def test_files_of_a_domain_whose_name_begins_another(tmp_path):
    names = "tax.train.csv tax.Dev_matched.csv.gz tax_eu.train.csv taxes.csv tax.tst.csv law.csv law_eu.csv"
    for name in names.split():
        (tmp_path / name).write_text(GOOD_CSV)
    assert {part: [file.name for file in files] for part, files in find_parts(tmp_path / "tax").items()} == {
        "train": ["tax.train.csv"],
        "valid": ["tax.Dev_matched.csv.gz"],
        "test": ["tax.tst.csv"],
    }
    assert find_parts(tmp_path / "law") == {"all": [tmp_path / "law.csv"]}


@pytest.mark.parametrize(
    ("name", "questions", "passages"),
    [
        ("wikipedia/new_wiki_v1.0.json", 7938, 1581),
        ("news/newsqa.json", 4212, 638),
        ("policy/test.json", 4152, 497),
        ("squad/xquad.en.json", 1190, 240),
        ("squad/dev-v2.0.json", 6078, 646),
        ("squad-adversarial/sample1k-HCVerifyAll.json", 3560, 3356),
        ("mrqa-sample/NewsQA_sample.jsonl", 17, 3),
        ("stories", 14018, 470),
    ],
)
def test_real_files(shared, name, questions, passages):
    records, notes = read_questions(shared / "data/qa" / name, unanswerable=name.endswith("v2.0.json"))
    examples = [record.example for record in records]
    assert (len(examples), len({e.context for e in examples})) == (questions, passages)
    assert notes == ([f"stories: 89 {UNPLACED}"] if name == "stories" else [])
    assert sum(not e.answers for e in examples) == (3168 if name.endswith("v2.0.json") else 0)
    assert name == "stories" or all(e.context[slice(*e.span)] == e.answers[0] for e in examples if e.span)
