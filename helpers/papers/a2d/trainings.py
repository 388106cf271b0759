"""The cached work of A2D: training a reader, what an ensemble knows of its training questions, and answering."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import exca
import numpy as np
import pydantic
import torch
from torch import nn

from helpers.batches.plans import Batches
from helpers.batches.sequences import Windows
from helpers.data.adversarial import load_adversarial
from helpers.data.domains import load_domains
from helpers.data.examples import Example
from helpers.models.attention import attention_of, keep_attention
from helpers.models.mnemonic import make_reader
from helpers.models.pretrained import load_encoder, load_saved, load_tokenizer
from helpers.papers.a2d import algorithm
from helpers.presets.schema import Preset
from helpers.tasks import decoding
from helpers.tasks.decoding import Logits
from helpers.tasks.spans import batches_of, validation, windows_of, windows_over
from helpers.training.cached import Task, Training, load_outputs
from helpers.training.checkpoints import save_tensors
from helpers.training.loop import fit, predict, training_device

Kind = Literal["RMR", "BERT"]
PARTS = {"Dev": "valid", "Test": "test"}  # as the paper calls them


class Reader(Training):
    """One trained reader: a member of an ensemble, or a student of one."""

    kind: Kind
    start: str = ""  # key of the reader whose weights it goes on from
    first_step: int = 0  # of the order of questions, which that reader began
    teacher: str = ""  # key of the knowledge that it learns from
    temperature: float = 1.0  # of that knowledge
    terms: dict[str, float] = pydantic.Field(default_factory=lambda: {"CE": 1.0})  # of Eq. 1, with their weights
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Train, select (without CE, as in a first stage, keep the last weights), save; returns the best validation
        F1, all of them, steps, seconds and the number of trained parameters."""
        preset, domains = self.preset, sorted(self.preset.data.domains)
        model = self._initial()
        done = fit(
            model,
            self._batches(domains),
            algorithm.joint_loss(self.terms, self.temperature),
            preset.training,
            seed=self.seed,
            validate=validation(preset, domains) if "CE" in self.terms else None,
            checkpoint=self.checkpoint(),
            label=self.label,
        )
        model.config.trained_on = trained_on(preset)
        return {
            "best": done.best_score,
            "validation": done.history,
            "steps": done.steps,
            "seconds": done.seconds,
            "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "weights": self.keep(model.eval()),
        }

    def _initial(self) -> nn.Module:
        preset = self.preset
        if self.start:
            folder = self.folder_of(self.start)
            model = load_saved(folder) if self.kind == "RMR" else load_encoder(str(folder), seed=self.seed)
        else:
            model = new_reader(preset, self.kind, self.seed)
        attention_of(model)  # an ensemble of readers without is of no use, so say so before it is trained
        return keep_attention(model) if "ATT" in self.terms else model

    def _batches(self, domains: list[str]) -> Batches:
        batches = batches_of(self.preset, domains, self.first_step + self.steps, self.seed, training_device())
        del batches.plan[: self.first_step]
        if self.teacher:
            add_knowledge(batches, stored_knowledge(self.infra.folder, self.teacher, self.preset), self.terms)
        return batches


class Knowledge(Task):
    """What an ensemble knows of its training questions, computed once and read by all its students."""

    members: list[str]  # keys of the readers
    temperature: float
    top_k: int
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict:
        """Compute and store; returns the number of windows, of those with a confusing answer, and of bytes. Raises
        OSError before anything is computed where the disk cannot hold it."""
        preset, windows = self.preset, training_windows(self.preset)
        folder = self.infra.uid_folder(create=True)
        needed, free = algorithm.knowledge_bytes(windows), shutil.disk_usage(folder).free
        if needed > free:
            raise OSError(
                f"the ensemble's outputs on {len(windows):,} windows take {needed / 1e6:,.0f} MB, the disk of "
                f"{folder} has {free / 1e6:,.0f} MB: free some space, or set HELPERS_RESULTS to another disk"
            )
        settings = preset.a2d.model_copy(update={"temperature": self.temperature, "top_k": self.top_k})
        members = map(keep_attention, algorithm.load_members(map(self.folder_of, self.members), trained_on(preset)))
        tensors = algorithm.knowledge_of(members, windows, settings, preset.answers, preset.training.precision)
        facts = {"teacher": self.infra.uid(), "windows": windows.fingerprint()}
        save_tensors(folder / "knowledge.safetensors", tensors, facts, "ensemble's outputs")
        confused = int((tensors["confusing_start"] > 0).sum())
        return {"windows": len(windows), "confused": confused, "bytes": needed}

    def check(self) -> None:
        """Raises DamagedFile where what is stored is not what was computed."""
        stored_knowledge(self.infra.folder, self.infra.uid(), self.preset)


