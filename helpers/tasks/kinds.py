"""What a model of several tasks needs of each, whatever is asked for: its sequences, its head, its loss, its score.

A task is one of the preset's section [tasks], or a domain of [data]: questions about passages.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from torch import nn

from helpers.batches.sequences import Sequences, make_choices, make_pairs
from helpers.data import domains, sections
from helpers.data.examples import DataError, Task
from helpers.data.tasks import load_task
from helpers.models.multitask import Head
from helpers.models.pretrained import load_tokenizer
from helpers.presets.schema import Preset, TasksSettings
from helpers.tasks import labels, metrics, spans
from helpers.training.loop import Loss

# The endings of a choice are what classes are to a text.
LOSSES: Mapping[str, Loss] = {"spans": spans.loss, "labels": labels.loss, "choices": labels.loss}
# A note on results with questions that may have no answer.
THRESHOLD = "a question has no answer where that is likelier by more than a threshold that was chosen on validation"


def is_reading(preset: Preset, name: str) -> bool:
    """Whether a task is questions about passages. Raises DataError for a name that is none."""
    if name not in preset.tasks.tasks and name not in preset.data.domains:
        raise DataError(
            f"there is no task {name!r}; there are {', '.join([*preset.tasks.tasks, *preset.data.domains])}"
        )
    return name not in preset.tasks.tasks


def task_of(preset: Preset, name: str) -> Task:
    """A task of the section [tasks]."""
    return load_task(preset.tasks, name)


def head_of(preset: Preset, name: str, san: bool = False) -> Head:
    """The head that a task needs; with ``san`` that of pairs of texts is a stochastic answer network."""
    if is_reading(preset, name):
        return Head("spans")
    task = task_of(preset, name)
    if task.kind == "choices":
        return Head("choices")
    return Head("labels", len(task.labels) or 1, san and task.kind == "labels" and task.train[0].second is not None)


def examples_of(preset: Preset, name: str, part: str) -> list:
    """The examples of a part; none where there is no such part."""
    source = domains.load_one(preset.data, name) if is_reading(preset, name) else task_of(preset, name)
    return getattr(source, part, [])


def sequences_of(preset: Preset, name: str, part: str) -> Sequences:
    """A part ("train", "valid", "test", or "unlabelled") of a task, tokenised once a process."""
    if is_reading(preset, name):
        return spans.windows_of(preset, [name], part)
    return _sequences(preset.tasks, preset.encoder, name, part)


@cache
def _sequences(tasks: TasksSettings, encoder: str, name: str, part: str) -> Sequences:
    task = load_task(tasks, name)
    make = make_choices if task.kind == "choices" else partial(make_pairs, scores=task.kind == "score")
    return make(getattr(task, part), load_tokenizer(encoder), tasks.max_length)


def longest(preset: Preset, name: str, parts: Iterable[str]) -> int:
    """The most tokens that a model of a task reads at once, of some parts."""
    if is_reading(preset, name):
        return preset.windows.max_length
    return max(int(sequences_of(preset, name, part).lengths_W.max(initial=0)) for part in parts)


def sequences_over(preset: Preset, name: str, parts: Sequence[str]) -> Sequences:
    """Several parts of a task, one after another."""
    return Sequences.concatenate([sequences_of(preset, name, part) for part in parts])


def fingerprint(preset: Preset, name: str, *parts: str) -> str:
    """Names the exact examples of parts of a task."""
    return sections.fingerprint(preset.data if is_reading(preset, name) else preset.tasks, name, *parts)


class Reply(NamedTuple):
    """The best span's text for a question, and how much likelier it is that there is no answer."""

    best_text: str
    null_difference: float


Predicted = np.ndarray | list[Reply]  # by example: probabilities (E×C) or scores (E), or replies to questions


def predict(preset: Preset, model: nn.Module, name: str, part: str) -> Predicted:
    """What a model of this task alone says of a part."""
    sequences, precision = sequences_of(preset, name, part), preset.training.precision
    if not is_reading(preset, name):
        return labels.predict(model, sequences, precision)
    said = spans.answers(preset, model, sequences, preset.data.may_be_unanswerable(name))
    return [Reply(prediction.best_text, prediction.null_difference) for prediction in said]


def threshold(preset: Preset, name: str, replies: list[Reply], part: str = "valid") -> float:
    """The difference above which a question is best left without an answer, by a part's F1 (He 2019, section 3.1.5);
    infinite where all questions have one."""
    if not preset.data.may_be_unanswerable(name):
        return np.inf
    return metrics.best_threshold(examples_of(preset, name, part), replies)[0]


def answers(replies: list[Reply], limit: float) -> list[str]:
    """The answers to questions: none ("") above the threshold ``limit``."""
    return ["" if reply.null_difference > limit else reply.best_text for reply in replies]


def score(preset: Preset, name: str, part: str, predicted: Predicted) -> dict[str, float]:
    """What a part is scored by, in percent: the task's own metrics, or EM and F1 of questions, which are left without
    an answer above the threshold that suits the part best."""
    examples = examples_of(preset, name, part)
    if not is_reading(preset, name):
        values = labels.score(examples, predicted)
        return {metric: values[metric] for metric in task_of(preset, name).metrics}
    said = answers(predicted, threshold(preset, name, predicted, part))
    return metrics.score(examples, said, no_answer=preset.data.may_be_unanswerable(name)).means()


def example_scores(
    preset: Preset, name: str, part: str, predicted: Predicted, limit: float = np.inf
) -> list[float] | None:
    """What every example of a part scores, in percent, where a task's main score is their mean, else None. Questions
    are left without an answer above the threshold ``limit``."""
    examples = examples_of(preset, name, part)
    if is_reading(preset, name):
        may = preset.data.may_be_unanswerable(name)
        return list(metrics.score(examples, answers(predicted, limit), no_answer=may).f1)
    if task_of(preset, name).metrics != ("accuracy",):
        return None
    return [100.0 * (said == text.label) for said, text in zip(predicted.argmax(1).tolist(), examples, strict=True)]


def main_score(preset: Preset, name: str, values: Mapping[str, float]) -> float:
    """The number that stands for a task: the mean of its metrics, as GLUE's score has it; F1 of questions."""
    return values["f1"] if is_reading(preset, name) else float(np.mean([*values.values()]))
