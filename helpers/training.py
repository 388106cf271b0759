"""The training of a model as a task: the model, what it reads, how it is optimised, its loss, teacher and start.

And what trained models give for examples: computed by one function, stored by one task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from helpers.batches import Batches
from helpers.data.load import identify_set, section_of
from helpers.loop import Batch, Loss, average_losses, batch_outputs, fit, training_device
from helpers.models.encoders import encoder_fingerprint, load_saved, load_tokenizer, save_encoder
from helpers.presets.schema import Preset, TrainingSettings
from helpers.sequences import Sequences, upload
from helpers.task import Task, with_needs

CHECKPOINT = "checkpoint.pt"  # of a long training, in its folder


class Data(Protocol):
    """The examples of a training: which sets, mixed how, in which order.

    ``names`` are domains or tasks, ``selected_by`` those whose validation scores select the weights (none: the last).
    """

    names: tuple[str, ...]
    selected_by: tuple[str, ...]

    def settings(self, preset: Preset) -> dict:
        """Return what the examples and their tokens depend on."""

    def checks(self, preset: Preset) -> list[Task]:
        """Return the tasks that check the examples before a training reads them."""

    def steps(self, preset: Preset, optim: TrainingSettings, exact: bool = True) -> int:
        """Count the steps, without ``exact`` as far as they are known before anything is tokenised."""

    def batches(self, preset: Preset, optim: TrainingSettings, seed: int) -> Batches:
        """Plan the batches of all steps."""

    def scores(self, preset: Preset, model: nn.Module) -> dict[str, float]:
        """Score a model on the validation examples of each of ``selected_by``."""

    def facts(self, preset: Preset) -> dict:
        """Return what the configuration of the trained model records."""


@dataclass(frozen=True)
class Model:
    """A kind of model. This one is a pretrained encoder with a ``head`` (`helpers.models.encoders.load_encoder`)."""

    head: str = "spans"

    def settings(self, preset: Preset) -> dict:
        """Return what a new model depends on besides the fields."""
        return {"encoder": encoder_fingerprint(preset.encoder), "random_layers": preset.random_layers}

    def build(self, training: Training) -> nn.Module:
        """Make the model that is trained, new or from the training's start."""
        raise NotImplementedError

    def trained(self, model: nn.Module) -> nn.Module:
        """Return the part of the model in training that is saved and makes predictions."""
        return model

    def details(self, training: Training, model: nn.Module) -> dict:
        """Return what a validation records besides the scores."""
        return {}

    def save(self, model: nn.Module, training: Training) -> None:
        """Save the model in Hugging Face format, with what only its training needs beside it."""
        save_encoder(self.trained(model), load_tokenizer(training.preset.encoder), training.folder / "model")

    def load(self, training: Training, head: str = "") -> nn.Module:
        """Load the trained model in evaluation mode, on the device. ``head`` chooses where it has several."""
        return load_saved(training.saved(), self.head).to(training_device())


