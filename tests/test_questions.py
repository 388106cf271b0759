"""Reading questions from files and from the Hub, and splitting them into domains."""

import csv
import gzip
import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import datasets
import pytest

from helpers.data.examples import DataError
from helpers.data.formats import hub
from helpers.data.formats.narrativeqa import closest_span
from helpers.data.questions import load_domain, read, sample

REAL = Path(__file__).parents[2] / "shared/data/qa"
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real data at {REAL}")

CONTEXT = "Ada wrote notes. Ada met Babbage in London."
LOOSE = "answers differ from the context in case, spacing or punctuation; the file's own offsets are used"
MOVED = "answers were placed where their text stands in the context, as their offsets were wrong"


def question(identifier="q1", text="Where?", answers=(("London", 36),), **more):
    answers = [{"text": answer, "answer_start": start} for answer, start in answers]
    return {"id": identifier, "question": text, "answers": answers, **more}


def write_squad(path, *paragraphs, title="Ada"):
    """``paragraphs`` are (context, questions)."""
    paragraphs = [{"context": context, "qas": questions} for context, questions in paragraphs]
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": title, "paragraphs": paragraphs}]}))
    return path


def write_many(path, passages, each=2, tag="", titles=None):
    """A file of ``passages`` passages with ``each`` questions; ``titles`` names the document of each passage."""
    articles = []
    for p in range(passages):
        context = f"{tag} Passage {p} speaks of thing{p}."
        start = context.index(f"thing{p}.")
        questions = [question(f"{tag}{p}-{q}", f"What {q}?", [(f"thing{p}", start)]) for q in range(each)]
        title = titles[p] if titles else "all"
        articles.append({"title": title, "paragraphs": [{"context": context, "qas": questions}]})
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"data": articles}))
    return path


def mrqa_question(**changes):
    detected = [{"text": "London", "char_spans": [[36, 41]], "token_spans": [[7, 7]]}]
    return {"qid": "m1", "question": "Where?", "answers": ["London"], "detected_answers": detected} | changes


def write_mrqa(path, *questions, header=True):
    lines = [{"header": {"dataset": "x", "split": "train"}}] * header + [{"context": CONTEXT, "qas": list(questions)}]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def write_narrativeqa(
    folder, questions, summaries=(("d1", "The old king slept . A young girl found the silver ring ."),)
):
    """``questions`` are (document, set, question, answer1, answer2)."""
    folder.mkdir(exist_ok=True)
    for name, header, rows in (
        ("summaries.csv", ["document_id", "summary"], summaries),
        ("qaps.csv", ["document_id", "set", "question", "answer1", "answer2"], questions),
    ):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
    return folder


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
    with pytest.raises(
        DataError, match=r"a\.json: article 1, paragraph 1, question 2 \(id q2\).*1 of 2.*unanswerable=True"
    ):
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
        corpus = read(write_mrqa(tmp_path / "m.jsonl", mrqa_question(detected_answers=detected)))
        return CONTEXT[slice(*corpus.examples[0].span)], corpus.notes

    assert placed("babbage", 25, 31) == ("Babbage", [f"m.jsonl: 1 {LOOSE}"])
    assert placed("Babbage", 25, 32) == ("Babbage", [f"m.jsonl: 1 {MOVED}"])  # an end that is not inclusive
    assert placed("Babbage", 3, 9) == ("Babbage", [f"m.jsonl: 1 {MOVED}"])
    assert placed("Babbage", -1, 9999) == ("Babbage", [f"m.jsonl: 1 {MOVED}"])


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

