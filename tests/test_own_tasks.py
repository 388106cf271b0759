"""Files of several tasks in, a model of each out, trained on all of them together."""

import json
import re

import numpy as np
import pytest
import torch
from conftest import are_alike, write_squad
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

from helpers import __main__ as cli
from helpers import own, papers, paths
from helpers.data.mini import domains
from helpers.data.mini import tasks as mini
from helpers.models.multitask import load_multitask
from helpers.notebooks.session import preset_for
from helpers.papers.mtdnn_kd.trainings import single
from helpers.results import records
from helpers.tasks import kinds, metrics
from helpers.tasks.kinds import Reply
from helpers.training import engine

SIZES = {"train_size": 60, "valid_size": 1, "test_size": 1}


@pytest.fixture
def files(tmp_path):
    """Five miniature tasks: labelled texts, an official task of GLUE with classes and one with scores, endings, and
    questions about passages."""
    known = {
        name: mini.load_task(name, name, **SIZES)
        for name in ("sentiment", "inference-small", "similarity", "continuation")
    }

    def rows(name, row):
        return "".join(f"{row(example)}\n" for example in known[name].train)

    texts = {
        "mood.jsonl": rows("sentiment", lambda e: json.dumps({"text": e.first, "label": ["bad", "good"][e.label]})),
        "glue/RTE/train.tsv": "sentence1\tsentence2\tlabel\n"
        + rows("inference-small", lambda e: f"{e.first}\t{e.second}\t{known['inference-small'].labels[e.label]}"),
        "glue/STS-B/train.tsv": "sentence1\tsentence2\tscore\n"
        + rows("similarity", lambda e: f"{e.first}\t{e.second}\t{e.label}"),
        "endings/train.tsv": rows("continuation", lambda e: "\t".join(["c", e.context, *e.endings, str(e.label)])),
    }
    for place, text in texts.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    write_squad(tmp_path / "news.json", domains.load_domain("news", train_size=60).train)
    return {
        "mood": tmp_path / "mood.jsonl",
        "RTE": tmp_path / "glue/RTE",
        "score": f"STS-B:{tmp_path / 'glue/STS-B'}",
        "endings": f"codah:{tmp_path / 'endings'}",
        "news": f"questions:{tmp_path / 'news.json'}",
    }


METHOD = papers.load("mtdnn_kd").own_domains
WORDS = {"single": ["a good film", "a dull one, and far too long"], "pair": ["two facts", "another fact, of two"]}


def arguments(files, out, *more):
    tasks = [part for name, file in files.items() for part in ("--task", f"{name}={file}")]
    return ["multitask", *tasks, "--preset", "smoke", "--out", str(out), *more]


def run(files, out, *more):
    return cli.main(arguments(files, out, *more))


def preset_of(files, **settings):
    """The preset in force for these tasks."""
    overrides = METHOD.settings | own.overrides(METHOD, files, "smoke") | settings
    return preset_for({"preset": "smoke"}, METHOD.notebook, **overrides)


def values_of(preset):
    """What was trained, by seed, row and task."""
    return {seed: engine.replay(plan).value for seed, plan in METHOD.work().plans(preset).items()}


def said(model, inputs):
    """All logits for the inputs, as what is saved and what was trained have them."""
    with torch.no_grad():
        output = model.eval()(**inputs)
    return [output.logits] if "logits" in output else [output.start_logits, output.end_logits]


def assert_answers_are_those_scored(preset, record, reader, file):
    """What ``predict`` answers has, by question, the scores that the record has of the reader."""
    (seed,) = re.findall(r"Seed (\d+)\.", (reader / "README.md").read_text())
    answers = reader.parent / "answers.json"
    assert cli.main(["predict", str(reader), file.removeprefix("questions:"), "--out", str(answers)]) == 0
    asked, found = kinds.examples_of(preset, "news", "test"), json.loads(answers.read_text())
    f1 = metrics.score(asked, [found[e.id] for e in asked], no_answer=preset.data.unanswerable).f1
    row = list(dict.fromkeys(score.method for score in record.scores))[-1]
    assert f1 == pytest.approx(record.examples[f"{row}|news|{seed}"], abs=0.06)


