"""Reading the files of SQuAD, MRQA and NarrativeQA, good and broken ones."""

import gzip
import itertools
import json
import random

import pytest
from qa_files import CONTEXT, mrqa_question, question, write_mrqa, write_narrativeqa, write_squad

from helpers.data.examples import DataError
from helpers.data.formats.narrativeqa import closest_span
from helpers.data.questions import read

REFUSED = r"\d+ of \d+ records refused:\s+"
LOOSE = "answers differ from the context in case, spacing or punctuation; the file's own offsets are used"
MOVED = "answers were placed where their text stands in the context, as their offsets were wrong"


# ---------------------------------------------------------------------------------------------------- good files


def test_squad(tmp_path):
    answers = [("London", 36), ("in London", 33), ("London", 36)]
    corpus = read(write_squad(tmp_path / "a.json", (CONTEXT, [question(answers=answers)])))
    (example,) = corpus.examples
    assert (example.id, example.group, example.question, example.context) == ("q1", "q1", "Where?", CONTEXT)
    assert example.answers == ("London", "in London")  # distinct, in order
    assert example.span == (36, 42) and CONTEXT[36:42] == "London"
    assert corpus.notes == []


def test_squad_2_keeps_unanswerable_when_allowed(tmp_path):
    questions = [question(), question("q2", "When?", (), is_impossible=True, plausible_answers=[])]
    path = write_squad(tmp_path / "a.json", (CONTEXT, questions))
    second = read(path, unanswerable=True).examples[1]
    assert second.answers == () and second.span is None
    place = (
        r"a\.json: 1 of 2 records refused: article 1, paragraph 1, question 2 \(id q2\): the question has no answer; "
    )
    keeps = r"setting data\.unanswerable to true, or to a list of such domains, .*-p unanswerable True.* keeps them"
    with pytest.raises(DataError, match=place + keeps):
        read(path)


def test_adversarial_variants_share_the_group_of_their_question(tmp_path):
    ids = ["5a-b", "5a-b-turk0", "5a-b-high-conf-turk12", "turk0"]
    corpus = read(write_squad(tmp_path / "a.json", (CONTEXT, [question(i) for i in ids])))
    assert [example.group for example in corpus.examples] == ["5a-b", "5a-b", "5a-b", "turk0"]


def test_ids_may_be_numbers(tmp_path):
    assert read(write_squad(tmp_path / "a.json", (CONTEXT, [question(7)]))).examples[0].id == "7"


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
def test_mrqa(tmp_path, header, zipped):
    path = write_mrqa(tmp_path / "m.jsonl", mrqa_question(answers=["London", "London", "in London"]), header=header)
    if zipped:
        path = tmp_path / "m.jsonl.gz"
        path.write_bytes(gzip.compress((tmp_path / "m.jsonl").read_bytes()))
    corpus = read(path)
    (example,) = corpus.examples
    assert example.id == "m1" and example.answers == ("London", "in London")
    assert CONTEXT[slice(*example.span)] == "London"  # the file's end is inclusive
    assert corpus.notes == []


def test_mrqa_takes_the_first_place_of_the_first_detected_answer(tmp_path):
    detected = [{"text": "Ada", "char_spans": [[17, 19], [0, 2]]}, {"text": "London", "char_spans": [[36, 41]]}]
    path = write_mrqa(tmp_path / "m.jsonl", mrqa_question(answers=["Ada"], detected_answers=detected))
    assert read(path).examples[0].span == (17, 20)


def test_mrqa_offsets_that_do_not_fit(tmp_path):
    def placed(text, first, last):
        detected = [{"text": text, "char_spans": [[first, last]]}]
        corpus = read(write_mrqa(tmp_path / "m.jsonl", mrqa_question(answers=[text], detected_answers=detected)))
        return CONTEXT[slice(*corpus.examples[0].span)], corpus.notes

    assert placed("babbage", 25, 31) == ("Babbage", [f"m.jsonl: 1 {LOOSE}"])
    assert placed("Babbage", 25, 32) == ("Babbage", [f"m.jsonl: 1 {MOVED}"])  # an end that is not inclusive
    assert placed("Babbage", 3, 9) == ("Babbage", [f"m.jsonl: 1 {MOVED}"])
    assert placed("Babbage", -1, 9999) == ("Babbage", [f"m.jsonl: 1 {MOVED}"])