HERE = r"article 1, paragraph 1, question 1"
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
        question(answers=[("Ada", 5)]),
        HERE + r" \(id q1\), answer 1: 'Ada' is not at its offset 5 .*more than once",
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
    "impossible is text": (
        question(answers=(), is_impossible="yes"),
        HERE + r" \(id q1\): expected 'is_impossible' to be true or false, found 'yes'",
    ),
    "unanswerable": (
        question(answers=()),
        HERE + r" \(id q1\): the question has no answer, as have 1 of 1.*unanswerable=True",
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
    "one object a line": ('{"data": []}\n{"data": []}', r"not valid JSON at line 2, column 1 .*name it \.jsonl"),
    "a list": ("[]", r"expected an object with 'data', found \[\]"),
    "no data": ('{"version": 1}', "'data' is missing; the keys are 'version'"),
    "no paragraphs": ('{"data": [{"title": "x"}]}', "article 1: 'paragraphs' is missing"),
    "no context": ('{"data": [{"paragraphs": [{"qas": []}]}]}', "article 1, paragraph 1: 'context' is missing"),
    "empty context": (
        '{"data": [{"paragraphs": [{"context": "", "qas": []}]}]}',
        "article 1, paragraph 1: 'context' is empty",
    ),
    "no qas": ('{"data": [{"paragraphs": [{"context": "x"}]}]}', "article 1, paragraph 1: 'qas' is missing"),
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
        DataError, match=r"paragraph 2, question 2 \(id q1\): the id is taken by .*bad\.json: article 1, paragraph 1"
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
        mrqa_question(detected_answers=[{"text": "Ada", "char_spans": [[5, 7]]}]),
        r"\(id m1\), detected answer 1: 'Ada' is not at its offset 5 .* more than once",
    ),
    "answer is a number": (mrqa_question(answers=[3]), r"\(id m1\), answer 1: expected text, found 3"),
    "no answers to score": (mrqa_question(answers=[]), r"\(id m1\): 'detected_answers' without 'answers'"),
    "impossible": (mrqa_question(is_impossible=True), r"\(id m1\): 'is_impossible' is true"),
    "unanswerable": (mrqa_question(answers=[], detected_answers=[]), r"\(id m1\): the question has no answer"),
}


@pytest.mark.parametrize("case", BAD_MRQA)
def test_bad_mrqa_question(tmp_path, case):
    bad, message = BAD_MRQA[case]
    with pytest.raises(DataError, match=r"bad\.jsonl: line 2, .*" + message):
        read(write_mrqa(tmp_path / "bad.jsonl", bad))


