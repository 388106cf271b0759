"""A2D: attention-guided answer distillation (Hu et al. 2018), section 3.

An ensemble of readers that differ in their initial weights is asked once about all training questions. Its mean
distributions of the answer's start and end, its mean attention and its most confusing answers are stored, and one
reader learns from them (Eq. 1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from helpers.batches.sequences import Windows
from helpers.models.pretrained import load_saved
from helpers.presets.papers import A2dSettings
from helpers.presets.schema import AnswerSettings
from helpers.tasks import decoding
from helpers.tasks.decoding import Logits
from helpers.tasks.metrics import f1
from helpers.tasks.spans import span_loss
from helpers.training import losses
from helpers.training.loop import Batch, Loss, outputs, training_device


class EnsembleError(ValueError):
    """Readers that cannot be asked together; the message says which one differs and in what."""


def weights_of_terms(settings: A2dSettings) -> dict[str, float]:
    """The weights of Eq. 1: lambda is tau squared, to scale the gradients (section 2.2)."""
    return {
        "CE": 1.0,
        "KD": settings.temperature**2,
        "ANS": settings.answer_weight,
        "ATT": settings.attention_weight,
    }


def joint_loss(weights: dict[str, float], temperature: float) -> Loss:
    """Eq. 1, with those of its terms CE, KD, ANS and ATT that have a weight; each a mean over the windows."""

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        student = output.start_logits, output.end_logits
        terms = {}
        if "CE" in weights:
            terms["CE"] = span_loss(output, batch, progress)["likelihood"]
        if "KD" in weights:
            teacher = batch["teacher_start"], batch["teacher_end"]
            terms["KD"] = losses.soft_cross_entropy(student, teacher, batch["attention_mask"], temperature).mean()
        if "ANS" in weights:
            gold, confusing = ((batch[f"{which}start"], batch[f"{which}end"]) for which in ("", "confusing_"))
            terms["ANS"] = losses.confusion_margin(student, gold, confusing).mean()
        if "ATT" in weights:
            terms["ATT"] = losses.attention_distance(output.attention, batch["teacher_attention"]).mean()
        return {name: weights[name] * term for name, term in terms.items()}

    return loss


def load_members(folders: Iterable[Path], trained_on: dict[str, str]) -> Iterable[nn.Module]:
    """The readers of an ensemble, one after another, in evaluation mode.

    Raises EnsembleError for one that was trained with another vocabulary or other windows than ``trained_on`` says.
    """
    for folder in folders:
        model = load_saved(folder)
        known = getattr(model.config, "trained_on", {})
        for what, expected in trained_on.items():
            if known.get(what) != expected:
                raise EnsembleError(
                    f"{folder} was trained with another {what} ({known.get(what, 'it does not say which')}) than the "
                    f"ensemble's ({expected}); train all its members with the same encoder, data and [windows]"
                )
        yield model.to(training_device())


def distributions(windows: Windows, logits: Logits, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """softmax(logits / temperature) within every window, of start and end, flat as the logits (section 2.2)."""
    lengths = windows.lengths_W
    first = np.cumsum(lengths) - lengths
    found = []
    for flat in (logits.start, logits.end):
        scaled = flat / np.float32(temperature)
        powers = np.exp(scaled - np.repeat(np.maximum.reduceat(scaled, first), lengths))
        found.append(powers / np.repeat(np.add.reduceat(powers, first), lengths))
    return tuple(found)


def ask(model: nn.Module, windows: Windows, precision: str) -> tuple[Logits, np.ndarray]:
    """The logits of a reader that keeps its attention, and the attention: for every window its passage tokens ×
    question tokens, flat, float32."""
    asked, count = windows.prefix_W - 2, windows.count_W
    attention: list[np.ndarray] = [np.empty(0)] * len(windows)

    def batches():
        for index, _, output in outputs(model, windows, precision=precision):
            for row, window in enumerate(index):
                attention[window] = output.attention[row, : count[window], : asked[window]].float().cpu().numpy()
            yield index, output.start_logits, output.end_logits

    logits = Logits.collect(windows, batches())
    return logits, np.concatenate([one.ravel() for one in attention])


def confusing_answers(
    windows: Windows, probabilities: tuple[np.ndarray, np.ndarray], top_k: int, answers: AnswerSettings
) -> tuple[np.ndarray, np.ndarray]:
    """One reader's confusing answer in every window (section 3.2): among its ``top_k`` answers the most confident
    that shares no word with a gold answer.

    Returns first and last position (W×2, 0 where there is none, as where the window does not hold the gold answer) and
    the confidence p1(k) p2(l | k) (W).
    """
    each = dataclasses.replace(
        windows,
        examples=[windows.examples[example] for example in windows.example_W],
        example_W=np.arange(len(windows)),
    )
    tiny = np.finfo(np.float32).tiny
    logs = Logits(*(np.log(np.maximum(side, tiny)) for side in probabilities))
    found = decoding.decode(each, logs, n_best=max(top_k, answers.n_best), max_answer_tokens=answers.max_tokens)
    positions, confidence = np.zeros((len(windows), 2), np.int32), np.zeros(len(windows), np.float32)
    for window in np.flatnonzero(windows.start_W):
        gold = each.examples[window].answers
        for candidate in found[window].n_best[:top_k]:
            if candidate.span is not None and f1(candidate.text, gold) == 0:
                positions[window] = windows.positions(window, candidate.span)
                confidence[window] = np.exp(candidate.score)
                break
    return positions, confidence


def knowledge_of(
    members: Iterable[nn.Module], windows: Windows, settings: A2dSettings, answers: AnswerSettings, precision: str
) -> dict[str, Tensor]:
    """What an ensemble knows of its training windows (section 3.4): the arithmetic means of its members' softened
    distributions and of their attention (float16), and the confusing answer that any of them is surest of."""
    number, sums = 0, {}
    best, positions = np.zeros(len(windows), np.float32), np.zeros((len(windows), 2), np.int32)
    for model in members:
        number += 1
        logits, attention = ask(model, windows, precision)
        start, end = distributions(windows, logits, settings.temperature)
        for name, values in (("start", start), ("end", end), ("attention", attention)):
            sums[name] = sums[name] + values if name in sums else values
        own, confidence = confusing_answers(windows, distributions(windows, logits), settings.top_k, answers)
        surer = confidence > best
        positions[surer], best[surer] = own[surer], confidence[surer]
    means = {name: torch.from_numpy(total / number).half() for name, total in sums.items()}
    sides = {f"confusing_{side}": torch.from_numpy(positions[:, i].copy()) for i, side in enumerate(("start", "end"))}
    return means | sides


def knowledge_bytes(windows: Windows) -> int:
    """How much of the disk ``knowledge_of`` takes: two numbers of two bytes a token, one a pair of a passage and a
    question token, and two of four bytes a window."""
    pairs = int(((windows.prefix_W - 2).astype(np.int64) * windows.count_W).sum())
    return 4 * int(windows.lengths_W.sum()) + 2 * pairs + 8 * len(windows)
