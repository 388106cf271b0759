"""The tables of MT-DNN with distillation: what they need trained, as records, with the paper's claims."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd
from pandas.io.formats.style import Styler

from helpers.data.tasks import load_tasks
from helpers.models.multitask import load_multitask
from helpers.papers import examples
from helpers.papers.mtdnn_kd import algorithm
from helpers.papers.mtdnn_kd.algorithm import ENSEMBLE, MTDNN, SINGLE, STUDENT
from helpers.papers.rows import Trained, as_list, better
from helpers.presets.schema import Preset
from helpers.results import records
from helpers.results.records import Claim, Score
from helpers.tasks import kinds, labels
from helpers.tasks.multitask import MultiTaskTraining, Predictions
from helpers.training.engine import run, run_plans
from helpers.training.loop import training_device

NEARLY_ALL = 0.8  # of the ensembles' gain, as the paper's "nearly all" is read here
NOT_PRINTED = "WNLI"  # a task that the paper's Table 3 does not have
PAIRS = {"RTE": "MNLI", "MRPC": "QQP"}  # tasks of one type, the smaller first (section 4.2)
METRICS = {"matthews": "Matthews", "accuracy": "accuracy", "f1": "F1", "pearson": "Pearson", "spearman": "Spearman"}
Members = MultiTaskTraining | list[MultiTaskTraining]  # a task's model, or those of its ensemble
Asked = dict[tuple[str, int], Predictions]  # by row and seed
Limits = dict[tuple[str, int], dict[str, float]]  # the same, and by task


def table1(preset: Preset) -> dict:
    """Table 1: the tasks, how many examples they have, and what they are scored by."""
    tasks = load_tasks(preset.tasks)
    values = [
        Score(method=name, column=column, seed=0, value=value)
        for name, task in tasks.items()
        for column, value in {
            "#Train": len(task.train),
            "#Dev": len(task.valid),
            "#Test": len(task.test),
            "#Label": len(task.labels) or 1,
        }.items()
    ]
    metrics = [f"{name}: {' and '.join(METRICS[metric] for metric in task.metrics)}" for name, task in tasks.items()]
    return {"scores": values, "notes": [f"scored by: {', '.join(metrics)}"]}


def models(preset: Preset) -> Trained:
    """Train all that Tables 2 and 3 need, if it is not there."""
    return Trained.done(preset, run_plans(algorithm.plans(preset), preset.engine))


def table2(trained: Trained) -> dict:
    """Table 2: the score of every task, the mean of its metrics, and their mean, GLUE's score."""
    asked = predictions(trained, [row for row in trained.rows if row != ENSEMBLE])
    return {
        **main_scores(list(trained.preset.tasks.tasks), asked),
        "baselines": [MTDNN, SINGLE],
        "claims": [*claims(trained.preset)],
        "notes": notes(trained.preset),
        "training_seconds": trained.seconds,
    }


def claims(preset: Preset) -> Iterator[Claim]:
    """What section 4.2 says of the student and MT-DNN."""
    tasks, taught = list(preset.tasks.tasks), algorithm.taught(preset)
    yield better(MTDNN, SINGLE, primary=not taught)
    if not taught:
        return
    yield better(STUDENT, MTDNN, primary=True)
    if others := [task for task in tasks if task not in taught]:
        yield better(STUDENT, MTDNN, on=" on tasks without a teacher", columns=others)
    sizes = {task: len(kinds.examples_of(preset, task, "train")) for task in tasks}
    for few, many in PAIRS.items():
        if {few, many} <= {*sizes} and sizes[few] < sizes[many]:
            than = {"columns": [few], "than": [STUDENT, MTDNN], "than_columns": [many]}
            text = f"{STUDENT} gains more with few examples: on {few} than on {many}"
            yield Claim(text=text, above=STUDENT, below=MTDNN, **than)


