"""The outputs of an ensemble of readers on its training windows, stored once for all students (Hu et al. 2018)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from helpers import extractive_qa, metrics
from helpers.batches import Batches
from helpers.extractive_qa import SIDES, distributions, finite_log, windows_of
from helpers.models.attention import keep_attention
from helpers.presets.schema import Preset
from helpers.sequences import Windows
from helpers.training import Outputs, StoredTeacher, Training, predict

CONFUSING = tuple(f"confusing_{side}" for side in SIDES)


@dataclass(frozen=True)
class EnsembleTargets:
    """The outputs that teach on all training windows, one after another (`helpers.training.Teacher`)."""

    outputs: tuple[Outputs, ...]

    def add_to(self, batches: Batches, training: Training) -> None:
        parts = [outputs.tensors() for outputs in self.outputs]
        stored = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        positions = {f"teacher_{name}": stored[name].numpy() for name in CONFUSING}
        batches.sequences = batches.sequences.with_labels(**positions)
        of_tokens, of_pairs = {side: stored[side] for side in SIDES}, {"attention": stored["attention"]}
        batches.teachers.append(StoredTeacher(batches.sequences, of_tokens, of_pairs))


def collect_targets(outputs: Outputs, temperature: float, top_k: int) -> tuple[dict, dict[str, Tensor]]:
    """Compute what an ensemble teaches, and count the windows, and those with a confusing answer."""
    domains = [name.removeprefix("train/") for name in outputs.sets]
    windows, members = windows_of(outputs.preset, domains, "train"), next(iter(outputs.models.values()))
    models = (keep_attention(member.load()) for member in members)
    tensors = join_outputs(outputs.preset, models, windows, len(members), temperature, top_k)
    return {"windows": len(windows), "confused": int((tensors["confusing_start"] > 0).sum())}, tensors


def join_outputs(
    preset: Preset, models: Iterable[nn.Module], windows: Windows, number: int, temperature: float, top_k: int
) -> dict[str, Tensor]:
    """Compute the joint outputs of a ``number`` of models for W windows (section 3.4).

    ``start``, ``end`` and ``attention`` are means of softened distributions and of attention, flat over windows,
    float16. ``confusing_start`` and ``confusing_end`` (W) are the confusing answer that any model is surest of.
    """
    sums: dict[str, np.ndarray] = {}
    best_W, positions_Wx2 = np.zeros(len(windows), np.float32), np.zeros((len(windows), 2), np.int32)
    for model in models:
        logits = predict(model, windows, preset.training.precision, attention=True)
        softened = distributions(windows, logits, temperature)
        for name, values in zip((*SIDES, "attention"), (*softened, logits.attention), strict=True):
            sums[name] = sums.get(name, 0) + values
        places_Wx2, sure_W = confusing_answers(preset, windows, distributions(windows, logits), top_k)
        surer = sure_W > best_W
        positions_Wx2[surer], best_W[surer] = places_Wx2[surer], sure_W[surer]
    means = {name: torch.from_numpy(total / number).half() for name, total in sums.items()}
    return means | {name: torch.from_numpy(positions_Wx2[:, i].copy()) for i, name in enumerate(CONFUSING)}


def confusing_answers(
    preset: Preset, windows: Windows, probabilities: Sequence[np.ndarray], top_k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find a reader's confusing answer per window (section 3.2).

    It is the surest of the ``top_k`` best that shares no word with a gold answer. The paper's readers read words,
    so answers are extended to whole words: a piece of the gold answer confuses nobody. Returns first and last position
    (W×2) and the confidence p1(k) p2(l | k) (W), 0 where there is none, as where the window lacks the gold answer.
    """
    examples = [windows.examples[example] for example in windows.example_W]
    alone = replace(windows, examples=examples, example_W=np.arange(len(windows)))  # each window by itself
    limits = {**preset.answers.model_dump(), "n_best": max(top_k, preset.answers.n_best)}
    predictions = extractive_qa.decode(alone, finite_log(*probabilities), **limits)
    positions, confidence = np.zeros((len(windows), 2), np.int32), np.zeros(len(windows), np.float32)
    for window in np.flatnonzero(windows.labels["start"]):
        example, scores = examples[window], {}
        for candidate in predictions[window].n_best:  # best first
            if candidate.span is not None:
                scores.setdefault(extend_to_words(example.context, candidate.span), candidate.score)
        for span in list(scores)[:top_k]:
            first, last = windows.positions(window, span)
            is_apart = last < windows.labels["start"][window] or windows.labels["end"][window] < first
            if first and is_apart and metrics.answer_f1(example, example.context[slice(*span)]) == 0:
                positions[window] = first, last
                confidence[window] = np.exp(scores[span])
                break
    return positions, confidence


def extend_to_words(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Extend a span of characters (half-open) to whole words, where the text sets spaces between words."""
    if metrics.is_unspaced(text):
        return span
    begin, end = span
    while begin and text[begin - 1].isalnum():
        begin -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return begin, end
