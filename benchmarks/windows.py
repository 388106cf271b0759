"""How fast questions become windows, and what 100,000 windows take in memory.

    python benchmarks/windows.py --data ../shared/data/qa/amazon --encoder ../shared/models/all-MiniLM-L6-v2

Prints the ratio to the tokenizer's own way of making windows (every question with its passage, in one batch).
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import replace

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from peak import read_domain

from helpers.batches.sequences import make_windows
from helpers.models.encoders import load_tokenizer

LENGTH = 384


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/qa/amazon")
    parser.add_argument("--encoder", default="../shared/models/all-MiniLM-L6-v2")
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--windows", type=int, default=100_000)
    options = parser.parse_args()
    tokenizer = load_tokenizer(options.encoder)
    domain = read_domain(options.data)
    originals = [*domain.train, *domain.valid, *domain.test]
    examples = [replace(originals[i % len(originals)], id=str(i)) for i in range(options.questions)]
    make_windows(examples[:100], tokenizer, max_length=LENGTH)  # warm-up

    begun = time.perf_counter()
    windows = make_windows(examples, tokenizer, max_length=LENGTH)
    ours = time.perf_counter() - begun
    begun = time.perf_counter()
    tokenizer(
        [e.question for e in examples], [e.context for e in examples], max_length=LENGTH, stride=128,
        truncation="only_second", return_overflowing_tokens=True, return_offsets_mapping=True,
    )  # fmt: skip
    usual = time.perf_counter() - begun
    print(f"{len(examples):,} questions into {len(windows):,} windows: {ours:.1f} s")
    print(f"the tokenizer's own way takes {usual / ours:.1f}x as long")

    # Every passage made distinct, as the worst case: nothing is shared between questions
    copies = [replace(originals[i % len(originals)], id=str(i)) for i in range(options.windows)]
    copies = [replace(e, context=f"{e.context} {e.id}") for e in copies]
    texts = peak_mib()
    begun = time.perf_counter()
    windows = make_windows(copies, tokenizer, max_length=LENGTH)
    seconds = time.perf_counter() - begun
    print(f"{len(windows):,} windows on {len(copies):,} distinct passages in {seconds:.1f} s")
    print(f"peak {peak_mib() - texts:.0f} MiB above the {texts:.0f} MiB of program and texts")


if __name__ == "__main__":
    main()