def test_mrqa_detected_answers_that_are_not_scored_are_counted(tmp_path):
    path = write_mrqa(tmp_path / "m.jsonl", mrqa_question(), mrqa_question(qid="m2", answers=["Paris"]))
    assert read(path).notes == [
        "m.jsonl: 1 questions are trained on a detected answer that is none of the answers to score with"
    ]
    assert read(write_mrqa(tmp_path / "m.jsonl", mrqa_question(answers=["london."]))).notes == []


def test_mrqa_answers_without_a_place_are_kept_and_counted(tmp_path):
    corpus = read(write_mrqa(tmp_path / "m.jsonl", mrqa_question(), mrqa_question(qid="m2", detected_answers=[])))
    assert corpus.examples[1].span is None and corpus.examples[1].answers == ("London",)
    assert len(corpus.notes) == 1 and corpus.notes[0].startswith("m.jsonl: 1 questions have answers but no place")


def test_narrativeqa(tmp_path):
    folder = write_narrativeqa(
        tmp_path / "stories",
        [
            ("d1", "train", "Who found it ?", "a girl", "some young girl"),
            ("d1", "train", "Who found it ?", "a girl", "some young girl"),
            ("d1", "test", "Why ?", "Nobody knows", "unclear"),
        ],
    )
    corpus = read(folder)
    first, again, last = corpus.examples
    assert first.answers == ("a girl", "some young girl") and first.id.startswith("d1-") and again.id == first.id + ".2"
    # "A young girl" has LCS 2 with "a girl" (F = 2·2/(2+3) = 0.8); "young girl" LCS 2 with the other (2·2/(3+2) = 0.8).
    assert first.context[slice(*first.span)] == "A young girl"
    assert last.span is None
    assert corpus.notes == [
        "stories: 1 questions share no word of their answers with the summary: kept for scoring, not to train on"
    ]
    assert [e.question for e in read(folder, part="test").examples] == ["Why ?"]
    with pytest.raises(DataError, match="no question of part 'valid'"):
        read(folder, part="valid")


def test_part_is_for_narrativeqa_only(tmp_path):
    path = write_squad(tmp_path / "a.json", (CONTEXT, [question()]))
    with pytest.raises(DataError, match=r"a\.json: part='train' is for NarrativeQA"):
        read(path, part="train")


def rouge_l(window, reference):
    """F by the textbook table."""
    table = [[0] * (len(reference) + 1) for _ in range(len(window) + 1)]
    for i, j in itertools.product(range(len(window)), range(len(reference))):
        same = window[i] == reference[j]
        table[i + 1][j + 1] = table[i][j] + 1 if same else max(table[i][j + 1], table[i + 1][j])
    return 2 * table[-1][-1] / (len(window) + len(reference))


def test_closest_span_is_the_best_of_all_windows():
    draw = random.Random(0)
    for _ in range(150):
        context = [draw.choice("abcdefgh") for _ in range(draw.randint(1, 14))]
        references = [[draw.choice("abcxyz") for _ in range(draw.randint(1, 5))] for _ in range(2)]
        windows = [context[i:j] for i in range(len(context)) for j in range(i + 1, len(context) + 1)]
        best = max(rouge_l(window, reference) for window in windows for reference in references)
        text = " ".join(context)
        span = closest_span(text, [" ".join(reference) for reference in references])
        if best == 0:
            assert span is None
        else:
            window = text[slice(*span)].split()
            assert max(rouge_l(window, reference) for reference in references) == pytest.approx(best)


def test_closest_span_takes_earliest_and_shortest_of_equals():
    text = "red fox. Red fox"
    assert closest_span(text, ["RED", "fox"]) == (0, 3)
    assert closest_span(text, ["?!"]) is None


def test_byte_order_mark_is_accepted(tmp_path):
    text = write_squad(tmp_path / "a.json", (CONTEXT, [question()])).read_text()
    (tmp_path / "a.json").write_text(text, encoding="utf-8-sig")
    assert len(read(tmp_path / "a.json").examples) == 1


def test_answer_at_a_wrong_offset_is_moved_if_it_stands_once(tmp_path):
    path = write_squad(tmp_path / "a.json", (CONTEXT, [question(answers=[("London", 3)])]))
    corpus = read(path)
    assert corpus.examples[0].span == (36, 42) and corpus.notes == [f"a.json: 1 {MOVED}"]


# ----------------------------------------------------------------------------------------------------- bad files

