"""The cached work of A2D: training a reader by Eq. 1, and what an ensemble knows of its training questions."""

import dataclasses
import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import exca
import numpy as np
import pandas as pd
import pydantic
import torch
from pandas.io.formats.style import Styler
from torch import Tensor, nn

from helpers import paths
from helpers.batches.plans import Batches
from helpers.batches.sequences import Windows
from helpers.models.attention import attention_of, keep_attention
from helpers.models.mnemonic import make_reader
from helpers.models.pretrained import load_encoder, load_saved, load_tokenizer
from helpers.papers import examples
from helpers.presets.papers import A2dSettings
from helpers.presets.schema import AnswerSettings, Preset
from helpers.tasks import decoding, spans
from helpers.tasks.decoding import Logits
from helpers.tasks.metrics import f1
from helpers.tasks.views import read
from helpers.training import losses
from helpers.training.cached import Cached, CachedTraining, load_outputs
from helpers.training.checkpoints import save_tensors
from helpers.training.loop import Batch, Loss, fit, training_device
from helpers.training.teachers import StoredTeacher

Kind = Literal["RMR", "BERT"]


class A2dTraining(CachedTraining):
    """One training of a reader: a member of an ensemble, or a student of one."""

    kind: Kind
    first_step: int = 0  # of the order of questions, which the reader it starts from began
    teacher: str = ""  # key of the knowledge that it learns from
    temperature: float = 1.0  # of that knowledge
    terms: dict[str, float] = pydantic.Field(default_factory=lambda: {"CE": 1.0})  # of Eq. 1, with their weights
    smoothing: float = 0.0  # of the labels
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="3")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select (without CE, as in a first stage, keep the last weights), save; returns the best validation
        F1, all of them, steps, seconds, the number of trained parameters and the weights' digest."""
        preset, domains = self.preset, sorted(self.preset.data.domains)
        model = self.initial()
        done = fit(
            model,
            self.batches(domains),
            joint_loss(self.terms, self.temperature, self.smoothing),
            preset.training,
            seed=self.seed,
            validate=spans.validation(preset, domains) if "CE" in self.terms else None,
            checkpoint=self.checkpoint(),
            label=self.label,
        )
        parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        return {**self.keep(model.eval(), done, spans.reading(preset, domains)), "parameters": parameters}

    def initial(self) -> nn.Module:
        """The reader as its training begins."""
        preset = self.preset
        if self.start:
            folder = self.folder_of(self.start)
            model = load_saved(folder) if self.kind == "RMR" else load_encoder(str(folder), seed=self.seed)
        else:
            model = new_reader(preset, self.kind, self.seed)
        attention_of(model)  # an ensemble of readers without is of no use, so say so before it is trained
        return keep_attention(model) if "ATT" in self.terms else model

    def batches(self, domains: list[str]) -> Batches:
        """Its training batches, with what the teacher says of them."""
        last = self.first_step + self.steps
        batches = spans.training_batches(self.preset, domains, last, self.seed, training_device())
        del batches.plan[: self.first_step]
        if self.teacher:
            known = stored_knowledge(self.infra.folder, self.teacher, self.preset)
            batches.teachers.append(teacher_of(batches, known, self.terms))
        return batches


