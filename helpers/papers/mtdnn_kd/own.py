"""MT-DNN on somebody's own tasks: what is trained, what it is worth beside a model a task, and how fast that goes.

A task may also be questions about passages; these, and choices, have no teachers.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from helpers.batches.plans import TaskBatches, plan_steps
from helpers.batches.tensors import SequenceTensors
from helpers.batches.texts import EncoderError
from helpers.data.examples import DataError
from helpers.papers.card import OwnModel
from helpers.papers.mtdnn_kd.algorithm import ENSEMBLE, MTDNN, SINGLE, STUDENT, distilled
from helpers.papers.mtdnn_kd.tables import METRICS, Asked, main_scores, predictions_of
from helpers.papers.mtdnn_kd.trainings import mt_dnn, tuned
from helpers.papers.rows import seconds, trainings_of
from helpers.presets.schema import Preset
from helpers.results.records import Claim
from helpers.tasks import kinds
from helpers.tasks.multitask import Predictions, task_loss, turns_of
from helpers.tasks.pace import STEPS, Speed, Speeds, measured
from helpers.tasks.parts import USES, kind_of, labels_of, save_part
from helpers.training.cached import Cached
from helpers.training.engine import After, Outcome, Plan, replay, run, run_plans
from helpers.training.loop import fit, outputs, training_device

ROWS = {SINGLE: "alone", MTDNN: "together", STUDENT: "taught"}
HISTORIES = {
    MTDNN: "on the shuffled batches of all tasks together, then on {task} by itself (MT-DNN, Liu et al. 2019)",
    STUDENT: "on the shuffled batches of all tasks together, by their labels and by what ensembles of such models say "
    "of {taught}, then on {task} by itself (MT-DNN with knowledge distillation, Liu et al. 2019)",
}
CLAIMS = {
    MTDNN: Claim(text="together is better than alone", above=MTDNN, below=SINGLE),
    STUDENT: Claim(text="taught is better than together", above=STUDENT, below=MTDNN),
}
EVERY = "*"  # in a list of tasks
EXAMPLES = 64  # that the reading is measured on


def tasks_of(preset: Preset) -> list[str]:
    """All tasks: those of the section [tasks], and the domains of [data], if it says where these are."""
    return [*preset.tasks.tasks, *questions(preset)]


def questions(preset: Preset) -> list[str]:
    """Those that are questions about passages."""
    return list(preset.data.domains) if preset.data.folder else []


def taught(preset: Preset) -> list[str]:
    """The tasks with an ensemble as their teacher, of those of classes or scores. Raises DataError."""
    known = [task for task in tasks_of(preset) if kinds.head_of(preset, task).kind == "labels"]
    return _named("mtdnn_kd.taught", preset.mtdnn_kd.taught, known)


def _named(key: str, names: list[str], known: list[str]) -> list[str]:
    """Those of the tasks ``known`` that a key of the preset names. Raises DataError."""
    if unknown := [name for name in names if name not in known and not (name == EVERY and known)]:
        raise DataError(f"{key} names {unknown[0]!r}, of the tasks {', '.join(known) or 'none, as none has classes'}")
    return [name for name in known if EVERY in names or name in names]


def folders(preset: Preset) -> dict[str, list[str]]:
    """A model a task."""
    return {task: [task] for task in tasks_of(preset)}


def plans(preset: Preset) -> dict[int, Plan]:
    """What is trained, by seed."""
    names, pupils = tasks_of(preset), taught(preset)
    _named("mtdnn_kd.chosen_by", preset.mtdnn_kd.chosen_by, names)
    students = [STUDENT] * bool(pupils)
    return {seed: distilled(preset.drawn(seed), seed, names, pupils, pupils, students) for seed in range(preset.seeds)}


def predictions(preset: Preset, done: Mapping[int, Outcome], part: str = "test") -> Asked:
    """What every row's models say of their test examples, by row and seed; or of the validation questions that may have
    no answer, by which each gets the threshold above which it gives none."""
    names = tasks_of(preset) if part == "test" else list(filter(preset.data.may_be_unanswerable, questions(preset)))
    if not names:
        return {}
    rows = {(row, seed): models for seed, outcome in done.items() for row, models in outcome.value.items()}
    return predictions_of(preset, {cell: models for cell, models in rows.items() if cell[0] != ENSEMBLE}, part, names)


def tasks(preset: Preset) -> list[Cached]:
    """All that `train` trains and asks."""
    done = {seed: replay(plan, lambda task: True) for seed, plan in plans(preset).items()}
    trained = (task for outcome in done.values() for task in outcome.tasks)
    return [*trained, *(said for part in ("test", "valid") for said in predictions(preset, done, part).values())]


def train(preset: Preset, after: After | None = None) -> tuple[dict, dict[str, OwnModel]]:
    """All rows as parts of a record, and the last one's model of each task that is best on its validation part, of all
    seeds."""
    done = run_plans(plans(preset), preset.engine, after=after)
    (asked, chosen_by), models = (predictions(preset, done, part) for part in ("test", "valid")), {}
    run([*asked.values(), *chosen_by.values()], preset.engine, "predictions", after)
    limits = {
        cell: {task: kinds.threshold(said.preset, task, replies) for task, replies in said.values().items()}
        for cell, said in chosen_by.items()
    }
    rows = [row for row in done[0].value if row != ENSEMBLE]
    for task in tasks_of(preset):
        trained = {seed: outcome.value[rows[-1]][task] for seed, outcome in done.items()}
        seed = max(trained, key=lambda seed: trained[seed].best()[task])
        history = HISTORIES[rows[-1]].format(task=task, taught=", ".join(taught(preset)))
        limit = limits.get((rows[-1], seed), {}).get(task)
        models[task] = OwnModel(partial(save_part, preset, trained[seed].folder(), task, limit), seed, history)
    return {
        **main_scores(tasks_of(preset), asked, limits),
        "baselines": rows[:-1],
        "claims": [CLAIMS[row] for row in rows[1:]],
        "notes": [
            f"scores: {', '.join(f'{task} {scored_by(preset, task)}' for task in models)}",
            *dict.fromkeys(f"{kinds.THRESHOLD}: {', '.join(of_task)}" for of_task in limits.values()),
        ],
        "training_seconds": seconds(trainings_of(task for outcome in done.values() for task in outcome.tasks).values()),
    }, models


def scored_by(preset: Preset, task: str) -> str:
    """What a task's score is, in words."""
    if kinds.is_reading(preset, task):
        return "F1"
    used = kinds.task_of(preset, task).metrics
    return "the mean of " * (len(used) > 1) + " and ".join(METRICS[metric] for metric in used)


