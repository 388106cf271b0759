"""Questions about passages: windows, batches, the likelihood, answers, and the training of a reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from helpers import decoding, metrics
from helpers.batches import Batches, epochs_of, plan_steps
from helpers.data.examples import PARTS, DataError, Example
from helpers.data.load import fingerprint, load
from helpers.data.sets import may_be_unanswerable, question_set
from helpers.decoding import Logits, Prediction
from helpers.files import fingerprint as hash_texts
from helpers.loop import Batch, Validate, outputs
from helpers.models.encoders import load_encoder, load_tokenizer, vocabulary_fingerprint
from helpers.presets.schema import DataSettings, Preset, WindowSettings
from helpers.sequences import Windows, make_windows, note_unknown
from helpers.task import Task
from helpers.training import Training

SIDES = ("start", "end")
Span = tuple[Tensor, Tensor]  # values of start and of end

# --- windows and batches --------------------------------------------------------------------------------------------


def windows_of(preset: Preset, domains: Sequence[str], part: str) -> Windows:
    """Cut one part ("train", "valid" or "test") of the domains into windows, one domain after another.

    Each domain is tokenised once per process, and cut the same way alone and among others.
    """
    return _windows(preset.data, preset.windows, preset.encoder, tuple(domains), part)


@lru_cache(maxsize=64)
def _windows(data: DataSettings, cut: WindowSettings, encoder: str, domains: tuple[str, ...], part: str) -> Windows:
    if len(domains) > 1:
        return Windows.concatenate([_windows(data, cut, encoder, (name,), part) for name in domains])
    if part != "train":
        cut = cut.model_copy(update={"empty_windows": 1.0})
    examples = getattr(load(data, domains[0]), part)
    return make_windows(examples, load_tokenizer(encoder), **cut.model_dump(), seed=data.seed)


def windows_over(preset: Preset, examples: list[Example]) -> Windows:
    """Cut any examples into windows, none left out, as scoring needs them."""
    settings = preset.windows.model_dump(exclude={"empty_windows"})
    return make_windows(examples, load_tokenizer(preset.encoder), **settings)


def budget(preset: Preset, domains: Sequence[str], epochs: float) -> int:
    """Count the optimiser steps of some epochs over domains together, each repeated to the size of the largest."""
    sizes = {name: len(load(preset.data, name).train) for name in domains}
    windows = sum(len(windows_of(preset, [name], "train")) * max(sizes.values()) / size for name, size in sizes.items())
    return max(1, round(epochs * windows / preset.training.batch_size))


def training_batches(preset: Preset, domains: Sequence[str], steps: int, seed: int) -> Batches:
    """Plan batches over the domains, up-sampled to equal numbers of questions, in an order made from ``seed``."""
    windows = windows_of(preset, domains, "train")
    domain_of_example = np.repeat(np.arange(len(domains)), [len(load(preset.data, name).train) for name in domains])
    epochs = epochs_of(windows, domain_of_example, batch_size=preset.training.batch_size, seed=seed)
    return Batches(windows, plan_steps(epochs, steps))


# --- the likelihood -------------------------------------------------------------------------------------------------


def log_probabilities(logits_BxL: Tensor, mask_BxL: Tensor) -> Tensor:
    """Take the log softmax over the unmasked positions (IMM Eqs. 1, 2); masked ones get the lowest float32."""
    lowest = torch.finfo(torch.float32).min
    return nn.functional.log_softmax(logits_BxL.float().masked_fill(mask_BxL == 0, lowest), dim=-1)


def span_negative_log_likelihood(student: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Compute -log P(start) - log P(end) of each example, shape B (IMM Eqs. 4 and 8, summed; BERT halves it).

    ``student`` are logits (B×L each), ``gold`` positions (B each).
    """
    pairs = zip(student, gold, strict=True)
    return -sum(log_probabilities(logits, mask_BxL).gather(1, position[:, None])[:, 0] for logits, position in pairs)