BAD_LINES = {
    "empty": ("", "the file is empty"),
    "header only": ('{"header": {}}\n', "there is no question in it"),
    "cut short": ('{"header": {}}\n{"context": "x", "qas": [', r"not valid JSON at line 2, column 26 .*cut short"),
    "SQuAD": ('{"data": []}', "line 1: 'context' is missing; the keys are 'data'"),
    "second header": ('{"header": {}}\n{"header": {}}', "line 2: 'context' is missing"),
    "empty context": ('{"context": " ", "qas": []}', "line 1: 'context' is empty"),
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
    with pytest.raises(DataError, match=r"bad\.jsonl\.gz: named \.gz, but not a gzip file.*name it bad\.jsonl"):
        read(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"bad\.jsonl\.gz: named \.gz, but not a gzip file; it is empty"):
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
    "unknown document": ([("d9", *ROW[1:])], r"qaps\.csv: row from line 2: document d9 is not in summaries\.csv"),
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
    with pytest.raises(DataError, match=r"summaries\.csv: row from line 3: document d1 has a summary already"):
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
    with pytest.raises(DataError, match=r"a\.txt: its name says no known format; expected .*SQuAD \(\.json\)"):
        read(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"it holds a\.txt; expected"):
        read(tmp_path)


# ------------------------------------------------------------------------------------------------------- domains


def parts(domain):
    return domain.train, domain.valid, domain.test


def contexts(examples):
    return {example.context for example in examples}


def ids(examples):
    return [example.id for example in examples]


def test_split_of_one_file_is_disjoint_by_passage_and_complete(tmp_path):
    path = write_many(tmp_path / "d.json", 30, each=3)
    domain = load_domain("d", path, seed=0, valid_size=10, test_fraction=0.2)
    train, valid, test = map(contexts, parts(domain))
    assert not (train & valid or train & test or valid & test)
    assert sorted(ids(itertools.chain(*parts(domain)))) == sorted(ids(read(path).examples))
    assert (len(domain.valid), len(domain.test)) == (12, 18)  # whole passages: 10 rounded up to 3s; 20% of 90
    assert domain.notes[-1] == "d: questions: train 60 on 20 passages, valid 12 on 4 passages, test 18 on 6 passages"


def test_split_depends_on_seed_and_not_on_file_order(tmp_path):
    path = write_many(tmp_path / "d.json", 30)
    data = json.loads(path.read_text())
    data["data"].reverse()
    for article in data["data"]:
        article["paragraphs"][0]["qas"].reverse()
    (tmp_path / "reversed.json").write_text(json.dumps(data))
    options = {"valid_size": 10, "train_size": 17, "test_size": 5}
    first = parts(load_domain("d", path, seed=0, **options))
    assert first == parts(load_domain("d", tmp_path / "reversed.json", seed=0, **options))
    first, second = (load_domain("d", path, seed=seed, valid_size=10) for seed in (0, 1))
    assert contexts(first.test) != contexts(second.test) and contexts(first.valid) != contexts(second.valid)


def test_split_is_the_same_in_every_process(tmp_path):
    write_many(tmp_path / "d.json", 30)
    code = (
        "from helpers.data.questions import load_domain; "
        "print([e.id for e in load_domain('d', 'd.json', seed=3, valid_size=10, train_size=9).train])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in "12"
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].strip() == str(
        ids(load_domain("d", tmp_path / "d.json", seed=3, valid_size=10, train_size=9).train)
    )


def test_reading_files_imports_nothing_large():
    code = "import sys, helpers.data.questions; print({'torch', 'datasets', 'sklearn', 'scipy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_equal_passages_are_one_unit(tmp_path):
    paragraphs = [(f"Ada met Babbage{p % 6}.", [question(f"q{p}", answers=[("Ada", 0)])]) for p in range(24)]
    domain = load_domain("d", write_squad(tmp_path / "d.json", *paragraphs), seed=0, valid_size=4)
    train, valid, test = map(contexts, parts(domain))
    assert not (train & valid or train & test or valid & test)
    assert [len(part) % 4 for part in parts(domain)] == [0, 0, 0]


def test_smaller_samples_are_subsets_and_leave_the_rest_alone(tmp_path):
    path = write_many(tmp_path / "d.json", 40)
    loaded = {n: load_domain("d", path, seed=0, valid_size=10, train_size=n, test_size=n // 4) for n in (8, 20, 40)}
    for part in ("train", "test"):
        small, middle, large = (set(ids(getattr(loaded[n], part))) for n in (8, 20, 40))
        assert small < middle < large
    assert [len(loaded[n].train) for n in (8, 20, 40)] == [8, 20, 40]
    assert [len(loaded[n].test) for n in (8, 20, 40)] == [2, 5, 10]
    assert loaded[8].valid == loaded[40].valid


def test_sample_keeps_order(tmp_path):
    examples = read(write_many(tmp_path / "d.json", 10)).examples
    chosen = sample(examples, 7, seed=0)
    assert len(chosen) == 7 and chosen == [example for example in examples if example in chosen]
    assert chosen != sample(examples, 7, seed=1)


def test_a_size_that_is_too_large_is_noted(tmp_path):
    domain = load_domain("d", write_many(tmp_path / "d.json", 30), seed=0, valid_size=10, train_size=1000)
    assert "d: train_size=1,000 was asked for, there are 38: all are used" in domain.notes


def test_three_files_stay_as_they_are(tmp_path):
    for part, count in (("train", 9), ("dev-v1.1", 3), ("test", 4)):
        write_many(tmp_path / "d" / f"squad-{part}.json", count, tag=part)
    domain = load_domain("d", tmp_path / "d", seed=0)
    assert [len(part) for part in parts(domain)] == [18, 6, 8]
    assert {example.id[:3] for example in domain.valid} == {"dev"}
    mapping = {
        "train": tmp_path / "d/squad-train.json",
        "valid": tmp_path / "d/squad-dev-v1.1.json",
        "test": tmp_path / "d/squad-test.json",
    }
    assert parts(load_domain("d", mapping, seed=0)) == parts(domain)
    assert parts(load_domain("d", {part: read(path) for part, path in mapping.items()}, seed=0)) == parts(domain)


def test_without_test_file_dev_is_the_test_set(tmp_path):
    write_many(tmp_path / "d/train.json", 20, tag="train")
    write_many(tmp_path / "d/dev.json", 3, tag="dev")
    domain = load_domain("d", tmp_path / "d", seed=0, valid_size=5)
    assert {example.id[:3] for example in domain.test} == {"dev"}
    assert (len(domain.train), len(domain.valid), len(domain.test)) == (34, 6, 6)
    assert "d: no test file: valid (dev) is used to test" in domain.notes


def test_dev_and_test_without_train_halve_test_by_document(tmp_path):
    titles = [f"policy {p // 4}" for p in range(24)]
    write_many(tmp_path / "d/dev.json", 5, tag="dev")
    path = write_many(tmp_path / "d/test.json", 24, tag="test", titles=titles)
    data = json.loads(path.read_text())
    shared = "Both documents say thing."  # policy 0 and policy 5 have to stay together
    for article, identifier in ((0, "s0"), (20, "s1")):
        qas = [question(identifier, answers=[("thing", 19)])]
        data["data"][article]["paragraphs"].append({"context": shared, "qas": qas})
    path.write_text(json.dumps(data))
    domain = load_domain("d", tmp_path / "d", seed=0)
    assert len(domain.train) == 10 and len(domain.valid) + len(domain.test) == 50
    document = {a["paragraphs"][0]["context"]: title for a, title in zip(data["data"], titles, strict=True)}
    valid, test = ({document[c] for c in contexts(part) - {shared}} for part in (domain.valid, domain.test))
    assert valid and test and not valid & test
    assert ("policy 0" in valid) == ("policy 5" in valid)


def test_passages_shared_by_the_files_are_noted(tmp_path):
    for part in ("train", "dev", "test"):
        write_many(tmp_path / f"d/{part}.json", 3 if part == "train" else 2, tag="same")
    notes = load_domain("d", tmp_path / "d", seed=0).notes
    assert "d: 2 passages stand in both train and test, as the files have it" in notes


def test_narrativeqa_domain_uses_its_sets(tmp_path):
    rows = [
        ("d1", part, f"Who {n} ?", "a girl", "the king")
        for part, n in (("train", 1), ("train", 2), ("valid", 3), ("test", 4))
    ]
    domain = load_domain("stories", write_narrativeqa(tmp_path / "stories", rows), seed=0)
    assert [len(part) for part in parts(domain)] == [2, 1, 1]
    only = load_domain("s", dict.fromkeys(("train", "valid", "test"), tmp_path / "stories"), seed=0)
    assert parts(only) == parts(domain)


def test_domain_errors(tmp_path):
    with pytest.raises(DataError, match=r"tiny: too small to split: .* too few passages"):
        load_domain("tiny", write_many(tmp_path / "one.json", 1, each=9), seed=0, valid_size=2)
    with pytest.raises(DataError, match=r"tiny: too small to split: .* too few passages"):
        load_domain("tiny", write_many(tmp_path / "two.json", 2, each=9), seed=0, valid_size=2)
    with pytest.raises(DataError, match=r"tiny: too small to split: valid_size=300 leaves nothing .* of the 48"):
        load_domain("tiny", write_many(tmp_path / "d.json", 30), seed=0)
    with pytest.raises(ValueError, match="train_size has to be at least 1, not 0"):
        load_domain("tiny", tmp_path / "d.json", seed=0, train_size=0)
    with pytest.raises(ValueError, match="test_fraction has to lie between 0 and 1, not 1"):
        load_domain("tiny", tmp_path / "d.json", seed=0, test_fraction=1)
    with pytest.raises(DataError, match="odd: expected the parts train, valid, test, found dev"):
        load_domain("odd", {"dev": tmp_path / "d.json"}, seed=0)
    with pytest.raises(DataError, match="odd: expected the parts train, valid, test, found none"):
        load_domain("odd", {}, seed=0)
    corpus = read(write_squad(tmp_path / "u.json", (CONTEXT, [question(answers=())])), unanswerable=True)
    with pytest.raises(DataError, match=r"u: example 1: the question has no answer.*unanswerable=True"):
        load_domain("u", corpus, seed=0)


def test_ambiguous_and_empty_folders(tmp_path):
    write_many(tmp_path / "two/train-a.json", 3)
    write_many(tmp_path / "two/train-b.json", 3)
    with pytest.raises(DataError, match=r"two: it is not clear which part train-b\.json is"):
        load_domain("two", tmp_path / "two", seed=0)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"none: no domain here; it holds nothing; expected one"):
        load_domain("none", tmp_path / "none", seed=0)


# ----------------------------------------------------------------------------------------------------------- Hub


def test_hub_squad():
    row = {"id": "q1", "title": "Ada", "context": CONTEXT, "question": "Where?"}
    rows = [
        row | {"answers": {"text": ["London"], "answer_start": [36]}},
        row | {"id": "q2", "answers": {"text": [], "answer_start": []}},
    ]
    corpus = hub.from_rows(datasets.Dataset.from_list(rows), "squad_v2[train]", unanswerable=True)
    assert [(e.id, e.answers, e.span) for e in corpus.examples] == [("q1", ("London",), (36, 42)), ("q2", (), None)]
    with pytest.raises(DataError, match=r"squad_v2\[train\]: row 2 \(id q2\): the question has no answer"):
        hub.from_rows(datasets.Dataset.from_list(rows), "squad_v2[train]")
    rows[0]["answers"] = {"text": ["Paris"], "answer_start": [36]}
    with pytest.raises(DataError, match=r"x: row 1 \(id q1\), answer 1: 'Paris' does not stand in the context"):
        hub.from_rows(datasets.Dataset.from_list(rows), "x")


def test_hub_mrqa():
    detected = {
        "text": ["London"],
        "char_spans": [{"start": [36], "end": [41]}],
        "token_spans": [{"start": [7], "end": [7]}],
    }
    row = {"subset": "NewsQA", "qid": "m1", "context": CONTEXT, "question": "Where?", "answers": ["London"]}
    corpus = hub.from_rows(datasets.Dataset.from_list([row | {"detected_answers": detected}]), "mrqa")
    (example,) = corpus.examples
    assert corpus.notes == []
    assert (example.id, example.answers, example.span) == ("m1", ("London",), (36, 42))


@pytest.mark.parametrize("pairs", [{"start": [36], "end": [41]}, [{"start": 36, "end": 41}]])
def test_hub_mrqa_whose_lists_are_lists(pairs):
    detected = [{"text": "London", "char_spans": pairs}]
    row = {"qid": "m1", "context": CONTEXT, "question": "Where?", "answers": ["London"], "detected_answers": detected}
    (example,) = hub.from_rows(datasets.Dataset.from_list([row]), "mrqa").examples
    assert CONTEXT[slice(*example.span)] == "London"
    row["detected_answers"] = [{"text": "London", "char_spans": [{"start": 36}]}]
    message = r"mrqa: row 1 \(id m1\), detected answer 1, char span 1: expected \[first, last\], found {'start': 36}"
    with pytest.raises(DataError, match=message):
        hub.from_rows(datasets.Dataset.from_list([row]), "mrqa")


def test_hub_answers_of_unequal_lengths():
    answers = {"text": ["London", "in London"], "answer_start": [36]}
    row = {"id": "q1", "context": CONTEXT, "question": "Where?", "answers": answers}
    with pytest.raises(DataError, match=r"x: row 1 \(id q1\): expected 'answers' to be a list, found {'text': "):
        hub.from_rows(datasets.Dataset.from_list([row]), "x")


def test_hub_narrativeqa():
    row = {
        "document": {"id": "d1", "text": "long", "summary": {"text": "A young girl slept .", "tokens": ["A"]}},
        "question": {"text": "Who ?", "tokens": ["Who", "?"]},
        "answers": [{"text": "young girl", "tokens": []}, {"text": "She", "tokens": []}],
    }
    (example,) = hub.from_rows(datasets.Dataset.from_list([row]), "narrativeqa").examples
    assert (example.question, example.answers, example.span) == ("Who ?", ("young girl", "She"), (2, 12))


def test_hub_errors(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="x: expected the columns of squad, mrqa or narrativeqa, found text"):
        hub.from_rows(datasets.Dataset.from_list([{"text": "x"}]), "x")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    row = {"id": "q1", "context": CONTEXT, "question": "Where?", "answers": {"text": ["Ada"], "answer_start": [0]}}
    (tmp_path / "local").mkdir()
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "local/train.parquet")
    assert ids(hub.load_hub(str(tmp_path / "local"), "train").examples) == ["q1"]
    with pytest.raises(DataError, match="local, split 'nothing', configuration None: Unknown split"):
        hub.load_hub(str(tmp_path / "local"), "nothing")


def test_hub_out_of_reach(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"rajpurkar/squad: the Hub cannot be reached .*connect to the network"):
        hub.load_hub("rajpurkar/squad", "train")


# ----------------------------------------------------------------------------------------------------- real data


@needs_real_data
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
def test_real_files(name, questions, passages):
    corpus = read(REAL / name, unanswerable=name.endswith("v2.0.json"))
    assert (len(corpus.examples), len(contexts(corpus.examples))) == (questions, passages)
    if name == "stories":
        assert [note.split(" share")[0] for note in corpus.notes] == ["stories: 89 questions"]
    else:
        assert corpus.notes == []
        assert all(e.context[slice(*e.span)] == e.answers[0] for e in corpus.examples if e.span)
    unanswerable = sum(not example.answers for example in corpus.examples)
    assert unanswerable == (3168 if name.endswith("v2.0.json") else 0)


@needs_real_data
@pytest.mark.parametrize(("name", "questions"), [("HCVerifyAll", 3560), ("HCVerifySample", 1787)])
def test_real_adversarial_files(name, questions):
    examples = read(REAL / f"squad-adversarial/sample1k-{name}.json").examples
    originals = {example.id for example in examples if example.id == example.group}
    assert len(examples) == questions and len(originals) == 1000
    assert {example.group for example in examples} == originals


@needs_real_data
def test_real_domains():
    names = ["wikipedia", "amazon", "reddit", "news", "policy", "stories"]
    for name in names:
        domain = load_domain(name, REAL / name, seed=0, train_size=1000, test_size=500)
        assert (len(domain.train), len(domain.test)) == (1000, 500)
        train, valid, test = map(contexts, parts(domain))
        assert not train & test and not valid & test
        # Two passages of the policies' test file stand in its dev file, too.
        assert len(train & valid) <= (2 if name == "policy" else 0)
        if name not in ("policy", "stories"):
            assert 300 <= len(domain.valid) < 320
