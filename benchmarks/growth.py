"""How loading, windows, similarity, planning and stores grow with domains and questions, in seconds and memory.

    python benchmarks/growth.py [--questions 10000 100000 1000000] [--domains 2 10 100]

Files of questions are made from the miniature world: 10 domains with all these numbers of questions together, and these
numbers of domains with the first number of questions together. Each case is measured in a process of its own. Prints a
table and the slopes of the times in log-log: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pandas as pd
import psutil
import torch

from helpers.data.domains import load_domains
from helpers.data.formats.squad import write_squad
from helpers.data.mini.domains import DOMAINS, load_domain
from helpers.data.similarity import question_similarity
from helpers.models.pretrained import load_tokenizer
from helpers.papers.imm import algorithm
from helpers.presets.load import load
from helpers.tasks.spans import windows_of
from helpers.training import engine
from helpers.training.checkpoints import load_tensors, save_tensors

USUAL = 10  # domains
TIMES = ["load", "windows", "similarity", "plan", "store"]


def write(folder: Path, domains: int, questions: int) -> None:
    """A SQuAD file a domain."""
    for number in range(domains):
        style, seed = DOMAINS[number % len(DOMAINS)], 100 + number
        known = load_domain(style, seed=seed, train_size=questions // domains, valid_size=0, test_size=0).train
        write_squad(known, folder / f"domain{number}.json")


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Seconds, and what came of it."""
    begun = time.perf_counter()
    made = work()
    return time.perf_counter() - begun, made


def measure(folder: Path) -> dict[str, float]:
    """The seconds of each part, the windows and tasks, and MiB: of the loaded questions, and of the windows beside."""
    files = {file.stem: file.name for file in sorted(folder.glob("*.json"))}
    settings = {"data.folder": str(folder), "data.domains": files, "data.adversarial": None, "data.train_size": 0}
    settings |= {"data.valid_size": 10, "data.test_size": 10, "windows.max_length": 160, "windows.stride": 64}
    preset = load("lab", "imm", encoder="data/mini", own_draws=False, **settings)
    load_tokenizer(preset.encoder)
    question_similarity({"first": ["what is it"], "second": ["who is it"]})  # imports what takes a second
    before = memory()
    load_seconds, domains = timed(lambda: load_domains(preset.data))
    texts = memory()
    windows_seconds, windows = timed(lambda: [windows_of(preset, [name], "train") for name in domains])
    beside = memory()
    asked = {name: [example.question for example in domain.train] for name, domain in domains.items()}
    similarity_seconds, _ = timed(lambda: question_similarity(asked))
    plan = algorithm.algorithm1(preset, 0, preset.imm, 1, lambda new, old: 1.0)
    plan_seconds, outcome = timed(lambda: engine.replay(plan, lambda task: True))
    store_seconds, _ = timed(lambda: [store(folder / "outputs.safetensors", int(w.lengths_W.sum())) for w in windows])
    return {
        **dict(
            zip(TIMES, (load_seconds, windows_seconds, similarity_seconds, plan_seconds, store_seconds), strict=True)
        ),
        "windows of training": sum(map(len, windows)),
        "trainings and outputs": len({task.key for task in outcome.tasks}),
        "MiB of texts": texts - before,
        "MiB of windows": beside - texts,
    }


def store(file: Path, tokens: int) -> None:
    """Write a teacher's outputs for so many tokens, and read them again."""
    save_tensors(file, {side: torch.zeros(tokens, dtype=torch.float16) for side in ("start", "end")}, {}, "outputs")
    load_tensors(file)


def memory() -> float:
    """MiB that this process has now."""
    return psutil.Process().memory_info().rss / 2**20


def case(domains: int, questions: int) -> dict[str, float]:
    """``measure`` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), domains, questions)
        command = [sys.executable, __file__, "--measure", folder]
        environment = {**os.environ, "HELPERS_RESULTS": str(Path(folder) / "results")}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return {"domains": domains, "questions": questions, **json.loads(done.stdout.splitlines()[-1])}


def slopes(table: pd.DataFrame, by: str) -> pd.Series:
    """Of log seconds over log size."""
    return pd.Series({name: np.polyfit(np.log(table[by]), np.log(table[name]), 1)[0] for name in TIMES}, name="slope")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--domains", type=int, nargs="+", default=[2, 10, 100])
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    for by, sizes in (
        ("questions", [(USUAL, questions) for questions in given.questions]),
        ("domains", [(domains, given.questions[0]) for domains in given.domains]),
    ):
        table = pd.DataFrame([case(*size) for size in sizes])
        print(table.to_string(index=False, float_format="{:.2f}".format))
        if len(table) > 1:
            for which, of in {"": table, ", the two largest": table.tail(2)}.items():
                found = ", ".join(f"{name} {slope:.2f}" for name, slope in slopes(of, by).items())
                print(f"slope by {by}{which}: {found}")
        hundred = table["MiB of windows"] / table["windows of training"] * 100_000
        print(f"MiB of 100,000 windows beside the texts: {hundred.iloc[-1]:.0f}\n")


if __name__ == "__main__":
    main()