class Answers(Task):
    """What one reader, or several together, answers to sets of questions."""

    readers: list[str]  # keys
    questions: dict[str, str]  # set -> fingerprint
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset", "label"))
    def fit(self) -> dict[str, list[str]]:
        """The answer's text to each question of each set."""
        preset, sets = self.preset, question_sets(self.preset)
        distinct = {(e.question, e.context): e for name in self.questions for e in sets[name]}
        members = algorithm.load_members(map(self.folder_of, self.readers), trained_on(preset))
        found = joint_answers(members, preset, windows_over(preset, list(distinct.values())))
        texts = dict(zip(distinct, (prediction.text for prediction in found), strict=True))
        return {name: [texts[e.question, e.context] for e in sets[name]] for name in self.questions}


def new_reader(preset: Preset, kind: Kind, seed: int) -> nn.Module:
    """A reader that is not trained yet."""
    if kind == "RMR":
        return make_reader(load_tokenizer(preset.encoder), seed, **preset.mnemonic.model())
    longest = preset.windows.max_length
    return load_encoder(preset.encoder, seed=seed, random_layers=preset.random_layers, max_length=longest)


def add_knowledge(batches: Batches, stored: dict[str, torch.Tensor], terms: Iterable[str]) -> None:
    """Let ``batches`` bring what the terms of Eq. 1 read of an ensemble's knowledge."""
    device = training_device()
    for side in ("start", "end"):
        if "KD" in terms:
            batches.of_tokens[f"teacher_{side}"] = stored[side].to(device)
        if "ANS" in terms:
            batches.of_windows[f"confusing_{side}"] = stored[f"confusing_{side}"].long().to(device)
    if "ATT" in terms:
        batches.of_pairs["teacher_attention"] = stored["attention"].to(device)


def loaded(preset: Preset, readers: Iterable[Reader]) -> Iterable[nn.Module]:
    """Trained readers, one after another, in evaluation mode."""
    return algorithm.load_members([reader.folder() for reader in readers], trained_on(preset))


def joint_answers(members: Iterable[nn.Module], preset: Preset, windows: Windows) -> list[decoding.Prediction]:
    """What readers answer together: decoded from the mean of their distributions over each window (section 3.4)."""
    precision = preset.training.precision
    each = [algorithm.distributions(windows, predict(model, windows, precision=precision)) for model in members]
    logs = Logits(*np.log(np.maximum(np.mean(each, axis=0), np.finfo(np.float32).tiny)))
    return decoding.decode(windows, logs, n_best=preset.answers.n_best, max_answer_tokens=preset.answers.max_tokens)


def question_sets(preset: Preset) -> dict[str, list[Example]]:
    """All that readers are asked: the validation questions (Dev) and test questions (Test) of all domains, and the
    adversarial sets if there are any."""
    domains = load_domains(preset.data).values()
    # Files of different domains may number their questions alike.
    parts = {
        name: [
            dataclasses.replace(example, id=f"{domain.name}/{example.id}", group=f"{domain.name}/{example.group}")
            for domain in domains
            for example in getattr(domain, part)
        ]
        for name, part in PARTS.items()
    }
    return parts | load_adversarial(preset.data)


def training_windows(preset: Preset) -> Windows:
    """The windows that readers are trained on and an ensemble is asked about."""
    return windows_of(preset, sorted(preset.data.domains), "train")


def stored_knowledge(folder: Path | str, key: str, preset: Preset) -> dict[str, torch.Tensor]:
    """What the ``Knowledge`` with this key stored. Raises DamagedFile."""
    return load_outputs(Path(folder) / key / "knowledge.safetensors", key, training_windows(preset))


def trained_on(preset: Preset) -> dict[str, str]:
    """Names the vocabulary and the windows that a reader is trained with; members of an ensemble share both."""
    return {"vocabulary": vocabulary(preset), "windows": training_windows(preset).fingerprint()}


def vocabulary(preset: Preset) -> str:
    """Names the word pieces that are read."""
    pieces = load_tokenizer(preset.encoder).get_vocab()
    return hashlib.sha256("\n".join(sorted(pieces, key=pieces.get)).encode()).hexdigest()[:16]


def preset_for(preset: Preset, kind: Kind) -> Preset:
    """The preset by which readers of a kind are trained: RMR has settings of its own and no weight decay."""
    if kind == "BERT":
        return preset
    return preset.model_copy(
        update={"training": preset.training.model_copy(update=preset.mnemonic.training()), "random_layers": 0}
    )