HERE = REFUSED + r"article 1, paragraph 1, question 1"
BAD_QUESTIONS = {
    "missing id": (
        {"question": "Where?", "answers": []},
        HERE + r": 'id' is missing; the keys are 'question', 'answers'",
    ),
    "missing question": ({"id": "q1", "answers": []}, HERE + r" \(id q1\): 'question' is missing"),
    "missing answers": ({"id": "q1", "question": "Where?"}, HERE + r" \(id q1\): 'answers' is missing"),
    "question is a list": (
        question(text=["Where?"]),
        HERE + r" \(id q1\): expected 'question' to be text, found \['Wh",
    ),
    "answers is an object": (
        question() | {"answers": {}},
        HERE + r" \(id q1\): expected 'answers' to be a list, found {}",
    ),
    "answer is text": (
        question() | {"answers": ["London"]},
        HERE + r" \(id q1\), answer 1: expected an object with 'text'",
    ),
    "offset is text": (
        question(answers=[("London", "36")]),
        HERE + r" \(id q1\), answer 1: expected 'answer_start' to be a whole",
    ),
    "not an object": ("Where?", HERE + r": expected an object with 'id', found 'Where\?'"),
    "empty question": (question(text=" "), HERE + r" \(id q1\): 'question' is empty"),
    "empty answer": (question(answers=[("", 0)]), HERE + r" \(id q1\), answer 1: 'text' is empty"),
    "answer elsewhere": (
        question(answers=[("Ada", 8)]),
        HERE + r" \(id q1\), answer 1: 'Ada' is not at its offset 8 .*more than once",
    ),
    "answer nowhere": (
        question(answers=[("Paris", 36)]),
        HERE + r" \(id q1\), answer 1: 'Paris' does not stand.*offset 36: 'Londo'",
    ),
    "negative offset": (
        question(answers=[("Ada", -43)]),
        HERE + r" \(id q1\), answer 1: 'Ada' is not at its offset -43",
    ),
    "impossible yet answered": (question(is_impossible=True), HERE + r" \(id q1\): 'is_impossible' is true"),
    "possible without answer": (
        question(answers=(), is_impossible=False),
        HERE + r" \(id q1\): 'is_impossible' is false, yet",
    ),
    "half a character": (
        question(text="What \ud83d?"),
        HERE + r" \(id q1\): expected 'question' to be text without half characters",
    ),
    "impossible is text": (
        question(answers=(), is_impossible="yes"),
        HERE + r" \(id q1\): expected 'is_impossible' to be true or false, found 'yes'",
    ),
    "unanswerable": (
        question(answers=()),
        HERE + r" \(id q1\): the question has no answer; .*data\.unanswerable",
    ),
}


@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_bad_squad_question(tmp_path, case):
    bad, message = BAD_QUESTIONS[case]
    with pytest.raises(DataError, match=r"bad\.json: " + message):
        read(write_squad(tmp_path / "bad.json", (CONTEXT, [bad])))


