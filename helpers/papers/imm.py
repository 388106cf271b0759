"""IMM: iterative multi-source mutual knowledge transfer for reading comprehension (Liu et al. 2020).

So far the two baselines without transfer: Single (Algorithm 1, line 1) and Mix (section 5.2).
"""

from __future__ import annotations

from typing import Literal

import exca
import pydantic
from accelerate import PartialState

from helpers import paths
from helpers.models.reader import load_reader, load_tokenizer, save_reader
from helpers.presets import Preset
from helpers.readers import batches_of, effective, example_scores, span_loss, validation
from helpers.training import fit

TABLE1 = ("Single", "Mix")


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
        model = load_reader(preset.encoder, seed=self.seed, random_layers=preset.random_layers)
        done = fit(
            model,
            batches_of(preset, self.domains, self.seed, PartialState().device),
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
