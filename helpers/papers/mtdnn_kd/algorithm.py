"""Ensembles of multi-task models, and the model that they teach (Liu et al. 2019, sections 2 to 4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from helpers.batches import Batches
from helpers.engine import Plan
from helpers.loop import Batch
from helpers.multitask import MultiTaskTraining, Predictions, examples_of
from helpers.papers.mtdnn_kd.losses import student_loss
from helpers.papers.shared import Models
from helpers.presets.schema import Preset


@dataclass(frozen=True, kw_only=True, eq=False)
class Student(MultiTaskTraining):
    """The training of an MT-DNN with soft targets: what ``teachers`` predict for some tasks, by part.

    The parts are "train" and, where the student reads texts without a label too, "unlabelled".
    """

    teachers: dict[str, Predictions]
    soft: float

    def parts(self, task: str) -> list[str]:
        return [part for part, teacher in self.teachers.items() if task in teacher.models] or ["train"]

    def batches(self) -> Batches:
        batches, targets = super().batches(), {part: teacher.values() for part, teacher in self.teachers.items()}
        for task in self.teachers["train"].models:
            values = np.concatenate([targets[part][task] for part in self.parts(task)])
            batches.sequences[task] = batches.sequences[task].with_labels(teacher_targets=values)
        return batches

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        terms = super().loss(output, batch, progress)
        if "teacher_targets" not in batch:
            return terms
        return student_loss(terms["label"], output.logits, batch["label"], batch["teacher_targets"], self.soft)


def name_training(
    preset: Preset, label: str, tasks: Iterable[str], kind: type[MultiTaskTraining] = MultiTaskTraining, **parts
) -> MultiTaskTraining:
    """Name a training on some tasks, selected by all of them."""
    settings, tasks = preset.mtdnn_kd, tuple(tasks)
    dropout = {task: settings.head_dropouts.get(task, settings.head_dropout) for task in tasks}
    common = {"tasks": tasks, "selected_by": tasks, "head_dropout": dropout}
    return kind(preset=preset, label=label, **common, **parts)


def name_mt_dnn(preset: Preset, seed: int, number: int, label: str = "MT-DNN", **parts) -> MultiTaskTraining:
    """Name one of a seed's MT-DNNs on all tasks; its ``number`` decides initialisation and dropout (section 4.1)."""
    dropouts, model_seed = preset.mtdnn_kd.dropouts, seed * preset.mtdnn_kd.models + number
    label, dropout = f"{label}, seed {seed}, model {number + 1}", dropouts[number % len(dropouts)]
    return name_training(preset, label, preset.tasks.tasks, seed=model_seed, dropout=dropout, **parts)


def name_tuning(label: str, task: str, model: MultiTaskTraining, *, fresh: bool = False) -> MultiTaskTraining:
    """Name the fine-tuning of a model on one task (section 2.1), with a ``fresh`` head in an ensemble (section 3)."""
    settings, changes = model.preset.mtdnn_kd, {"epochs": model.preset.mtdnn_kd.tuning_epochs}
    if settings.tuning_learning_rate:
        changes["learning_rate"] = settings.tuning_learning_rate
    parts = {"seed": model.seed, "dropout": model.dropout, "start": model, "fresh": fresh, "changes": changes}
    return name_training(model.preset, f"{label} on {task}, from {model.label}", [task], **parts)


SINGLE, MTDNN, STUDENT, ENSEMBLE = "BERT", "MT-DNN", "MT-DNN_KD", "MT-DNN-ensemble"
SOFT_ALONE, UNLABELLED = "MT-DNN_KD, soft targets alone", "MT-DNN_KD, unlabelled texts too"  # not in the paper


def distil(preset: Preset, seed: int) -> Plan:
    """Train the rows of Tables 2 and 3. Returns for each row the models of each task, several in an ensemble."""
    settings, tasks = preset.mtdnn_kd, list(preset.tasks.tasks)

    # MT-DNNs that differ in initialisation and dropout (Algorithm 1, section 4.1)
    models = [name_mt_dnn(preset, seed, number) for number in range(settings.models)]
    yield models

    # The best on validation, each fine-tuned on a task with a new head, are its ensemble
    members = rank(models, list_choosers(preset))[: settings.members]
    ensembles = {task: tuple(name_tuning(ENSEMBLE, task, model, fresh=True) for model in members) for task in tasks}

    # The ensembles of some tasks teach students by their soft targets (Eqs. 3, 4)
    students = {}
    for row, (parts, soft) in choose_students(preset, seed).items():
        teachers = {}
        for part in parts:
            of_tasks = {task: ensembles[task] for task in list_taught(preset) if examples_of(preset, task, part)}
            label = f"soft targets, {part}, seed {seed}"
            teachers[part] = Predictions(preset=preset, label=label, models=of_tasks, part=part)
        students[row] = name_mt_dnn(preset, seed, 0, row, kind=Student, teachers=teachers, soft=soft)

    # BERT reads each task alone, for as many epochs as MT-DNN; MT-DNN and the students are fine-tuned (section 2.1)
    alone = {"seed": models[0].seed, "dropout": models[0].dropout}
    alone["changes"] = {"epochs": preset.training.epochs + settings.tuning_epochs}
    rows = {SINGLE: {t: (name_training(preset, f"{SINGLE}, {t}, seed {seed}", [t], **alone),) for t in tasks}}
    for row, model in {MTDNN: models[0], **students}.items():
        rows[row] = {task: (name_tuning(row, task, model),) for task in tasks}
    rows[ENSEMBLE] = ensembles
    yield [model for of_task in rows.values() for members in of_task.values() for model in members]
    return rows


def rank(models: Sequence[MultiTaskTraining], tasks: Sequence[str]) -> list[MultiTaskTraining]:
    """Sort trained models by their validation scores on some tasks, best first; of equal ones the earlier is first."""
    return sorted(models, key=lambda model: -sum(model.best_scores()[task] for task in tasks))


def list_taught(preset: Preset) -> list[str]:
    """List the tasks whose ensembles teach."""
    return [task for task in preset.mtdnn_kd.taught if task in preset.tasks.tasks]


def list_choosers(preset: Preset) -> list[str]:
    """List the tasks that choose the ensembles' members; all, where the preset's are not among its tasks."""
    return [task for task in preset.mtdnn_kd.chosen_by if task in preset.tasks.tasks] or list(preset.tasks.tasks)


def choose_students(preset: Preset, seed: int) -> dict[str, tuple[list[str], float]]:
    """Choose the students of a seed: by row the parts that the teachers predict, and the weight of the soft targets."""
    if not list_taught(preset):
        return {}
    settings = preset.mtdnn_kd
    rows = {STUDENT: (["train"], settings.soft)}
    if seed < preset.other_seeds:
        rows[SOFT_ALONE] = (["train"], 1.0)
        if any(examples_of(preset, task, "unlabelled") for task in list_taught(preset)):
            rows[UNLABELLED] = (["train", "unlabelled"], settings.soft)
    return rows


def train_models(preset: Preset) -> Plan:
    """Train the rows of Tables 2 and 3 with every seed. Returns their `Models`, with tasks for domains."""
    seeds, models = range(preset.seeds), Models(preset)
    rows = yield {seed: distil(preset.drawn(seed), seed) for seed in seeds}
    for seed in seeds:
        for row, of_task in rows[seed].items():
            models.add(row, seed, of_task)
    return models
