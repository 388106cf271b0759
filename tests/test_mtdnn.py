"""MtDNN: its readers and their batches, the scores of unanswerable questions, changes in answers, models to keep."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers import engine
from helpers.answering import load_reader
from helpers.classification import SpanPrediction, task_sequences
from helpers.data.examples import Example
from helpers.data.load import load as load_data
from helpers.papers import shared
from helpers.papers.mtdnn import algorithm, tables
from helpers.papers.mtdnn.algorithm import BOTH, CHOICES, QA, SENTENCES, Answered, multitask_reader_training
from helpers.papers.mtdnn.tables import classify_change
from helpers.presets.load import load_preset
from helpers.records import Record

ROWS = ["QA(0.5)+MCC+SC", "QA(0.8)+MCC+SC", QA, CHOICES, SENTENCES, BOTH, f"{QA}, larger", f"{BOTH}, larger"]


def smoke(**changes):
    return load_preset("smoke", "mtdnn", **{"seeds": 1, **changes})


def run(plan):
    return engine.run(plan, smoke().engine)


def test_rows_share_readers():
    rows = algorithm.row_trainings(smoke(), smoke(), 0)
    assert list(rows) == ROWS and len({model.key for model in rows.values()}) == 5
    assert rows["QA(0.8)+MCC+SC"].key == rows[BOTH].key
    assert rows[CHOICES].data.names == ("encyclopedia", "SWAG") and rows[SENTENCES].data.names == (
        "encyclopedia",
        "CoLA",
    )
    assert rows[f"{QA}, larger"].key == rows[QA].key  # the larger encoder of preset smoke is its encoder
    larger = algorithm.row_trainings(smoke(), smoke(encoder="data/mini/large"), 0)
    assert larger[QA].key == rows[QA].key != larger[f"{QA}, larger"].key
    assert algorithm.row_trainings(smoke(seeds=2), None, 1)[QA].key != rows[QA].key


def test_the_other_tasks_share_the_rest_alike():
    both = multitask_reader_training(smoke(), 0, BOTH, ["SWAG", "CoLA"], 0.8)
    assert both.data.probs == pytest.approx({"encyclopedia": 0.8, "SWAG": 0.1, "CoLA": 0.1})
    assert both.data.selected_by == ("encyclopedia",)
    assert both.model.head_dropout == dict.fromkeys(both.data.names, both.model.dropout)
    assert multitask_reader_training(smoke(), 0, QA, [], 0.8).data.probs == {"encyclopedia": 1.0}


def test_tasks_of_one_kind_beside_the_questions_are_one_row(monkeypatch):
    for kind in ("choices", "labels"):
        monkeypatch.setattr(algorithm, "choose_head", lambda preset, task, kind=kind: SimpleNamespace(kind=kind))
        assert {row: len(tasks) for row, tasks in algorithm.group_tasks(smoke()).items()} == {QA: 0, BOTH: 2}


def test_an_epoch_ends_with_the_questions():
    both, alone = (multitask_reader_training(smoke(), 0, QA, beside, 0.5).batches() for beside in (["SWAG"], []))
    turns = [task for task, _ in both.schedule]
    assert turns.count("encyclopedia") == len(alone) < len(turns) and turns[-1] == "encyclopedia"
    for batches in (both, alone):
        windows = np.concatenate([rows for task, rows in batches.schedule if task == "encyclopedia"])
        assert sorted(windows) == list(range(len(task_sequences(smoke(), "encyclopedia", "train"))))
    of_questions = [rows.tolist() for task, rows in both.schedule if task == "encyclopedia"]
    assert of_questions == [rows.tolist() for _, rows in alone.schedule]  # in the same order


def test_encoders_that_read_other_questions_first(results):
    preset = smoke(seeds=2, **{"warmup_data": "news", "warmup_size": 16, "warmup_epochs": 2.0})
    first = shared.general_reader(preset)
    assert len(load_data(first.preset.data, "general").train) == 16 and first.optim.epochs == 2
    assert not first.preset.data.may_be_unanswerable("general")
    mixed = shared.general_reader(preset.changed("data", unanswerable=["general"]))
    assert mixed.preset.data.may_be_unanswerable("general")
    started = run(shared.start_from_general(preset))
    model = algorithm.row_trainings(started, None, 1)[QA].build()
    name = "embeddings.word_embeddings.weight"
    encoder, pretrained = model.shared.state_dict()[name], first.build().base_model.state_dict()[name]
    learned = first.load().base_model.state_dict()[name].cpu()
    assert torch.equal(encoder, learned) and not torch.equal(encoder, pretrained)
    assert tables.make_notes(preset)[0].startswith("every encoder first learned 16 questions of news: ")


@pytest.fixture(scope="module")
def tested(module_results):
    return run(algorithm.train_and_test(smoke()))[1]


def test_tables_and_figures(tested):
    table = run(tables.table1(smoke()))
    both = {score.column: score.value for score in table["scores"] if score.metric == "F1" and score.method == ROWS[1]}
    share = np.mean([bool(example.answers) for example in tested[BOTH, 0].examples])
    assert both[tables.ALL_QUESTIONS] == pytest.approx(share * both["HasAns"] + (1 - share) * both["NoAns"], abs=1e-4)
    assert f"never answers has {100 - 100 * share:.1f} F1" in table["notes"][-1]
    figure = tables.figure4(Record.model_construct(**run(tables.table2(smoke()))))
    assert {score.metric for score in figure["scores"]} == {"F1"}
    assert run(tables.table3(smoke(**{"mtdnn.large": ""}))) == {}


@pytest.mark.parametrize(
    ("answers", "before", "after", "expected"),
    [
        (("ten times",), "", "ten times", ("now answered", "better")),
        (("ten times",), "", "Rome", None),
        (("ten times",), "ten times", "", ("now none", "worse")),
        (("ten times",), "ten", "ten times", ("longer", "better")),
        (("ten times",), "ten times", "ten", ("shorter", "worse")),
        (("ten times",), "ten Rome", "times ten", ("another", "better")),
        (("ten times",), "the ten", "ten", None),
        ((), "", "Rome", ("now answered", "worse")),
        ((), "Rome", "", ("now none", "better")),
    ],
)
def test_a_change_by_hand(answers, before, after, expected):
    assert classify_change(Example("a", "?", "", answers, None, "a"), before, after, True) == expected


def test_changes_are_counted_and_shown(monkeypatch):
    examples = [Example(str(n), f"question {n}", "", () if n < 5 else ("Rome",), None, str(n)) for n in range(10)]

    def plan(preset):
        gaps = {QA: 1.0, CHOICES: -1.0, SENTENCES: -1.0, BOTH: -1.0}  # of these, QA alone never answers
        tested = {(row, 0): Answered(examples, [SpanPrediction("Rome", gap)] * 10, 0.0) for row, gap in gaps.items()}
        return SimpleNamespace(by_row=gaps), tested
        yield

    monkeypatch.setattr(tables, "train_and_test", plan)
    parts = run(tables.answers(smoke()))
    values = {(score.method, score.column): score.value for score in parts["scores"]}
    assert len(values) == 3 * 2 * 5 and sum(values.values()) == 3 * 100.0
    assert values[f"{BOTH}: better", "now answered"] == values[f"{BOTH}: worse", "now answered"] == 50.0
    cases = parts["payload"]["cases"]
    assert [case["question"] for case in cases["now answered: worse"]] == ["question 0", "question 1", "question 2"]
    assert cases["now answered: better"][0] == {"question": "question 5", "expected": "Rome", QA: "-", BOTH: "Rome"}


def test_models_to_keep_answer_as_they_were_scored(tested, tmp_path):
    table = Record.model_construct(**{"title": "Table 2", "unit": "F1"} | run(tables.table2(smoke())))
    run(tables.keep_readers(smoke(), str(tmp_path), table))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["CoLA", "SWAG", "encyclopedia"]
    answers = load_reader(tmp_path / "encyclopedia").answer_all(tested[BOTH, 0].examples)
    assert [answer.text for answer in answers] == tested[BOTH, 0].answers()
    text = (tmp_path / "SWAG/README.md").read_text()
    assert text.startswith(f"# SWAG: {BOTH}\n") and "AutoModelForMultipleChoice" in text and "HasAns" in text
