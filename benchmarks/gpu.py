"""How near a training comes to what the GPU can do: encoders of two sizes, alone and side by side.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --data path/to/domain --encoder path/to/encoder    (lengths of these questions' windows)

Encoders have random weights and are made here; texts are random tokens, in windows as long as those of the data given,
or else drawn from a log-normal distribution (median 150 tokens, sigma 0.5, from 32 to 384). What is timed is the loop
that trains everything, after some steps to warm up. The share counts the matrix products on real tokens, over the peak
of a bf16 product measured first. Host time is that of a step on two shortest windows, for which the device has hardly
anything to do. Without a GPU everything is gone through in small, in float32, to see that it runs; the numbers say
nothing then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from typing import NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from peak import matmul_peak, read_domain, training_flops, wait
from transformers import AutoConfig, AutoModelForQuestionAnswering

from helpers import extractive_qa
from helpers.batches import Batches, length_buckets
from helpers.loop import fit, training_device
from helpers.models import attention
from helpers.models.attention import quicken
from helpers.models.encoders import load_tokenizer
from helpers.presets.schema import TrainingSettings
from helpers.sequences import Template, TokenRow, Windows, make_windows

VOCABULARY = 30522
SIZES = {  # layers, width, heads, inner width
    "BERT-base": (12, 768, 12, 3072),
    "MiniLM-L6": (6, 384, 12, 1536),
    "tiny": (2, 32, 2, 64),
}
QUESTION = 14  # tokens
TEMPLATE = Template(before=(101,), between=(102,), after=(102,), types=(0, 0, 0, 1, 1), padding=0)


class Scale(NamedTuple):
    """How much is measured."""

    sizes: tuple[str, ...]
    batches: tuple[int, ...]
    longest: int
    warm: int
    steps: int
    side_by_side: tuple[int, ...]
    precision: str


FULL = Scale(("BERT-base", "MiniLM-L6"), (32, 128), 384, 10, 60, (1, 2, 4), "bf16")
SMALL = Scale(("tiny",), (4,), 48, 2, 4, (1, 2), "fp32")


class Speed(NamedTuple):
    """What one training did after its warm-up."""

    windows: int
    flops: float
    steps: int
    seconds: float


def lengths_of(data: str, encoder: str, number: int, longest: int, seed: int) -> np.ndarray:
    """Tokens of each of so many windows: of a domain's questions, or drawn."""
    rng = np.random.default_rng(seed)
    if not data:
        return np.clip(rng.lognormal(np.log(150), 0.5, number), 32, longest).astype(int)
    examples = read_domain(data).train
    lengths = make_windows(examples, load_tokenizer(encoder), max_length=FULL.longest).lengths_W
    return np.clip(rng.choice(lengths, number), QUESTION + 4, longest)


def random_windows(lengths: np.ndarray, seed: int) -> Windows:
    """Windows of random tokens, as long as ``lengths`` says, with an answer somewhere in their passages."""
    rng = np.random.default_rng(seed)
    number, passages = len(lengths), lengths - QUESTION - 3
    firsts, seconds = ([rng.integers(1000, VOCABULARY, n) for n in sizes] for sizes in ([QUESTION] * number, passages))
    starts = (QUESTION + 2 + rng.random(number) * passages).astype(np.int32)
    rows = [TokenRow(first, second) for first, second in zip(firsts, seconds, strict=True)]
    return Windows(
        examples=[], template=TEMPLATE, rows=rows, example_W=np.arange(number, dtype=np.int32),
        labels={"start": starts, "end": starts},
    )  # fmt: skip


