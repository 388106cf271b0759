"""Texts with a label and choices, of domains or of tasks: losses, predictions, scores, and what models train on.

A label is a class, or a score where the model has a single output; the endings of a multiple choice count as classes.
A task is one of the preset's section [tasks], or a domain of [data]: questions about passages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer

from helpers import metrics
from helpers.answering import calibrated_facts
from helpers.batches import Batches, Turn, bucketed, plan_steps
from helpers.data.examples import Choice, DataError, Pair
from helpers.data.load import fingerprint_examples, label_names, load, section_of
from helpers.extractive_qa import (
    answer,
    labels_of,
    likelihood,
    reading_settings,
    warn_of_probabilities,
    weighted_mean,
    windows_of,
)
from helpers.loop import Batch, Loss, training_device
from helpers.mixtures import mix_by_size, mix_by_weight, per_domain
from helpers.models.encoders import load_encoder, load_saved, load_tokenizer, save_encoder
from helpers.models.multihead import Head, MultiHead, copy_domain, copy_task, load_multihead, new_multihead, set_dropout
from helpers.pairs import make_choices, make_pairs
from helpers.presets.schema import DatasetSettings, Preset, TextsSettings, TrainingSettings
from helpers.sequences import Sequences, note_unknown
from helpers.task import Task
from helpers.training import Model, Outputs, Training, predict

# --- losses ---------------------------------------------------------------------------------------------------------


def check_probabilities(values: Tensor, mask: Tensor | None = None) -> None:
    """Raise ValueError where rows are below 0 or do not add up to 1, as logits, or are not 0 where masked.

    Nothing is checked on a GPU, which would have to wait."""
    if values.device.type == "cpu" and values.numel():
        lowest, sums = values.amin(), values.float().sum(-1).flatten()
        farthest = sums[(sums - 1).abs().argmax()]
        if lowest < 0 or abs(farthest - 1) > 0.01:  # for half precision
            wrong = f"{lowest:.3g}" if lowest < 0 else f"rows that add up to {farthest:.3g}"
            raise ValueError(f"expected probabilities, found {wrong}; take the softmax of logits first")
        if mask is not None and (most := values.masked_fill(mask != 0, 0.0).amax()) > 0:
            problem = f"expected probability 0 at masked tokens, found {most:.3g}"
            raise ValueError(f"{problem}; give the teacher's logits there -inf before the softmax")


def check_shapes(student: Tensor, teacher: Tensor, fix: str = "give both for one batch") -> None:
    """Raise ValueError where a teacher's values would be broadcast to the student's."""
    if student.shape != teacher.shape:
        shapes = f"{(*student.shape,)}, found {(*teacher.shape,)}"
        raise ValueError(f"expected a teacher's values of the student's shape {shapes}; {fix}")


def soften(logits: Tensor, temperature: float) -> Tensor:
    """Divide logits by the temperature, in float32. Raises ValueError where it is not above 0.

    On a CPU, warns of probabilities in the place of logits."""
    if not temperature > 0:  # nan neither
        raise ValueError(f"temperature: expected a number above 0, found {temperature}")
    warn_of_probabilities(logits)
    return logits.float() / temperature


def domain_means(values_B: Tensor, domain_B: Tensor, domains: int) -> Tensor:
    """Average over the texts of each domain, shape D; 0 for a domain without any."""
    sums_D, counts_D = (
        values.new_zeros(domains).index_add(0, domain_B, values)
        for values in (values_B, torch.ones_like(domain_B))  # not bincount, for which the host waits
    )
    return sums_D / counts_D.clamp_min(1)


def label_loss(output, batch: Batch, progress: float = 0.0) -> dict[str, Tensor]:
    """Return the cross-entropy of classes (logits B×N) or the squared error of scores (B×1), averaged over the batch.

    Texts are weighted where the batch has weights. Those without a label (-100 or nan) add nothing.
    """
    logits, label = output.logits.float(), batch["label"]
    if logits.shape[1] == 1:
        values_B = (logits[:, 0] - label.where(~label.isnan(), logits[:, 0])).square()
    else:
        values_B = functional.cross_entropy(logits, label, reduction="none")
    return {"label": weighted_mean(values_B, batch.get("weight"))}


def sum_of_domains(output, batch: Batch, progress: float = 0.0, *, domains: int) -> dict[str, Tensor]:
    """Return the sum over the domains of their mean cross-entropy (Dong et al. 2021, section 2.1)."""
    values_B = functional.cross_entropy(output.logits.float(), batch["label"], reduction="none")
    return {"label": domain_means(values_B, batch["domain"], domains).sum()}


def task_loss(output, batch: Batch, progress: float = 0.0) -> dict[str, Tensor]:
    """Return the loss of a batch's task: of answers to questions, or of labels."""
    return (likelihood if "start" in batch else label_loss)(output, batch, progress)


