"""Training speed on real windows: this project's loop against Hugging Face's Trainer, in one run.

    python benchmarks/training.py --data ../shared/data/qa/wikipedia --encoder ../shared/models/all-MiniLM-L6-v2

Three trainings of the same reader on the same questions, after a short warm-up: Trainer as the usual script
has it (padded to 384, fp32), Trainer at its best (dynamic padding, grouped by length, bf16 where the processor is fast
at it, as ours), both with the model as transformers loads it, and ours. They take turns, so that a machine whose speed
drifts is fair to all; the median of the turns counts. Windows are the same, and the loss printed is each trained
reader's on the same windows that none was trained on. The share counts the matrix products on real tokens, over the
peak of a product measured first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from accelerate.state import AcceleratorState
from peak import matmul_peak, read_domain, training_flops
from transformers import AutoModelForQuestionAnswering, PrinterCallback, Trainer, TrainingArguments

from helpers import extractive_qa
from helpers.batches import Batches, length_buckets
from helpers.loop import fit, is_bf16, training_device
from helpers.models.encoders import inputs_of, load_encoder, load_tokenizer, loading_arguments
from helpers.presets.schema import TrainingSettings
from helpers.sequences import Windows, collate, make_windows

BATCH = 16
LENGTH = 384


class Rows(torch.utils.data.Dataset):
    """The windows as Trainer's script stores them: lists of token ids, padded or not."""

    def __init__(self, windows: Windows, tokenizer, padded: bool):
        self.rows = []
        for w in range(len(windows)):
            ids = windows.token_ids(w).tolist()
            kinds = [int(t >= windows.passage_start_W[w]) for t in range(len(ids))]
            row = {"input_ids": ids, "token_type_ids": kinds, "attention_mask": [1] * len(ids)}
            if padded:
                row = tokenizer.pad(row, padding="max_length", max_length=LENGTH).data
            labels = {
                "start_positions": int(windows.labels["start"][w]),
                "end_positions": int(windows.labels["end"][w]),
            }
            self.rows.append({**row, **labels})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def held_out_loss(model: torch.nn.Module, windows: Windows) -> float:
    """Mean negative log-likelihood of the answer's ends, halved, padding left out."""
    batch = collate(windows, np.arange(len(windows)), next(model.parameters()).device)
    with torch.inference_mode():
        output = model.eval()(**{name: batch[name] for name in inputs_of(model)})
        return float(extractive_qa.likelihood(output, batch, 1.0)["likelihood"]) / 2


def with_trainer(windows: Windows, tokenizer, encoder: str, padded: bool, seed: int) -> tuple[float, torch.nn.Module]:
    """Seconds of one epoch with Trainer, and the trained reader."""
    torch.manual_seed(seed)
    model = AutoModelForQuestionAnswering.from_pretrained(**loading_arguments(encoder), dtype=torch.float32)
    in_bf16 = is_bf16("auto", training_device())
    best = {} if padded else {"bf16": in_bf16, "train_sampling_strategy": "group_by_length"}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=BATCH, num_train_epochs=1, learning_rate=1e-4, warmup_steps=0.1,
            weight_decay=0.01, logging_strategy="no", save_strategy="no", report_to=[], seed=seed, disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(), **best,
        )  # fmt: skip
        rows = Rows(windows, tokenizer, padded)
        trainer = Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer)
        trainer.remove_callback(PrinterCallback)
        begun = time.perf_counter()
        trainer.train()
        return time.perf_counter() - begun, model


def with_ours(windows: Windows, encoder: str, seed: int) -> tuple[float, torch.nn.Module]:
    """Seconds of one epoch with this project's loop, and the trained reader."""
    model = load_encoder(encoder, seed=seed)
    settings = TrainingSettings(learning_rate=1e-4, batch_size=BATCH, epochs=1.0)
    begun = time.perf_counter()
    plan = length_buckets(windows.lengths_W, BATCH, np.random.default_rng(seed))
    fit(model, Batches(windows, plan), extractive_qa.likelihood, settings, seed=seed)
    return time.perf_counter() - begun, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/qa/wikipedia")
    parser.add_argument("--encoder", default="../shared/models/all-MiniLM-L6-v2")
    parser.add_argument("--windows", type=int, default=320, help="windows an epoch")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    tokenizer = load_tokenizer(options.encoder)
    examples = read_domain(options.data).train
    every = make_windows(examples[: options.windows + 64], tokenizer, max_length=LENGTH)
    windows, held_out = (
        every.select(np.arange(options.windows)),
        every.select(np.arange(options.windows, options.windows + 64)),
    )
    dtype = torch.bfloat16 if is_bf16("auto", training_device()) else torch.float32
    peak = matmul_peak(training_device(), dtype)
    flops = training_flops(load_encoder(options.encoder, seed=0), windows.lengths_W)
    print(f"matrix product, {str(dtype).removeprefix('torch.')}: {peak / 1e12:.3g} TFLOP/s")
    print(f"{len(windows)} windows, mean {windows.lengths_W.mean():.0f} tokens, {torch.get_num_threads()} threads")
    ways = {
        "Trainer, padded, fp32": lambda seed: with_trainer(windows, tokenizer, options.encoder, True, seed),
        "Trainer at its best": lambda seed: with_trainer(windows, tokenizer, options.encoder, False, seed),
        "ours": lambda seed: with_ours(windows, options.encoder, seed),
    }
    with_ours(windows.select(np.arange(min(32, len(windows)))), options.encoder, 0)  # imports, thread pools, caches
    seconds, losses = {name: [] for name in ways}, {name: [] for name in ways}
    for turn in range(options.turns):
        for name, way in ways.items():
            AcceleratorState._reset_state(reset_partial_state=True)  # Trainer leaves its precision behind
            duration, model = way(turn)
            seconds[name].append(duration)
            losses[name].append(held_out_loss(model, held_out))
    ours = np.median(seconds["ours"])
    for name in ways:
        duration, loss = np.median(seconds[name]), np.mean(losses[name])
        speed = f"{len(windows) / duration:6.1f} windows/s   {flops / duration / peak:5.1%} of the peak"
        print(f"{name:<22} {speed}   loss {loss:.2f}   ours is {duration / ours:.2f}x")


if __name__ == "__main__":
    main()
