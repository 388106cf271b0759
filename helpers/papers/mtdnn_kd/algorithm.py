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
from helpers.training.engine import Plan, is_done

SINGLE, MTDNN, STUDENT, ENSEMBLE = "BERT", "MT-DNN", "MT-DNN_KD", "MT-DNN-ensemble"
SOFT_ALONE, UNLABELLED = "MT-DNN_KD, soft targets alone", "MT-DNN_KD, unlabelled texts too"  # rows of ours
STUDENTS = {STUDENT: {}, SOFT_ALONE: {"soft": 1.0}, UNLABELLED: {"unlabelled": True}}


def distilled(
    preset: Preset, seed: int, tasks: list[str], pupils: list[str], shown: list[str], students: list[str]
) -> Plan:
    """Rows of Tables 2 and 3: each row's model of each task; a list of models where they are an ensemble. Ensembles of
    the tasks ``shown`` are trained, those of the ``pupils`` among them are teachers."""
    known = preset.mtdnn_kd

    # BERT on each task by itself, and six MT-DNNs with different dropout (section 4.1)
    alone = {task: single(preset, seed, SINGLE, task) for task in tasks}
    models = [mt_dnn(preset, seed, number, tasks=tasks) for number in range(known.models if shown else 1)]

    # fine-tuned on each task
    def on_each(row: str, model: MultiTaskTraining) -> dict[str, MultiTaskTraining]:
        return {task: tuned(preset, seed, f"{row} fine-tuned", task, model) for task in tasks}

    rows = {SINGLE: alone, MTDNN: on_each(MTDNN, models[0])}
    yield [*alone.values(), *models, *rows[MTDNN].values()]

    # the best on MNLI and RTE, fine-tuned with a new head: the task's ensemble
    members = best(models, chosen_by(preset, tasks))[: known.members]
    ensembles = {task: [tuned(preset, seed, ENSEMBLE, task, model, fresh=True) for model in members] for task in shown}
    of_ensembles = [model for ensemble in ensembles.values() for model in ensemble]

    # their soft targets (Eq. 3), for the tasks that have a teacher
    teachers = {task: [model.key for model in ensembles[task]] for task in pupils}
    parts = ["train", *["unlabelled"] * (UNLABELLED in students)]
    targets = [Predictions.of(preset, teachers, part, "soft targets") for part in parts if students]

    # the students by Algorithm 1, with the loss of section 3, and fine-tuned on each task
    taught_by = {row: mt_dnn(preset, seed, 0, row, teachers, tasks=tasks, **STUDENTS[row]) for row in students}
    rows |= {row: on_each(row, model) for row, model in taught_by.items()}
    tuned_students = [model for row in taught_by for model in rows[row].values()]
    yield [*of_ensembles, *targets, *taught_by.values(), *tuned_students]
    return rows | ({ENSEMBLE: ensembles} if shown else {})


def best(models: list[MultiTaskTraining], tasks: list[str]) -> list[MultiTaskTraining]:
    """Models by their mean validation score on some tasks, best first; of equal ones the earlier, and as they are
    before they are trained."""
    if not all(map(is_done, models)):
        return models
    return sorted(models, key=lambda model: -sum(model.best()[task] for task in tasks))


def plans(preset: Preset) -> dict[int, Plan]:
    """What Tables 2 and 3 need, by seed."""
    tasks, pupils = list(preset.tasks.tasks), taught(preset)
    return {
        seed: distilled(own, seed, tasks, pupils, tasks, [row for row in STUDENTS if is_run(own, seed, row)])
        for seed, own in ((seed, preset.drawn(seed)) for seed in range(preset.seeds))
    }


def taught(preset: Preset) -> list[str]:
    """The tasks with a teacher."""
    return [task for task in preset.mtdnn_kd.taught if task in preset.tasks.tasks]


def chosen_by(preset: Preset, tasks: list[str]) -> list[str]:
    """The tasks on which the members of the ensembles are chosen; all, where the preset's are not among them."""
    return [task for task in preset.mtdnn_kd.chosen_by if task in tasks] or tasks


def is_run(preset: Preset, seed: int, row: str) -> bool:
    """Whether a seed has a student's row, and the preset the teachers and the texts that it needs."""
    is_ours = row != STUDENT and seed >= (preset.mtdnn_kd.other_seeds or preset.seeds)
    has_unlabelled = any(kinds.examples_of(preset, task, "unlabelled") for task in taught(preset))
    return bool(taught(preset)) and not is_ours and (row != UNLABELLED or has_unlabelled)