class Teacher(Protocol):
    """What a training learns from besides labels: anything with ``add_to(batches, training)``. It may hold tasks.

    There are `DomainTeachers` (IMM), `EnsembleTargets` (A2D), `LayerTeacher` and `TextWeights` (HRKD), `SoftTargets`
    (MT-DNN with distillation) and `StoredTeachers` (any reader, for your domains).
    """

    def add_to(self, batches: Batches, training: Training) -> None:
        """Append to ``batches.teachers`` a function from a batch to tensors by names that begin with "teacher_"."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Training(Task):
    """The training of a ``model`` on ``data`` by a ``loss``, taught by a ``teacher``, from the model of ``start``.

    The result depends on the fields and on `settings`, on the preset only by these. ``optim`` are the settings of the
    optimisation. ``do()`` trains, unless that is done, ``result()`` and ``load()`` read what came out. The result has
    ``best``, the best validation score, ``validation``, all of them with their steps, ``losses`` (`average_losses`),
    ``steps`` and ``seconds``. The number of steps is no field: it follows from data and settings.
    """

    version = 4
    unhashed = (*Task.unhashed, "optim")  # the settings have it, without what changes no weight

    seed: int
    model: Model
    data: Data
    optim: TrainingSettings
    loss: Loss
    teacher: Teacher | None = None
    start: Training | None = None

    @property
    def stem(self) -> str:
        names = self.data.names
        read = (
            f"{len(names)}-{type(self.data).__name__}" if len(names) > 2 else re.sub(r"[^\w.]+", "-", "-".join(names))
        )
        return f"{type(self.model).__name__}-{read}-seed{self.seed}"

    def settings(self) -> dict:
        optim = self.optim.model_dump(exclude={"checkpoint_minutes"})
        return {"optim": optim, **self.model.settings(self.preset), **self.data.settings(self.preset)}

    @cached_property
    def needs(self) -> list[Task]:
        """The tasks among the fields, and the checks of the examples."""
        return [*super().needs, *self.data.checks(self.preset)]

    def estimate_steps(self) -> int:
        """Estimate the steps as if each question were one window."""
        return self.data.steps(self.preset, self.optim, exact=False)

    def build(self) -> nn.Module:
        """Make the model as it is before the first step."""
        return self.model.build(self)

    def batches(self) -> Batches:
        """Plan the batches, with the teacher's outputs."""
        batches = self.data.batches(self.preset, self.optim, self.seed)
        if self.teacher:
            self.teacher.add_to(batches, self)
        return batches

    def validate(self, model: nn.Module) -> tuple[float, dict]:
        """Average the scores on validation examples, which select the weights; return them too."""
        scores = self.data.scores(self.preset, self.model.trained(model.eval()))
        return float(np.mean([*scores.values()])), {"scores": scores, **self.model.details(self, model)}

    def work(self) -> dict:
        """Train. A killed training goes on from its checkpoint."""
        model = self.build()
        validate = self.validate if self.data.selected_by else None
        options = {"checkpoint": self.folder / CHECKPOINT, "label": self.label, "graphs": self.preset.engine.graphs}
        fitted = fit(model, self.batches(), self.loss, self.optim, seed=self.seed, validate=validate, **options)
        trained = self.model.trained(model.eval())
        trained.config.update(self.data.facts(self.preset))
        self.model.save(model, self)
        (self.folder / CHECKPOINT).unlink(missing_ok=True)
        return {
            "best": fitted.best_score,
            "validation": fitted.history,
            "losses": average_losses(fitted.losses),
            "steps": fitted.steps,
            "seconds": fitted.seconds,
            "parameters": sum(weight.numel() for weight in trained.parameters() if weight.requires_grad),
        }

    @property
    def best(self) -> float:
        """The best validation score."""
        return self.result()["best"]

    def best_scores(self) -> dict[str, float]:
        """Read the validation score of each domain or task where their mean was best; {} where none was validated."""
        history = self.result()["validation"]
        return max(history, key=lambda point: point[1])[2]["scores"] if history else {}

    def saved(self) -> Path:
        """Locate the trained model's folder. Raises DamagedFile where its weights are not as they were written."""
        return self.file("model")

    def load(self, head: str = "") -> nn.Module:
        """Load the trained model in evaluation mode, on the device. ``head`` chooses where it has several."""
        return self.model.load(self, head)


def trainings_of(*tasks: Task) -> list[Training]:
    """List the distinct trainings among tasks and all that they need, first ones first."""
    return [task for task in with_needs(tasks).values() if isinstance(task, Training)]


# --- what trained models give for examples ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Logits:
    """A reader's logits of all windows' real tokens, flat float32 arrays: ``lengths_W`` of each, in window order.

    ``attention`` is that of each passage token over the question's, flat: passage × question of each window.
    """

    start: np.ndarray
    end: np.ndarray
    attention: np.ndarray | None = None


def predict(
    model: nn.Module, sequences: Sequences, precision: str = "auto", *, batch_size: int = 64, attention: bool = False
) -> Logits | np.ndarray:
    """Return what a model predicts for all sequences, in their order, float32.

    A reader gives `Logits`, with ``attention`` where it keeps it (`helpers.models.attention.keep_attention`). Other
    models give the probabilities of the classes or choices (E×N), or scores (E) from a single output. Raises ValueError
    where the model is not in evaluation mode.
    """
    batches = batch_outputs(model, sequences, batch_size=batch_size, precision=precision)
    if "start" in sequences.labels:
        return _collect_logits(sequences, batches, attention)
    numbers, values = [], []
    for index, _, output in batches:
        logits = output.logits.float()
        numbers.append(index)
        values.append((logits[:, 0] if logits.shape[1] == 1 else logits.softmax(1)).cpu())
    return join_in_order(numbers, values)


def join_in_order(numbers: list[np.ndarray], values: list[Tensor]) -> np.ndarray:
    """Join the values of batches in the order of the sequences' ``numbers``."""
    return torch.cat(values).numpy()[np.argsort(np.concatenate(numbers))]