# --- tasks ------------------------------------------------------------------------------------------------------------


def is_reading(preset: Preset, task: str) -> bool:
    """Return whether a task is questions about passages."""
    return task not in preset.tasks.tasks


def choose_head(preset: Preset, task: str) -> Head:
    """Choose the head that a task's kind and labels need."""
    if is_reading(preset, task):
        return Head("spans")
    loaded = load(preset.tasks, task)
    if loaded.kind == "choices":
        return Head("choices")
    return Head("labels", len(loaded.labels) or 1)


def examples_of(preset: Preset, task: str, split: str) -> list:
    """Return the examples of a task's "train", "valid", "test" or "unlabelled"; none where it has no such split."""
    return getattr(load(preset.data if is_reading(preset, task) else preset.tasks, task), split, [])


def name_set(preset: Preset, task: str, split: str) -> str:
    """Name the set of a task's examples, such as "tasks/test/RTE" (`helpers.data.load.load_set`)."""
    return f"{split}/{task}" if is_reading(preset, task) else f"tasks/{split}/{task}"


def task_sequences(preset: Preset, task: str, split: str) -> Sequences:
    """Tokenise one split of a task, once per process."""
    if is_reading(preset, task):
        return windows_of(preset, [task], split)
    return tokenise_split(preset.tasks, preset.encoder, task, split)


@cache
def tokenise_split(settings: DatasetSettings, encoder: str, name: str, split: str) -> Sequences:
    """Tokenise one split of a domain of texts, or of a task of texts or choices, once per process.

    Besides ``label`` the sequences of a domain have a label ``domain``, the domain's number in the preset.
    """
    loaded, tokenizer = load(settings, name), load_tokenizer(encoder)
    kind = getattr(loaded, "kind", "labels")  # of a task
    make = make_choices if kind == "choices" else partial(make_pairs, scores=kind == "score")
    sequences = make(getattr(loaded, split), tokenizer, settings.max_length)
    for note in note_unknown(sequences, tokenizer, name) if split == "train" else ():
        print(note)
    if not isinstance(settings, TextsSettings):
        return sequences
    return sequences.with_labels(domain=np.full(len(sequences), list(settings.domains).index(name), np.int32))


# --- predictions ------------------------------------------------------------------------------------------------------


class SpanPrediction(NamedTuple):
    """The best span's text for a question, and by how much "no answer" scores above it."""

    best_text: str
    null_difference: float


Predicted = np.ndarray | list[SpanPrediction]  # by example: probabilities (E×C), scores (E), or spans


def predict_task(preset: Preset, model: nn.Module, task: str, split: str) -> Predicted:
    """Predict a split of a task by the model of this task alone."""
    sequences = task_sequences(preset, task, split)
    if not is_reading(preset, task):
        return predict(model, sequences, preset.training.precision)
    answers = answer(preset, [model], sequences, preset.data.may_be_unanswerable(task))
    return [SpanPrediction(prediction.best_text, float(prediction.null_difference)) for prediction in answers]