BAD_JSON = {
    "empty": ("", "the file is empty"),
    "blank": ("\n \n", "the file is empty"),
    "cut short": ('{"data": [\n {"title": "x",\n "par', r"not valid JSON at line 3, column 2 .*cut short"),
    "one object a line": (
        '{"data": []}\n{"data": []}',
        r"line 1 holds an object with the keys 'data'; expected SQuAD's",
    ),
    "a list": ("[]", r"it holds \[\]; expected SQuAD's JSON"),
    "no data": ('{"version": 1}', "it holds an object with the keys 'version'; expected SQuAD's JSON"),
    "no paragraphs": ('{"data": [{"title": "x"}]}', REFUSED + "article 1: 'paragraphs' is missing"),
    "no context": (
        '{"data": [{"paragraphs": [{"qas": []}]}]}',
        REFUSED + "article 1, paragraph 1: 'context' is missing",
    ),
    "empty context": (
        '{"data": [{"paragraphs": [{"context": "", "qas": []}]}]}',
        REFUSED + "article 1, paragraph 1: 'context' is empty",
    ),
    "no qas": ('{"data": [{"paragraphs": [{"context": "x"}]}]}', REFUSED + "article 1, paragraph 1: 'qas' is missing"),
    "no questions": ('{"data": [{"paragraphs": [{"context": "x", "qas": []}]}]}', "there is no question in it"),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_bad_squad_file(tmp_path, case):
    text, message = BAD_JSON[case]
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(DataError, match=r"bad\.json: " + message):
        read(tmp_path / "bad.json")


def test_duplicate_ids_name_both_places(tmp_path):
    path = write_squad(tmp_path / "bad.json", (CONTEXT, [question()]), (CONTEXT + " ", [question("q2"), question()]))
    with pytest.raises(
        DataError, match=r"paragraph 2, question 2 \(id q1\): the id is taken by article 1, paragraph 1"
    ):
        read(path)


SPAN = [{"text": "London", "char_spans": [[36, 41]]}]
BAD_MRQA = {
    "missing question": ({"qid": "m1"}, r"\(id m1\): 'question' is missing"),
    "missing id": ({"question": "Where?"}, r"question 1: 'qid' is missing"),
    "missing spans": (
        mrqa_question(detected_answers=[{"text": "London"}]),
        r"\(id m1\), detected answer 1: 'char_spans' is missing",
    ),
    "odd span": (
        mrqa_question(detected_answers=[{"text": "London", "char_spans": [[36]]}]),
        r"\(id m1\), detected answer 1, char span 1: expected \[first, last\], found \[36\]",
    ),
    "nowhere": (
        mrqa_question(detected_answers=[{"text": "Paris", "char_spans": [[36, 41]]}]),
        r"\(id m1\), detected answer 1: 'Paris' does not stand in the context",
    ),
    "more than once": (
        mrqa_question(detected_answers=[{"text": "Ada", "char_spans": [[8, 10]]}]),
        r"\(id m1\), detected answer 1: 'Ada' is not at its offset 8 .* more than once",
    ),
    "answer is a number": (mrqa_question(answers=[3]), r"\(id m1\), answer 1: expected text, found 3"),
    "no answers to score": (mrqa_question(answers=[]), r"\(id m1\): 'detected_answers' without 'answers'"),
    "impossible": (mrqa_question(is_impossible=True), r"\(id m1\): 'is_impossible' is true"),
    "possible": (
        mrqa_question(is_impossible=False, answers=[], detected_answers=[]),
        r"\(id m1\): 'is_impossible' is false, yet there is no answer",
    ),
    "unanswerable": (mrqa_question(answers=[], detected_answers=[]), r"\(id m1\): the question has no answer"),
}


@pytest.mark.parametrize("case", BAD_MRQA)
def test_bad_mrqa_question(tmp_path, case):
    bad, message = BAD_MRQA[case]
    with pytest.raises(DataError, match=r"bad\.jsonl: 1 of 1 records refused: line 2, .*" + message):
        read(write_mrqa(tmp_path / "bad.jsonl", bad))


BAD_LINES = {
    "empty": ("", "the file is empty"),
    "header only": ('{"header": {}}\n', "there is no question in it"),
    "cut short": ('{"header": {}}\n{"context": "x", "qas": [', r"not valid JSON at line 2, column 26 .*cut short"),
    "SQuAD": ('{"data": []}', "there is no question in it"),
    "second header": ('{"header": {}}\n{"header": {}}', "line 2 holds an object with the keys 'header'"),
    "empty context": ('{"context": " ", "qas": []}', REFUSED + "line 1: 'context' is empty"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_mrqa_file(tmp_path, case):
    text, message = BAD_LINES[case]
    (tmp_path / "bad.jsonl").write_text(text)
    with pytest.raises(DataError, match=r"bad\.jsonl: " + message):
        read(tmp_path / "bad.jsonl")


def test_bad_gzip(tmp_path):
    whole = write_mrqa(tmp_path / "m.jsonl", *(mrqa_question(qid=str(i) * 9) for i in range(50))).read_bytes()
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(gzip.compress(whole)[:-60])
    with pytest.raises(DataError, match=r"bad\.jsonl\.gz: reading stopped at byte \d+ .*fetch the file again"):
        read(path)
    path.write_bytes(whole)
    assert len(read(path).examples) == 50  # the name is a hint, the content decides
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"bad\.jsonl\.gz: the file is empty"):
        read(path)
    damaged = bytearray(gzip.compress(whole))
    damaged[-6] ^= 255  # the checksum
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"bad\.jsonl\.gz: reading stopped"):
        read(path)


def test_wrong_encoding_names_the_byte(tmp_path):
    text = json.dumps({"data": [{"title": "Café"}]}, ensure_ascii=False, indent=1)
    (tmp_path / "bad.json").write_text(text, encoding="latin-1")
    offset = text.index("é")
    with pytest.raises(DataError, match=rf"bad\.json: line 4 is not UTF-8: byte {offset} of the file is 0xe9"):
        read(tmp_path / "bad.json")


ROW = ("d1", "train", "Who ?", "a girl", "the girl")
BAD_STORIES = {
    "unknown set": (
        [ROW, ("d1", "dev", *ROW[2:])],
        r"qaps\.csv: row from line 3: expected 'set' to be train, .*found 'dev'",
    ),
    "unknown document": ([("d9", *ROW[1:])], r"qaps\.csv: row from line 2: document 'd9' is not in summaries\.csv"),
    "empty answer": ([(*ROW[:4], "")], r"qaps\.csv: row from line 2: 'answer2' is empty"),
    "empty question": ([("d1", "train", " ", "a", "b")], r"qaps\.csv: row from line 2: 'question' is empty"),
    "too few cells": ([ROW[:4]], r"qaps\.csv: row from line 2: expected 5 cells"),
    "too many cells": ([(*ROW, "more")], r"qaps\.csv: row from line 2: expected 5 cells"),
    "no questions": ([], r"stories: there is no question in it"),
}


@pytest.mark.parametrize("case", BAD_STORIES)
def test_bad_narrativeqa(tmp_path, case):
    rows, message = BAD_STORIES[case]
    with pytest.raises(DataError, match=message):
        read(write_narrativeqa(tmp_path / "stories", rows))


def test_bad_narrativeqa_files(tmp_path):
    folder = write_narrativeqa(tmp_path / "stories", [ROW], summaries=[("d1", "A girl ."), ("d1", "A boy .")])
    with pytest.raises(DataError, match=r"summaries\.csv: row from line 3: document 'd1' has a summary already"):
        read(folder)
    (folder / "summaries.csv").write_text("document_id,text\nd1,x\n")
    with pytest.raises(DataError, match=r"summaries\.csv: line 1 has to name the columns \['summary'\]; .*'text'"):
        read(folder)
    (folder / "summaries.csv").write_text("")
    with pytest.raises(DataError, match=r"summaries\.csv: line 1 .*the file is empty"):
        read(folder)
    (folder / "summaries.csv").write_text('document_id,summary\nd1,"A girl')
    with pytest.raises(DataError, match=r"summaries\.csv: row from line 2 is not valid CSV"):
        read(folder)


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.json: no such file"):
        read(tmp_path / "gone.json")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match=r"a\.txt: it begins with 'x'; expected SQuAD's JSON"):
        read(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"it holds a\.txt; expected"):
        read(tmp_path)


