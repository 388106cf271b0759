"""MT-DNN's tables (Liu et al. 2019, section 4)."""

from collections.abc import Collection, Iterable

import numpy as np

from helpers import papers
from helpers.classification import examples_of, main_score, predictions_of, read_predictions, score_task
from helpers.data.load import load_domains
from helpers.papers import shared
from helpers.papers.measure import count_examples
from helpers.papers.mtdnn_kd.algorithm import (
    ENSEMBLE,
    GENTLENESS,
    GENTLER,
    MTDNN,
    SINGLE,
    STUDENT,
    UNLABELLED,
    UNTUNED,
    list_choosers,
    list_taught,
    train_models,
    vary_tuning,
)
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.records import Claim, Score
from helpers.task import Plan

NOT_PRINTED = "WNLI"  # a task that the paper's Table 3 leaves out; in Table 2 all models have the same score on it
PAIRS = {"RTE": "MNLI", "MRPC": "QQP"}  # tasks of one type, the smaller first (section 4.2)
METRICS = {"matthews": "Matthews", "accuracy": "accuracy", "f1": "F1", "pearson": "Pearson", "spearman": "Spearman"}


def table1(preset: Preset) -> dict:
    """Make Table 1: the tasks, their numbers of examples and labels, and their metrics."""
    tasks, scores = load_domains(preset.tasks), count_examples(preset.tasks)
    for name, task in tasks.items():
        scores.append(Score(method=name, column="#Label", seed=0, value=len(task.labels) or 1))
    scores.sort(key=lambda score: list(tasks).index(score.method))  # one task after another
    metrics = [f"{name}: {' and '.join(METRICS[metric] for metric in task.metrics)}" for name, task in tasks.items()]
    return {"scores": scores, "notes": [f"scored by: {', '.join(metrics)}"]}


def predict_rows(models: Models, rows: Iterable[str], split: str = "test", tasks: Iterable[str] = ()) -> Plan:
    """Have rows predict a split of some tasks, or of all. Returns the `Outputs` by row and seed."""
    outputs = {}
    for row in [row for row in models.by_row if row in rows]:
        for seed, of_tasks in models.by_row[row].items():
            chosen = {task: of_tasks[task] for task in tasks or of_tasks}
            outputs[row, seed] = predictions_of(chosen, split, f"predictions of {row}, seed {seed}, {split}")
    yield outputs.values()
    return outputs


def score_tests(models: Models, rows: Iterable[str]) -> Plan:
    """Have rows predict the test splits. Returns row, task, seed and scores by metric of each."""
    outputs = yield from predict_rows(models, rows)
    return [
        (row, task, seed, score_task(predicted.preset, task, "test", values))
        for (row, seed), predicted in outputs.items()
        for task, values in read_predictions(predicted).items()
    ]


def table2(preset: Preset) -> Plan:
    """Make Table 2: the score of each task, the mean of its metrics."""
    models, scores = (yield from train_models(preset)), []
    rows = [row for row in models.by_row if row != ENSEMBLE]
    for row, task, seed, by_metric in (yield from score_tests(models, rows)):
        scores.append(Score(method=row, column=task, seed=seed, value=main_score(by_metric)))
    return {
        "scores": scores,
        "baselines": [MTDNN, SINGLE],
        "claims": state_claims(preset),
        "notes": [*make_notes(preset), *state_steps(models)],
        "training_seconds": models.seconds,
    }


def state_steps(models: Models) -> list[str]:
    """State the steps on all tasks of the students with and without texts that have no label, where there are both."""
    if UNLABELLED not in models.by_row:
        return []
    steps = {row: models.first(row).start.result()["steps"] for row in (STUDENT, UNLABELLED)}
    return [f"steps on all tasks: {', '.join(f'{row} {number:,}' for row, number in steps.items())}"]