def predict_examples(outputs: Outputs) -> tuple[dict, dict[str, Tensor]]:
    """Predict sets of examples: of each the mean of its models' probabilities or scores (Liu et al. 2019, Eq. 3).

    Questions have one model. Read the values by `read_predictions`.
    """
    preset, spans, means = outputs.preset, {}, {}
    for name, models in outputs.models.items():
        *_, split, part = name.split("/")
        if section_of(name) in ("data", "tasks"):
            predicted = [predict_task(preset, model.load(part), part, split) for model in models]
        else:
            texts = tokenise_split(getattr(preset, section_of(name)), preset.encoder, part, split)
            predicted = [predict(model.load(), texts, preset.training.precision) for model in models]
        if section_of(name) == "data":
            (spans[name],) = predicted  # spans of several models have no mean
        else:
            means[name] = torch.from_numpy(np.mean(predicted, axis=0))
    return {"spans": spans}, means


def predictions_of(models: Mapping[str, tuple[Training, ...]], split: str, label: str) -> Outputs:
    """Return what the models of each task predict for its ``split``."""
    preset = next(iter(models.values()))[0].preset
    by_set = {name_set(preset, task, split): members for task, members in models.items()}
    return Outputs(preset=preset, label=label, models=by_set, compute=predict_examples)


def read_predictions(outputs: Outputs) -> dict[str, Predicted]:
    """Read what `predict_examples` stored, by domain or task. Raises DamagedFile."""
    values: dict[str, Predicted] = {name: means.numpy() for name, means in outputs.tensors().items()}
    values |= {name: [SpanPrediction(*one) for one in spans] for name, spans in outputs.result()["spans"].items()}
    return {name.rpartition("/")[2]: values[name] for name in outputs.sets}


def threshold(preset: Preset, task: str, spans: list[SpanPrediction], split: str = "valid") -> float:
    """Choose the null difference, a difference of logits, above which a question has no answer, by the F1 of a split.

    Returns infinity where every question has an answer. Source: He 2019, section 3.1.5.
    """
    if not preset.data.may_be_unanswerable(task):
        return np.inf
    return metrics.best_threshold(examples_of(preset, task, split), spans)


def label_scores(examples: Sequence[Pair | Choice], predictions: np.ndarray) -> dict[str, float]:
    """Score probabilities of classes (E×C) by accuracy, F1 and Matthews's correlation, or scores (E) by Pearson's and
    Spearman's correlation, in percent.

    F1 is that of class 1 of two classes, else an average over the classes. A correlation is 0 where all predictions are
    the same. Raises DataError where predictions and labels do not fit.
    """
    metrics.check_number(examples, predictions)
    if missing := [example.id for example in examples if example.label is None]:
        raise DataError(f"example {missing[0]!r} has no label to score it by")
    if not np.isfinite(predictions).all():
        raise DataError("a prediction is no number; did the model diverge? lower training.learning_rate")
    labels = np.array([example.label for example in examples])
    if predictions.ndim == 1:
        from scipy.stats import rankdata

        pairs = {"pearson": (predictions, labels), "spearman": (rankdata(predictions), rankdata(labels))}
        varies = np.ptp(predictions) > 0 and np.ptp(labels) > 0
        values = {name: np.corrcoef(*pair)[0, 1] if varies else 0.0 for name, pair in pairs.items()}
    else:
        from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef  # takes a second to import

        classes, average = predictions.argmax(1), "binary" if predictions.shape[1] == 2 else "macro"
        values = {
            "accuracy": accuracy_score(labels, classes),
            "f1": f1_score(labels, classes, average=average, zero_division=0.0),
            "matthews": matthews_corrcoef(labels, classes),
        }
    return {name: 100 * float(value) for name, value in values.items()}


