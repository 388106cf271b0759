"""Training data and scores of a reader over some domains: what every paper's methods are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import numpy as np
from torch import Tensor, nn

from helpers.batches.plans import Batches, plan_steps
from helpers.batches.sequences import Windows, make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.domains import fingerprint, load_one
from helpers.data.examples import Example
from helpers.models.pretrained import encoder_fingerprint, load_tokenizer
from helpers.presets.schema import DataSettings, Preset, WindowSettings
from helpers.tasks import decoding, metrics
from helpers.training.loop import Batch, predict
from helpers.training.losses import mean, span_negative_log_likelihood


def windows_of(preset: Preset, domains: Sequence[str], part: str) -> Windows:
    """Windows over one part ("train", "valid" or "test") of the domains, one domain after another.

    Each domain is tokenised once a process, and cut the same way alone and among others.
    """
    data, windowing = preset.data.model_dump_json(), preset.windows.model_dump_json()
    if len(domains) == 1:  # is kept for good, and must not push a mixture out
        return _windows(data, windowing, preset.encoder, domains[0], part)
    return _joined(data, windowing, preset.encoder, tuple(domains), part)


@lru_cache(maxsize=2)  # a mixture of large corpora takes gigabytes
def _joined(data: str, windowing: str, encoder: str, domains: tuple[str, ...], part: str) -> Windows:
    return Windows.concatenate([_windows(data, windowing, encoder, name, part) for name in domains])


@cache
def _windows(data: str, windowing: str, encoder: str, domain: str, part: str) -> Windows:
    settings = WindowSettings.model_validate_json(windowing).model_dump()
    if part != "train":
        settings["empty_windows"] = 1.0
    source = DataSettings.model_validate_json(data)
    examples = getattr(load_one(source, domain), part)
    return make_windows(examples, load_tokenizer(encoder), **settings, seed=source.seed)


def windows_over(preset: Preset, examples: list[Example]) -> Windows:
    """Windows over any examples, none left out, as scoring needs them."""
    settings = preset.windows.model_dump(exclude={"empty_windows"})
    return make_windows(examples, load_tokenizer(preset.encoder), **settings)


def budget(preset: Preset) -> int:
    """Optimiser steps in the history of every reader: ``training.epochs`` over all the preset's domains together,
    each repeated to the size of the largest. A method with several stages divides them."""
    domains = [load_one(preset.data, name).train for name in preset.data.domains]
    largest = max(map(len, domains))
    windows = sum(
        len(windows_of(preset, [name], "train")) * largest / len(train)
        for name, train in zip(preset.data.domains, domains, strict=True)
    )
    return max(1, round(preset.training.epochs * windows / preset.training.batch_size))


def batches_of(preset: Preset, domains: Sequence[str], steps: int, seed: int, device) -> Batches:
    """Training batches over the domains, up-sampled to equal numbers of questions, in an order made from ``seed``."""
    windows = windows_of(preset, domains, "train")
    sizes = [len(load_one(preset.data, name).train) for name in domains]
    domain_of_example = np.repeat(np.arange(len(domains)), sizes)
    plan = plan_steps(windows, domain_of_example, steps=steps, batch_size=preset.training.batch_size, seed=seed)
    return Batches(SequenceTensors(windows, device), plan)


def answers(preset: Preset, model: nn.Module, windows: Windows) -> list[decoding.Prediction]:
    """The reader's answer to every example of ``windows``."""
    logits = predict(model, windows, precision=preset.training.precision)
    return decoding.decode(windows, logits, n_best=preset.answers.n_best, max_answer_tokens=preset.answers.max_tokens)


def example_scores(preset: Preset, model: nn.Module, domain: str, part: str) -> metrics.Scores:
    """EM and F1 of each question of one part of a domain."""
    windows = windows_of(preset, [domain], part)
    return metrics.score(windows.examples, answers(preset, model, windows))


def validation(preset: Preset, domains: Sequence[str]) -> Callable[[nn.Module], float]:
    """What a training is selected by: F1 on the validation sets, averaged over the domains."""

    def validate(model: nn.Module) -> float:
        model.eval()
        return float(np.mean([example_scores(preset, model, name, "valid").f1.mean() for name in domains]))

    return validate


def span_loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
    """Negative log-likelihood of the answer's first and last token (IMM Eqs. 3, 4, 8), weighted where the batch has
    weights (Eq. 7)."""
    values_B = span_negative_log_likelihood(
        output.start_logits, output.end_logits, batch["start"], batch["end"], batch["attention_mask"]
    )
    return {"likelihood": mean(values_B, batch.get("weight"))}


def effective(preset: Preset, domains: Sequence[str]) -> dict:
    """What a reader over ``domains`` depends on besides its seed, its steps and its teachers; part of its cache key.

    Data and encoder stand by their contents, not by where they lie.
    """
    return {
        "encoder": encoder_fingerprint(preset.encoder),
        "random_layers": preset.random_layers,
        "data": {name: fingerprint(preset.data, name) for name in domains},
        "windows": preset.windows.model_dump(),
        "training": preset.training.model_dump(exclude={"epochs", "checkpoint_minutes"}),
        "answers": preset.answers.model_dump(),
    }
