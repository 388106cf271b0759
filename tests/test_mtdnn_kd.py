"""MT-DNN with distillation: its plan, its trainings and its tables on the smallest miniature tasks."""

import numpy as np
import pytest
import torch
from conftest import waves_of

from helpers.papers.mtdnn_kd import algorithm, tables
from helpers.papers.mtdnn_kd.algorithm import ENSEMBLE, MTDNN, SINGLE, SOFT_ALONE, STUDENT, UNLABELLED
from helpers.papers.mtdnn_kd.trainings import mt_dnn, single, tuned
from helpers.papers.rows import costs, shares
from helpers.presets.load import load
from helpers.results.records import Record
from helpers.tasks import kinds
from helpers.tasks.multitask import MultiTaskTraining, Predictions

TASKS = ["CoLA", "STS-B", "MNLI", "QQP", "RTE", "QNLI"]
TAUGHT = ["MNLI", "QQP", "RTE", "QNLI"]


def smoke(**changes):
    return load("smoke", "mtdnn_kd", **{"seeds": 1, **changes})


@pytest.fixture(scope="module")
def trained(module_results):
    return tables.models(smoke())


@pytest.fixture
def all_alike(monkeypatch):
    """As if every model were trained, the third best, then the first."""
    scores = {0: 60.0, 1: 50.0, 2: 70.0}
    monkeypatch.setattr(MultiTaskTraining, "best", lambda self: dict.fromkeys(TASKS, scores[self.seed % 3]))
    monkeypatch.setattr(algorithm, "is_done", lambda model: True)


def test_the_plan_of_a_seed(all_alike):
    waves, rows = waves_of(algorithm.plans(smoke())[0])
    assert list(rows) == [SINGLE, MTDNN, STUDENT, SOFT_ALONE, UNLABELLED, ENSEMBLE]
    # 6 single models, 3 MT-DNNs, 6 of MT-DNN; 2 of each ensemble, soft targets of two parts, students, theirs
    assert [len(wave) for wave in waves] == [6 + 3 + 6, 6 * 2 + 2 + 3 + 3 * 6]
    models = waves[0][6:9]
    assert [model.dropout for model in models] == [0.1, 0.2, 0.3] and len({model.seed for model in models}) == 3
    assert all(model.tasks == TASKS for model in models)
    members = rows[ENSEMBLE]["RTE"]
    assert [member.start for member in members] == [models[2].key, models[0].key] and all(m.fresh for m in members)
    assert [member.dropout for member in members] == [0.3, 0.1]
    assert all(model.start == models[0].key and not model.fresh for model in rows[MTDNN].values())
    student = waves[1][14]
    assert student.teachers == {task: [model.key for model in rows[ENSEMBLE][task]] for task in TAUGHT}
    assert all(model.start == student.key for model in rows[STUDENT].values())


def test_the_student_is_the_first_model_but_for_its_teachers(all_alike):
    waves, _ = waves_of(algorithm.plans(smoke())[0])
    first, student, alone, more = waves[0][6], *waves[1][14:17]
    kept = {"tasks", "seed", "steps", "settings", "dropout", "head_dropout", "start"}
    assert student.model_dump(include=kept) == first.model_dump(include=kept)
    assert (student.soft, alone.soft, more.unlabelled) == (0.5, 1.0, True) and not first.teachers
    assert more.steps == student.steps + len(TAUGHT)  # 8 texts more of each, a batch


def test_rows_of_ours_may_have_fewer_seeds(all_alike):
    preset = smoke(**{"seeds": 2, "mtdnn_kd.other_seeds": 1})
    rows = [list(waves_of(plan)[1]) for plan in algorithm.plans(preset).values()]
    assert SOFT_ALONE in rows[0] and UNLABELLED in rows[0] and rows[1] == [SINGLE, MTDNN, STUDENT, ENSEMBLE]


def test_steps_are_epochs_over_all_tasks():
    preset = smoke()
    assert mt_dnn(preset, 0, 0).steps == 6 * 2  # 16 texts of each of six tasks, batches of 8
    assert single(preset, 0, SINGLE, "RTE").steps == 2 * (1 + 1)  # as many epochs alone as together and after
    longer = smoke(**{"mtdnn_kd.tuning_epochs": 2.5, "mtdnn_kd.tuning_learning_rate": 1e-5})
    after = tuned(longer, 0, MTDNN, "RTE", mt_dnn(longer, 0, 1))
    assert (after.steps, after.settings["training"]["learning_rate"], after.dropout) == (5, 1e-5, 0.2)


def test_the_best_are_chosen_by_some_tasks_alone(monkeypatch):
    scores = {0: {"MNLI": 50, "RTE": 60, "CoLA": 0}, 1: {"MNLI": 40, "RTE": 80, "CoLA": 0}}
    scores[2] = {"MNLI": 40, "RTE": 40, "CoLA": 99}
    monkeypatch.setattr(MultiTaskTraining, "best", lambda self: scores[self.seed])
    monkeypatch.setattr(algorithm, "is_done", lambda model: True)
    models = [mt_dnn(smoke(), 0, number) for number in range(3)]
    assert [models.index(model) for model in algorithm.best(models, ["MNLI", "RTE"])] == [1, 0, 2]


def test_head_dropout_is_the_papers():
    expected = dict.fromkeys(TASKS, 0.1) | {"MNLI": 0.3, "CoLA": 0.05}
    assert mt_dnn(smoke(), 0, 0).head_dropout == expected and single(smoke(), 0, SINGLE, "MNLI").head_dropout == {
        "MNLI": 0.3
    }


