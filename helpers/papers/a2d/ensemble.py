"""The outputs of an ensemble of readers on its training windows, stored once for all students (Hu et al. 2018)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from helpers import decoding, metrics
from helpers.batches import Batches
from helpers.decoding import Logits
from helpers.extractive_qa import SIDES, Reader, distributions, windows_of
from helpers.loop import outputs
from helpers.models.attention import keep_attention
from helpers.sequences import Windows
from helpers.task import Task
from helpers.teachers import StoredTeacher

CONFUSING = tuple(f"confusing_{side}" for side in SIDES)


@dataclass(frozen=True, kw_only=True, eq=False)
class EnsembleOutputs(Task):
    """Distributions, confusing answers and attention of several readers on the windows that they were trained on.

    The keys of the members have all else that it depends on: data, windows, precision, and how answers are decoded.
    """

    members: tuple[Reader, ...]
    temperature: float
    top_k: int

    def work(self) -> dict:
        """Ask the readers and store; return the number of windows, and of those with a confusing answer."""
        windows = windows_of(self.preset, self.members[0].domains, "train")
        tensors = self.ask((keep_attention(member.load()) for member in self.members), windows)
        save_file(tensors, self.folder / "outputs.safetensors")
        return {"windows": len(windows), "confused": int((tensors["confusing_start"] > 0).sum())}

    def ask(self, models: Iterable[nn.Module], windows: Windows) -> dict[str, Tensor]:
        """Compute the joint outputs of models for W windows (section 3.4).

        ``start``, ``end`` and ``attention`` are means of softened distributions and of attention, flat over windows,
        float16. ``confusing_start`` and ``confusing_end`` (W) are the confusing answer that any model is surest of.
        """
        precision, sums = self.preset.training.precision, {}
        best_W, positions_Wx2 = np.zeros(len(windows), np.float32), np.zeros((len(windows), 2), np.int32)
        for model in models:
            logits, attention = predict_with_attention(model, windows, precision)
            softened = distributions(windows, logits, self.temperature)
            for name, values in zip((*SIDES, "attention"), (*softened, attention), strict=True):
                sums[name] = sums.get(name, 0) + values
            places_Wx2, sure_W = self.confusing_answers(windows, distributions(windows, logits))
            surer = sure_W > best_W
            positions_Wx2[surer], best_W[surer] = places_Wx2[surer], sure_W[surer]
        means = {name: torch.from_numpy(total / len(self.members)).half() for name, total in sums.items()}
        return means | {name: torch.from_numpy(positions_Wx2[:, i].copy()) for i, name in enumerate(CONFUSING)}

    def confusing_answers(self, windows: Windows, probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Find a reader's confusing answer per window (section 3.2).

        It is the surest of the ``top_k`` best that shares no word with a gold answer. Returns first and last position
        (W×2) and the confidence p1(k) p2(l | k) (W), 0 where there is none, as where the window lacks the gold answer.
        """
        examples, settings = [windows.examples[example] for example in windows.example_W], self.preset.answers
        alone = replace(windows, examples=examples, example_W=np.arange(len(windows)))  # each window by itself
        logs = Logits(*(np.log(np.maximum(side, np.finfo(np.float32).tiny)) for side in probabilities))
        n_best = max(self.top_k, settings.n_best)
        predictions = decoding.decode(alone, logs, n_best=n_best, max_answer_tokens=settings.max_tokens)
        positions, confidence = np.zeros((len(windows), 2), np.int32), np.zeros(len(windows), np.float32)
        for window in np.flatnonzero(windows.labels["start"]):
            for candidate in predictions[window].n_best[: self.top_k]:
                if candidate.span is not None and metrics.answer_f1(examples[window], candidate.text) == 0:
                    positions[window] = windows.positions(window, candidate.span)
                    confidence[window] = np.exp(candidate.score)
                    break
        return positions, confidence


def add_outputs(batches: Batches, outputs: Sequence[EnsembleOutputs]) -> None:
    """Add several ensembles' outputs to batches, whose windows are one ensemble's after another. Raises DamagedFile."""
    parts = [load_file(of_ensemble.file("outputs.safetensors")) for of_ensemble in outputs]
    stored = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    positions = {f"teacher_{name}": stored[name].numpy() for name in CONFUSING}
    batches.sequences = batches.sequences.with_labels(**positions)
    of_tokens, of_pairs = {side: stored[side] for side in SIDES}, {"attention": stored["attention"]}
    batches.teachers.append(StoredTeacher(batches.sequences, of_tokens, of_pairs))


def predict_with_attention(model: nn.Module, windows: Windows, precision: str) -> tuple[Logits, np.ndarray]:
    """Return logits as `reading.predict` does, and the attention of all windows, passage × question tokens, flat.

    The model must keep its attention (`helpers.models.attention.keep_attention`).
    """
    attention: list[np.ndarray] = [np.empty(0)] * len(windows)

    def batches():
        for index, _, output in outputs(model, windows, precision=precision):
            for row, window in enumerate(index):
                block = output.attention[row, : windows.count_W[window], : windows.first_count_W[window]]
                attention[window] = block.float().cpu().numpy()
            yield index, output.start_logits, output.end_logits

    logits = Logits.collect(windows, batches())
    return logits, np.concatenate([block.ravel() for block in attention])
