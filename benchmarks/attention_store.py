"""What a step of A2D's student costs against a plain one, in one run.

    python benchmarks/attention_store.py --preset mini --steps 20 --turns 7

Trainings of the same reader on the same windows and batches, after a short warm-up: on the labels alone, and with the
ensemble's distributions (KD), its confusing answers and its attention (ANS + ATT), or all of them, read from a store.
They take turns, every other turn in the opposite order, so that a machine whose speed drifts is fair to all; each is
held against the plain one of its own turn, and the median of the turns counts. Filling the store is timed by itself:
it is paid once, and every student of this ensemble reads it.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from torch import Tensor

from helpers.batches.plans import Batches
from helpers.models.attention import keep_attention
from helpers.papers.a2d import algorithm
from helpers.papers.a2d.trainings import training_windows
from helpers.presets.load import load
from helpers.presets.schema import Preset
from helpers.tasks.distilled import joint_loss, new_reader, teacher_of
from helpers.tasks.ensembles import knowledge_of
from helpers.tasks.spans import training_batches
from helpers.training.checkpoints import load_tensors, save_tensors
from helpers.training.loop import fit, is_bf16, training_device

PLAIN = "plain"
WAYS = {PLAIN: ("CE",), "KD": ("CE", "KD"), "ANS + ATT": ("CE", "ANS", "ATT"), "all": ("CE", "KD", "ANS", "ATT")}


def fill_store(path: Path, preset: Preset, kind: str) -> dict[str, Tensor]:
    """What an untrained ensemble of two knows, computed, written and read back, each timed and printed."""
    windows = training_windows(preset)
    members = [keep_attention(new_reader(preset, kind, 90 + m)).to(training_device()).eval() for m in range(2)]
    begun = time.perf_counter()
    tensors = knowledge_of(
        members, windows, preset.a2d.temperature, preset.a2d.top_k, preset.answers, preset.training.precision
    )
    computed = time.perf_counter()
    save_tensors(path, tensors, {}, "ensemble's outputs")
    written = time.perf_counter()
    stored, _ = load_tensors(path)
    read = time.perf_counter()
    print(
        f"{kind}, once: {computed - begun:.2f} s to ask {len(members)} members about all windows, "
        f"{written - computed:.3f} s to write and {read - written:.3f} s to load {path.stat().st_size / 2**20:.2f} MiB"
    )
    return stored


def batches_for(preset: Preset, steps: int, seed: int, terms: tuple[str, ...], stored: dict[str, Tensor]) -> Batches:
    """The batches of a training, with what its terms read."""
    batches = training_batches(preset, sorted(preset.data.domains), steps, seed, training_device())
    batches.teachers.append(teacher_of(batches, stored, terms))
    return batches


def seconds_a_step(preset: Preset, kind: str, batches: Batches, terms: tuple[str, ...], seed: int) -> float:
    """Of one training of a fresh reader; making it does not count."""
    model = new_reader(preset, kind, seed).to(training_device())
    if "ATT" in terms:
        model = keep_attention(model)
    weights = {name: weight for name, weight in algorithm.weights_of_terms(preset.a2d).items() if name in terms}
    loss = joint_loss(weights, preset.a2d.temperature)
    return fit(model, batches, loss, algorithm.preset_for(preset, kind).training, seed=seed).seconds / len(batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--kinds", nargs="+", choices=["RMR", "BERT"], default=["RMR", "BERT"])
    parser.add_argument("--steps", type=int, default=20, help="steps a training")
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    preset, device = load(given.preset, "a2d"), training_device()
    if preset.engine.threads:
        torch.set_num_threads(preset.engine.threads)
    lengths = training_windows(preset).lengths_W
    print(f"{len(lengths)} windows, mean {lengths.mean():.0f} tokens, batches of {preset.training.batch_size}")
    bf16 = is_bf16(preset.training.precision, device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    print(f"device {device.type} ({name}), {torch.get_num_threads()} threads, {'bf16' if bf16 else 'fp32'}")

    for kind in given.kinds:
        with tempfile.TemporaryDirectory() as folder:
            stored = fill_store(Path(folder) / "knowledge.safetensors", preset, kind)
        for terms in WAYS.values():  # warm-up
            seconds_a_step(preset, kind, batches_for(preset, 3, 0, terms, stored), terms, 0)
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(given.turns):
            for way in list(WAYS)[:: -1 if turn % 2 else 1]:
                batches = batches_for(preset, given.steps, turn, WAYS[way], stored)
                seconds[way].append(seconds_a_step(preset, kind, batches, WAYS[way], turn))
        for way, took in seconds.items():
            middle, least, most = (1000 * value for value in (np.median(took), min(took), max(took)))
            print(f"{kind}, {way:<10} {middle:7.1f} ms a step   ({least:.1f} to {most:.1f})")
        ratios = {way: np.median(np.divide(took, seconds[PLAIN])) for way, took in seconds.items() if way != PLAIN}
        print(f"{kind}, a step against a plain one: " + "; ".join(f"{way} {r:.2f}x" for way, r in ratios.items()))


if __name__ == "__main__":
    main()
