"""One model of several tasks: what each task needs, the training, and the predictions of trained models.

A task is a task of the preset's section [tasks], or a domain of [data]: questions about passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoTokenizer

from helpers import metrics, texts
from helpers.batches import Batches, Epochs, Turn, bucketed, plan_steps, pooled
from helpers.data.load import fingerprint, load
from helpers.extractive_qa import answer, labels_of, likelihood, reader_facts, reading_settings, windows_of
from helpers.loop import Batch, training_device
from helpers.models.encoders import load_tokenizer, save_encoder
from helpers.models.multihead import Head, MultiTask, load_multitask, new_multitask, part_of, set_dropout
from helpers.presets.schema import DataSettings, Preset, TasksSettings, TrainingSettings
from helpers.sequences import Sequences, make_choices, make_pairs, tokenise_part
from helpers.task import Task
from helpers.training import Training


def is_reading(preset: Preset, task: str) -> bool:
    """Return whether a task is questions about passages."""
    return task not in preset.tasks.tasks


def section_of(preset: Preset, task: str) -> DataSettings | TasksSettings:
    return preset.data if is_reading(preset, task) else preset.tasks


def choose_head(preset: Preset, task: str) -> Head:
    if is_reading(preset, task):
        return Head("spans")
    loaded = load(preset.tasks, task)
    if loaded.kind == "choices":
        return Head("choices")
    return Head("labels", len(loaded.labels) or 1)


def examples_of(preset: Preset, task: str, part: str) -> list:
    """Return the examples of a part ("train", "valid", "test" or "unlabelled"); none where a task has no such part."""
    return getattr(load(section_of(preset, task), task), part, [])


@cache
def sequences_of(preset: Preset, task: str, part: str) -> Sequences:
    """Tokenise one part of a task, once per process."""
    if is_reading(preset, task):
        return windows_of(preset, [task], part)
    loaded = load(preset.tasks, task)
    make = make_choices if loaded.kind == "choices" else partial(make_pairs, scores=loaded.kind == "score")
    return tokenise_part(make, loaded, part, load_tokenizer(preset.encoder), preset.tasks.max_length)


def settings_of(preset: Preset, parts: Mapping[str, Sequence[str]]) -> dict:
    """Return what work on some parts of tasks depends on; on windows and answers only where a task is questions."""
    texts = {task: fingerprint(section_of(preset, task), task, *names) for task, names in parts.items()}
    questions = [task for task in parts if is_reading(preset, task)]
    common = {"texts": texts, "max_length": preset.tasks.max_length}
    return common | (reading_settings(preset, questions) if questions else {})


class Reply(NamedTuple):
    """The best span's text for a question, and by how much "no answer" scores above it."""

    best_text: str
    null_difference: float


Predicted = np.ndarray | list[Reply]  # by example: probabilities (E×C), scores (E), or replies to questions


def predict(preset: Preset, model: nn.Module, task: str, part: str) -> Predicted:
    """Predict a part of a task by the model of this task alone."""
    sequences = sequences_of(preset, task, part)
    if not is_reading(preset, task):
        return texts.predict(model, sequences, preset.training.precision)
    answers = answer(preset, [model], sequences, preset.data.may_be_unanswerable(task))
    return [Reply(prediction.best_text, float(prediction.null_difference)) for prediction in answers]


def threshold(preset: Preset, task: str, replies: list[Reply], part: str = "valid") -> float:
    """Choose the difference above which a question is left without an answer, by the F1 of a part.

    Returns infinity where every question has an answer. Source: He 2019, section 3.1.5.
    """
    if not preset.data.may_be_unanswerable(task):
        return np.inf
    return metrics.best_threshold(examples_of(preset, task, part), replies)


def answers_above(replies: list[Reply], limit: float) -> list[str]:
    """Return the answers to questions: "" where "no answer" scores above the best span by more than ``limit``."""
    return ["" if reply.null_difference > limit else reply.best_text for reply in replies]


def score(preset: Preset, task: str, part: str, predicted: Predicted) -> dict[str, float]:
    """Score predictions by the task's metrics, or EM and F1 of questions with the best threshold, in percent."""
    examples = examples_of(preset, task, part)
    if is_reading(preset, task):
        answers = answers_above(predicted, threshold(preset, task, predicted, part))
        return metrics.score(examples, answers, no_answer=preset.data.may_be_unanswerable(task)).means()
    values = metrics.label_scores(examples, predicted)
    return {metric: values[metric] for metric in load(preset.tasks, task).metrics}