def score_task(preset: Preset, task: str, split: str, predicted: Predicted) -> dict[str, float]:
    """Score predictions by the task's metrics, or EM and F1 of questions with the best threshold, in percent."""
    examples = examples_of(preset, task, split)
    if is_reading(preset, task):
        answers = metrics.answers_above(predicted, threshold(preset, task, predicted, split))
        return metrics.score(examples, answers, no_answer=preset.data.may_be_unanswerable(task)).means()
    values = label_scores(examples, predicted)
    return {metric: values[metric] for metric in load(preset.tasks, task).metrics}


def main_score(scores: Mapping[str, float]) -> float:
    """Return F1 of questions, or the mean of a task's metrics, as GLUE's score counts it."""
    return scores["f1"] if set(scores) == {"em", "f1"} else float(np.mean([*scores.values()]))


# --- a model of several tasks -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tasks:
    """The examples of the tasks ``names`` (`helpers.training.Data`), of the splits ``splits`` where they name some.

    An epoch has the batches of all tasks in one shuffled order (Liu et al. 2019, Algorithm 1). With ``probs`` the task
    of the next batch is drawn with probability prob / sum of ``probs``, and an epoch ends with the first task (He 2019,
    section 3.3; Algorithm 1 of the appendix): its batches come in the same order whatever other tasks there are.
    """

    names: tuple[str, ...]
    selected_by: tuple[str, ...]
    splits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    probs: dict[str, float] = field(default_factory=dict)

    def heads(self, preset: Preset) -> dict[str, Head]:
        return {task: choose_head(preset, task) for task in self.names}

    def settings(self, preset: Preset) -> dict:
        sections = {task: preset.data if is_reading(preset, task) else preset.tasks for task in self.names}
        texts = {
            task: fingerprint_examples(sections[task], task, *self._splits_of(task), "valid") for task in self.names
        }
        questions = [task for task in self.names if is_reading(preset, task)]
        common = {"texts": texts, "max_length": preset.tasks.max_length}
        return common | (reading_settings(preset, questions) if questions else {})

    def checks(self, preset: Preset) -> list[Task]:
        return [*labels_of(preset, [task for task in self.names if is_reading(preset, task)])]

    def _splits_of(self, task: str) -> tuple[str, ...]:
        return self.splits.get(task, ("train",))

    def steps(self, preset: Preset, optim: TrainingSettings, exact: bool = True) -> int:
        """Estimate the steps as if each question were one window; their exact number depends on the seed."""
        splits = {task: self._splits_of(task) for task in self.names}
        sizes = {task: sum(len(examples_of(preset, task, split)) for split in splits[task]) for task in splits}
        shares = {task: self.probs[task] / self.probs[self.names[0]] * sizes[self.names[0]] for task in self.probs}
        return max(1, round(optim.epochs * sum((shares or sizes).values()) / optim.batch_size))

    def batches(self, preset: Preset, optim: TrainingSettings, seed: int) -> Batches:
        sequences, epochs = {}, {}
        for task in self.names:
            read = [task_sequences(preset, task, split) for split in self._splits_of(task)]
            sequences[task] = Sequences.concatenate(read)
            epochs[task] = bucketed(sequences[task].lengths_W, batch_size=optim.batch_size, seed=seed)
        if self.probs:
            turns = mix_by_weight(epochs, self.probs, epoch_of=self.names[0], seed=seed)
        else:
            turns = mix_by_size(epochs, seed=seed)
        return Batches(sequences, plan_epochs(turns, optim.epochs))

    def scores(self, preset: Preset, model: MultiHead) -> dict[str, float]:
        predicted = {task: predict_task(preset, model.tasks[task], task, "valid") for task in self.selected_by}
        return {task: main_score(score_task(preset, task, "valid", values)) for task, values in predicted.items()}

    def facts(self, preset: Preset) -> dict:
        return {"heads": {task: head._asdict() for task, head in self.heads(preset).items()}}