def state_claims(preset: Preset) -> list[Claim]:
    """State what section 4.2 claims of the student and MT-DNN."""
    if not list_taught(preset):
        return [shared.state_better(MTDNN, SINGLE, primary=True)]
    claims = [shared.state_better(MTDNN, SINGLE), shared.state_better(STUDENT, MTDNN, primary=True)]
    sizes = {task: len(examples_of(preset, task, "train")) for task in preset.tasks.tasks}
    if NOT_PRINTED in sizes:
        others, on = [task for task in sizes if task != NOT_PRINTED], f" on all tasks but {NOT_PRINTED}"
        printed = papers.printed_gap("mtdnn_kd/table2", STUDENT, MTDNN, "AVE.") * 9 / 8  # with equal scores on WNLI
        claims.append(shared.state_better(STUDENT, MTDNN, on=on, columns=others, printed=round(printed, 2)))
    if untaught := [task for task in sizes if task not in list_taught(preset)]:
        claims.append(shared.state_better(STUDENT, MTDNN, on=" on tasks without a teacher", columns=untaught))
    for few, many in PAIRS.items():
        if sizes.get(few, np.inf) < sizes.get(many, 0):
            than = {"columns": [few], "than": [STUDENT, MTDNN], "than_columns": [many]}
            text = f"{STUDENT} gains more with few examples: on {few} than on {many}"
            claims.append(Claim(text=text, above=STUDENT, below=MTDNN, **than))
    return claims


def table3(preset: Preset) -> Plan:
    """Make Table 3: every metric of the student beside the ensembles."""
    models, scores = (yield from train_models(preset)), []
    for row, task, seed, by_metric in (yield from score_tests(models, (SINGLE, MTDNN, STUDENT, ENSEMBLE))):
        for metric, value in by_metric.items():
            column = task if len(by_metric) == 1 else f"{task}, {METRICS[metric]}"
            scores.append(Score(method=row, column=column, seed=seed, value=value))
    claims = state_gains(dict.fromkeys(score.column for score in scores), STUDENT in models.by_row)
    facts = [*make_notes(preset), "averages are over columns, so a task of two metrics counts twice"]
    if NOT_PRINTED in preset.tasks.tasks:
        facts.append(f"claims leave out {NOT_PRINTED}, which the paper's table does not have; AVE. includes it")
    return {"scores": scores, "baselines": [MTDNN], "claims": claims, "notes": facts}


def tuning(preset: Preset) -> Plan:
    """Make our table of MT-DNN and the student before tuning, after a gentle one and after the paper's.

    Nothing where the preset has no control seeds.
    """
    varied = yield from vary_tuning((yield from train_models(preset)))
    if not varied.by_row:
        return {}
    scores = [
        Score(method=row, column=task, seed=seed, value=main_score(by_metric))
        for row, task, seed, by_metric in (yield from score_tests(varied, varied.by_row))
    ]
    claims, facts = state_tunings(varied.by_row), [f"{GENTLER}: the learning rate divided by {GENTLENESS:g}"]
    return {"scores": scores, "baselines": [MTDNN], "claims": claims, "notes": facts}


def state_tunings(rows: Collection[str]) -> list[Claim]:
    """State that the student beats MT-DNN before tuning and after a gentle one."""
    pairs = [(f"{STUDENT}, {form}", f"{MTDNN}, {form}") for form in (UNTUNED, GENTLER)]
    return [shared.state_better(*pair, control=True) for pair in pairs if STUDENT in rows]


def state_gains(columns: Iterable[str], has_student: bool) -> list[Claim]:
    """State the claims of Table 3 on the columns that the paper has: a student keeps "nearly all" (section 4.2)."""
    columns = [column for column in columns if column != NOT_PRINTED]
    claims = [shared.state_better(ENSEMBLE, MTDNN, columns=columns)]
    if has_student:
        text = f"{STUDENT} keeps part of what the ensembles gain over {MTDNN}"
        gain = {"than": [ENSEMBLE, MTDNN], "share": True, "columns": columns, "primary": True}
        claims.append(Claim(text=text, above=STUDENT, below=MTDNN, **gain))
    return claims


def make_notes(preset: Preset) -> list[str]:
    """State how the rows were made."""
    settings, loop, rates = preset.mtdnn_kd, preset.training, ", ".join(f"{d:g}" for d in preset.mtdnn_kd.dropouts)
    teach = f"they teach {', '.join(list_taught(preset)) or 'no task, so there is no student'}"
    return [
        f"epochs on all tasks together: {loop.epochs:g}, {loop.optimizer}, learning rate {loop.learning_rate:g}, "
        f"batches of {loop.batch_size}; then on one: {settings.tuning_epochs:g}",
        f"epochs of {SINGLE}: {loop.epochs + settings.tuning_epochs:g}, as many as {MTDNN} sees of each task",
        f"ensembles: the {min(settings.members, settings.models)} of {settings.models} models, of dropout {rates} in "
        f"turns, that are best on validation of {' and '.join(list_choosers(preset))}; {teach}",
    ]