def main_score(scores: Mapping[str, float]) -> float:
    """Return F1 of questions, or the mean of a task's metrics, as GLUE's score counts it."""
    return scores["f1"] if set(scores) == {"em", "f1"} else float(np.mean([*scores.values()]))


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiTaskTraining(Training):
    """The training of one encoder with a head per task.

    An epoch has the batches of all ``tasks`` in one shuffled order (Liu et al. 2019, Algorithm 1). The weights with the
    best mean score on the validation parts of ``selected_by`` are saved. With ``fresh`` the heads of the model
    ``start`` are replaced by new ones. ``changes`` replace values of the preset's section [training].
    """

    version = 3

    tasks: tuple[str, ...]
    selected_by: tuple[str, ...]
    dropout: float  # of the encoder
    head_dropout: dict[str, float]  # by task
    fresh: bool = False
    changes: dict[str, float] = field(default_factory=dict)

    @property
    def training(self) -> TrainingSettings:
        return self.preset.training.model_copy(update=self.changes)

    def settings(self) -> dict:
        parts = {task: [*self.parts(task), "valid"] for task in self.tasks}
        return super().settings() | settings_of(self.preset, parts)

    @cached_property
    def needs(self) -> list[Task]:
        """The tasks among the fields, and the label checks of questions."""
        return [*super().needs, *labels_of(self.preset, [task for task in self.tasks if is_reading(self.preset, task)])]

    def heads(self) -> dict[str, Head]:
        return {task: choose_head(self.preset, task) for task in self.tasks}

    def initial(self) -> MultiTask:
        if self.start and self.fresh:
            model = new_multitask(str(self.start.saved()), self.heads(), seed=self.seed)
        elif self.start:
            model = load_multitask(self.start.saved(), self.tasks)
        else:
            parts = [self.preset.windows if is_reading(self.preset, task) else self.preset.tasks for task in self.tasks]
            sizes = {"random_layers": self.preset.random_layers, "max_length": max(part.max_length for part in parts)}
            model = new_multitask(self.preset.encoder, self.heads(), seed=self.seed, **sizes)
        set_dropout(model, self.dropout, self.head_dropout)
        return model

    def parts(self, task: str) -> list[str]:
        """List the parts of a task to train on."""
        return ["train"]

    def batches(self) -> Batches:
        sequences, epochs = {}, {}
        for task in self.tasks:
            parts = [sequences_of(self.preset, task, part) for part in self.parts(task)]
            sequences[task], size = Sequences.concatenate(parts), self.training.batch_size
            epochs[task] = bucketed(sequences[task].lengths_W, batch_size=size, seed=self.seed)
        return Batches(sequences, plan_epochs(self.turns(epochs), self.training.epochs))

    def turns(self, epochs: Mapping[str, Epochs]) -> Iterator[list[Turn]]:
        """Order the batches of all tasks, epoch after epoch."""
        return pooled(epochs, seed=self.seed)

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        term = likelihood if is_reading(self.preset, batch["task"]) else texts.loss
        return term(output, batch, progress)

    def scores(self, model: MultiTask) -> dict[str, float]:
        predicted = {task: predict(self.preset, model.tasks[task], task, "valid") for task in self.selected_by}
        return {task: main_score(score(self.preset, task, "valid", values)) for task, values in predicted.items()}

    def config_facts(self) -> dict:
        return {"heads": {task: head._asdict() for task, head in self.heads().items()}}

    def load(self, task: str) -> nn.Module:
        """Load the trained model of one task in evaluation mode, on the device."""
        return load_multitask(self.saved(), [task]).to(training_device()).tasks[task]

    def null_threshold(self, task: str) -> float:
        """Choose the `threshold` of a trained model's answers by its replies to the validation questions of a task."""
        return threshold(self.preset, task, predict(self.preset, self.load(task), task, "valid"))

    def save_task(self, task: str, folder: Path, null_threshold: float) -> None:
        """Save the model of one task by itself, as transformers loads it, with its tokenizer.

        A reader leaves questions without an answer above ``null_threshold`` (`helpers.answering.TrainedReader`).
        """
        loaded = load(section_of(self.preset, task), task)
        model = part_of(load_multitask(self.saved(), [task]), task, getattr(loaded, "labels", ()))
        tokenizer = AutoTokenizer.from_pretrained(self.saved(), trust_remote_code=False)
        del model.config.heads  # which all tasks have together
        if is_reading(self.preset, task):
            limit = float(np.clip(null_threshold, -1e38, 1e38))  # JSON has no infinity
            model.config.update(reader_facts(self.preset, [task], limit))
        else:
            tokenizer.model_max_length = self.preset.tasks.max_length
        if getattr(loaded, "kind", "") == "score":
            model.config.problem_type = "regression"  # otherwise a pipeline takes the score for a probability
        save_encoder(model, tokenizer, folder)


def plan_epochs(epochs: Iterator[list[Turn]], number: float) -> list[Turn]:
    """Plan some epochs, the last one in part where ``number`` is not whole; at least one step."""
    planned = list(islice(epochs, ceil(number)))
    steps = sum(map(len, planned[: int(number)])) + (number % 1) * len(planned[-1])
    return plan_steps(planned, max(1, round(steps)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions(Task):
    """The predictions of trained models, given by task, for one part of the tasks.

    Several models of a task predict the mean of their probabilities or scores (Liu et al. 2019, Eq. 3).
    """

    models: dict[str, tuple[MultiTaskTraining, ...]]
    part: Literal["train", "valid", "test", "unlabelled"] = "test"

    def settings(self) -> dict:
        parts = {task: [self.part] for task in self.models}
        return settings_of(self.preset, parts) | {"precision": self.preset.training.precision}

    def work(self) -> dict:
        replies, means = {}, {}
        for task, models in self.models.items():
            predicted = [predict(self.preset, model.load(task), task, self.part) for model in models]
            if is_reading(self.preset, task):
                (replies[task],) = predicted  # replies of several models have no mean
            else:
                means[task] = torch.from_numpy(np.mean(predicted, axis=0))
        save_file(means, self.folder / "predictions.safetensors")
        return {"replies": replies}

    def values(self) -> dict[str, Predicted]:
        """Read the predictions by task. Raises DamagedFile."""
        stored = load_file(self.file("predictions.safetensors"))
        values: dict[str, Predicted] = {task: means.numpy() for task, means in stored.items()}
        values |= {task: [Reply(*reply) for reply in replies] for task, replies in self.result()["replies"].items()}
        return {task: values[task] for task in self.models}
