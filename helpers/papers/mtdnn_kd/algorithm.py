"""Ensembles of multi-task models, and the model that they teach (Liu et al. 2019, sections 2 to 4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from helpers.batches import Batches
from helpers.classification import (
    MultiTaskModel,
    Tasks,
    examples_of,
    predictions_of,
    read_predictions,
    task_loss,
)
from helpers.papers.mtdnn_kd.losses import student_loss
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.task import Plan
from helpers.training import Outputs, Training


@dataclass(frozen=True)
class SoftTargets:
    """What ensembles predict for some tasks, by split (`helpers.training.Teacher`).

    The splits are "train" and, where a student reads texts without a label too, "unlabelled".
    """

    outputs: dict[str, Outputs]

    def splits(self) -> dict[str, tuple[str, ...]]:
        """Return the splits of each task that is taught."""
        names = {split: [name.rpartition("/")[2] for name in outputs.sets] for split, outputs in self.outputs.items()}
        return {task: tuple(split for split in names if task in names[split]) for task in names["train"]}

    def add_to(self, batches: Batches, training: Training) -> None:
        targets = {split: read_predictions(outputs) for split, outputs in self.outputs.items()}
        for task, splits in self.splits().items():
            values = np.concatenate([targets[split][task] for split in splits])
            batches.sequences[task] = batches.sequences[task].with_labels(teacher_targets=values)


def task_training(
    preset: Preset,
    label: str,
    tasks: Iterable[str],
    *,
    seed: int,
    dropout: float,
    start: Training | None = None,
    fresh: bool = False,
    teacher: SoftTargets | None = None,
    kd_weight: float = 0.0,
    **changes: float,
) -> Training:
    """Return a training on some tasks, selected by all of them; ``changes`` are of the settings of the optimisation."""
    settings, names = preset.mtdnn_kd, tuple(tasks)
    head_dropout = {task: settings.head_dropouts.get(task, settings.head_dropout) for task in names}
    return Training(
        preset=preset,
        label=label,
        seed=seed,
        model=MultiTaskModel(dropout=dropout, head_dropout=head_dropout, fresh=fresh),
        data=Tasks(names, names, splits=teacher.splits() if teacher else {}),
        optim=preset.training.model_copy(update=changes),
        loss=partial(student_loss, kd_weight=kd_weight) if teacher else task_loss,
        teacher=teacher,
        start=start,
    )


def mt_dnn_training(preset: Preset, seed: int, number: int, label: str = "MT-DNN", **teaching) -> Training:
    """Return one of a seed's MT-DNNs on all tasks; its ``number`` decides initialisation and dropout (section 4.1)."""
    dropouts, model_seed = preset.mtdnn_kd.dropouts, seed * preset.mtdnn_kd.models + number
    label, dropout = f"{label}, seed {seed}, model {number + 1}", dropouts[number % len(dropouts)]
    return task_training(preset, label, preset.tasks.tasks, seed=model_seed, dropout=dropout, **teaching)


def mt_dnn_trainings(preset: Preset, seed: int) -> list[Training]:
    """Return a seed's MT-DNNs, of which the members of its ensembles are chosen."""
    return [mt_dnn_training(preset, seed, number) for number in range(preset.mtdnn_kd.models)]


def tuning_training(
    label: str, task: str, model: Training, *, fresh: bool = False, gentleness: float = 1.0
) -> Training:
    """Return the fine-tuning of a model on one task (section 2.1), with a ``fresh`` head in an ensemble (section 3).

    The learning rate is divided by ``gentleness``.
    """
    settings, rate = model.preset.mtdnn_kd, model.preset.training.learning_rate
    changes = {"epochs": settings.tuning_epochs, "learning_rate": (settings.tuning_learning_rate or rate) / gentleness}
    parts = {"seed": model.seed, "dropout": model.model.dropout, "start": model, "fresh": fresh}
    return task_training(model.preset, f"{label} on {task}, from {model.label}", [task], **parts, **changes)


SINGLE, MTDNN, STUDENT, ENSEMBLE = "BERT", "MT-DNN", "MT-DNN_KD", "MT-DNN-ensemble"
UNTUNED, GENTLER, GENTLENESS = "before tuning", "gentler tuning", 4.0  # not in the paper
SOFT_ALONE, UNLABELLED = "MT-DNN_KD, soft targets alone", "MT-DNN_KD, unlabelled texts too"  # not in the paper