def plan_epochs(epochs: Iterator[list[Turn]], number: float) -> list[Turn]:
    """Plan some epochs, the last one in part where ``number`` is not whole; at least one step."""
    planned = list(islice(epochs, math.ceil(number)))
    steps = sum(map(len, planned[: int(number)])) + (number % 1) * len(planned[-1])
    return plan_steps(planned, max(1, round(steps)))


@dataclass(frozen=True)
class MultiTaskModel(Model):
    """One encoder with a head per task. With ``fresh`` the heads of the training's start are replaced by new ones."""

    dropout: float = 0.0  # of the encoder
    head_dropout: dict[str, float] = field(default_factory=dict)  # by task
    fresh: bool = False

    def build(self, training: Training) -> MultiHead:
        preset, data, start = training.preset, training.data, training.start
        if start and not self.fresh:
            model = load_multihead(start.saved(), data.names)
        elif start:
            model = new_multihead(str(start.saved()), data.heads(preset), seed=training.seed)
        else:
            cuts = [preset.windows if is_reading(preset, task) else preset.tasks for task in data.names]
            sizes = {"random_layers": preset.random_layers, "max_length": max(cut.max_length for cut in cuts)}
            model = new_multihead(preset.encoder, data.heads(preset), seed=training.seed, **sizes)
        set_dropout(model, self.dropout, self.head_dropout)
        return model

    def load(self, training: Training, head: str = "") -> nn.Module:
        """Load the trained model of one task, ``head``, in evaluation mode, on the device."""
        return load_multihead(training.saved(), [head]).to(training_device()).tasks[head]


def save_task(training: Training, task: str, folder: Path) -> None:
    """Save the model of one task by itself, as transformers loads it, with its tokenizer; a reader calibrated."""
    preset = training.preset
    loaded = load(preset.data if is_reading(preset, task) else preset.tasks, task)
    model = copy_task(load_multihead(training.saved(), [task]), task, getattr(loaded, "labels", ()))
    tokenizer = AutoTokenizer.from_pretrained(training.saved(), trust_remote_code=False)
    del model.config.heads  # which all tasks have together
    if is_reading(preset, task):
        model.config.update(calibrated_facts(preset, training.load(task), task))
    else:
        tokenizer.model_max_length = preset.tasks.max_length
    if getattr(loaded, "kind", "") == "score":
        model.config.problem_type = "regression"  # otherwise a pipeline takes the score for a probability
    save_encoder(model, tokenizer, folder)


