"""A trained reader in three lines of Python, and answers in a file scored as the official evaluation does."""

import io
import json
import subprocess
import sys

import pytest
from conftest import ROOT, write_squad
from transformers import AutoModelForQuestionAnswering

import helpers
from helpers import __main__ as cli
from helpers.data.examples import DataError, Example
from helpers.data.mini import domains as mini
from helpers.models.pretrained import load_encoder, load_tokenizer, save_encoder
from helpers.tasks import answering, scoring


@pytest.fixture(scope="module")
def examples():
    return mini.load_domain("news", train_size=20).train[:6]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An untrained reader, which answers all the same."""
    place = tmp_path_factory.mktemp("reader")
    model = load_encoder("data/mini", seed=0)
    model.config.update({"windows": {"max_length": 64, "stride": 16}, "answers": {"n_best": 5, "max_tokens": 4}})
    save_encoder(model, load_tokenizer("data/mini"), place)
    return place


def test_the_import_is_light():
    code = "import sys, helpers; print('torch' in sys.modules); helpers.load_reader; print('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "True"]
    with pytest.raises(AttributeError, match="no attribute 'load_writer'"):
        helpers.load_writer  # noqa: B018


def test_a_reader_answers_with_offsets_and_probabilities(folder, examples):
    reader = helpers.load_reader(folder)
    one = examples[0]
    found = reader.answer(one.question, one.context)
    assert found.text and found.text == one.context[slice(*found.span)]
    assert 1 <= len(found.n_best) <= 5 and found.n_best[0].text == found.text
    assert all(one.context[slice(*each.span)] == each.text for each in found.n_best)
    assert sum(each.probability for each in found.n_best) == pytest.approx(1)
    assert found.probability == found.n_best[0].probability == max(each.probability for each in found.n_best)
    assert all(len(load_tokenizer("data/mini").tokenize(each.text)) <= 4 for each in found.n_best)


def test_lists_are_answered_like_one_by_one(folder, examples):
    reader = helpers.load_reader(folder)
    questions, passages = [e.question for e in examples], [e.context for e in examples]
    alone = [reader.answer(q, p).text for q, p in zip(questions, passages, strict=True)]
    assert [each.text for each in reader.answer(questions, passages)] == alone
    assert reader.answer(questions, passages[0])[0].text == alone[0]
    assert reader.answer(questions[0], passages)[0].text == alone[0]
    assert reader.answer([], []) == []
    with pytest.raises(DataError, match="6 questions for 2 passages"):
        reader.answer(questions, passages[:2])
    with pytest.raises(DataError, match="question 2: question and passage must not be empty"):
        reader.answer(["Who?", " "], passages[0])


def test_the_empty_answer_takes_part_where_it_is_allowed(folder, examples):
    reader, one = helpers.load_reader(folder), examples[0]
    assert None not in [each.span for each in reader.answer(one.question, one.context).n_best]
    assert None in [each.span for each in reader.answer(one.question, one.context, no_answer=True).n_best]


@pytest.mark.parametrize(("threshold", "answers"), [(1e9, True), (-3e38, False)])
def test_no_answer_wins_above_the_reader_s_own_threshold(folder, examples, tmp_path, threshold, answers):
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    model.config.update({"unanswerable": True, "null_threshold": threshold})
    save_encoder(model, load_tokenizer(str(folder)), tmp_path / "reader")
    reader, one = helpers.load_reader(tmp_path / "reader"), examples[0]
    assert bool(reader.answer(one.question, one.context).text) == answers
    assert reader.answer(one.question, one.context, no_answer=False).text


def test_a_reader_computes_in_the_precision_of_its_training(folder, examples, tmp_path, monkeypatch):
    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    model.config.precision = "bf16"
    save_encoder(model, load_tokenizer(str(folder)), tmp_path / "reader")
    asked, predict = [], answering.predict
    monkeypatch.setattr(answering, "predict", lambda *given, precision: asked.append(precision) or predict(*given))
    for place in (folder, tmp_path / "reader"):
        helpers.load_reader(place).answer(examples[0].question, examples[0].context)
    helpers.load_reader(folder).read(examples[:1], "bf16")
    assert asked == ["fp32", "bf16", "bf16"]


def test_questions_are_predicted_without_answers_too(folder, examples, tmp_path):
    files = {name: tmp_path / f"{name}.json" for name in ("answered", "asked")}
    write_squad(files["answered"], examples)
    known = json.loads(files["answered"].read_text())
    for paragraph in known["data"][0]["paragraphs"]:
        del paragraph["qas"][0]["answers"]
    files["asked"].write_text(json.dumps(known))
    for file in files.values():
        assert cli.main(["predict", str(folder), str(file), "--out", str(file.with_suffix(".out"))]) == 0
    first, second = (json.loads(file.with_suffix(".out").read_text()) for file in files.values())
    assert first == second and list(first) == [example.id for example in examples]


def test_commands_and_reader_answer_alike(folder, examples, tmp_path, capsys, monkeypatch):
    write_squad(tmp_path / "questions.json", examples)
    (tmp_path / "passage.txt").write_text(examples[0].context)
    reader, out = helpers.load_reader(folder), tmp_path / "answers.json"
    assert cli.main(["predict", str(folder), str(tmp_path / "questions.json"), "--out", str(out)]) == 0
    assert json.loads(out.read_text()) == {e.id: reader.answer(e.question, e.context).text for e in examples}
    assert "6 answers: " in capsys.readouterr().out
    assert cli.main(["predict", "no-such-reader", str(tmp_path / "questions.json"), "--out", str(tmp_path)]) == 1
    assert "is a folder; give the name of a file" in capsys.readouterr().err  # before anything is read
    monkeypatch.setattr("sys.stdin", io.StringIO(examples[0].context))
    found = reader.answer(examples[0].question, examples[0].context)
    for passage in (str(tmp_path / "passage.txt"), "-"):
        assert cli.main(["answer", str(folder), examples[0].question, passage]) == 0
        assert capsys.readouterr().out == f"{found.text}\t{found.probability:.3f}\n"


def asked(identifier, question, *answers):
    context = "Ada Bell led Gamma in Rome."
    span = (context.index(answers[0]), context.index(answers[0]) + len(answers[0])) if answers else None
    return Example(identifier, question, context, answers, span, identifier)


def test_scores_by_domain_type_and_answerability():
    questions = [asked("a/1", "Who led Gamma?", "Ada Bell"), asked("a/2", "Where?", "Rome"), asked("b/1", "Who fell?")]
    found = scoring.table(questions, ["Bell", "Paris", ""])
    assert list(found.index) == ["all", "HasAns", "NoAns", "domain a", "domain b", "type who", "type where"]
    assert found["questions"].tolist() == [3, 2, 1, 2, 1, 2, 1]
    assert found["EM"].tolist() == pytest.approx([100 / 3, 0, 100, 0, 100, 50, 0])
    assert found["F1"].tolist() == pytest.approx([500 / 9, 100 / 3, 100, 100 / 3, 100, 250 / 3, 0])
    apart = scoring.table(
        [asked("a/1", "Who led Gamma?", "Ada Bell"), asked("a/2", "Where?", "Rome")], ["Bell", "Rome"]
    )
    assert list(apart.index) == ["all", "type who", "type where"]


def test_an_adversarial_question_counts_by_its_worst_variant():
    clean = asked("1", "Who led Gamma?", "Ada Bell")
    attacked = Example("1-turk1", clean.question, clean.context, clean.answers, clean.span, "1")
    found = scoring.table([clean, attacked], ["Ada Bell", "Rome"])
    assert found.loc["all"].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"1": "Ada"', "not valid JSON at line 1"),
        ('["Ada"]', "expected answers by question"),
        ('{"1": "Ada", "2": null}', "the answer to '2' has to be a text"),
        ('{"1": "Ada"}', "no answer to '2', of 2 questions"),
        ('{"1": "Ada", "2": "", "3": "x", "4": "x", "5": "x", "6": "x"}', "is not asked: '3', '4', '5' and 1 more"),
        ('{"1": "Ada", "1": "Bell", "2": ""}', "has the key '1' twice"),
    ],
)
def test_wrong_answers_files_are_named(tmp_path, capsys, content, says):
    write_squad(tmp_path / "questions.json", [asked("1", "Who led Gamma?", "Ada Bell"), asked("2", "Where?", "Rome")])
    (tmp_path / "answers.json").write_text(content)
    assert cli.main(["score", str(tmp_path / "questions.json"), str(tmp_path / "answers.json")]) == 1
    said = capsys.readouterr().err
    assert "answers.json: " in said and says in said and said.count("\n") == 1


def test_the_command_prints_the_table(tmp_path, capsys):
    write_squad(tmp_path / "questions.json", [asked("1", "Who led Gamma?", "Ada Bell"), asked("2", "Where?", "Rome")])
    (tmp_path / "answers.json").write_text('{"1": "Bell", "2": "Rome"}')
    assert cli.main(["score", str(tmp_path / "questions.json"), str(tmp_path / "answers.json")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["questions", "EM", "F1"] and lines[1] == ["all", "2", "50.0", "83.3"]
