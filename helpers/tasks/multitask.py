"""The cached work of models of several tasks: their training, alone or by teachers, and what they predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, Self

import exca
import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from helpers.batches.plans import TaskBatches, Turn, bucketed, plan_steps, pooled, weighted
from helpers.batches.sequences import Sequences
from helpers.batches.tensors import SequenceTensors
from helpers.data.formats.folders import PARTS
from helpers.models.multitask import MultiTask, load_multitask, new_multitask, set_dropout
from helpers.models.pretrained import encoder_fingerprint
from helpers.presets.schema import Preset
from helpers.tasks import kinds
from helpers.tasks.kinds import Predicted
from helpers.training.cached import Cached, CachedTraining, load_outputs
from helpers.training.checkpoints import save_tensors
from helpers.training.loop import Batch, Loss, training_device
from helpers.training.losses import mean, soft_label_cross_entropy
from helpers.training.teachers import StoredTeacher

FILE = "predictions.safetensors"


class MultiTaskTraining(CachedTraining):
    """A training on some tasks, with a head each over one encoder.

    By ``weights`` the next batch's task is drawn, until the task ``epoch_of`` has gone through its own; without, the
    batches of all tasks are shuffled together. A task's ``teachers`` are models whose mean probabilities count for
    ``soft`` of its loss. The training goes on from the model ``start``, if there is one, with new heads where they are
    to be ``fresh``. It is selected by the mean score of the tasks ``selected_by``.
    """

    tasks: list[str]
    selected_by: list[str]
    dropout: float | None = None  # of the encoder; None: its own
    head_dropout: dict[str, float]  # by task
    san: bool = False  # whether pairs of texts have a stochastic answer network as their head
    weights: dict[str, float] = Field(default_factory=dict)
    epoch_of: str = ""
    teachers: dict[str, list[str]] = Field(default_factory=dict)  # task -> keys
    soft: float = 0.5
    unlabelled: bool = False  # whether a task with teachers trains on texts without a label too
    fresh: bool = False
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select, save; returns the best validation score, all of them, steps, seconds and the digest of the
        weights."""
        model = self.initial()
        set_dropout(model, self.dropout, self.head_dropout)
        loss = task_loss({task: head.kind for task, head in self.heads().items()}, self.soft)
        done = self.train(model, self.batches(), loss, self.validate)
        return self.keep(model, done, {"heads": {task: head._asdict() for task, head in self.heads().items()}})

    def parents(self) -> list[str]:
        """The keys of the model it starts from and of its teachers."""
        return [*super().parents(), *(key for keys in self.teachers.values() for key in keys)]

    def builds_on(self) -> list[str]:
        """The keys of its parents, and of what its teachers predict."""
        return [*super().builds_on(), *(said.key for said in self._said().values())]

    def heads(self) -> dict[str, kinds.Head]:
        """What its tasks' heads give."""
        return {task: kinds.head_of(self.preset, task, self.san) for task in self.tasks}

    def initial(self) -> MultiTask:
        """The model as its training begins."""
        if self.start:
            kept, fresh = ((), self.heads()) if self.fresh else (self.tasks, None)
            return load_multitask(self.folder_of(self.start), kept, fresh, self.seed)
        longest = max(kinds.longest(self.preset, task, {*PARTS, *self.parts(task)}) for task in self.tasks)
        sizes = {"random_layers": self.preset.random_layers, "max_length": longest}
        return new_multitask(self.preset.encoder, self.heads(), seed=self.seed, **sizes)

    def parts(self, task: str) -> list[str]:
        """The parts of a task that it trains on."""
        return parts_of(self.preset, task, self.unlabelled and task in self.teachers)

    def sequences(self) -> dict[str, Sequences]:
        """What it trains on, by task."""
        return {task: kinds.sequences_over(self.preset, task, self.parts(task)) for task in self.tasks}

    def batches(self) -> TaskBatches:
        """Its training batches, with what the teachers say of them (Eq. 3)."""
        known, size = self.sequences(), self.settings["training"]["batch_size"]
        turns = turns_of(known, size, self.seed, self.weights, self.epoch_of)
        tensors = {task: SequenceTensors(sequences, training_device()) for task, sequences in known.items()}
        said = {part: predictions.values() for part, predictions in self._said().items()}
        teachers = {}
        for task in self.teachers:
            probabilities = np.concatenate([said[part][task] for part in self.parts(task)])
            stored = {"probabilities": torch.from_numpy(probabilities)}
            teachers[task] = [StoredTeacher(tensors[task], stored)]
        return TaskBatches(tensors, plan_steps(turns, self.steps), teachers)

    def _said(self) -> dict[str, Predictions]:
        parts = sorted({part for task in self.teachers for part in self.parts(task)})
        return {part: Predictions.of(self.preset, self.teachers, part) for part in parts}

    def validate(self, model: MultiTask) -> tuple[float, dict]:
        """The mean of the scores by which it is selected, and each task's."""
        model.eval()
        scores = {}
        for task in self.selected_by:
            said = kinds.predict(self.preset, model.tasks[task], task, "valid")
            scores[task] = kinds.main_score(self.preset, task, kinds.score(self.preset, task, "valid", said))
        return float(np.mean([*scores.values()])), {"tasks": scores}

    def best(self) -> dict[str, float]:
        """Each task's validation score where the mean was best."""
        return max(self.result()["validation"], key=lambda point: point[1])[2]["tasks"]

    def windows_read(self) -> int:
        """Its validation sequences, at every evaluation."""
        known = (kinds.sequences_of(self.preset, task, "valid") for task in self.selected_by)
        return self.preset.training.evaluations * sum(map(len, known))


