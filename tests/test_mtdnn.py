"""MtDNN: its readers, their selection of batches, the scores of unanswerable questions, and changes in answers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import waves_of

from helpers.data.examples import Example
from helpers.models.multitask import load_multitask
from helpers.papers.mtdnn import algorithm, tables
from helpers.papers.mtdnn.algorithm import BOTH, CHOICES, QA, SENTENCES
from helpers.papers.mtdnn.trainings import reader
from helpers.presets.load import load
from helpers.results.records import Record
from helpers.tasks import kinds
from helpers.tasks.changes import change, changes
from helpers.tasks.kinds import Reply

ROWS = ["QA(0.5)+MCC+SC", "QA(0.8)+MCC+SC", QA, CHOICES, SENTENCES, BOTH, f"{QA}, larger", f"{BOTH}, larger"]


def smoke(**changes):
    return load("smoke", "mtdnn", **{"seeds": 1, **changes})


@pytest.fixture(scope="module")
def trained(module_results):
    readers = tables.readers(smoke())
    return readers, tables.replies(readers)


def test_encoders_that_read_other_questions_first(module_results):
    preset = smoke(seeds=2, **{"mtdnn.general": "news", "mtdnn.general_size": 16})
    trained = tables.readers(preset)
    (first,) = {reader.start for *_, reader in trained.models()}  # one for both seeds
    general = trained.needs[QA][0][first]
    assert (general.tasks, general.start, general.weights) == (["general"], "", {})
    assert len(kinds.examples_of(general.preset, "general", "train")) == 16
    assert not general.preset.data.may_be_unanswerable("general")
    reader = trained.rows[QA][1]["encyclopedia"]
    assert reader.fresh and set(reader.initial().tasks) == {"encyclopedia"}
    encoder, pretrained = reader.initial().base_model.state_dict(), general.initial().base_model.state_dict()
    learned = load_multitask(general.folder()).base_model.state_dict()
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(encoder[name], learned[name]) and not torch.equal(encoder[name], pretrained[name])
    (before, *_) = tables.notes(preset)
    assert before.startswith("every encoder first learned to answer 16 questions of news: ")


def test_rows_share_readers():
    [wave], rows = waves_of(algorithm.plan(smoke(), 0))
    assert list(rows) == ROWS and len(list(wave)) == 8
    assert rows["QA(0.8)+MCC+SC"].key == rows[BOTH].key and len({model.key for model in rows.values()}) == 5
    assert rows[CHOICES].tasks == ["encyclopedia", "SWAG"] and rows[SENTENCES].tasks == ["encyclopedia", "CoLA"]
    # preset smoke's larger encoder is its encoder
    assert rows[f"{QA}, larger"].key == rows[QA].key


def test_the_other_tables_weight_is_a_row_of_table_1():
    preset = smoke(**{"mtdnn.weight": 0.6})
    assert algorithm.weights(preset.mtdnn) == [0.5, 0.6, 0.8]
    _, rows = waves_of(algorithm.plan(preset, 0))
    assert rows["QA(0.6)+MCC+SC"].key == rows[BOTH].key != rows["QA(0.8)+MCC+SC"].key


def test_the_other_tasks_share_the_rest_alike():
    both = reader(smoke(), 0, BOTH, ["SWAG", "CoLA"], 0.8)
    assert both.weights == pytest.approx({"encyclopedia": 0.8, "SWAG": 0.1, "CoLA": 0.1})
    assert both.epoch_of == "encyclopedia" and both.selected_by == ["encyclopedia"]
    alone = reader(smoke(), 0, QA, [], 0.8)
    assert (alone.weights, alone.epoch_of, alone.tasks) == ({}, "", ["encyclopedia"])


def test_tasks_of_one_kind_beside_the_questions_are_one_row(monkeypatch):
    for kind, alone in (("choices", CHOICES), ("labels", SENTENCES)):
        monkeypatch.setattr(kinds, "head_of", lambda preset, name, kind=kind: SimpleNamespace(kind=kind))
        rows = algorithm.groups(smoke())
        assert [*rows] == [QA, BOTH] and alone not in rows and len(rows[BOTH]) == 2


def test_an_epoch_ends_with_the_questions():
    both, alone = (reader(smoke(), 0, QA, beside, 0.5) for beside in (["SWAG"], []))
    turns = [task for task, _ in both.batches().plan]
    assert turns.count("encyclopedia") == alone.steps and turns[-1] == "encyclopedia" and both.steps == len(turns)
    windows = np.concatenate([rows for task, rows in both.batches().plan if task == "encyclopedia"])
    assert sorted(windows) == list(range(len(kinds.sequences_of(smoke(), "encyclopedia", "train"))))


def test_the_threshold_is_chosen_on_validation(monkeypatch):
    preset = smoke()
    questions = [
        Example("a", "?", "Ada led.", ("Ada",), (0, 3), "a"),
        Example("b", "?", "Ada led.", (), None, "b"),
    ]
    monkeypatch.setattr(kinds, "examples_of", lambda preset, name, part: questions)
    said = {"valid": [Reply("Ada", -2.0), Reply("Ada", -1.0)], "test": [Reply("x", -2.5), Reply("y", -1.5)]}
    assert kinds.threshold(preset, "encyclopedia", said["valid"]) == -2.0
    assert tables.answers(preset, 0, said) == ["x", ""]
    score = kinds.score(preset, "encyclopedia", "valid", said["valid"])
    assert score == {"em": 100.0, "f1": 100.0} and kinds.main_score(preset, "encyclopedia", score) == 100.0


def test_tables_and_figures(trained):
    readers, replies = trained
    table = tables.table1(readers, replies)
    assert list(dict.fromkeys(score.method for score in table["scores"])) == [*ROWS[:2], "QA(1.0)"]
    assert {score.column for score in table["scores"]} == {tables.ALL, "HasAns", "NoAns"}
    both = {score.column: score.value for score in table["scores"] if score.metric == "F1" and score.method == ROWS[1]}
    examples = tables.test_questions(readers.preset, 0)
    share = sum(bool(example.answers) for example in examples) / len(examples)
    assert both[tables.ALL] == pytest.approx(share * both["HasAns"] + (1 - share) * both["NoAns"], abs=1e-4)
    said = f"a reader that never answers has {100 - 100 * share:.1f} F1 and EM of all questions"
    assert table["notes"][-1] == said
    figure = tables.figure3(Record.model_construct(scores=table["scores"]))
    assert sorted({(score.method, score.x) for score in figure["scores"]}) == [
        *(("EM", 0.5), ("EM", 0.8), ("EM", 1.0), ("F1", 0.5), ("F1", 0.8), ("F1", 1.0)),
    ]
    assert [claim.above for claim in tables.table2(readers, replies)["claims"]] == [BOTH] * 3
    assert {score.method for score in tables.table3(readers, replies)["scores"]} == {QA, BOTH}


def test_a_reader_that_never_answers_is_right_where_there_is_no_answer(trained):
    readers, replies = trained
    curve = tables.thresholds(readers, replies)["scores"]
    examples = tables.test_questions(readers.preset, 0)
    none = 100 * sum(not example.answers for example in examples) / len(examples)
    assert {score.value for score in curve if score.x == 100} == {round(none, 6)}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "ten times", ("now answered", "better")),
        ("", "Rome", ("now answered", "alike")),
        ("ten times", "", ("now none", "worse")),
        ("ten", "ten times", ("longer", "better")),
        ("ten times", "ten", ("shorter", "worse")),
        ("Rome", "Paris", ("another", "alike")),
        ("the ten", "ten", None),
        ("", "", None),
    ],
)
def test_a_change_by_hand(before, after, expected):
    assert change(Example("a", "?", "", ("ten times",), None, "a"), before, after, True) == expected


def test_an_answer_where_there_is_none_is_worse():
    unanswerable = Example("b", "?", "", (), None, "b")
    assert change(unanswerable, "", "Rome", True) == ("now answered", "worse")
    assert change(unanswerable, "Rome", "", True) == ("now none", "better")
    found = changes([unanswerable] * 3, ["", "Rome", ""], ["Rome", "", ""], True)
    assert {key: rows for key, rows in found.items() if rows} == {
        ("now answered", "worse"): [0],
        ("now none", "better"): [1],
    }
