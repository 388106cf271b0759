"""Answers as spans of passages: windows and batches over domains, the loss, and what trained readers answer."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

import numpy as np
from torch import Tensor, nn

from helpers.batches.plans import ONCE, Batches, epochs_of, plan_steps
from helpers.batches.sequences import Windows, make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.domains import load_one
from helpers.data.examples import Example
from helpers.data.sections import fingerprint
from helpers.models.pretrained import encoder_fingerprint, load_encoder, load_tokenizer
from helpers.presets.schema import DataSettings, Preset, WindowSettings
from helpers.tasks import decoding, metrics
from helpers.tasks.decoding import Prediction
from helpers.tasks.logits import Logits
from helpers.training.loop import Batch, outputs
from helpers.training.losses import mean, smoothed_negative_log_likelihood, span_negative_log_likelihood

FOLDS = 2  # of the training questions, for readers that are asked what they did not see
FIT = ("train", "valid")  # the parts that a training depends on


def windows_of(preset: Preset, domains: Sequence[str], part: str) -> Windows:
    """Windows over one part ("train", "valid" or "test") of the domains, one domain after another.

    Each domain is tokenised once a process, and cut the same way alone and among others.
    """
    if len(domains) == 1:  # is kept for good, and must not push a mixture out
        return _windows(preset.data, preset.windows, preset.encoder, domains[0], part)
    return _joined(preset.data, preset.windows, preset.encoder, tuple(domains), part)


@lru_cache(maxsize=2)  # a mixture of large corpora takes gigabytes
def _joined(data: DataSettings, cut: WindowSettings, encoder: str, domains: tuple[str, ...], part: str) -> Windows:
    return Windows.concatenate([_windows(data, cut, encoder, name, part) for name in domains])


@cache
def _windows(data: DataSettings, cut: WindowSettings, encoder: str, domain: str, part: str) -> Windows:
    if part != "train":
        cut = cut.model_copy(update={"empty_windows": 1.0})
    examples = getattr(load_one(data, domain), part)
    return make_windows(examples, load_tokenizer(encoder), **cut.model_dump(), seed=data.seed)


def windows_over(preset: Preset, examples: list[Example]) -> Windows:
    """Windows over any examples, none left out, as scoring needs them."""
    settings = preset.windows.model_dump(exclude={"empty_windows"})
    return make_windows(examples, load_tokenizer(preset.encoder), **settings)


def new_reader(preset: Preset, seed: int) -> nn.Module:
    """A reader that is not trained yet."""
    longest = preset.windows.max_length
    return load_encoder(preset.encoder, seed=seed, random_layers=preset.random_layers, max_length=longest)


def budget(preset: Preset, domains: Sequence[str] = ()) -> int:
    """Optimiser steps of ``training.epochs`` over some domains together (all of the preset's, if none is named), each
    repeated to the size of the largest."""
    sizes = {name: len(load_one(preset.data, name).train) for name in domains or preset.data.domains}
    windows = sum(len(windows_of(preset, [name], "train")) * max(sizes.values()) / size for name, size in sizes.items())
    return max(1, round(preset.training.epochs * windows / preset.training.batch_size))


def fold_of(windows: Windows) -> np.ndarray:
    """Which of ``FOLDS`` every example of some windows is in: all questions on one passage in the same."""
    contexts = [example.context for example in windows.examples]
    number = {context: place for place, context in enumerate(sorted(set(contexts)))}
    return np.array([number[context] for context in contexts]) % FOLDS


def training_batches(
    preset: Preset,
    domains: Sequence[str],
    steps: int,
    seed: int,
    device,
    held_out: int | None = None,
    beside: Sequence[Windows] = (),
) -> Batches:
    """Training batches over the domains, up-sampled to equal numbers of questions, in an order made from ``seed``;
    without the questions of the fold that is ``held_out``. Windows of other questions, which are not up-sampled, stand
    ``beside``, behind those of the domains."""
    windows = windows_of(preset, domains, "train")
    sizes = [len(load_one(preset.data, name).train) for name in domains]
    domain_of_example = np.repeat(np.arange(len(domains)), sizes)
    if held_out is not None:
        domain_of_example[fold_of(windows) == held_out] = -1
    others = np.full(sum(len(other.examples) for other in beside), ONCE)
    windows = Windows.concatenate([windows, *beside])
    domain_of_example = np.concatenate([domain_of_example, others])
    epochs = epochs_of(windows, domain_of_example, batch_size=preset.training.batch_size, seed=seed)
    return Batches(SequenceTensors(windows, device), plan_steps(epochs, steps))


def fit_settings(preset: Preset, domains: Sequence[str]) -> dict:
    """What a reader over ``domains`` depends on besides its seed, its steps and its teachers; part of its cache key.

    Data (those to train on and to select by) and encoder stand by their contents, not by where they lie.
    """
    settings = {
        "encoder": encoder_fingerprint(preset.encoder),
        "random_layers": preset.random_layers,
        "data": {name: fingerprint(preset.data, name, *FIT) for name in domains},
        "windows": preset.windows.model_dump(),
        "training": preset.training.model_dump(exclude={"epochs", "checkpoint_minutes"}),
        "answers": preset.answers.model_dump(),
    }
    if unanswerable := [name for name in domains if preset.data.may_be_unanswerable(name)]:
        settings["unanswerable"] = unanswerable  # only where it is so, as it only then changes anything
    return settings


def reading(preset: Preset, domains: Sequence[str]) -> dict:
    """What a reader's configuration says of itself: how passages are cut, in which precision it computes, how answers
    are decoded, and whether it knows of questions without one."""
    return {
        "windows": preset.windows.model_dump(exclude={"empty_windows"}),
        "answers": preset.answers.model_dump(),
        "unanswerable": any(map(preset.data.may_be_unanswerable, domains)),
        "null_threshold": 0.0,  # the encoder may be a reader with another one
        "precision": preset.training.precision,
    }


def loss(output, batch: Batch, progress: float, smoothing: float = 0.0) -> dict[str, Tensor]:
    """Negative log-likelihood of the answer's first and last token (Liu et al. 2020, Eqs. 3, 4, 8), weighted where the
    batch has weights (Eq. 7). ``smoothing`` is divided among the tokens that may be answers: the passage's, and [CLS]
    for windows without one."""
    student, gold = (output.start_logits, output.end_logits), (batch["start"], batch["end"])
    mask_BxL = batch["attention_mask"]
    if smoothing:
        possible_BxL = batch["segment_ids"] == 2
        possible_BxL[:, 0] = True
        values_B = smoothed_negative_log_likelihood(student, gold, mask_BxL, possible_BxL, smoothing)
    else:
        values_B = span_negative_log_likelihood(*student, *gold, mask_BxL)
    return {"likelihood": mean(values_B, batch.get("weight"))}


def predict(model: nn.Module, windows: Windows, *, batch_size: int = 64, precision: str = "auto") -> Logits:
    """Start and end logits of every real token of every window, in window order, float32.

    The model must be in evaluation mode: a teacher or a scored reader has no dropout.
    """
    read = outputs(model, windows, batch_size=batch_size, precision=precision)
    return Logits.collect(windows, ((index, output.start_logits, output.end_logits) for index, _, output in read))


def answers(
    preset: Preset, model: nn.Module, windows: Windows, no_answer: bool | np.ndarray = False
) -> list[Prediction]:
    """The reader's answer to every example of ``windows``; ``no_answer`` as in `decoding.decode`."""
    return decoded(preset, windows, predict(model, windows, precision=preset.training.precision), no_answer)


def joint_answers(
    preset: Preset, members: Iterable[nn.Module], windows: Windows, no_answer: bool | np.ndarray = False
) -> list[Prediction]:
    """What readers answer together: decoded from the mean of their distributions over each window (Hu et al. 2018,
    section 3.4)."""
    precision = preset.training.precision
    sides = [distributions(windows, predict(model, windows, precision=precision)) for model in members]
    means = np.mean(sides, axis=0)
    return decoded(preset, windows, Logits(*np.log(np.maximum(means, np.finfo(np.float32).tiny))), no_answer)


def distributions(windows: Windows, logits: Logits, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """softmax(logits / temperature) within every window, of start and end, flat as the logits."""
    lengths = windows.lengths_W
    first = np.cumsum(lengths) - lengths
    sides = []
    for flat in (logits.start, logits.end):
        scaled = flat / np.float32(temperature)
        powers = np.exp(scaled - np.repeat(np.maximum.reduceat(scaled, first), lengths))
        sides.append(powers / np.repeat(np.add.reduceat(powers, first), lengths))
    return tuple(sides)


def gold_probability(model: nn.Module, windows: Windows, precision: str) -> float:
    """The mean probability that a reader gives to the gold first and last token, over the windows that hold both."""
    sides, first = distributions(windows, predict(model, windows, precision=precision)), np.cumsum(windows.lengths_W)
    first, held = first - windows.lengths_W, np.flatnonzero(windows.labels["start"])
    places = [(first + windows.labels[name])[held] for name in ("start", "end")]
    return float(np.mean([side[place].mean() for side, place in zip(sides, places, strict=True)]))


def validation(preset: Preset, domains: Sequence[str]) -> Callable[[nn.Module], float]:
    """What a training is selected by: F1 on the validation sets, averaged over the domains."""

    def validate(model: nn.Module) -> float:
        model.eval()
        scores = []
        for name in domains:
            windows = windows_of(preset, [name], "valid")
            said = answers(preset, model, windows, preset.data.may_be_unanswerable(name))
            scores.append(metrics.score(windows.examples, said).f1.mean())
        return float(np.mean(scores))

    return validate


def windows_validated(preset: Preset, domains: Sequence[str]) -> int:
    """How many windows a training reads that is selected by `validation`, at all its evaluations."""
    return preset.training.evaluations * sum(len(windows_of(preset, [name], "valid")) for name in domains)


def decoded(preset: Preset, windows: Windows, logits: Logits, no_answer: bool | np.ndarray) -> list[Prediction]:
    """The answers that logits come to, by the preset's rules; ``no_answer`` as in `decoding.decode`."""
    n_best, longest = preset.answers.n_best, preset.answers.max_tokens
    return decoding.decode(windows, logits, n_best=n_best, max_answer_tokens=longest, no_answer=no_answer)