def table3(trained: Trained) -> dict:
    """Table 3: every metric of the students beside the ensembles, of which those of the tasks that are taught are the
    teachers."""
    preset, values = trained.preset, []
    for (row, seed), predicted in predictions(trained, (SINGLE, MTDNN, STUDENT, ENSEMBLE)).items():
        said = predicted.values()
        for task in preset.tasks.tasks:
            found = kinds.score(predicted.preset, task, "test", said[task])
            for metric, value in found.items():
                column = task if len(found) == 1 else f"{task}, {METRICS[metric]}"
                values.append(Score(method=row, column=column, seed=seed, value=value))
    columns = [column for column in dict.fromkeys(score.column for score in values) if column != NOT_PRINTED]
    text = f"{STUDENT} keeps at least {NEARLY_ALL:.0%} of what the ensembles gain over {MTDNN}"
    kept = {"than": [ENSEMBLE, MTDNN], "times": NEARLY_ALL, "columns": columns, "primary": True}
    left_out = f"claims leave out {NOT_PRINTED}, which the paper's table does not have; AVE. has it"
    return {
        "scores": values,
        "baselines": [MTDNN],
        "claims": [
            better(ENSEMBLE, MTDNN, columns=columns),
            *[Claim(text=text, above=STUDENT, below=MTDNN, **kept)] * (STUDENT in trained.rows),
        ],
        "notes": [
            *notes(preset),
            "averages are over columns, so a task of two metrics counts twice",
            *[left_out] * (NOT_PRINTED in preset.tasks.tasks),
        ],
    }


def chosen(trained: Trained) -> pd.DataFrame:
    """Validation scores of the first seed's models on all tasks together, and which of them make the ensembles."""
    first = trained.preset.drawn(0)
    models = [algorithm.mt_dnn(first, 0, number) for number in range(first.mtdnn_kd.models)]
    tasks = algorithm.chosen_by(trained.preset, models[0].tasks)
    best = algorithm.best(models, tasks)[: trained.preset.mtdnn_kd.members]
    rows = [{"dropout": model.dropout, **model.best(), "chosen": model in best} for model in models]
    return pd.DataFrame(rows, index=[f"model {number + 1}" for number in range(len(models))]).round(1)


def sureness(trained: Trained) -> pd.DataFrame:
    """What the teachers have to say besides the labels: how often they are right, and the probability that they give to
    the label, on the texts that they trained on, which their student learns from, and on test texts; over all seeds."""
    preset, table = trained.preset, {}
    if not (tasks := [task for task in algorithm.taught(preset) if kinds.task_of(preset, task).labels]):
        return pd.DataFrame()
    for part, name in {"train": "training texts", "test": "test texts"}.items():
        asked = predictions(trained, [ENSEMBLE], part, tasks).values()
        said = [(predicted.preset, predicted.values()) for predicted in asked]
        for task in tasks:
            pairs = [
                (values[task], np.array([text.label for text in kinds.examples_of(drawn, task, part)]))
                for drawn, values in said
            ]
            own = np.concatenate([values[np.arange(len(labels)), labels] for values, labels in pairs])
            right = np.concatenate([values.argmax(1) == labels for values, labels in pairs])
            table.setdefault(task, {}).update(
                {f"% right, {name}": 100 * right.mean(), f"probability of the label, {name}": own.mean()}
            )
    return pd.DataFrame.from_dict(table, orient="index").round(2)


