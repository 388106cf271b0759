"""What an ensemble of readers knows of questions, computed once for all that learn it (Hu et al. 2018, section 3)."""

import dataclasses
import shutil
from collections.abc import Iterable

import exca
import numpy as np
import torch
from torch import Tensor, nn

from helpers.batches.sequences import Windows
from helpers.data.unlabelled import load_unlabelled
from helpers.models.attention import keep_attention
from helpers.presets.schema import AnswerSettings
from helpers.tasks import decoding, spans
from helpers.tasks.logits import Logits
from helpers.tasks.metrics import f1
from helpers.tasks.views import read
from helpers.training.cached import Cached, load_outputs
from helpers.training.checkpoints import save_tensors

FILE = "knowledge.safetensors"


class EnsembleOutputs(Cached):
    """What an ensemble knows of the training questions of some domains, or of questions that nobody has answered,
    computed once and read by all its students."""

    members: list[str]  # keys of the readers
    domains: list[str]
    unlabelled: str = ""  # fingerprint of the questions that are asked instead
    place: str = ""  # of these
    temperature: float
    top_k: int
    attention: bool
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label", "place"))
    def fit(self) -> dict:
        """Ask the readers, and store what they know beside the task's result; returns the number of windows, of those
        with a confusing answer, and of bytes. Raises OSError before anything is computed where the disk cannot hold
        it."""
        folder, windows = self.infra.uid_folder(create=True), self.windows()
        needed, free = knowledge_bytes(windows, self.attention), shutil.disk_usage(folder).free
        if needed > free:
            raise OSError(
                f"the ensemble's outputs on {len(windows):,} windows take {needed / 1e6:,.0f} MB, the disk of "
                f"{folder} has {free / 1e6:,.0f} MB: free some space, or set HELPERS_RESULTS to another disk"
            )
        readers = map(self.load, self.members)
        if self.attention:
            readers = map(keep_attention, readers)
        known = self.preset.answers, self.preset.training.precision, self.attention
        tensors = knowledge_of(readers, windows, self.temperature, self.top_k, *known)
        facts = {"teacher": self.key, "windows": windows.fingerprint()}
        save_tensors(folder / FILE, tensors, facts, "ensemble's outputs")
        confused = int((tensors["confusing_start"] > 0).sum())
        return {"windows": len(windows), "confused": confused, "bytes": needed}

    def builds_on(self) -> list[str]:
        """The keys of its members."""
        return self.members

    def windows(self) -> Windows:
        """What the ensemble is asked about."""
        if self.unlabelled:
            return spans.windows_over(self.preset, load_unlabelled(self.preset.data, self.place).examples)
        return spans.windows_of(self.preset, self.domains, "train")

    def windows_read(self) -> int:
        """All of them, once a member."""
        return len(self.windows()) * len(self.members)

    def stored(self) -> dict[str, Tensor]:
        """What was stored. Raises DamagedFile."""
        return load_outputs(self.infra.uid_folder() / FILE, self.key, self.windows().fingerprint())


def confusing_answers(
    windows: Windows, probabilities: tuple[np.ndarray, np.ndarray], top_k: int, answers: AnswerSettings
) -> tuple[np.ndarray, np.ndarray]:
    """One reader's confusing answer in every window (section 3.2): among its ``top_k`` answers the most confident
    that shares no word with a gold answer.

    Returns first and last position (W×2, 0 where there is none, as where the window does not hold the gold answer) and
    the confidence p1(k) p2(l | k) (W).
    """
    alone = dataclasses.replace(
        windows,
        examples=[windows.examples[example] for example in windows.example_W],
        example_W=np.arange(len(windows)),
    )
    tiny = np.finfo(np.float32).tiny
    logs = Logits(*(np.log(np.maximum(side, tiny)) for side in probabilities))
    best = decoding.decode(alone, logs, n_best=max(top_k, answers.n_best), max_answer_tokens=answers.max_tokens)
    positions, confidence = np.zeros((len(windows), 2), np.int32), np.zeros(len(windows), np.float32)
    for window in np.flatnonzero(windows.labels["start"]):
        gold = alone.examples[window].answers
        for candidate in best[window].n_best[:top_k]:
            if candidate.span is not None and f1(candidate.text, gold) == 0:
                positions[window] = windows.positions(window, candidate.span)
                confidence[window] = np.exp(candidate.score)
                break
    return positions, confidence


def knowledge_of(
    members: Iterable[nn.Module],
    windows: Windows,
    temperature: float,
    top_k: int,
    answers: AnswerSettings,
    precision: str,
    attention: bool = True,
) -> dict[str, Tensor]:
    """What an ensemble knows of its training windows (section 3.4): the arithmetic means of its members' softened
    distributions and, if asked for, of their attention (float16), and the confusing answer that any of them is surest
    of."""
    number, sums = 0, {}
    best, positions = np.zeros(len(windows), np.float32), np.zeros((len(windows), 2), np.int32)
    for model in members:
        number += 1
        if attention:
            logits, *weights = read(model, windows, precision)
        else:
            logits, weights = spans.predict(model, windows, precision=precision), []
        start, end = spans.distributions(windows, logits, temperature)
        for name, values in zip(("start", "end", "attention"), (start, end, *weights), strict=False):
            sums[name] = sums[name] + values if name in sums else values
        own, confidence = confusing_answers(windows, spans.distributions(windows, logits), top_k, answers)
        surer = confidence > best
        positions[surer], best[surer] = own[surer], confidence[surer]
    means = {name: torch.from_numpy(total / number).half() for name, total in sums.items()}
    sides = {f"confusing_{side}": torch.from_numpy(positions[:, i].copy()) for i, side in enumerate(("start", "end"))}
    return means | sides


def knowledge_bytes(windows: Windows, attention: bool = True) -> int:
    """How much of the disk ``knowledge_of`` takes: two numbers of two bytes a token, one a pair of a passage and a
    question token for the attention, and two of four bytes a window."""
    pairs = int((windows.first_count_W.astype(np.int64) * windows.count_W).sum()) if attention else 0
    return 4 * int(windows.lengths_W.sum()) + 2 * pairs + 8 * len(windows)