def test_soft_targets_are_the_mean_of_the_members(trained):
    members = trained.rows[ENSEMBLE][0]["MNLI"]
    own = [Predictions.of(trained.preset, {"MNLI": [member.key]}, "train") for member in members]
    for predicted in own:
        predicted.fit()
    student = trained.rows[STUDENT][0]["MNLI"].start
    known = trained.needs[STUDENT][0][student]
    batches = known.batches()
    step = next(n for n in range(len(batches)) if batches.plan[n][0] == "MNLI")
    batch = batches.at(step)
    expected = np.mean([predicted.values()["MNLI"] for predicted in own], axis=0)[batch["window"].numpy()]
    assert np.allclose(batch["teacher_probabilities"].numpy(), expected, atol=1e-6)
    assert np.allclose(expected.sum(1), 1, atol=1e-5)
    other = next(n for n in range(len(batches)) if batches.plan[n][0] == "CoLA")
    assert "teacher_probabilities" not in batches.at(other)


def test_without_teachers_there_is_no_student(all_alike, module_results):
    preset = smoke(**{"mtdnn_kd.taught": []})
    _, rows = waves_of(algorithm.plans(preset)[0])
    assert list(rows) == [SINGLE, MTDNN, ENSEMBLE]


def test_a_row_needs_its_teachers(trained):
    needs = trained.needs
    assert len(needs[SINGLE][0]) == 6 and len(needs[MTDNN][0]) == 6 + 1
    # three MT-DNNs of which two are taught by; their fine-tuned members on four tasks; the student and its own six
    assert len(needs[STUDENT][0]) == 2 + 2 * 4 + 1 + 6


def test_tables_have_every_row_and_task(trained):
    table = tables.table2(trained)
    rows = {score.method for score in table["scores"]}
    assert rows == {SINGLE, MTDNN, STUDENT, SOFT_ALONE, UNLABELLED}
    assert [score.column for score in table["scores"] if score.method == SINGLE] == TASKS
    assert set(table["examples_of"]) == {"MNLI", "RTE", "QNLI"}  # of which accuracy alone is the score
    table = tables.table3(trained)
    columns = [score.column for score in table["scores"] if score.method == ENSEMBLE]
    assert [claim.columns for claim in table["claims"]] == [
        columns
    ] * 2  # WNLI, which smoke has not, would not be there
    assert columns == [
        *("CoLA", "STS-B, Pearson", "STS-B, Spearman", "MNLI", "QQP, accuracy", "QQP, F1", "RTE", "QNLI"),
    ]
    assert list(costs(trained).index) == list(trained.rows) and tables.chosen(trained)["chosen"].sum() == 2


def test_a_score_is_the_mean_of_a_tasks_metrics(trained):
    asked = tables.predictions(trained, [MTDNN])[MTDNN, 0]
    values = asked.values()["QQP"]
    labels = np.array([text.label for text in kinds.examples_of(trained.preset, "QQP", "test")])
    said = values.argmax(1)
    hits, both = (said == labels).mean(), 2 * ((said == 1) & (labels == 1)).sum()
    f1 = both / max(1, (said == 1).sum() + (labels == 1).sum())
    known = next(s for s in tables.table2(trained)["scores"] if (s.method, s.column) == (MTDNN, "QQP"))
    assert known.value == pytest.approx(100 * (hits + f1) / 2, abs=1e-4)


def test_claims_are_about_what_there_is():
    claims = list(tables.claims(smoke()))
    assert [claim.columns for claim in claims] == [[], [], ["CoLA", "STS-B"]]
    assert [claim.primary for claim in claims] == [False, True, False]
    # Of smoke's tasks all have as many examples.
    fewer = [claim for claim in tables.claims(load("mini", "mtdnn_kd")) if claim.than]
    assert [(*claim.columns, *claim.than_columns) for claim in fewer] == [("RTE", "MNLI"), ("MRPC", "QQP")]
    alike = load("mini", "mtdnn_kd", **{"tasks.train_size": 40})
    assert not [claim for claim in tables.claims(alike) if claim.than]
    (alone,) = tables.claims(smoke(**{"mtdnn_kd.taught": []}))
    assert (alone.above, alone.below, alone.primary) == (MTDNN, SINGLE, True)


def test_without_teachers_the_tables_have_what_there_is(trained):
    alone = tables.models(smoke(**{"mtdnn_kd.taught": []}))
    assert {score.method for score in tables.table2(alone)["scores"]} == {SINGLE, MTDNN}
    table = tables.table3(alone)
    (claim,) = table["claims"]
    assert (claim.above, claim.below) == (ENSEMBLE, MTDNN)
    record = Record.model_construct(artefact="mtdnn_kd/table3", unit="points", scores=table["scores"])
    assert shares(record, {STUDENT: (STUDENT, ENSEMBLE, MTDNN)}).empty
    assert tables.sureness(alone).empty and tables.example(alone) is None


def test_a_network_of_answers_in_turns(tmp_path, monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path))
    training = mt_dnn(smoke(**{"mtdnn_kd.san": True}), 0, 0)
    assert training.heads()["MNLI"].san and not training.heads()["CoLA"].san and not training.heads()["STS-B"].san
    training.fit()
    predicted = Predictions.of(training.preset, {"MNLI": [training.key]})
    predicted.fit()
    assert torch.allclose(torch.from_numpy(predicted.values()["MNLI"]).sum(1), torch.ones(12), atol=1e-5)