def make_model(size: str, seed: int = 0) -> torch.nn.Module:
    """A reader with random weights and BERT's dropout."""
    layers, width, heads, inner = SIZES[size]
    config = AutoConfig.for_model(
        "bert", num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=inner,
        vocab_size=VOCABULARY,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = AutoModelForQuestionAnswering.from_config(config, attn_implementation=attention.NAME, dtype=torch.float32)
    return quicken(model)


def train(size: str, lengths: np.ndarray, batch: int, scale: Scale, begin=lambda: None) -> Speed:
    """Train on batches of ``lengths`` and time the steps after the first ``scale.warm``; ``begin`` is called before."""
    device, model, calls, times = training_device(), make_model(size), 0, []
    steps = scale.warm + scale.steps + 1
    windows = random_windows(lengths[: steps * batch], seed=1)
    plan = length_buckets(windows.lengths_W, batch, np.random.default_rng(0))

    def loss(output, batch, progress):
        nonlocal calls
        if calls in (scale.warm, scale.warm + scale.steps):
            wait(device)
            if not times:
                begin()
            times.append(time.perf_counter())
        calls += 1
        return extractive_qa.likelihood(output, batch, progress)

    settings = TrainingSettings(learning_rate=1e-5, batch_size=batch, epochs=1.0, precision=scale.precision)
    fit(model, Batches(windows, plan), loss, settings, seed=0)
    timed = np.concatenate(plan[scale.warm : scale.warm + scale.steps])
    return Speed(len(timed), training_flops(model, windows.lengths_W[timed]), scale.steps, times[1] - times[0])


def one_of_several(task: tuple) -> Speed:
    """A training that begins its timed steps when all others do, too; what a worker process does."""
    number, arguments = task
    return train(*arguments, begin=BARRIERS[number].wait)


def share_barriers(barriers: dict) -> None:
    """What a worker process begins with."""
    global BARRIERS
    BARRIERS = barriers
    torch.set_num_threads(1)


def side_by_side(scale: Scale, lengths: np.ndarray) -> dict[str, dict[int, list[Speed]]]:
    """What several trainings at once did, a process each, by size of the encoder and their number."""
    context = multiprocessing.get_context("spawn")
    how = lengths, scale.batches[0], scale
    barriers = {number: context.Barrier(number, timeout=300) for number in scale.side_by_side}
    with context.Pool(max(scale.side_by_side), share_barriers, (barriers,)) as pool:
        done = {
            size: {number: pool.map(one_of_several, [(number, (size, *how))] * number, 1) for number in barriers}
            for size in scale.sizes
        }
        pool.close()
        pool.join()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder or file of a domain's questions, for the windows' lengths")
    parser.add_argument("--encoder", default="data/mini", help="whose tokenizer cuts them")
    options = parser.parse_args()
    device = training_device()
    scale = FULL if device.type == "cuda" else SMALL
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU: in small, in float32"
    print(f"{name}; torch {torch.__version__}, transformers {transformers.__version__}")
    number = max(scale.batches) * (scale.warm + scale.steps + 1)
    lengths = lengths_of(options.data, options.encoder, number, scale.longest, seed=0)
    sizes = f"{lengths.min()} to {lengths.max()} tokens, mean {lengths.mean():.0f}"
    print(f"windows of {sizes}, {'as those of ' + options.data if options.data else 'drawn'}")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    peak = matmul_peak(device, dtype)
    print(f"matrix product, {str(dtype).removeprefix('torch.')}: {peak / 1e12:.3g} TFLOP/s")

    print("\none training")
    shortest = np.full(2 * (scale.warm + scale.steps + 1), QUESTION + 18)
    for size in scale.sizes:
        idle = train(size, shortest, 2, scale)
        host = 1e3 * idle.seconds / idle.steps
        for batch in scale.batches:
            done = train(size, lengths, batch, scale)
            cost = f"{1e3 * done.seconds / done.steps:7.1f} ms per step, host {host:.1f} ms"
            print(f"{size:<10} batch {batch:<4} {rates([done], peak)}   {cost}")

    print(f"\nside by side, a process each, batch {scale.batches[0]}")
    for size, runs in side_by_side(scale, lengths).items():
        for number, done in runs.items():
            print(f"{size:<10} {number} at once        {rates(done, peak)}, together")


def rates(done: list[Speed], peak: float) -> str:
    """What trainings that ran at once did a second."""
    slowest = max(each.seconds for each in done)
    windows, flops = (sum(getattr(each, what) for each in done) / slowest for what in ("windows", "flops"))
    return f"{windows:8.0f} windows/s   {flops / peak:6.1%} of the peak"


if __name__ == "__main__":
    main()
