"""MT-DNN with distillation: losses by hand, who starts from whom and who teaches, small runs beyond the notebooks."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import waves_of

from helpers import engine
from helpers.classification import examples_of, predictions_of, read_predictions
from helpers.papers import shared
from helpers.papers.mtdnn_kd import algorithm, losses, tables
from helpers.papers.mtdnn_kd.algorithm import ENSEMBLE, MTDNN, SINGLE, SOFT_ALONE, STUDENT, UNLABELLED
from helpers.presets.load import load_preset
from helpers.training import Training

TASKS = ["CoLA", "STS-B", "MNLI", "QQP", "RTE", "QNLI"]
TAUGHT = ["MNLI", "QQP", "RTE", "QNLI"]


def smoke(**changes):
    return load_preset("smoke", "mtdnn_kd", **{"seeds": 1, **changes})


def run(plan):
    return engine.run(plan, smoke().engine)


def loss_of(logits, label, targets, kd_weight):
    batch = {"label": torch.tensor(label), "teacher_targets": torch.tensor(targets)}
    return losses.student_loss(SimpleNamespace(logits=torch.tensor(logits).float()), batch, kd_weight=kd_weight)


@pytest.mark.parametrize("kd_weight", [0.0, 0.5, 1.0])
def test_the_loss_of_labels_and_soft_targets_by_hand(kd_weight):
    """The labels have probabilities 1/2 and 1/4, the targets 1/2 and 1/2, and 3/4."""
    terms = loss_of([[0.0, 0.0], [np.log(3), 0.0]], [1, 1], [[0.5, 0.5], [1.0, 0.0]], kd_weight)
    assert terms["label"].item() == pytest.approx((1 - kd_weight) * (np.log(2) + np.log(4)) / 2)
    assert terms["soft"].item() == pytest.approx(kd_weight * (np.log(2) + np.log(4 / 3)) / 2)


def test_soft_targets_of_texts_without_a_label_and_of_scores_by_hand():
    terms = loss_of([[np.log(3), 0.0]] * 2, [0, -100], [[1.0, 0.0]] * 2, 0.25)
    assert terms["soft"].item() == pytest.approx((0.25 + 1) * np.log(4 / 3) / 2)
    terms = loss_of([[2.0], [2.0]], [1.0, np.nan], [3.0, 5.0], 0.5)
    assert terms["soft"].item() == pytest.approx((0.5 * 1 + 9) / 2)


@pytest.fixture
def third_is_best(monkeypatch):
    """As if every model were trained, the third best, then the first."""
    scores = {0: 60.0, 1: 50.0, 2: 70.0}
    monkeypatch.setattr(Training, "best_scores", lambda self: dict.fromkeys(TASKS, scores[self.seed % 3]))


def test_who_starts_from_whom_and_who_teaches(third_is_best):
    (models, last), rows = waves_of(algorithm.distil(smoke(), 0))
    assert list(rows) == [SINGLE, MTDNN, STUDENT, SOFT_ALONE, UNLABELLED, ENSEMBLE]
    assert len(last) == 5 * 6 + 6 * 2 and all(model.data.names == tuple(TASKS) for model in models)
    assert [model.model.dropout for model in models] == [0.1, 0.2, 0.3] and len({model.seed for model in models}) == 3

    members = rows[ENSEMBLE]["RTE"]
    assert [member.start for member in members] == [models[2], models[0]] and all(
        member.model.fresh for member in members
    )
    assert [member.model.dropout for member in members] == [0.3, 0.1]
    assert all(model.start is models[0] and not model.model.fresh for (model,) in rows[MTDNN].values())
    assert all(model.start is None and model.seed == models[0].seed for (model,) in rows[SINGLE].values())

    student = rows[STUDENT]["RTE"][0].start
    assert {model.start.key for (model,) in rows[STUDENT].values()} == {student.key}
    assert student.teacher.outputs["train"].models == {f"tasks/train/{task}": rows[ENSEMBLE][task] for task in TAUGHT}
    assert (student.seed, student.model, student.start) == (models[0].seed, models[0].model, None)
    alone, unlabelled = rows[SOFT_ALONE]["RTE"][0].start, rows[UNLABELLED]["RTE"][0].start
    assert [one.loss.keywords["kd_weight"] for one in (student, alone, unlabelled)] == [0.5, 1.0, 0.5]
    assert unlabelled.data.splits == dict.fromkeys(TAUGHT, ("train", "unlabelled"))
    assert (
        student.data.splits == dict.fromkeys(TAUGHT, ("train",))
        and len({student.key, alone.key, unlabelled.key, models[0].key}) == 4
    )


def test_epochs_and_learning_rates(third_is_best):
    preset = smoke(**{"mtdnn_kd.tuning_epochs": 2.5, "mtdnn_kd.tuning_learning_rate": 1e-5})
    (models, _), rows = waves_of(algorithm.distil(preset, 0))
    (single,), (tuned,) = rows[SINGLE]["RTE"], rows[MTDNN]["RTE"]
    # 16 texts of each of six tasks, in batches of 8
    assert [len(model.batches()) for model in (models[0], single, tuned)] == [6 * 2, 2 * (1 + 2) + 1, 2 * 2 + 1]
    rates = [model.optim.learning_rate for model in (models[0], single, tuned)]
    assert rates == [preset.training.learning_rate, preset.training.learning_rate, 1e-5]
    expected = dict.fromkeys(TASKS, 0.1) | {"MNLI": 0.3, "CoLA": 0.05}
    assert models[0].model.head_dropout == expected and rows[SINGLE]["MNLI"][0].model.head_dropout == {"MNLI": 0.3}


def test_the_best_are_chosen_by_some_tasks_alone(monkeypatch):
    scores = {0: {"MNLI": 50, "RTE": 60, "CoLA": 0}, 1: {"MNLI": 40, "RTE": 80, "CoLA": 0}}
    scores[2] = {"MNLI": 40, "RTE": 40, "CoLA": 99}
    monkeypatch.setattr(Training, "best_scores", lambda self: scores[self.seed])
    models = [algorithm.mt_dnn_training(smoke(), 0, number) for number in range(3)]
    assert [model.seed for model in algorithm.rank_models(models, ["MNLI", "RTE"])] == [1, 0, 2]
    assert algorithm.list_choosers(smoke(**{"mtdnn_kd.chosen_by": ["SST-2"]})) == TASKS


def test_rows_of_a_seed():
    fewer = smoke(**{"seeds": 2, "control_seeds": 1})
    assert list(algorithm.choose_students(fewer, 1)) == [STUDENT]
    assert list(algorithm.choose_students(smoke(**{"tasks.unlabelled_size": 0}), 0)) == [STUDENT, SOFT_ALONE]
    assert algorithm.choose_students(smoke(**{"mtdnn_kd.taught": []}), 0) == {}


@pytest.fixture(scope="module")
def models(module_results):
    return run(algorithm.train_models(smoke()))


def test_soft_targets_are_the_mean_of_the_members(models):
    members = models.by_row[ENSEMBLE][0]["MNLI"]
    alone = [predictions_of({"MNLI": (member,)}, "train", "p") for member in members]
    for predictions in alone:
        predictions.do()
    student = models.by_row[STUDENT][0]["MNLI"][0].start
    batches = student.batches()
    steps = {task: next(n for n in range(len(batches)) if batches.schedule[n][0] == task) for task in ("MNLI", "CoLA")}
    batch = batches.at(steps["MNLI"])
    rows = batch["window"].numpy()
    expected = np.mean([read_predictions(predictions)["MNLI"][rows] for predictions in alone], axis=0)
    assert np.allclose(batch["teacher_targets"].cpu().numpy(), expected, atol=1e-6)
    assert "teacher_targets" not in batches.at(steps["CoLA"])
    more = models.by_row[UNLABELLED][0]["MNLI"][0].start.batches()
    assert len(more) == len(batches) + len(TAUGHT)  # 8 more texts of each, which is a batch


def test_a_row_needs_its_teachers(models):
    # Two of three MT-DNNs, chosen and fine-tuned on four tasks, teach; then the student and its own six.
    numbers = {row: len(models.trainings(row, 0)) for row in (SINGLE, MTDNN, STUDENT)}
    assert numbers == {SINGLE: 6, MTDNN: 6 + 1, STUDENT: 3 + 2 * 4 + 1 + 6}
    assert list(shared.tabulate_costs(models).index) == list(models.by_row)


def test_a_score_is_the_mean_of_the_metrics_of_a_task(models):
    predictions = run(tables.predict_rows(models, [MTDNN]))[MTDNN, 0]
    classes = read_predictions(predictions)["QQP"].argmax(1)
    labels = np.array([text.label for text in examples_of(models.preset, "QQP", "test")])
    both = 2 * ((classes == 1) & (labels == 1)).sum()
    f1 = both / max(1, (classes == 1).sum() + (labels == 1).sum())
    table = run(tables.table2(models.preset))
    score = next(score for score in table["scores"] if (score.method, score.column) == (MTDNN, "QQP"))
    assert score.value == pytest.approx(100 * ((classes == labels).mean() + f1) / 2, abs=1e-4)


def test_tuning_is_left_out_or_gentler_with_the_seeds_of_controls(models):
    table = run(tables.tuning(smoke()))
    rows = list(dict.fromkeys(score.method for score in table["scores"]))
    assert rows == [f"{row}{form}" for row in (MTDNN, STUDENT) for form in (", before tuning", ", gentler tuning", "")]
    assert [(claim.above, claim.below) for claim in table["claims"]] == [(rows[3], rows[0]), (rows[4], rows[1])]
    varied = run(algorithm.vary_tuning(models))
    before, gentle, tuned = (varied.first(row, 0) for row in rows[:3])
    assert tuned.start is gentle.start is before and gentle.seed == tuned.seed
    assert gentle.optim.learning_rate == tuned.optim.learning_rate / 4 and gentle.optim.epochs == tuned.optim.epochs
    assert run(tables.tuning(smoke(control_seeds=0))) == {}


def test_claims_are_about_the_tasks_of_the_preset():
    *_, fewer = tables.state_claims(smoke(**{"tasks.train_size": 0}))  # the miniature tasks in their own sizes
    assert (fewer.columns, fewer.than, fewer.than_columns) == (["RTE"], [STUDENT, MTDNN], ["MNLI"])


def test_without_teachers_the_tables_compare_what_there_is(models):
    preset = smoke(**{"mtdnn_kd.taught": []})  # its models are there already
    table = run(tables.table2(preset))
    assert {score.method for score in table["scores"]} == {SINGLE, MTDNN}
    (claim,) = table["claims"]
    assert (claim.above, claim.below, claim.primary) == (MTDNN, SINGLE, True)
    (claim,) = run(tables.table3(preset))["claims"]
    assert (claim.above, claim.below, claim.columns[-3:]) == (ENSEMBLE, MTDNN, ["QQP, F1", "RTE", "QNLI"])