# ----------------------------------------------------------------------------------------------------- real data


@pytest.mark.parametrize(
    ("name", "questions", "passages"),
    [
        ("wikipedia/new_wiki_v1.0.json", 7938, 1581),
        ("amazon/amazon_reviews_v1.0.json", 9885, 2050),
        ("reddit/reddit_v1.0.json", 9803, 2033),
        ("news/newsqa.json", 4212, 638),
        ("policy/dev.json", 3809, 574),
        ("policy/test.json", 4152, 497),
        ("squad/xquad.en.json", 1190, 240),
        ("squad/dev-v2.0.json", 6078, 646),
        ("mrqa-sample/NewsQA_sample.jsonl", 17, 3),
        ("stories", 14018, 470),
    ],
)
def test_real_files(shared, name, questions, passages):
    corpus = read(shared / "data/qa" / name, unanswerable=name.endswith("v2.0.json"))
    assert (len(corpus.examples), len({e.context for e in corpus.examples})) == (questions, passages)
    if name == "stories":
        assert [note.split(" share")[0] for note in corpus.notes] == ["stories: 89 questions"]
    else:
        assert corpus.notes == []
        assert all(e.context[slice(*e.span)] == e.answers[0] for e in corpus.examples if e.span)
    unanswerable = sum(not example.answers for example in corpus.examples)
    assert unanswerable == (3168 if name.endswith("v2.0.json") else 0)


@pytest.mark.parametrize(("name", "questions"), [("HCVerifyAll", 3560), ("HCVerifySample", 1787)])
def test_real_adversarial_files(shared, name, questions):
    examples = read(shared / "data/qa" / f"squad-adversarial/sample1k-{name}.json").examples
    originals = {example.id for example in examples if example.id == example.group}
    assert len(examples) == questions and len(originals) == 1000
    assert {example.group for example in examples} == originals
