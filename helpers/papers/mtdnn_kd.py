"""MT-DNN with knowledge distillation: ensembles of multi-task models teach one model (Liu et al. 2019)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from helpers.batches.plans import Batches
from helpers.data.load import load_domains
from helpers.engine import Plan
from helpers.loop import Batch
from helpers.multitask import MultiTaskTraining, Predictions, examples_of, main_score, score
from helpers.papers import shared
from helpers.papers.card import Artefact, Notebook, Paper
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.reading import weighted_mean
from helpers.results.records import Claim, Score


def soft_target_cross_entropy(logits_BxC: Tensor, targets_BxC: Tensor) -> Tensor:
    """Compute -sum Q(c|X) log P(c|X) over the classes c, shape B (Eq. 4). Targets are probabilities."""
    return -(targets_BxC * logits_BxC.float().log_softmax(-1)).sum(-1)


def student_loss(
    label_loss: Tensor, logits_BxC: Tensor, label_B: Tensor, targets: Tensor, soft: float
) -> dict[str, Tensor]:
    """Return 1 - ``soft`` times the loss of the labels (Eq. 2), and ``soft`` times that of the soft targets (Eq. 4).

    ``targets`` are probabilities (B×C), or scores (B), which count by the squared error. Texts without a label (-100 or
    nan) have the second term alone, with weight 1.
    """
    if targets.dim() == 1:
        has_label_B, soft_B = ~label_B.isnan(), (logits_BxC[:, 0].float() - targets).square()
    else:
        has_label_B, soft_B = label_B >= 0, soft_target_cross_entropy(logits_BxC, targets)
    return {"label": (1 - soft) * label_loss, "soft": weighted_mean(soft_B, torch.where(has_label_B, soft, 1.0))}


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


NOT_PRINTED = "WNLI"  # a task that the paper's Table 3 leaves out
PAIRS = {"RTE": "MNLI", "MRPC": "QQP"}  # tasks of one type, the smaller first (section 4.2)
METRICS = {"matthews": "Matthews", "accuracy": "accuracy", "f1": "F1", "pearson": "Pearson", "spearman": "Spearman"}


def train_models(preset: Preset) -> Plan:
    """Train the rows of Tables 2 and 3 with every seed. Returns their `Models`, with tasks for domains."""
    seeds, models = range(preset.seeds), Models(preset)
    rows = yield {seed: distil(preset.drawn(seed), seed) for seed in seeds}
    for seed in seeds:
        for row, of_task in rows[seed].items():
            models.add(row, seed, of_task)
    return models


def table1(preset: Preset) -> dict:
    """Make Table 1: the tasks, their numbers of examples and labels, and their metrics."""
    tasks, scores = load_domains(preset.tasks), shared.count_examples(preset.tasks)
    for name, task in tasks.items():
        scores.append(Score(method=name, column="#Label", seed=0, value=len(task.labels) or 1))
    scores.sort(key=lambda score: list(tasks).index(score.method))  # one task after another
    metrics = [f"{name}: {' and '.join(METRICS[metric] for metric in task.metrics)}" for name, task in tasks.items()]
    return {"scores": scores, "notes": [f"scored by: {', '.join(metrics)}"]}


def predict_tests(models: Models, rows: Iterable[str]) -> Plan:
    """Have rows predict the test parts. Returns row, task, seed and scores by metric of each."""
    tests = []
    for (row, seed), predictions in (yield from shared.predict_part(models, rows=rows)).items():
        for task, values in predictions.values().items():
            tests.append((row, task, seed, score(predictions.preset, task, "test", values)))
    return tests


def table2(preset: Preset) -> Plan:
    """Make Table 2: the score of each task, the mean of its metrics."""
    models, scores = (yield from train_models(preset)), []
    rows = [row for row in models.by_row if row != ENSEMBLE]
    for row, task, seed, by_metric in (yield from predict_tests(models, rows)):
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
    steps = {row: models.first(row, 0).start.result()["steps"] for row in (STUDENT, UNLABELLED)}
    return [f"steps on all tasks: {', '.join(f'{row} {number:,}' for row, number in steps.items())}"]


def state_claims(preset: Preset) -> list[Claim]:
    """State what section 4.2 claims of the student and MT-DNN."""
    if not list_taught(preset):
        return [shared.state_better(MTDNN, SINGLE, primary=True)]
    claims = [shared.state_better(MTDNN, SINGLE), shared.state_better(STUDENT, MTDNN, primary=True)]
    sizes = {task: len(examples_of(preset, task, "train")) for task in preset.tasks.tasks}
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
    for row, task, seed, by_metric in (yield from predict_tests(models, (SINGLE, MTDNN, STUDENT, ENSEMBLE))):
        for metric, value in by_metric.items():
            column = task if len(by_metric) == 1 else f"{task}, {METRICS[metric]}"
            scores.append(Score(method=row, column=column, seed=seed, value=value))
    columns = [column for column in dict.fromkeys(score.column for score in scores) if column != NOT_PRINTED]
    claims = [shared.state_better(ENSEMBLE, MTDNN, columns=columns)]
    if STUDENT in models.by_row:
        text = f"{STUDENT} keeps half of what the ensembles gain over {MTDNN}"  # "nearly all" (section 4.2)
        gain = {"than": [ENSEMBLE, MTDNN], "times": 0.5, "columns": columns, "primary": True}
        claims.append(Claim(text=text, above=STUDENT, below=MTDNN, **gain))
    facts = [*make_notes(preset), "averages are over columns, so a task of two metrics counts twice"]
    if NOT_PRINTED in preset.tasks.tasks:
        facts.append(f"claims leave out {NOT_PRINTED}, which the paper's table does not have; AVE. includes it")
    return {"scores": scores, "baselines": [MTDNN], "claims": claims, "notes": facts}


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


ABSENT = "the preset names no tasks"
CARD = Paper(
    key="mtdnn_kd",
    title="Liu et al. 2019: MT-DNN with knowledge distillation",
    reference="https://arxiv.org/abs/1904.09482",
    claim="A model of many tasks learns more from ensembles than from labels",
    headlines=("table2",),
    artefacts=(
        Artefact("table1", "MT-DNN, Table 1: the tasks", unit="examples", average=False),
        Artefact("table2", "MT-DNN, Table 2: GLUE's score", unit="score"),
        Artefact("table3", "MT-DNN, Table 3: the students and the ensembles", unit="score", average=False),
    ),
    notebooks=(
        Notebook("13_mtdnn_kd_main", (table2,), lambda p: "" if p.tasks.tasks else ABSENT),
        Notebook("14_mtdnn_kd_ensembles", (table3,), lambda p: "" if p.tasks.tasks else ABSENT),
    ),
    settings=("mtdnn_kd", "tasks"),
    examples=("tasks",),
)