def _collect_logits(windows: Sequences, batches, attention: bool) -> Logits:
    sides = np.empty((2, windows.lengths_W.sum()), np.float32)
    blocks: list[np.ndarray] = [np.empty(0)] * len(windows) * attention
    for index, _, output in batches:
        rows = torch.stack([output.start_logits, output.end_logits], 1).float().cpu().numpy()
        for row, window in enumerate(index):
            place, length = windows.offsets_W[window], windows.lengths_W[window]
            sides[:, place : place + length] = rows[row, :, :length]
            if attention:
                block = output.attention[row, : windows.passage_len_W[window], : windows.question_len_W[window]]
                blocks[window] = block.float().cpu().numpy().ravel()
    return Logits(*sides, np.concatenate(blocks) if attention else None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outputs(Task):
    """What trained models give for sets of examples, for a table or as a teacher's outputs.

    ``models`` has the models that are asked by set (`helpers.data.load.load_set`); several of a set are an ensemble.
    ``compute`` takes these outputs, and options where it is a partial function. It returns the result as JSON has it,
    and tensors by name, which are stored beside it.
    """

    models: dict[str, tuple[Training, ...]]
    compute: Callable[[Outputs], tuple[dict, dict[str, Tensor]]]

    @property
    def sets(self) -> list[str]:
        """The names of the sets."""
        return list(self.models)

    @property
    def stem(self) -> str:
        return "".join(word.capitalize() for word in getattr(self.compute, "func", self.compute).__name__.split("_"))

    def settings(self) -> dict:
        """Return what the outputs depend on: the examples, how they are cut into tokens, and the precision."""
        cuts = {section: self._cut_of(section) for section in sorted(map(section_of, self.models))}
        examples = {name: identify_set(self.preset, name) for name in self.models}
        return {"examples": examples, "cut": cuts, "precision": self.preset.training.precision}

    def _cut_of(self, section: str) -> dict:
        if section != "data":
            return {"max_length": getattr(self.preset, section).max_length}
        return self.preset.model_dump(include={"windows", "answers"})

    def work(self) -> dict:
        result, tensors = self.compute(self)
        save_file(tensors, self.folder / "outputs.safetensors")
        return result

    def tensors(self) -> dict[str, Tensor]:
        """Read the stored tensors by name, or compute them again where they were deleted. Raises DamagedFile."""
        return self.compute(self)[1] if self.is_freed() else load_file(self.file("outputs.safetensors"))


# --- a teacher's outputs for a batch --------------------------------------------------------------------------------


@dataclass
class StoredTeacher:
    """Outputs of a teacher for some sequences, kept on the host.

    ``of_tokens`` holds one value per real token, all sequences' one after another (B×L in a batch), and ``of_pairs``
    one per passage token and question token, all of a passage token's together (B×P×Q), padded with 0. A batch has
    them behind "teacher_", on its device.
    """

    sequences: Sequences
    of_tokens: Mapping[str, Tensor] = field(default_factory=dict)
    of_pairs: Mapping[str, Tensor] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        index, ids = batch["window"].numpy(), batch["input_ids"]
        windows = self.sequences
        tokens, passage, question = windows.lengths_W, windows.passage_len_W, windows.question_len_W
        values = {}
        for name, flat in self.of_tokens.items():
            values[name] = pad_tables(flat, tokens, np.ones_like(tokens), index, (ids.shape[1], 1))[..., 0]
        for name, flat in self.of_pairs.items():
            shape = max(1, passage[index].max()), max(1, question[index].max())
            values[name] = pad_tables(flat, passage, question, index, shape)
        return {f"teacher_{name}": upload(value, ids.device) for name, value in values.items()}


def pad_tables(flat: Tensor, rows_W: np.ndarray, columns_W: np.ndarray, index: np.ndarray, shape: tuple) -> Tensor:
    """Return the tables ``index`` as B×N×M, N×M being ``shape``, padded with 0.

    ``flat`` has all W tables one after another, row after row; table w is ``rows_W[w]`` × ``columns_W[w]``.
    """
    sizes = rows_W.astype(np.int64) * columns_W
    starts = np.cumsum(sizes) - sizes
    start, rows, columns = (values[index][:, None, None] for values in (starts, rows_W, columns_W))
    row, column = np.arange(shape[0])[:, None], np.arange(shape[1])
    is_real = (row < rows) & (column < columns)
    place = np.where(is_real, start + row * columns + column, 0)
    return torch.where(torch.from_numpy(is_real), flat[torch.from_numpy(place)], 0)