class EnsembleKnowledge(Cached):
    """What an ensemble knows of its training questions, computed once and read by all its students."""

    members: list[str]  # keys of the readers
    temperature: float
    top_k: int
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="2")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Compute and store; returns the number of windows, of those with a confusing answer, and of bytes. Raises
        OSError before anything is computed where the disk cannot hold it."""
        preset, windows = self.preset, training_windows(self.preset)
        folder = self.infra.uid_folder(create=True)
        needed, free = knowledge_bytes(windows), shutil.disk_usage(folder).free
        if needed > free:
            raise OSError(
                f"the ensemble's outputs on {len(windows):,} windows take {needed / 1e6:,.0f} MB, the disk of "
                f"{folder} has {free / 1e6:,.0f} MB: free some space, or set HELPERS_RESULTS to another disk"
            )
        settings = preset.a2d.model_copy(update={"temperature": self.temperature, "top_k": self.top_k})
        members = map(keep_attention, map(self.load, self.members))
        tensors = knowledge_of(members, windows, settings, preset.answers, preset.training.precision)
        facts = {"teacher": self.key, "windows": windows.fingerprint()}
        save_tensors(folder / "knowledge.safetensors", tensors, facts, "ensemble's outputs")
        confused = int((tensors["confusing_start"] > 0).sum())
        return {"windows": len(windows), "confused": confused, "bytes": needed}

    def check(self) -> None:
        """Raises DamagedFile where what is stored is not what was computed."""
        stored_knowledge(self.infra.folder, self.key, self.preset)


def joint_loss(weights: dict[str, float], temperature: float, smoothing: float = 0.0) -> Loss:
    """Eq. 1, with those of its terms CE, KD, ANS and ATT that have a weight; each a mean over the windows. CE may be of
    smoothed labels."""

    def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
        student = output.start_logits, output.end_logits
        terms = {}
        if "CE" in weights:
            terms["CE"] = spans.loss(output, batch, progress, smoothing)["likelihood"]
        if "KD" in weights:
            teacher = batch["teacher_start"], batch["teacher_end"]
            terms["KD"] = losses.soft_cross_entropy(student, teacher, batch["attention_mask"], temperature).mean()
        if "ANS" in weights:
            gold, confusing = ((batch[f"{which}start"], batch[f"{which}end"]) for which in ("", "teacher_confusing_"))
            terms["ANS"] = losses.confusion_margin(student, gold, confusing).mean()
        if "ATT" in weights:
            terms["ATT"] = losses.attention_distance(output.attention, batch["teacher_attention"]).mean()
        return {name: weights[name] * term for name, term in terms.items()}

    return loss


def teacher_of(batches: Batches, stored: dict[str, Tensor], terms: Iterable[str]) -> StoredTeacher:
    """A teacher that says what the terms of Eq. 1 read of an ensemble's knowledge."""
    sides = ("start", "end")
    softened = {side: stored[side] for side in sides if "KD" in terms}
    confusing = {f"confusing_{side}": stored[f"confusing_{side}"].long() for side in sides if "ANS" in terms}
    attention = {"attention": stored["attention"]} if "ATT" in terms else {}
    return StoredTeacher(batches.tensors, of_sequences=confusing, of_tokens=softened, of_pairs=attention)


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
    members: Iterable[nn.Module], windows: Windows, settings: A2dSettings, answers: AnswerSettings, precision: str
) -> dict[str, Tensor]:
    """What an ensemble knows of its training windows (section 3.4): the arithmetic means of its members' softened
    distributions and of their attention (float16), and the confusing answer that any of them is surest of."""
    number, sums = 0, {}
    best, positions = np.zeros(len(windows), np.float32), np.zeros((len(windows), 2), np.int32)
    for model in members:
        number += 1
        logits, attention = read(model, windows, precision)
        start, end = spans.distributions(windows, logits, settings.temperature)
        for name, values in (("start", start), ("end", end), ("attention", attention)):
            sums[name] = sums[name] + values if name in sums else values
        own, confidence = confusing_answers(windows, spans.distributions(windows, logits), settings.top_k, answers)
        surer = confidence > best
        positions[surer], best[surer] = own[surer], confidence[surer]
    means = {name: torch.from_numpy(total / number).half() for name, total in sums.items()}
    sides = {f"confusing_{side}": torch.from_numpy(positions[:, i].copy()) for i, side in enumerate(("start", "end"))}
    return means | sides


def knowledge_bytes(windows: Windows) -> int:
    """How much of the disk ``knowledge_of`` takes: two numbers of two bytes a token, one a pair of a passage and a
    question token, and two of four bytes a window."""
    pairs = int((windows.first_count_W.astype(np.int64) * windows.count_W).sum())
    return 4 * int(windows.lengths_W.sum()) + 2 * pairs + 8 * len(windows)


def example(student: A2dTraining, number: int = 0) -> Styler:
    """A training question, the ``number``-th that has a confusing answer, on its way through a student's loss: the
    terms of Eq. 1, none weighted. Where none has one, that whose window holds its answer."""
    windows, batches = training_windows(student.preset), student.batches(sorted(student.preset.data.domains))
    confusing = batches.teachers[0].of_sequences.get("confusing_start", torch.zeros(1)).cpu().numpy()
    loss = joint_loss(dict.fromkeys(student.terms, 1.0), student.temperature)
    return examples.of_question(
        *(student, windows, int(np.flatnonzero(confusing if confusing.any() else windows.labels["start"])[number])),
        *(batches, lambda output, batch: loss(output, batch, 1.0)),
        answers={"right": "", **({"confusing": "teacher_confusing_"} if confusing.any() else {})},
        temperature=student.temperature,
        prepare=keep_attention if "ATT" in student.terms else lambda model: model,
    )


def storage(preset: Preset) -> pd.DataFrame:
    """What an ensemble's outputs on the training questions will take on the disk, and what is free there."""
    windows, folder = training_windows(preset), paths.models(preset.name)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"outputs of one ensemble": knowledge_bytes(windows), "free": shutil.disk_usage(folder).free}
    table = {name: f"{size / 1e6:,.1f} MB" for name, size in sizes.items()}
    return pd.DataFrame([{"windows": f"{len(windows):,}", **table}], index=[", ".join(preset.data.domains)])


def stored_knowledge(folder: Path | str, key: str, preset: Preset) -> dict[str, Tensor]:
    """What the ``EnsembleKnowledge`` with this key stored. Raises DamagedFile."""
    return load_outputs(Path(folder) / key / "knowledge.safetensors", key, training_windows(preset).fingerprint())


def new_reader(preset: Preset, kind: Kind, seed: int) -> nn.Module:
    """A reader that is not trained yet."""
    if kind == "RMR":
        return make_reader(load_tokenizer(preset.encoder), seed, **preset.mnemonic.model())
    longest = preset.windows.max_length
    return load_encoder(preset.encoder, seed=seed, random_layers=preset.random_layers, max_length=longest)


def training_windows(preset: Preset) -> Windows:
    """The windows that readers are trained on and an ensemble is asked about."""
    return spans.windows_of(preset, sorted(preset.data.domains), "train")


def vocabulary(preset: Preset) -> str:
    """Names the word pieces that are read."""
    pieces = load_tokenizer(preset.encoder).get_vocab()
    return hashlib.sha256("\n".join(sorted(pieces, key=pieces.get)).encode()).hexdigest()[:16]
