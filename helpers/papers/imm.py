"""IMM: iterative multi-source mutual knowledge transfer for reading comprehension (Liu et al. 2020).

So far the two baselines without transfer: Single (Algorithm 1, line 1) and Mix (section 5.2).
"""

from __future__ import annotations

from typing import Literal

import exca
import pydantic

from helpers import paths, records
from helpers.data.domains import load_domains, load_one
from helpers.data.similarity import question_similarity
from helpers.models.reader import load_reader, load_saved, load_tokenizer, save_reader
from helpers.presets import Preset
from helpers.readers import answers, batches_of, effective, example_scores, span_loss, validation, windows_over
from helpers.training import fit, training_device


class Reader(pydantic.BaseModel):
    """One trained reader. Cached by everything that its scores depend on; ``preset`` only carries the settings."""

    model_config = pydantic.ConfigDict(extra="forbid")
    method: Literal["Single", "Mix"]
    domains: list[str]  # trained on, validated on and tested on
    seed: int
    settings: dict
    preset: Preset
    infra: exca.TaskInfra = exca.TaskInfra(mode="retry", version="1")

    @infra.apply(exclude_from_cache_uid=("preset",))
    def fit(self) -> dict:
        """Train, select, save; returns test F1 per example and domain, validation scores, steps and seconds."""
        preset, folder = self.preset, self.infra.uid_folder(create=True)
        model = load_reader(
            preset.encoder,
            seed=self.seed,
            random_layers=preset.random_layers,
            max_length=preset.windows.max_length,
        )
        done = fit(
            model,
            batches_of(preset, self.domains, self.seed, training_device()),
            span_loss,
            preset.training,
            seed=self.seed,
            validate=validation(preset, self.domains),
            checkpoint=folder / "checkpoint.safetensors",
            label=self.label,
        )
        scores = {name: example_scores(preset, model, name, "test") for name in self.domains}
        save_reader(model, load_tokenizer(preset.encoder), folder / "model")
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        return {
            "f1": {name: score.f1.tolist() for name, score in scores.items()},
            "exact": {name: score.em.tolist() for name, score in scores.items()},
            "validation": done.history,
            "steps": done.steps,
            "seconds": done.seconds,
        }

    @property
    def label(self) -> str:
        """What a person calls this training."""
        domain = self.domains[0] if self.method == "Single" else f"{len(self.domains)} domains"
        return f"{self.method}, {domain}, seed {self.seed}"


def reader(preset: Preset, method: str, domains: list[str], seed: int) -> Reader:
    """The task of one reader; nothing is trained before its ``fit``."""
    return Reader(
        method=method,
        domains=domains,
        seed=seed,
        settings=effective(preset, domains),
        preset=preset,
        infra={"folder": paths.models(preset.name)},
    )


def table1_readers(preset: Preset) -> dict[tuple[str, str, int], Reader]:
    """The readers of Table 1 by (method, domain, seed). Mix has one reader for all domains."""
    domains = list(preset.data.domains)
    tasks = {}
    for seed in range(preset.seeds):
        mix = reader(preset, "Mix", domains, seed)
        for domain in domains:
            tasks["Single", domain, seed] = reader(preset, "Single", [domain], seed)
            tasks["Mix", domain, seed] = mix
    return tasks


def questions(preset: Preset) -> dict[str, list[str]]:
    """The training questions of each domain."""
    return {name: [e.question for e in domain.train] for name, domain in load_domains(preset.data).items()}


def similarity(preset: Preset) -> tuple[list[records.Score], dict]:
    """Section 4, step 1: s_ij of every two domains as scores (row i, column j), and the cosines as payload."""
    cosines, weights = question_similarity(questions(preset))
    names = list(preset.data.domains)
    scores = [
        records.Score(method=one, column=other, seed=0, value=float(weights[i, j]))
        for i, one in enumerate(names)
        for j, other in enumerate(names)
    ]
    return scores, {
        "cosines": {
            one: dict(zip(names, map(float, row), strict=True)) for one, row in zip(names, cosines, strict=True)
        }
    }


def table1(tasks: dict[tuple[str, str, int], Reader]) -> dict:
    """Table 1 from trained readers: F1 of every method, domain and seed, with every example's score."""
    scores, examples = [], {}
    for (method, domain, seed), task in tasks.items():
        each = task.fit()["f1"][domain]
        scores.append(records.Score(method=method, column=domain, seed=seed, value=sum(each) / len(each)))
        examples[records.example_key(method, domain, seed)] = each
    preset = next(iter(tasks.values())).preset
    tested = {name: domain.test for name, domain in load_domains(preset.data).items()}
    ids = {name: records.fingerprint([e.id for e in test]) for name, test in tested.items()}
    return {"scores": scores, "examples": examples, "examples_of": ids}


def sample_answers(tasks: dict[tuple[str, str, int], Reader], method: str, number: int = 3) -> list[dict[str, str]]:
    """The first test questions of each domain with the answers of the method's reader of seed 0."""
    rows = []
    for (which, name, seed), task in tasks.items():
        if which == method and seed == 0:
            model = load_saved(task.infra.uid_folder() / "model")
            windows = windows_over(task.preset, load_one(task.preset.data, name).test[:number])
            for example, answer in zip(windows.examples, answers(task.preset, model, windows), strict=True):
                gold = " / ".join(example.answers)
                rows.append({"domain": name, "question": example.question, "answer": answer.text, "expected": gold})
    return rows


def notes(tasks: dict[tuple[str, str, int], Reader]) -> list[str]:
    """What a reader of Table 1 has to know about how it was made."""
    preset = next(iter(tasks.values())).preset
    return [budget(tasks)] + [f"{key} = {value} because there was no GPU" for key, value in preset.cpu.items()]


def training_seconds(tasks: dict[tuple[str, str, int], Reader]) -> float:
    """Seconds that all the readers took to train, now or in an earlier run."""
    return sum(task.fit()["seconds"] for task in {task.infra.uid(): task for task in tasks.values()}.values())


def budget(tasks: dict[tuple[str, str, int], Reader]) -> str:
    """What each method's readers cost, in optimiser steps over all domains of one seed."""
    preset = next(iter(tasks.values())).preset
    steps: dict[str, dict[str, int]] = {}
    for (method, _, seed), task in tasks.items():
        if seed == 0:
            steps.setdefault(method, {})[task.infra.uid()] = task.fit()["steps"]
    each = ", ".join(f"{method} {sum(of.values()):,}" for method, of in steps.items())
    return (
        f"{preset.training.epochs:g} epochs over every domain, batches of {preset.training.batch_size}; steps: {each}"
    )