def distil(preset: Preset, seed: int) -> Plan:
    """Train the rows of Tables 2 and 3. Returns for each row the models of each task, several in an ensemble."""
    settings, tasks = preset.mtdnn_kd, list(preset.tasks.tasks)

    # MT-DNNs that differ in initialisation and dropout (Algorithm 1, section 4.1)
    models = mt_dnn_trainings(preset, seed)
    yield models

    # The best on validation, each fine-tuned on a task with a new head, are its ensemble
    members = rank_models(models, list_choosers(preset))[: settings.members]
    ensembles = {task: tuple(tuning_training(ENSEMBLE, task, model, fresh=True) for model in members) for task in tasks}

    # The ensembles of some tasks teach students by their soft targets (Eqs. 3, 4)
    students = {}
    for row, (splits, kd_weight) in choose_students(preset, seed).items():
        outputs = {}
        for split in splits:
            taught = {task: ensembles[task] for task in list_taught(preset) if examples_of(preset, task, split)}
            outputs[split] = predictions_of(taught, split, f"soft targets, {split}, seed {seed}")
        students[row] = mt_dnn_training(preset, seed, 0, row, teacher=SoftTargets(outputs), kd_weight=kd_weight)

    # BERT reads each task alone, for as many epochs as MT-DNN; MT-DNN and the students are fine-tuned (section 2.1)
    alone = {"seed": models[0].seed, "dropout": models[0].model.dropout}
    alone["epochs"] = preset.training.epochs + settings.tuning_epochs
    rows = {SINGLE: {t: (task_training(preset, f"{SINGLE}, {t}, seed {seed}", [t], **alone),) for t in tasks}}
    for row, model in {MTDNN: models[0], **students}.items():
        rows[row] = {task: (tuning_training(row, task, model),) for task in tasks}
    rows[ENSEMBLE] = ensembles
    yield [model for of_task in rows.values() for members in of_task.values() for model in members]
    return rows


def rank_models(models: Sequence[Training], tasks: Sequence[str]) -> list[Training]:
    """Sort trained models by their validation scores on some tasks, best first; of equal ones the earlier is first."""
    return sorted(models, key=lambda model: -sum(model.best_scores()[task] for task in tasks))


def list_taught(preset: Preset) -> list[str]:
    """List the tasks whose ensembles teach."""
    return [task for task in preset.mtdnn_kd.taught if task in preset.tasks.tasks]


def list_choosers(preset: Preset) -> list[str]:
    """List the tasks that choose the ensembles' members; all, where the preset's are not among its tasks."""
    return [task for task in preset.mtdnn_kd.chosen_by if task in preset.tasks.tasks] or list(preset.tasks.tasks)


def choose_students(preset: Preset, seed: int) -> dict[str, tuple[list[str], float]]:
    """Choose a seed's students: by row the splits that teachers predict, and the weight of the soft targets."""
    if not list_taught(preset):
        return {}
    settings = preset.mtdnn_kd
    rows = {STUDENT: (["train"], settings.kd_weight)}
    if seed < preset.control_seeds:
        rows[SOFT_ALONE] = (["train"], 1.0)
        if any(examples_of(preset, task, "unlabelled") for task in list_taught(preset)):
            rows[UNLABELLED] = (["train", "unlabelled"], settings.kd_weight)
    return rows


def vary_tuning(models: Models) -> Plan:
    """Tune MT-DNN and the student not at all, and gently (not in the paper). Returns `Models` with both and as tuned.

    They have the seeds of the controls.
    """
    varied = Models(models.preset)
    for row in [row for row in (MTDNN, STUDENT) if row in models.by_row]:
        for seed in [seed for seed in models.by_row[row] if seed < models.preset.control_seeds]:
            tuned, gentler = models.by_row[row][seed], f"{row}, {GENTLER}"
            starts = {task: model.start for task, (model,) in tuned.items()}
            gentle = {t: tuning_training(gentler, t, start, gentleness=GENTLENESS) for t, start in starts.items()}
            for name, of_task in {f"{row}, {UNTUNED}": starts, gentler: gentle, row: tuned}.items():
                varied.add(name, seed, of_task)
    yield [model for _, _, _, (model,) in varied]
    return varied


def train_models(preset: Preset) -> Plan:
    """Train the rows of Tables 2 and 3 with every seed. Returns their `Models`, with tasks for domains."""
    seeds, models = preset.seed_numbers, Models(preset)
    rows = yield {seed: distil(preset.for_seed(seed), seed) for seed in seeds}
    for seed in seeds:
        candidates = mt_dnn_trainings(preset.for_seed(seed), seed)
        for row, of_task in rows[seed].items():
            models.add(row, seed, of_task, needs=() if row in (SINGLE, MTDNN) else candidates)
    return models
