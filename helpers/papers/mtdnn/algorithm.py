"""Readers that train on other tasks by weighted batch selection (He 2019, section 3)."""

from typing import NamedTuple

from helpers import metrics
from helpers.classification import (
    MultiTaskModel,
    SpanPrediction,
    Tasks,
    choose_head,
    examples_of,
    predictions_of,
    read_predictions,
    task_loss,
    threshold,
)
from helpers.data.examples import Example
from helpers.papers import shared
from helpers.papers.mtdnn import find_question_task
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.task import Plan
from helpers.training import Training

QA, CHOICES, SENTENCES, BOTH = "QA", "QA+MCC", "QA+SC", "QA+MCC+SC"  # multiple choice, sentence classification
LARGER = ", larger"  # behind the rows of Table 3


def multitask_reader_training(
    preset: Preset, seed: int, label: str, beside: list[str], question_prob: float
) -> Training:
    """Return a reader whose batches are questions with probability ``question_prob``, else of a task of ``beside``.

    It is selected by its questions, the first of its tasks.
    """
    tasks, dropout = (find_question_task(preset), *beside), preset.mtdnn.dropout
    probs = {tasks[0]: question_prob if beside else 1.0}
    probs |= {task: (1 - question_prob) / len(beside) for task in beside}
    if beside:
        label = f"{label}, weight {question_prob:g}"
    return Training(
        preset=preset,
        label=f"{label}, seed {seed}",
        seed=seed,
        model=MultiTaskModel(dropout=dropout, head_dropout=dict.fromkeys(tasks, dropout)),
        data=Tasks(tasks, tasks[:1], probs=probs),
        optim=preset.training,
        loss=task_loss,
    )


def group_tasks(preset: Preset) -> dict[str, list[str]]:
    """Group the tasks beside the questions by row of Table 2. Where all are of one kind, `BOTH` is their row."""
    tasks = {CHOICES: [], SENTENCES: []}
    for task in preset.tasks.tasks:
        tasks[CHOICES if choose_head(preset, task).kind == "choices" else SENTENCES].append(task)
    return {QA: [], **(tasks if all(tasks.values()) else {}), BOTH: [*tasks[CHOICES], *tasks[SENTENCES]]}


def name_row(prob: float) -> str:
    """Return the paper's name for a row of Table 1."""
    return f"QA({prob:g})+MCC+SC"


def list_probs(preset: Preset) -> list[float]:
    """List the probabilities of questions of Table 1, including that of the other tables."""
    return sorted({*preset.mtdnn.question_probs, preset.mtdnn.question_prob})


def row_trainings(preset: Preset, larger: Preset | None, seed: int) -> dict[str, Training]:
    """Return a seed's readers by row: Table 1 varies the probability, Table 2 the tasks, Table 3 the encoder."""
    beside = group_tasks(preset)

    def row(name: str, prob: float = preset.mtdnn.question_prob, preset: Preset = preset) -> Training:
        return multitask_reader_training(preset.for_seed(seed), seed, name, beside[name], prob)

    table1 = {name_row(prob): row(BOTH, prob) for prob in list_probs(preset)}
    table2 = {name: row(name) for name in beside}
    table3 = {f"{name}{LARGER}": row(name, preset=larger) for name in (QA, BOTH) if larger}
    return table1 | table2 | table3


class Answered(NamedTuple):
    """The best spans for a reader's test questions, and the threshold with the best F1 on its validation questions."""

    examples: list[Example]
    spans: list[SpanPrediction]
    limit: float

    def answers(self) -> list[str]:
        """Return the answers: "" where "no answer" scores above the best span by more than the threshold."""
        return metrics.answers_above(self.spans, self.limit)


def train_and_test(preset: Preset) -> Plan:
    """Train the readers of all tables and have them answer. Returns `Models`, and `Answered` by row and seed."""
    encoders = {"": preset.encoder} | ({LARGER: preset.mtdnn.large} if preset.mtdnn.large else {})
    encoded = {name: preset.model_copy(update={"encoder": encoder}) for name, encoder in encoders.items()}
    started = yield {name: shared.start_from_general(each) for name, each in encoded.items()}
    preset, larger = started[""], started.get(LARGER)
    models, task = Models(preset), find_question_task(preset)
    for seed in preset.seed_numbers:
        for row, model in row_trainings(preset, larger, seed).items():
            models.add(row, seed, {task: model})
    return models, (yield from answer_tests(models, task))


def answer_tests(models: Models, task: str) -> Plan:
    """Have readers answer the test questions of a task, with the threshold that is best on validation questions.

    Returns `Answered` by row and seed.
    """
    outputs = {
        (row, seed, split): predictions_of({task: members}, split, f"predictions of {row}, seed {seed}, {split}")
        for row, _, seed, members in models
        for split in ("valid", "test")
    }
    yield outputs.values()
    tested = {}
    for row, _, seed, (model,) in models:
        valid, test = (read_predictions(outputs[row, seed, split])[task] for split in ("valid", "test"))
        limit = threshold(model.preset, task, valid)  # section 3.1.5
        tested[row, seed] = Answered(examples_of(model.preset, task, "test"), test, limit)
    return tested