def example(trained: Trained, number: int = 0) -> Styler | None:
    """The ``number``-th training text of the first task of classes that has a teacher, in the loss of the first seed's
    student (Eqs. 2 to 4); None where there is no such task."""
    tasks = [task for task in algorithm.taught(trained.preset) if kinds.task_of(trained.preset, task).labels]
    if not tasks:
        return None
    task, of_task = tasks[0], trained.rows[STUDENT][0][tasks[0]]
    student = trained.needs[STUDENT][0][of_task.start]
    preset, sequences = student.preset, kinds.sequences_of(student.preset, task, "train").select(np.array([number]))
    said = {examples.TEACHER: Predictions.of(preset, student.teachers, "train").values()[task][number]}
    for name, model in {
        examples.BEFORE: student.initial().eval(),
        examples.AFTER: load_multitask(student.folder(), [task]),
    }.items():
        said[name] = labels.predict(model.tasks[task].to(training_device()), sequences, preset.training.precision)[0]
    text = kinds.examples_of(preset, task, "train")[number]
    return examples.compared(kinds.task_of(preset, task).labels, text, said)


def predictions(trained: Trained, rows: Iterable[str], part: str = "test", tasks: Iterable[str] = ()) -> Asked:
    """What rows' models predict of a part of some tasks (all, if none is named); asked once, and kept."""
    models = {
        (row, seed): of_task for row in trained.rows if row in rows for seed, of_task in trained.rows[row].items()
    }
    asked = predictions_of(trained.preset, models, part, tasks)
    run(asked.values(), trained.preset.engine, "predictions")
    return asked


def predictions_of(
    preset: Preset, models: dict[tuple[str, int], dict[str, Members]], part: str, tasks: Iterable[str] = ()
) -> Asked:
    """What each task's model, or its ensemble, predicts of a part, by row and seed; of some tasks (all, if none is
    named)."""
    asked = {}
    for (row, seed), of_task in models.items():
        keys = {task: [model.key for model in as_list(of_task[task])] for task in tasks or of_task}
        asked[row, seed] = Predictions.of(preset.drawn(seed), keys, part, f"{row}, seed {seed}, {part}")
    return asked


def main_scores(tasks: Sequence[str], asked: Asked, limits: Limits | None = None) -> dict:
    """Parts of a record: the main score of every row, task and seed, with that of every test example where it is their
    mean. ``limits`` are the thresholds above which questions are left without an answer."""
    values, examples = [], {}
    for (row, seed), predicted in asked.items():
        preset, said = predicted.preset, predicted.values()
        own_limits = (limits or {}).get((row, seed), {})
        for task in tasks:
            limit = own_limits.get(task, np.inf)
            if (of_examples := kinds.example_scores(preset, task, "test", said[task], limit)) is not None:
                examples[row, task, seed] = of_examples
            else:
                value = kinds.main_score(preset, task, kinds.score(preset, task, "test", said[task]))
                values.append(Score(method=row, column=task, seed=seed, value=value))
    ids = {
        (task, seed): [text.id for text in kinds.examples_of(asked[row, seed].preset, task, "test")]
        for row, task, seed in examples
    }
    parts, cells = records.scored(examples, ids), list(product(dict.fromkeys(row for row, _ in asked), tasks))
    parts["scores"] = sorted([*parts["scores"], *values], key=lambda s: (cells.index((s.method, s.column)), s.seed))
    return parts


def notes(preset: Preset) -> list[str]:
    """What one has to know about how the rows were made."""
    known, training = preset.mtdnn_kd, preset.training
    rates = ", ".join(f"{rate:g}" for rate in known.dropouts)
    chosen_by, taught = algorithm.chosen_by(preset, list(preset.tasks.tasks)), algorithm.taught(preset)
    teach = f"they teach {', '.join(taught)}" if taught else "they teach no task, so there is no student"
    return [
        f"epochs on all tasks together: {training.epochs:g}, {training.optimizer}, learning rate "
        f"{training.learning_rate:g}, batches of {training.batch_size}; then on one: {known.tuning_epochs:g}",
        f"epochs of {SINGLE}: {training.epochs + known.tuning_epochs:g}, as many as {MTDNN} sees of each task",
        f"ensembles: the {min(known.members, known.models)} of {known.models} models, of dropout {rates} in turns, "
        f"that are best on validation of {' and '.join(chosen_by)}; {teach}",
    ]