def test_a_model_of_each_task_with_a_card_and_a_record(results, files, tmp_path, capsys):
    out, empty = tmp_path / "models", ("-p", "unanswerable", "True", "-p", "seeds", "2")  # a reader may give no answer
    assert run(files, out, *empty) == 0
    printed = capsys.readouterr().out
    assert "mood: 16 train, 6 valid, 6 test; bad, good; scored by accuracy" in printed
    assert "score: 16 train, 6 valid, 6 test; scored by pearson and spearman" in printed
    assert "news: 24 train, 8 valid, 12 test questions" in printed
    # Of two seeds five models alone, one of all tasks, five fine-tuned ones, and both rows asked.
    assert re.search(r"30 trainings and scorings at most, 0 done before; about \d+ s \(a step takes", printed)
    (file,) = (results / "own/mtdnn_kd").glob("*.json")
    record = records.read(file)
    cells = {(s.method, s.column, s.seed) for s in record.scores}
    assert cells == {(row, name, seed) for row in ("BERT", "MT-DNN") for name in files for seed in (0, 1)}
    assert set(record.examples_of) == {"mood", "RTE", "endings", "news"} and record.unit == "score"
    assert str(tmp_path) not in file.read_text()

    trained = values_of(preset := preset_of(files, **{"data.unanswerable": True, "seeds": 2}))
    kinds_of = {"news": AutoModelForQuestionAnswering, "endings": AutoModelForMultipleChoice}
    for name in files:
        assert re.search(rf"^{name}: alone .*, together .*; together over alone", printed, re.M)
        tuned = {seed: rows["MT-DNN"][name] for seed, rows in trained.items()}
        best = max(tuned, key=lambda seed: tuned[seed].best()[name])
        whole = load_multitask(tuned[best].folder(), [name]).tasks[name]
        saved = kinds_of.get(name, AutoModelForSequenceClassification).from_pretrained(out / name)
        inputs = AutoTokenizer.from_pretrained(out / name)(*WORDS.values(), padding=True, return_tensors="pt")
        inputs = {key: value[None] if name == "endings" else value for key, value in inputs.items()}
        assert all(are_alike(*pair) for pair in zip(said(saved, inputs), said(whole, inputs), strict=True))
        card = (out / name / "README.md").read_text()
        (own_score,) = (s.value for s in record.scores if (s.method, s.column, s.seed) == ("MT-DNN", name, best))
        assert f"# A model of {name}\n" in card and f"| this model | {own_score:.1f} |" in card
        assert "| alone, same seed |" in card and f"Seed {best}." in card and str(tmp_path) not in card
        assert "RTE 16, endings 16, mood 16, score 16, news 24" in card and not hasattr(saved.config, "heads")
    assert pipeline("text-classification", str(out / "mood"))(WORDS["single"])[0]["label"] in ("bad", "good")
    (score,) = pipeline("text-classification", str(out / "score"))([{"text": "a b", "text_pair": "c d"}])
    texts = AutoTokenizer.from_pretrained(out / "score")("a b", "c d", return_tensors="pt")
    (expected,) = said(AutoModelForSequenceClassification.from_pretrained(out / "score"), texts)
    assert score["score"] == pytest.approx(expected.item(), abs=1e-4)  # no probability

    reading = AutoModelForQuestionAnswering.from_pretrained(out / "news").config
    assert reading.windows["max_length"] == 96 and reading.answers["max_tokens"] == 30 and reading.unanswerable
    assert reading.null_threshold  # by validation questions
    assert AutoTokenizer.from_pretrained(out / "mood").model_max_length == 64
    assert_answers_are_those_scored(preset, record, out / "news", files["news"])

    # Again, with the tasks in another order: nothing is trained, and the record is the same one.
    before = {path: path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")}
    capsys.readouterr()
    assert run(dict(reversed(files.items())), out, *empty) == 0
    assert {path: path.stat().st_mtime_ns for path in paths.models("own").rglob("job.pkl")} == before
    assert [path.name for path in (results / "own/mtdnn_kd").glob("*.json")] == [file.name]
    assert "all 30 trainings and scorings are done" in capsys.readouterr().out


def test_ensembles_teach_what_has_classes_or_a_score(results, files, tmp_path, capsys):
    files = {name: files[name] for name in ("mood", "score", "news")}
    one_seed = ("-p", "seeds", "1")
    assert run(files, tmp_path / "out", "--teachers", *one_seed) == 0
    printed = capsys.readouterr().out
    # Three alone, three of all tasks, three fine-tuned; two members of two ensembles, and what they say; the student,
    # fine-tuned on three; three rows asked.
    assert "21 trainings and scorings at most, 0 done before" in printed
    assert re.search(r"^news: alone .*, together .*, taught .*; taught over together", printed, re.M)
    card = (tmp_path / "out/score/README.md").read_text()
    assert "by what ensembles of such models say of mood, score" in card and "| together, same seed |" in card
    (file,) = (results / "own/mtdnn_kd").glob("*.json")
    record, preset = records.read(file), preset_of(files, **{"mtdnn_kd.taught": ["*"], "seeds": 1})
    assert [score.method for score in record.scores if score.column == "mood"] == ["BERT", "MT-DNN", "MT-DNN_KD"]
    assert_answers_are_those_scored(preset, record, tmp_path / "out/news", files["news"])
    work = own.Work.of(METHOD, preset)
    assert len(work.tasks) == 21 and not work.left
    # Without teachers the same models are there already; this record is another one.
    assert run(files, tmp_path / "out", *one_seed) == 0
    assert "all 9 trainings and scorings are done" in capsys.readouterr().out
    assert len(list((results / "own/mtdnn_kd").glob("*.json"))) == 2


def test_a_reader_is_scored_as_it_answers(files):
    readers = {"news": files["news"], "mood": files["mood"]}
    for limit, expected in ((np.inf, 100.0), (0.6, 100.0), (0.4, 0.0)):  # no answer is likelier, by a little
        preset = preset_of(readers, **{"data.unanswerable": limit < np.inf})
        said = [Reply(example.answers[0], 0.5) for example in kinds.examples_of(preset, "news", "test")]
        assert np.mean(kinds.example_scores(preset, "news", "test", said, limit)) == expected


def test_a_training_depends_on_windows_where_it_reads_questions_alone(files):
    readers = {"news": files["news"], "mood": files["mood"]}

    def keys(**settings):
        preset = preset_of(readers, **settings)
        return {task: single(preset, 0, "BERT", task).key for task in readers}

    before, after = keys(), keys(**{"windows.max_length": 90})
    assert before["mood"] == after["mood"] and before["news"] != after["news"]
    assert keys(**{"answers.max_tokens": 9})["news"] != before["news"] != keys(**{"data.unanswerable": True})["news"]


def test_questions_alone_and_texts_alone(results, files, tmp_path, capsys):
    write_squad(tmp_path / "search.json", domains.load_domain("search", train_size=60).train)
    readers = {"news": files["news"], "search": f"questions:{tmp_path / 'search.json'}"}
    longer = ("-p", "windows.max_length", "100", "-p", "seeds", "2")
    assert run(readers, tmp_path / "out", "--dry-run", *longer) == 0
    assert "14 trainings and scorings at most" in capsys.readouterr().out
    preset = preset_of({name: files[name] for name in ("mood", "RTE")})
    assert METHOD.work().tasks_of(preset) == ["RTE", "mood"] and not preset.data.folder
    texts = {name: files[name] for name in ("mood", "RTE")}
    assert run(texts, tmp_path / "out", *longer) == 1  # nothing there is read in windows
    assert "-p windows.max_length has no meaning here" in capsys.readouterr().err
    assert not list(results.rglob("job.pkl"))


def test_wrong_use_is_one_line(results, files, tmp_path, capsys):
    def error(changes, *more):
        assert run({**files, **changes}, tmp_path / "out", *more) == 1
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        return printed

    assert run({"mood": files["mood"]}, tmp_path / "out") == 1
    assert "MT-DNN needs 2 to 16 tasks, not 1: give each by --task NAME=FILE" in capsys.readouterr().err
    assert cli.main(["multitask", "--task", "mood", "--out", "x"]) == 1
    assert "--task mood: write NAME=FILE, each name once" in capsys.readouterr().err
    assert "none.csv: no such file or folder" in error({"cars": tmp_path / "none.csv"})
    assert "'quest' is no format; write FORMAT:FILE with one of questions, CoLA" in error({"a": "quest:b.json"})
    squad = error({"news": tmp_path / "news.json"})
    assert "expected a column 'text'" in squad and squad.endswith("are given as news=questions:FILE\n")
    assert "-p tasks.tasks has no meaning here: --task names the files" in error({}, "-p", "tasks.tasks", "{}")
    assert "-p hrkd.epochs has no meaning here: MT-DNN does not" in error({}, "-p", "hrkd.epochs", "1")
    taught = error({}, "-p", "mtdnn_kd.taught", "['news']")
    assert "mtdnn_kd.taught names 'news', of the tasks RTE, mood, score" in taught
    assert "mtdnn_kd.san makes models that transformers alone cannot load" in error({}, "-p", "mtdnn_kd.san", "True")
    assert "encoder 'none' cannot be loaded" in error({}, "--encoder", "none")
    (tmp_path / "out/mood").mkdir(parents=True)
    (tmp_path / "out/mood/thesis.tex").write_text("important")
    assert "holds something that is no model of ours" in error({})
    assert not list(results.rglob("job.pkl"))