# --- a classifier over domains ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DomainTexts:
    """The texts of the domains ``names`` of a ``corpus``, a section of the preset (`helpers.training.Data`).

    ``order`` says what a batch holds: "mixed", texts of all domains; "turns", texts of one domain; "together",
    ``batch_size`` texts of each domain. Each domain has a head, but in the order "mixed" all share one. Accuracy on the
    validation texts, averaged over the domains, selects the weights.
    """

    names: tuple[str, ...]
    corpus: str
    order: Literal["mixed", "turns", "together"]

    @property
    def selected_by(self) -> tuple[str, ...]:
        return self.names

    @property
    def heads(self) -> list[str]:
        """The domain of each head; "" for a head that all domains share."""
        return [""] if self.order == "mixed" else list(self.names)

    def texts(self, preset: Preset) -> TextsSettings:
        """Return the corpus's section."""
        return getattr(preset, self.corpus)

    def classes(self, preset: Preset) -> int:
        return len(label_names(self.texts(preset)))

    def settings(self, preset: Preset) -> dict:
        texts = self.texts(preset)
        prints = {name: fingerprint_examples(texts, name, "train", "valid") for name in self.names}
        return {"texts": prints, "labels": list(label_names(texts)), "max_length": texts.max_length}

    def checks(self, preset: Preset) -> list[Task]:
        return []

    def steps(self, preset: Preset, optim: TrainingSettings, exact: bool = True) -> int:
        """Count the steps: epochs over the largest domain where a step has texts of each, else over all domains.

        Raises DataError where that makes no step.
        """
        sizes = [len(load(self.texts(preset), name).train) for name in self.names]
        size, whole = optim.batch_size, optim.batch_size * len(sizes)
        steps = {
            "together": max(sizes) / size,
            "mixed": sum(sizes) / whole,
            "turns": sum(math.ceil(number / whole) for number in sizes),  # a domain's last batch may be a short one
        }
        if number := round(optim.epochs * steps[self.order]):
            return number
        amount = f"{optim.epochs:g} epochs of {max(sizes)} texts"
        raise DataError(f"{amount} make no step of {size}; raise epochs, or give more texts")

    def sequences(self, preset: Preset, split: str, *names: str) -> Sequences:
        """Tokenise one split of some of its domains, or of all, one domain after another."""
        texts = self.texts(preset)
        return Sequences.concatenate(
            [tokenise_split(texts, preset.encoder, name, split) for name in names or self.names]
        )

    def batches(self, preset: Preset, optim: TrainingSettings, seed: int) -> Batches:
        sequences, size = self.sequences(preset, "train"), optim.batch_size
        lengths, domain_W = sequences.lengths_W, sequences.labels["domain"]
        members = {str(number): np.flatnonzero(domain_W == number) for number in np.unique(domain_W)}
        whole = {"batch_size": size * len(members), "seed": seed}
        if self.order == "together":
            epochs = per_domain(members, batch_size=size, seed=seed)
        elif self.order == "turns":
            turns = {name: bucketed(lengths, rows, **whole) for name, rows in members.items()}
            epochs = ([batch for _, batch in epoch] for epoch in mix_by_size(turns, seed=seed))
        else:
            epochs = bucketed(lengths, **whole)
        return Batches(sequences, plan_steps(epochs, self.steps(preset, optim)))

    def choose_loss(self) -> Loss:
        """Return the loss of labels: of a step with texts of each domain the sum of the domains' means."""
        if self.order == "together" and len(self.names) > 1:
            return partial(sum_of_domains, domains=len(self.names))
        return label_loss

    def scores(self, preset: Preset, model: nn.Module) -> dict[str, float]:
        scores = {}
        for name in self.names:
            texts = self.sequences(preset, "valid", name)
            classes = predict(model, texts, preset.training.precision).argmax(1)
            scores[name] = 100 * float((classes == texts.labels["label"]).mean())
        return scores

    def facts(self, preset: Preset) -> dict:
        texts = self.texts(preset)
        names = [f"{head} {label}".strip() for head in self.heads for label in label_names(texts)]
        named = {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
        return {"windows": {"max_length": texts.max_length}, "heads": self.heads, **named}


@dataclass(frozen=True)
class Classifier(Model):
    """A pretrained encoder that classifies the texts of `DomainTexts`, with a head per domain or one for all."""

    head: str = "labels"

    def load_encoder(self, training: Training, **sizes) -> nn.Module:
        """Load the pretrained encoder with a new head of all classes."""
        return load_encoder(training.preset.encoder, "labels", **sizes)

    def build(self, training: Training) -> MultiHead:
        preset, data = training.preset, training.data
        classifier = self.load_encoder(
            training,
            seed=training.seed,
            random_layers=preset.random_layers,
            classes=data.classes(preset) * len(data.heads),
            max_length=data.texts(preset).max_length,
        )
        return MultiHead({data.corpus: classifier}, data.heads)

    def load(self, training: Training, head: str = "") -> MultiHead:
        classifier = load_saved(training.saved(), self.head)
        return MultiHead({training.data.corpus: classifier}, training.data.heads).to(training_device()).eval()


def save_domain(training: Training, domain: str, folder: Path) -> None:
    """Save a trained classifier with the head of one domain alone, in Hugging Face format."""
    save_encoder(copy_domain(training.load(), domain), load_tokenizer(training.preset.encoder), folder)
