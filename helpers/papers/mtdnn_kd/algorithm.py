"""MT-DNN with knowledge distillation (Liu et al. 2019): ensembles of multi-task models teach a single one.

Algorithm 1 trains one model on the shuffled batches of all tasks; then it is fine-tuned on each task by itself (section
2.1). Several such models, fine-tuned on a task, are its teacher, and the student learns the mean of their probabilities
(section 3, Eq. 3) besides the labels; tasks without a teacher have labels alone. As plans: each yields waves of
trainings, parents first.
"""

from helpers.papers.mtdnn_kd.trainings import mt_dnn, single, tuned
from helpers.presets.schema import Preset
from helpers.tasks import kinds
from helpers.tasks.multitask import MultiTaskTraining, Predictions
from helpers.training.engine import Plan

SINGLE, MTDNN, STUDENT, ENSEMBLE = "BERT", "MT-DNN", "MT-DNN_KD", "MT-DNN-ensemble"
SOFT_ALONE, UNLABELLED = "MT-DNN_KD, soft targets alone", "MT-DNN_KD, unlabelled texts too"  # rows of ours
STUDENTS = {STUDENT: {}, SOFT_ALONE: {"soft": 1.0}, UNLABELLED: {"unlabelled": True}}


def distilled(preset: Preset, seed: int) -> Plan:
    """All rows of Tables 2 and 3: each row's model of each task; a list of models where they are an ensemble."""
    known, tasks = preset.mtdnn_kd, list(preset.tasks.tasks)

    # BERT on each task by itself, and six MT-DNNs with different dropout (section 4.1)
    alone = {task: single(preset, seed, SINGLE, task) for task in tasks}
    models = [mt_dnn(preset, seed, number) for number in range(known.models)]
    yield [*alone.values(), *models]

    # the best on MNLI and RTE, fine-tuned on each task with a new head: its ensemble
    chosen = best(models, [task for task in known.chosen_by if task in tasks])[: known.members]
    ensembles = {task: [tuned(preset, seed, ENSEMBLE, task, model, fresh=True) for model in chosen] for task in tasks}
    mtdnn = {task: tuned(preset, seed, MTDNN, task, models[0]) for task in tasks}
    yield [*mtdnn.values(), *(model for members in ensembles.values() for model in members)]

    # their soft targets (Eq. 3), for the tasks that have a teacher
    teachers = {task: [model.key for model in ensembles[task]] for task in taught(preset)}
    yield soft_targets(preset, teachers)

    # the students by Algorithm 1, with the loss of section 3, and fine-tuned on each task
    rows = [row for row in STUDENTS if is_run(preset, seed, row)]
    students = {row: mt_dnn(preset, seed, 0, row, teachers, **STUDENTS[row]) for row in rows}
    yield students.values()
    finals = {row: {task: tuned(preset, seed, row, task, model) for task in tasks} for row, model in students.items()}
    yield [model for row in finals.values() for model in row.values()]
    return {SINGLE: alone, MTDNN: mtdnn, **finals, ENSEMBLE: ensembles}


def best(models: list[MultiTaskTraining], tasks: list[str]) -> list[MultiTaskTraining]:
    """Trained models, by their mean validation score on some tasks, best first; of equal ones the earlier."""
    return sorted(models, key=lambda model: -sum(model.best()[task] for task in tasks))


def soft_targets(preset: Preset, teachers: dict[str, list[str]]) -> list[Predictions]:
    """What teachers, by task, are asked for: the mean of their probabilities of the texts to train on (Eq. 3), and of
    texts without a label, where there are any."""
    parts = ["train", *["unlabelled"] * has_unlabelled(preset)]
    return [Predictions.of(preset, teachers, part, "soft targets") for part in parts]


def taught(preset: Preset) -> list[str]:
    """The tasks with a teacher."""
    return [task for task in preset.mtdnn_kd.taught if task in preset.tasks.tasks]


def is_run(preset: Preset, seed: int, row: str) -> bool:
    """Whether a seed has a student's row, and the preset the texts that it needs."""
    is_ours = row != STUDENT and seed >= (preset.mtdnn_kd.other_seeds or preset.seeds)
    return not is_ours and (row != UNLABELLED or has_unlabelled(preset))


def has_unlabelled(preset: Preset) -> bool:
    """Whether a task with a teacher has texts without a label."""
    return any(kinds.examples_of(preset, task, "unlabelled") for task in taught(preset))


def plans(preset: Preset) -> dict[int, Plan]:
    """What Tables 2 and 3 need, by seed."""
    return {seed: distilled(preset, seed) for seed in range(preset.seeds)}
