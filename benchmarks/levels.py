"""What distilling level by level costs, and what the graph of domains adds, in one run.

    python benchmarks/levels.py --data ../shared/data/nlu/amazon-reviews --encoder ../shared/models/all-MiniLM-L6-v2

Steps of a student of half the teacher's layers on the same batches, every step timed in turns with the others: on the
labels alone; with the teacher in the loop and the losses of all levels (TinyBERT-KD); and with the ratios of domains as
well (HRKD). The first plus the teacher's forward pass is what the second should cost. Then the memory that teachers of
all domains take: one encoder with a head a domain, and, as in released code, a model a domain.
"""

from __future__ import annotations

import argparse
import os
import platform
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch

from helpers.batches.plans import Batches, per_domain, plan_steps
from helpers.batches.sequences import Sequences
from helpers.batches.tensors import SequenceTensors
from helpers.data.texts import load_texts
from helpers.models.attention import keep_levels
from helpers.models.distilled import Distilled, load_student, matched
from helpers.models.pretrained import load_encoder
from helpers.models.relations import Relations
from helpers.papers.hrkd.trainings import distillation_loss, teacher_loss
from helpers.presets.schema import TextsSettings, TrainingSettings
from helpers.tasks import labels
from helpers.training.loop import forward, is_bf16, training_device
from helpers.training.optimizers import make_optimizer
from helpers.training.teachers import LiveTeacher

SETTINGS = TrainingSettings(learning_rate=1e-4, batch_size=8, epochs=1.0)
CLASSES = 2


def step(model, batches: Batches, number: int, loss, optimizer) -> None:
    """One step of training, as the loop does it."""
    batch = batches.at(number)
    sum(loss(forward(model, batch, SETTINGS.precision), batch, 0.0).values()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS.clip)
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/nlu/amazon-reviews")
    parser.add_argument("--encoder", default="../shared/models/all-MiniLM-L6-v2")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=SETTINGS.batch_size, help="texts of every domain")
    given = parser.parse_args()
    device = training_device()
    domains = sorted(entry.name for entry in os.scandir(given.data) if entry.is_dir())
    texts = TextsSettings(folder=os.path.abspath(given.data), domains={name: name for name in domains}, split="joint")
    parts = [labels.sequences_of(texts, given.encoder, name, "train") for name in load_texts(texts)]
    sequences, bounds = Sequences.concatenate(parts), np.cumsum([0, *map(len, parts)])
    members = {name: np.arange(*bounds[d : d + 2]) for d, name in enumerate(domains)}
    plan = plan_steps(per_domain(members, batch_size=given.batch, seed=0), given.steps)
    tensors = SequenceTensors(sequences, device)

    teacher = load_encoder(given.encoder, "labels", seed=0, classes=CLASSES * len(domains)).to(device).eval()
    depth = teacher.config.num_hidden_layers
    fields = {"levels": "hidden_states", "attention": "attentions_kept", "logits": "logits"}
    asked = keep_levels(load_encoder(given.encoder, "labels", seed=0, classes=CLASSES * len(domains)), "scores")
    live = LiveTeacher(asked.to(device).eval(), fields, {"output_hidden_states": True}, SETTINGS.precision)

    def student():
        return load_student("", given.encoder, depth // 2, seed=0, classes=CLASSES * len(domains)).to(device)

    width, levels = teacher.config.hidden_size, depth // 2 + 1
    relations = Relations(levels, len(domains), width, heads=8, graph_width=width // 8)
    loss = distillation_loss(
        CLASSES, len(domains), matched(depth // 2, depth), gamma=1.0, temperature=1.0, padding=False
    )
    models = {
        "student's step": (student(), [], teacher_loss(CLASSES, len(domains), 0.0)),
        "TinyBERT-KD": (Distilled(student(), width, len(domains)).to(device), [live], loss),
        "HRKD": (Distilled(student(), width, len(domains), relations=relations).to(device), [live], loss),
    }
    work = {}
    for name, (model, teachers, its_loss) in models.items():
        batches, optimizer = Batches(tensors, plan, teachers), make_optimizer(model.train(), SETTINGS)
        work[name] = lambda n, m=model, b=batches, f=its_loss, o=optimizer: step(m, b, n, f, o)
    plain = Batches(tensors, plan)

    @torch.no_grad()
    def teach(number: int) -> None:
        forward(teacher, plain.at(number), SETTINGS.precision)

    work["teacher's forward pass"] = teach
    taken: dict[str, list[float]] = {name: [] for name in work}
    for number in range(given.steps):
        for name in list(work)[:: -1 if number % 2 else 1]:
            if device.type == "cuda":
                torch.cuda.synchronize()
            begun = time.perf_counter()
            work[name](number)
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken[name].append(time.perf_counter() - begun)
    seconds = {name: float(np.median(values[2:])) for name, values in taken.items()}  # two to warm up
    for name, value in seconds.items():
        print(f"{name:<24} {value:.4f} s   ({min(taken[name][2:]):.4f} to {max(taken[name][2:]):.4f})")
    due = seconds["student's step"] + seconds["teacher's forward pass"]
    print(f"TinyBERT-KD against a student's step and a teacher's forward pass: {seconds['TinyBERT-KD'] / due:.2f}x")
    print(f"the graph's share of a step: {1 - seconds['TinyBERT-KD'] / seconds['HRKD']:.1%}")
    shared = sum(p.numel() * p.element_size() for p in teacher.parameters())
    alone = load_encoder(given.encoder, "labels", seed=0, classes=CLASSES)
    each = sum(p.numel() * p.element_size() for p in alone.parameters())
    print(
        f"teachers of {len(domains)} domains: {shared / 1e6:.1f} MB with one encoder, {len(domains) * each / 1e6:.1f} "
        f"MB as a model a domain; one encoder with one head: {each / 1e6:.1f} MB"
    )
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    precision = "bf16" if is_bf16(SETTINGS.precision, device) else "fp32"
    print(
        f"device {device.type} ({kind}), {torch.get_num_threads()} threads, {precision}, {given.batch} texts a domain"
    )


if __name__ == "__main__":
    main()
