"""What readers say of questions, as probabilities by another reader's tokens: a teacher may have any architecture and
tokenizer, since its answers are carried over by the characters of the passage."""

from collections.abc import Iterator
from pathlib import Path

import exca
import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from helpers.batches.sequences import Windows
from helpers.data.examples import Example
from helpers.models.pretrained import encoder_fingerprint
from helpers.presets.schema import Preset
from helpers.tasks import spans
from helpers.tasks.answering import Reader, load_reader
from helpers.tasks.logits import Logits
from helpers.training import losses
from helpers.training.cached import Cached, load_outputs
from helpers.training.checkpoints import save_tensors
from helpers.training.loop import Batch, Loss

SIDES = ("start", "end")
Sides = tuple[np.ndarray, np.ndarray]  # of start and end, flat: all windows' real tokens, one after another


class SoftLabels(Cached):
    """The mean probabilities of an answer's start and end that teachers give to every token of a domain's training
    windows, stored as float16; each teacher cuts and reads the text by its own tokenizer.

    ``teachers`` are fingerprints of encoders, ``places`` where these lie, ``windows`` the fingerprint of what the
    probabilities are of.
    """

    teachers: list[str]
    places: list[str]
    domain: str
    windows: str
    temperature: float  # of the softmax
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label", "places"))
    def fit(self) -> dict:
        """Compute and store; returns the number of windows. Raises EncoderError where a teacher cannot be loaded."""
        windows, precision = spans.windows_of(self.preset, [self.domain], "train"), self.preset.training.precision
        said = [aligned(load_reader(place), windows, self.temperature, precision) for place in self.places]
        means = dict(zip(SIDES, np.mean(said, axis=0), strict=True))
        tensors = {side: torch.from_numpy(values).half() for side, values in means.items()}
        facts = {"teacher": self.key, "windows": windows.fingerprint()}
        save_tensors(self.infra.uid_folder(create=True) / "outputs.safetensors", tensors, facts, "teachers' outputs")
        return {"windows": len(windows)}

    def windows_read(self) -> int:
        """Those of its training questions, by each teacher."""
        return len(spans.windows_of(self.preset, [self.domain], "train")) * len(self.teachers)


def soft_labels(preset: Preset, domain: str, teacher: str, temperature: float) -> SoftLabels:
    """The task of asking a teacher, a folder or a name on the Hub, about a domain's training questions."""
    return SoftLabels(
        preset=preset,
        label=f"soft labels, {domain}",
        teachers=[encoder_fingerprint(teacher)],
        places=[teacher],
        domain=domain,
        windows=spans.windows_of(preset, [domain], "train").fingerprint(),
        temperature=temperature,
    )


def stored_labels(folder: Path | str, key: str, preset: Preset, domain: str) -> dict[str, Tensor]:
    """The probabilities, ``start`` and ``end``, that the `SoftLabels` with this key stored. Raises DamagedFile."""
    windows = spans.windows_of(preset, [domain], "train")
    return load_outputs(Path(folder) / key / "outputs.safetensors", key, windows.fingerprint())


def aligned(reader: Reader, windows: Windows, temperature: float = 1.0, precision: str = "fp32") -> Sides:
    """What a reader says of each of ``windows``, which are another tokenizer's: it reads the same question and the same
    stretch of the passage, in windows of its own, and its probabilities go to the tokens with the same characters."""
    stretches = []
    for window, (example, chars) in enumerate(_stretches(windows)):
        text = example.context[chars[0, 0] : chars[-1, 1]] if len(chars) else ""
        stretches.append(Example(str(window), example.question, text, (), None, str(window)))
    theirs, logits = reader.read(stretches, precision)
    return carried(theirs, logits, windows, temperature)


def carried(theirs: Windows, logits: Logits, ours: Windows, temperature: float = 1.0) -> Sides:
    """Logits of the tokens of ``theirs``, each of whose examples is the text of one window of ``ours``, as
    probabilities of the tokens of the latter, which sum to one in every window.

    A start goes to the token that holds its first character, an end to the one that holds its last, and "no answer" to
    the first token. Where a text was read in several windows, a token has its highest logit and "no answer" its lowest,
    as answers are decoded. What was said of special and question tokens is left out.
    """
    offsets, places = (np.cumsum(windows.lengths_W) - windows.lengths_W for windows in (theirs, ours))
    rows_of = np.split(np.arange(len(theirs)), np.searchsorted(theirs.example_W, np.arange(1, len(ours))))
    sides = tuple(np.zeros(int(ours.lengths_W.sum()), np.float32) for _ in SIDES)
    for window, (_, chars) in enumerate(_stretches(ours)):
        rows, begin = rows_of[window], chars[0, 0] if len(chars) else 0
        known = theirs.context_chars[theirs.second_text_W[rows[0]]] + begin
        first = np.searchsorted(chars[:, 1], known[:, 0], side="right").clip(max=len(chars) - 1)
        last = (np.searchsorted(chars[:, 0], known[:, 1], side="left") - 1).clip(min=0)
        for side, flat, token in zip(sides, (logits.start, logits.end), (first, last), strict=True):
            highest = np.full(len(known), -np.inf, np.float32)
            for row in rows:
                at = slice(theirs.first_W[row], theirs.first_W[row] + theirs.count_W[row])
                place = offsets[row] + theirs.prefix_W[row]
                highest[at] = np.maximum(highest[at], flat[place : place + theirs.count_W[row]])
            null, *shares = softmax(np.append(flat[offsets[rows]].min(), highest) / temperature)
            side[places[window]] = null
            if len(chars):
                np.add.at(side, places[window] + ours.prefix_W[window] + token, shares)
    return sides


def _stretches(windows: Windows) -> Iterator[tuple[Example, np.ndarray]]:
    """Each window's example, and the character ranges of the passage tokens that it holds."""
    for text, first, count, example in zip(
        windows.second_text_W, windows.first_W, windows.count_W, windows.example_W, strict=True
    ):
        yield windows.examples[example], windows.context_chars[text][first : first + count]


def taught(loss: Loss, temperature: float) -> Loss:
    """``loss`` and the cross-entropy with a teacher's ``soft_start`` and ``soft_end`` of the batch, weighted by the
    temperature's square (Hinton et al. 2015; L_KD of Hu et al. 2018, section 2.2)."""

    def both(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        student, teacher = ((output.start_logits, output.end_logits), tuple(batch[f"soft_{side}"] for side in SIDES))
        values_B = losses.soft_cross_entropy(student, teacher, batch["attention_mask"], temperature)
        return {**loss(output, batch, progress), "soft labels": temperature**2 * losses.mean(values_B)}

    return both