class Predictions(Cached):
    """What trained models predict of a part of some tasks; a task's several models together, as the mean of their
    probabilities or scores (Liu et al. 2019, Eq. 3)."""

    models: dict[str, list[str]]  # task -> keys
    texts: dict[str, str]  # task -> fingerprint of the part
    part: Literal["train", "valid", "test", "unlabelled"] = "test"
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @classmethod
    def of(cls, preset: Preset, models: Mapping[str, Sequence[str]], part: str = "test", label: str = "") -> Self:
        """What models, by task and key, predict of a part of each task; of those tasks that have this part."""
        asked = {task: list(keys) for task, keys in models.items() if kinds.examples_of(preset, task, part)}
        texts = {task: kinds.fingerprint(preset, task, part) for task in asked}
        return cls(preset=preset, label=f"predictions of {label or part}", models=asked, texts=texts, part=part)

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Predict and store; returns the replies to questions, by task. Raises ValueError where several models are to
        answer questions together."""
        replies, means = {}, {}
        for task, keys in self.models.items():
            said = [self._predict(key, task) for key in keys]
            if not kinds.is_reading(self.preset, task):
                means[task] = torch.from_numpy(np.mean(said, axis=0))
            elif len(said) > 1:
                raise ValueError("the replies of several models to questions have no mean")
            else:
                replies[task] = said[0]
        facts = {"teacher": self.key, "windows": repr(self.texts)}
        save_tensors(self.infra.uid_folder(create=True) / FILE, means, facts, "predictions")
        return replies

    def _predict(self, key: str, task: str) -> Predicted:
        model = load_multitask(self.folder_of(key), [task]).to(training_device())
        return kinds.predict(self.preset, model.tasks[task], task, self.part)

    def builds_on(self) -> list[str]:
        """The keys of its models."""
        return [key for keys in self.models.values() for key in keys]

    def values(self) -> dict[str, Predicted]:
        """What was predicted, by task, stored by then. Raises DamagedFile."""
        stored = load_outputs(self.infra.uid_folder() / FILE, self.key, repr(self.texts))
        return self.result() | {task: means.numpy() for task, means in stored.items()}

    def windows_read(self) -> int:
        """The sequences of the part, once a model."""
        known = {task: len(kinds.sequences_of(self.preset, task, self.part)) for task in self.models}
        return sum(known[task] * len(keys) for task, keys in self.models.items())


def task_loss(kind_of: Mapping[str, str], soft: float) -> Loss:
    """The loss of a batch's task (Liu et al. 2019, Eq. 2); where teachers have ``probabilities`` of its classes, a
    weighted mean of it and the cross-entropy with these (Eq. 4), of which ``soft`` is the second one's weight. Texts
    without a label count by their probabilities alone."""

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        terms = kinds.LOSSES[kind_of[batch["task"]]](output, batch, progress)
        if "teacher_probabilities" not in batch:
            return terms
        label_B, said = batch["label"], batch["teacher_probabilities"]
        if said.dim() == 1:
            is_labelled_B, soft_B = ~label_B.isnan(), (output.logits[:, 0].float() - said).square()
        else:
            is_labelled_B, soft_B = label_B >= 0, soft_label_cross_entropy(output.logits, said)
        weight_B = torch.where(is_labelled_B, soft, 1.0)
        return {"label": (1 - soft) * terms["label"], "soft": mean(soft_B, weight_B)}

    return loss


def parts_of(preset: Preset, task: str, unlabelled: bool) -> list[str]:
    """The parts of a task to train on: with texts without a label too, where that is asked for and there are some."""
    return ["train", *["unlabelled"] * bool(unlabelled and kinds.examples_of(preset, task, "unlabelled"))]


def settings_of(preset: Preset, parts: Mapping[str, Sequence[str]], training: Mapping[str, object]) -> dict:
    """What a training on some parts of tasks depends on besides its seed, its steps and what it starts from; on windows
    and answers only where some tasks are questions. ``training`` is changed of the section [training]."""
    questions = [task for task in parts if kinds.is_reading(preset, task)]
    reading = {
        "windows": preset.windows.model_dump(),
        "answers": preset.answers.model_dump(),
        "unanswerable": [task for task in questions if preset.data.may_be_unanswerable(task)],
    }
    return {
        "encoder": encoder_fingerprint(preset.encoder),
        "random_layers": preset.random_layers,
        "texts": {task: kinds.fingerprint(preset, task, *known, "valid") for task, known in parts.items()},
        "max_length": preset.tasks.max_length,
        "training": preset.training.model_dump(exclude={"epochs", "checkpoint_minutes"}) | dict(training),
        **(reading if questions else {}),
    }


def turns_of(
    sequences: Mapping[str, Sequences],
    batch_size: int,
    seed: int,
    weights: Mapping[str, float] | None = None,
    epoch_of: str = "",
) -> Iterator[list[Turn]]:
    """The batches of every epoch over tasks, each of one task: all of them in one shuffled order, or drawn by
    ``weights`` until the task ``epoch_of`` has gone through its own."""
    epochs = {task: bucketed(known.lengths_W, batch_size=batch_size, seed=seed) for task, known in sequences.items()}
    if weights:
        return weighted(epochs, weights, epoch_of=epoch_of, seed=seed)
    return pooled(epochs, seed=seed)


def steps_of(epochs: Iterator[list], number: float) -> int:
    """The steps of so many epochs, of which the last need not be a whole one; at least one."""
    lengths = [len(epoch) for epoch in islice(epochs, int(np.ceil(number)))]
    return max(1, round(sum(lengths[: int(number)]) + (number % 1) * lengths[-1]))