def speeds(preset: Preset) -> Speeds:
    """Steps and reading of each task are measured; those of several are their mean, each by its share of the sequences.
    Raises EncoderError, also where transformers alone could not load what is saved."""
    if preset.mtdnn_kd.san:
        raise EncoderError("mtdnn_kd.san makes models that transformers alone cannot load; leave it False")
    names, training = tasks_of(preset), preset.training
    together = mt_dnn(preset, 0, 0, tasks=names)
    model, loss = together.initial(), task_loss({task: head.kind for task, head in together.heads().items()}, 0.0)
    model.to(device := training_device())

    def speed(task: str) -> Speed:
        known, read = (kinds.sequences_of(preset, task, part) for part in ("train", "valid"))
        read = read.select(np.arange(min(EXAMPLES, len(read))))
        turns, tensors = turns_of({task: known}, training.batch_size, 0), {task: SequenceTensors(known, device)}
        plan = plan_steps(turns, STEPS)

        def steps(number: int) -> float:
            batches = TaskBatches(tensors, plan[:number])
            return fit(model, batches, loss, training, seed=0, label="measuring").seconds

        return measured(steps, lambda: [*outputs(model.tasks[task], read, precision=training.precision)], len(read))

    of_task = {task: speed(task) for task in names}

    def mean(times: Mapping[str, int], part: str) -> Speed:
        weights = [len(kinds.sequences_of(preset, task, part)) * number for task, number in times.items()]
        return Speed(*np.average([of_task[task] for task in times], axis=0, weights=weights).tolist())

    def of(task: Cached) -> Speed:
        if isinstance(task, Predictions):
            return mean({name: len(keys) for name, keys in task.models.items()}, task.part)
        once = dict.fromkeys(task.tasks, 1)
        return Speed(mean(once, "train").step, mean(once, "valid").window)

    return of


def facts(preset: Preset, domains: list[str]) -> dict[str, object]:
    """What a task's model does, what it is scored by, and how long it was trained, for its card."""
    (task,) = domains
    rates = dict.fromkeys(filter(None, (preset.training.learning_rate, preset.mtdnn_kd.tuning_learning_rate)))
    use, labels = USES[kind_of(preset, task)], ", ".join(labels_of(preset, task))
    return {
        "use": use,
        "labels": f": {labels}" * bool(labels),
        "metric": scored_by(preset, task),
        "beside": ", ".join(other for other in tasks_of(preset) if other != task),
        "steps": mt_dnn(preset, 0, 0, tasks=tasks_of(preset)).steps,
        "rates": ", then ".join(f"{rate:g}" for rate in rates),
        "tuning_steps": tuned(preset, 0, MTDNN, task, mt_dnn(preset, 0, 0, tasks=tasks_of(preset))).steps,
    }
