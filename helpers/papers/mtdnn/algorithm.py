"""Readers that train on other tasks by weighted batch selection (He 2019, section 3)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from helpers.batches import Epochs, Turn, weighted
from helpers.data.examples import Example
from helpers.engine import Plan
from helpers.multitask import MultiTaskTraining, Reply, answers_above, choose_head, examples_of, threshold
from helpers.papers import shared
from helpers.papers.mtdnn import find_question_task
from helpers.papers.shared import Models
from helpers.presets.schema import Preset

QA, CHOICES, SENTENCES, BOTH = "QA", "QA+MCC", "QA+SC", "QA+MCC+SC"  # multiple choice, sentence classification
LARGER = ", larger"  # behind the rows of Table 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Reader(MultiTaskTraining):
    """The training of a reader by weighted stochastic batch selection (section 3.3; Algorithm 1 of the appendix).

    The task of the next batch is drawn with probability weight / sum of ``weights``. An epoch ends with the questions,
    the first of ``tasks``. Their batches come in the same order whatever other tasks there are.
    """

    weights: dict[str, float]  # by task

    def turns(self, epochs: Mapping[str, Epochs]) -> Iterator[list[Turn]]:
        return weighted(epochs, self.weights, epoch_of=self.tasks[0], seed=self.seed)


def name_reader(preset: Preset, seed: int, label: str, beside: list[str], weight: float) -> Reader:
    """Name a reader whose batches are questions with probability ``weight``, else one of the tasks ``beside``.

    It is selected by its questions.
    """
    tasks, dropout = (find_question_task(preset), *beside), preset.mtdnn.dropout
    parts = {"seed": seed, "tasks": tasks, "selected_by": tasks[:1]}
    parts |= {"dropout": dropout, "head_dropout": dict.fromkeys(tasks, dropout)}
    parts["weights"] = {tasks[0]: weight if beside else 1.0} | {task: (1 - weight) / len(beside) for task in beside}
    if beside:
        label = f"{label}, weight {weight:g}"
    return Reader(preset=preset, label=f"{label}, seed {seed}", **parts)


def group_tasks(preset: Preset) -> dict[str, list[str]]:
    """Group the tasks beside the questions by row of Table 2. Where all are of one kind, `BOTH` is their row."""
    tasks = {CHOICES: [], SENTENCES: []}
    for task in preset.tasks.tasks:
        tasks[CHOICES if choose_head(preset, task).kind == "choices" else SENTENCES].append(task)
    return {QA: [], **(tasks if all(tasks.values()) else {}), BOTH: [*tasks[CHOICES], *tasks[SENTENCES]]}


def name_row(weight: float) -> str:
    """Return the paper's name for a row of Table 1."""
    return f"QA({weight:g})+MCC+SC"


def list_weights(preset: Preset) -> list[float]:
    """List the weights of Table 1, including the weight of the other tables."""
    return sorted({*preset.mtdnn.weights, preset.mtdnn.weight})


def name_rows(preset: Preset, larger: Preset | None, seed: int) -> dict[str, Reader]:
    """Name the readers of a seed: Table 1 varies the weight, Table 2 the tasks, Table 3 has ``larger``'s encoder."""
    beside = group_tasks(preset)

    def row(name: str, weight: float = preset.mtdnn.weight, preset: Preset = preset) -> Reader:
        return name_reader(preset.drawn(seed), seed, name, beside[name], weight)

    table1 = {name_row(weight): row(BOTH, weight) for weight in list_weights(preset)}
    table2 = {name: row(name) for name in beside}
    table3 = {f"{name}{LARGER}": row(name, preset=larger) for name in (QA, BOTH) if larger}
    return table1 | table2 | table3


class Replies(NamedTuple):
    """A reader's replies to its test questions, and the threshold with the best F1 on its validation questions."""

    examples: list[Example]
    replies: list[Reply]
    limit: float

    def answers(self) -> list[str]:
        """Return the answers: "" where "no answer" scores above the best span by more than the threshold."""
        return answers_above(self.replies, self.limit)


def test_readers(preset: Preset) -> Plan:
    """Train the readers of all tables and have them reply. Returns `Models`, and `Replies` by row and seed."""
    encoders = {"": preset.encoder} | ({LARGER: preset.mtdnn.large} if preset.mtdnn.large else {})
    encoded = {name: preset.model_copy(update={"encoder": encoder}) for name, encoder in encoders.items()}
    started = yield {name: shared.start_from_general(each) for name, each in encoded.items()}
    preset, larger = started[""], started.get(LARGER)
    models, tested, task = Models(preset), {}, find_question_task(preset)
    for seed in range(preset.seeds):
        for row, model in name_rows(preset, larger, seed).items():
            models.add(row, seed, {task: model})
    predictions = yield {part: shared.predict_part(models, part) for part in ("valid", "test")}
    for cell, predicted in predictions["test"].items():
        limit = threshold(predicted.preset, task, predictions["valid"][cell].values()[task])  # section 3.1.5
        tested[cell] = Replies(examples_of(predicted.preset, task, "test"), predicted.values()[task], limit)
    return models, tested
