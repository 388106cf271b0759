"""How fast a model of several tasks trains, beside a model of one, on sequences of the same lengths, in one run.

    python benchmarks/multitask.py --encoder ../shared/models/all-MiniLM-L6-v2

The same miniature texts are the training set of one task, and of several tasks with a head each over one encoder, whose
batches come in one shuffled order. Rounds of both are timed in turns; what counts is tokens a second, padding left out.
"""

from __future__ import annotations

import argparse
import os
import platform
from statistics import median

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from helpers.batches.plans import Batches, bucketed, plan_steps, pooled
from helpers.batches.sequences import make_pairs
from helpers.data.load import load as load_data
from helpers.loop import fit, is_bf16, training_device
from helpers.models.encoders import load_tokenizer
from helpers.models.multitask import Head, new_multitask
from helpers.presets.load import load
from helpers.presets.schema import TrainingSettings
from helpers.texts import loss

SETTINGS = TrainingSettings(optimizer="adamax", learning_rate=1e-4, batch_size=16, epochs=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="data/mini")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or os.cpu_count())
    device = training_device()
    texts = make_pairs(load_data(load("mini").tasks, "MNLI").train, load_tokenizer(options.encoder))

    def task_names(number: int) -> list[str]:
        return [f"task {n}" for n in range(number)]

    def round_of(number: int):
        names = task_names(number)
        model = new_multitask(options.encoder, dict.fromkeys(names, Head("labels", 3)), seed=0).to(device)
        epochs = {name: bucketed(texts.lengths_W, batch_size=SETTINGS.batch_size, seed=0) for name in names}
        plan = plan_steps(pooled(epochs, seed=0), options.steps)
        batches = Batches(dict.fromkeys(names, texts), plan)
        tokens = sum(int(texts.lengths_W[rows].sum()) for _, rows in plan)
        return lambda: tokens / fit(model, batches, loss, SETTINGS, seed=0).seconds

    rounds = {1: round_of(1), options.tasks: round_of(options.tasks)}
    speeds = {number: [] for number in rounds}
    for repeat in range(options.rounds + 1):  # the first warms up
        for number, measure in rounds.items():
            speed = measure()
            if repeat:
                speeds[number].append(speed)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    kind = "bf16" if is_bf16(SETTINGS.precision, device) else "fp32"
    print(f"{name}, {torch.get_num_threads()} threads, {kind}, {options.encoder}")
    for number, rates in speeds.items():
        print(f"{number} task{'s' * (number > 1)}: {median(rates):,.0f} tokens a second")
    ratios = [many / one for one, many in zip(*speeds.values(), strict=True)]
    print(f"{options.tasks} tasks against one: {median(ratios):.2f} (rounds: {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