def weighted_mean(values_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """Average over examples, each weighted: sum(w v) / B. B counts zero weights too (IMM Eq. 7 divides by |M|)."""
    return (values_B if weight_B is None else values_B * weight_B).sum() / len(values_B)


def likelihood(output, batch: Batch, progress: float = 0.0) -> dict[str, Tensor]:
    """Compute the negative log-likelihood of the answers, weighted where the batch has weights."""
    student, gold = (output.start_logits, output.end_logits), (batch["start"], batch["end"])
    values_B = span_negative_log_likelihood(student, gold, batch["attention_mask"])
    return {"likelihood": weighted_mean(values_B, batch.get("weight"))}


# --- answers --------------------------------------------------------------------------------------------------------


def predict(model: nn.Module, windows: Windows, *, precision: str = "auto") -> Logits:
    """Return the start and end logits of every real token of every window, in window order, float32.

    The model must be in evaluation mode: a teacher or a scored reader has no dropout.
    """
    batches = outputs(model, windows, precision=precision)
    return Logits.collect(windows, ((index, output.start_logits, output.end_logits) for index, _, output in batches))


def distributions(windows: Windows, logits: Logits, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Take softmax(logits / temperature) within every window, of start and end, flat as the logits."""
    lengths, sides = windows.lengths_W, []
    for flat in (logits.start, logits.end):
        scaled = flat / np.float32(temperature)
        powers = np.exp(scaled - np.repeat(np.maximum.reduceat(scaled, windows.offsets_W), lengths))
        sides.append(powers / np.repeat(np.add.reduceat(powers, windows.offsets_W), lengths))
    return tuple(sides)


def joint_logits(windows: Windows, members: Sequence[Logits]) -> Logits:
    """Return the logarithm of the mean of several readers' distributions (Hu et al. 2018, section 3.4)."""
    means = np.mean([distributions(windows, logits) for logits in members], axis=0)
    return Logits(*np.log(np.maximum(means, np.finfo(np.float32).tiny)))


def answer(
    preset: Preset,
    models: Iterable[nn.Module],
    windows: Windows,
    no_answer: bool | np.ndarray = False,
    *,
    together: bool = False,
    null_threshold: float = 0.0,
) -> list[Prediction]:
    """Answer every example of ``windows``; ``no_answer`` and ``null_threshold`` as in `decoding.decode`.

    A reader's answers are decoded from its logits. With ``together`` they come from the mean of readers' distributions
    over each window, which makes the windows of a passage comparable (Hu et al. 2018, section 3.4).
    """
    members = [predict(model, windows, precision=preset.training.precision) for model in models]
    (logits,) = [joint_logits(windows, members)] if together else members
    limits = {"n_best": preset.answers.n_best, "max_answer_tokens": preset.answers.max_tokens}
    return decoding.decode(windows, logits, no_answer=no_answer, null_threshold=null_threshold, **limits)


# --- labels ---------------------------------------------------------------------------------------------------------


def label_spans(windows: Windows) -> dict[int, tuple[int, tuple[int, int]]]:
    """Return the number of tokens and the characters of each answer that a window holds, by its example's number."""
    spans = {}
    for window in np.flatnonzero(windows.labels["start"]):
        first, last = (windows.labels[side][window] - windows.prefix_W[window] for side in SIDES)
        chars = windows.rows[window].chars
        spans[int(windows.example_W[window])] = int(last - first) + 1, (int(chars[first][0]), int(chars[last][1]))
    return spans


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelCheck(Task):
    """Count the answers that tokenisation changes or loses.

    Its result has ``em``, the exact match of the labelled spans by part: no reader can score higher. Its
    ``notes`` count the answers that are too long, in no window, or widened.
    """

    domain: str

    def settings(self) -> dict:
        return {
            "data": fingerprint(self.preset.data, self.domain),
            "windows": self.preset.windows.model_dump(),
            "answers": self.preset.answers.model_dump(),
            "vocabulary": vocabulary_fingerprint(self.preset.encoder),
        }

    def work(self) -> dict:
        notes, em, longest = [], {}, self.preset.answers.max_tokens
        for part in PARTS:
            windows = windows_of(self.preset, [self.domain], part)
            spans, examples, texts = label_spans(windows), windows.examples, [""] * len(windows.examples)
            counts = Counter()
            for number, example in enumerate(examples):
                tokens, chars = spans.get(number, (0, (0, 0)))
                text = example.context[slice(*chars)]
                texts[number] = text if tokens <= longest else ""
                if example.span:
                    counts[f"are longer than answers.max_tokens = {longest} (raise it)"] += tokens > longest
                    counts["lie in no window (raise windows.max_length)"] += tokens == 0
                    is_wider = tokens > 0 and text != example.context[slice(*example.span)]
                    counts["are widened to whole tokens"] += is_wider
            if lost := [f"{count:,} {problem}" for problem, count in counts.items() if count]:
                total = sum(example.span is not None for example in examples)
                notes.append(f"{self.domain}: of {total:,} {part} answers, {', '.join(lost)}")
            em[part] = float(metrics.score(examples, texts).em.mean())
        tokenizer = load_tokenizer(self.preset.encoder)
        notes += note_unknown(windows_of(self.preset, [self.domain], "train"), tokenizer, self.domain)
        if any(metrics.is_unspaced(example.context) for example in examples):
            notes.append(f"{self.domain}: scored by character where the script sets no spaces between words")
        return {"notes": notes, "em": em}


def labels_of(preset: Preset, domains: Iterable[str]) -> list[LabelCheck]:
    """Return the `LabelCheck` of each domain."""
    return [LabelCheck(preset=preset, label=f"labels of {name}", domain=name) for name in domains]


def label_notes(preset: Preset) -> list[str]:
    """Do the label checks of all domains and state their results, test exact match first."""
    tasks = labels_of(preset, preset.data.domains)
    for task in tasks:
        task.do()
    results = {task.domain: task.result() for task in tasks}
    allowed = ", ".join(f"{domain} {result['em']['test']:.1f}" for domain, result in results.items())
    notes = chain.from_iterable(result["notes"] for result in results.values())
    return [f"highest possible exact match on test questions: {allowed}", *notes]


# --- tasks ----------------------------------------------------------------------------------------------------------


def reading_settings(preset: Preset, domains: Iterable[str]) -> dict:
    """Return what a training on questions of some domains depends on besides the questions."""
    return {
        "windows": preset.windows.model_dump(),
        "answers": preset.answers.model_dump(),
        "unanswerable": [name for name in domains if preset.data.may_be_unanswerable(name)],
    }


def reader_facts(preset: Preset, domains: Iterable[str], null_threshold: float = 0.0) -> dict:
    """Return what the configuration of a reader of some domains records, for `helpers.answering.TrainedReader`."""
    return {
        "windows": preset.windows.model_dump(exclude={"empty_windows"}),
        "answers": preset.answers.model_dump(),
        "unanswerable": any(map(preset.data.may_be_unanswerable, domains)),
        "null_threshold": null_threshold,
        "precision": preset.training.precision,
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Reader(Training):
    """The training of a reader on the questions of some ``domains``, by their likelihood alone.

    It keeps the weights with the best F1 on the validation questions of ``selected_by``; without, the last ones. Steps
    are the preset's epochs over its domains, or over those of ``budget``, divided among ``stages`` trainings. Questions
    come in an order made from the seed and the number ``order``.
    """

    domains: tuple[str, ...]
    selected_by: tuple[str, ...] = ()
    budget: tuple[str, ...] = ()
    stages: int = 1
    order: int = 0

    def settings(self) -> dict:
        names = sorted({*self.domains, *self.selected_by, *self.budget})
        data = {name: fingerprint(self.preset.data, name, "train", "valid") for name in names}
        return super().settings() | {"data": data} | reading_settings(self.preset, names)

    @cached_property
    def needs(self) -> list[Task]:
        """The tasks among the fields, and the label checks."""
        return [*super().needs, *labels_of(self.preset, {*self.domains, *self.selected_by})]

    def steps(self) -> int:
        """Count the steps. Raises DataError where stages outnumber them."""
        number = budget(self.preset, self.budget or self.domains, self.training.epochs)
        if number < self.stages:
            raise DataError(
                f"{self.label}: training.epochs = {self.training.epochs:g} make {number} step for {self.stages} "
                "stages; raise training.epochs, or give more questions"
            )
        return number // self.stages

    def initial(self) -> nn.Module:
        encoder = str(self.start.saved()) if self.start else self.preset.encoder
        sizes = {"random_layers": 0 if self.start else self.preset.random_layers, "seed": self.seed}
        return load_encoder(encoder, max_length=self.preset.windows.max_length, **sizes)

    def batches(self) -> Batches:
        return training_batches(self.preset, self.domains, self.steps(), self.seed + ORDERS * self.order)

    def loss(self, output, batch: Batch, progress: float) -> dict[str, Tensor]:
        return likelihood(output, batch, progress)

    @property
    def validate(self) -> Validate | None:
        return super().validate if self.selected_by else None

    def scores(self, model: nn.Module) -> dict[str, float]:
        scores = {}
        for name in self.selected_by:
            windows = windows_of(self.preset, [name], "valid")
            answers = answer(self.preset, [model], windows, self.preset.data.may_be_unanswerable(name))
            scores[name] = float(metrics.score(windows.examples, answers).f1.mean())
        return scores

    def config_facts(self) -> dict:
        return reader_facts(self.preset, {*self.domains, *self.selected_by})


ORDERS = 1000  # more than there are seeds, which make the orders of the first round


@dataclass(frozen=True, kw_only=True, eq=False)
class TeacherLogits(Task):
    """A reader's start and end logits for every token of a domain's training windows, stored as float16."""

    reader: Training
    domain: str

    def settings(self) -> dict:
        return {
            "data": fingerprint(self.preset.data, self.domain, "train"),
            "windows": self.preset.windows.model_dump(),
            "encoder": self.reader.settings()["encoder"],
        }

    def work(self) -> dict:
        windows = windows_of(self.preset, [self.domain], "train")
        logits = predict(self.reader.load(), windows, precision=self.preset.training.precision)
        tensors = {side: torch.from_numpy(getattr(logits, side)).half() for side in SIDES}
        save_file(tensors, self.folder / "logits.safetensors")
        return {"windows": len(windows)}

    def logits(self) -> dict[str, Tensor]:
        """Read the stored logits, ``start`` and ``end``, flat over the windows. Raises DamagedFile."""
        return load_file(self.file("logits.safetensors"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers(Task):
    """The answers of one reader, or of several together, to sets of questions by name (`question_set`).

    Not part of the trainings, so other questions retrain nothing.
    """

    readers: tuple[Training, ...]
    sets: tuple[str, ...]
    together: bool = False  # whether answers come from the mean of the readers' distributions

    def settings(self) -> dict:
        return {
            "questions": {name: questions_fingerprint(self.preset.data, name) for name in self.sets},
            "windows": self.preset.windows.model_dump(),
            "answers": self.preset.answers.model_dump(),
            "precision": self.preset.training.precision,
        }

    def work(self) -> dict:
        """Return the text of the answer to each question of each set. Questions that several sets share count once."""
        data, keys, examples = self.preset.data, {}, {}
        for name in self.sets:
            questions = question_set(data, name)
            allowed = may_be_unanswerable(data, name)
            keys[name] = [(e.question, e.context, may) for e, may in zip(questions, allowed, strict=True)]
            examples |= zip(keys[name], questions, strict=True)
        windows, no_answer = windows_over(self.preset, list(examples.values())), np.array([may for *_, may in examples])
        models = (reader.load() for reader in self.readers)
        predictions = answer(self.preset, models, windows, no_answer, together=self.together)
        texts = {key: prediction.text for key, prediction in zip(examples, predictions, strict=True)}
        return {"answers": {name: [texts[key] for key in keys[name]] for name in self.sets}}

    def texts(self) -> dict[str, list[str]]:
        return self.result()["answers"]


@cache
def questions_fingerprint(data: DataSettings, name: str) -> str:
    """Return a fingerprint of what a set of questions asks, and not of what counts as right."""
    questions = [(example.id, example.question, example.context) for example in question_set(data, name)]
    return hash_texts(*map(repr, questions), repr(may_be_unanswerable(data, name)))


@dataclass(frozen=True, kw_only=True, eq=False)
class GoldProbability(Task):
    """The mean probability that a reader gives to right answers, on a domain's training and validation questions.

    Near 1 on questions that it memorised, where it has nothing to teach beyond the labels.
    """

    reader: Training
    domain: str

    def settings(self) -> dict:
        data = fingerprint(self.preset.data, self.domain, "train", "valid")
        return {"data": data, "windows": self.preset.windows.model_dump()}

    def work(self) -> dict:
        """Return the probability of a gold first or last token, over the windows that hold both, by part."""
        model, result = self.reader.load(), {}
        for part in ("train", "valid"):
            windows = windows_of(self.preset, [self.domain], part)
            sides = distributions(windows, predict(model, windows, precision=self.preset.training.precision))
            answered = np.flatnonzero(windows.labels["start"])
            places = [(windows.offsets_W + windows.labels[side])[answered] for side in SIDES]
            result[part] = float(np.mean([values[place].mean() for values, place in zip(sides, places, strict=True)]))
        return result
