"""What a distilling step costs against a plain one, in one run.

    python benchmarks/distillation.py --data ../shared/data/qa/wikipedia --encoder ../shared/models/all-MiniLM-L6-v2

Trainings of the same reader on the same windows and batches, after a short warm-up: on the labels alone; with the
teacher's outputs read from a store (``--spaces`` names what is compared with them); and with the teacher in the loop,
asked anew at every step. They take turns, every other turn in the opposite order, so that a machine whose speed
drifts is fair to all; the median of the turns counts. The teacher is as large as the student. Filling the store is
timed by itself: it is paid once, and every student of this teacher reads it.
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
from torch import Tensor, nn

from helpers.batches.plans import Batches, length_buckets
from helpers.batches.sequences import Windows, make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data import questions
from helpers.models.pretrained import load_encoder, load_tokenizer
from helpers.papers.imm.trainings import DIVERGENCES, joint_loss
from helpers.presets.schema import TrainingSettings
from helpers.tasks import spans
from helpers.training.checkpoints import load_tensors, save_tensors
from helpers.training.loop import Loss, fit, is_bf16, training_device
from helpers.training.teachers import LiveTeacher, StoredTeacher

BATCH = 16
LENGTH = 384
SETTINGS = TrainingSettings(learning_rate=1e-4, batch_size=BATCH, epochs=1.0)
PLAIN = "plain"


def fill_store(path: Path, teacher: nn.Module, windows: Windows) -> dict[str, Tensor]:
    """The teacher's logits as float16, computed, written and read back, each timed and printed."""
    begun = time.perf_counter()
    logits = spans.predict(teacher, windows, precision=SETTINGS.precision)
    computed = time.perf_counter()
    tensors = {side: torch.from_numpy(getattr(logits, side)).half() for side in ("start", "end")}
    save_tensors(path, tensors, {}, "teacher's outputs")
    written = time.perf_counter()
    stored, _ = load_tensors(path)
    read = time.perf_counter()
    print(
        f"once: {computed - begun:.2f} s to compute the store, {written - computed:.3f} s to write and "
        f"{read - written:.3f} s to load its {path.stat().st_size / 2**20:.2f} MiB"
    )
    return stored


def seconds_a_step(encoder: str, batches: Batches, loss: Loss, seed: int) -> float:
    """Of one training of a fresh reader; loading it does not count."""
    model = load_encoder(encoder, seed=seed, max_length=LENGTH).to(training_device())
    return fit(model, batches, loss, SETTINGS, seed=seed).seconds / len(batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/qa/wikipedia")
    parser.add_argument("--encoder", default="../shared/models/all-MiniLM-L6-v2")
    parser.add_argument("--windows", type=int, default=96, help="windows a training")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--spaces", nargs="+", choices=list(DIVERGENCES), default=["gold"])
    given = parser.parse_args()
    device = training_device()
    examples = questions.load_domain("benchmark", given.data, seed=0).train[: given.windows]
    windows = make_windows(examples, load_tokenizer(given.encoder), max_length=LENGTH)
    windows = windows.select(np.arange(given.windows))
    tensors = SequenceTensors(windows, device)
    mean = windows.lengths_W.mean()
    print(f"{len(windows)} windows, mean {mean:.0f} tokens, batches of {BATCH}, turns: {given.turns}")

    teacher = load_encoder(given.encoder, seed=99, max_length=LENGTH).to(device).eval()
    spans.predict(
        teacher, windows.select(np.arange(len(windows))[:BATCH]), precision=SETTINGS.precision
    )  # imports, thread pools, caches
    with tempfile.TemporaryDirectory() as folder:
        stored = fill_store(Path(folder) / "outputs.safetensors", teacher, windows)
    store = StoredTeacher(tensors, of_tokens=stored)
    live = LiveTeacher(teacher, {"start": "start_logits", "end": "end_logits"}, precision=SETTINGS.precision)
    ways = {PLAIN: (spans.loss, [])}
    ways |= {f"stored, {space}": (joint_loss(space, "linear"), [store]) for space in given.spaces}
    ways["in the loop, gold"] = (joint_loss("gold", "linear"), [live])

    for loss, teachers in ways.values():  # warm-up
        plan = length_buckets(windows.lengths_W[: 2 * BATCH], BATCH, np.random.default_rng(0))
        seconds_a_step(given.encoder, Batches(tensors, plan, teachers), loss, 0)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(given.turns):
        plan = length_buckets(windows.lengths_W, BATCH, np.random.default_rng(turn))
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            loss, teachers = ways[name]
            seconds[name].append(seconds_a_step(given.encoder, Batches(tensors, plan, teachers), loss, turn))

    for name, took in seconds.items():
        print(f"{name:<21} {np.median(took):.4f} s a step   ({min(took):.4f} to {max(took):.4f})")
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    precision = "bf16" if is_bf16(SETTINGS.precision, device) else "fp32"
    print(f"device {device.type} ({kind}), {torch.get_num_threads()} threads, {precision}")
    plain = np.median(seconds[PLAIN])
    ratios = [f"{name} {np.median(took) / plain:.2f}x" for name, took in seconds.items() if name != PLAIN]
    print(f"a step against a plain one: {'; '.join(ratios)}")


if __name__ == "__main__":
    main()
