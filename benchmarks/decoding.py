"""How much faster is decoding all windows at once than the usual loop over windows and pairs?

    python benchmarks/decoding.py [--data ../shared/data/qa] [--model ../shared/models/all-MiniLM-L6-v2]

Decodes XQuAD and both adversarial SQuAD files from fixed random logits with a bump at the gold span, checks that
both ways give the same answers, and prints the ratio of their times: for the answers alone, and with all questions'
n-best lists and probabilities, which ``decode`` leaves until they are asked for. Tokenisation is not timed.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from helpers.batches.sequences import Windows, make_windows
from helpers.data.questions import read
from helpers.tasks.decoding import decode
from helpers.tasks.logits import Logits

FILES = (
    "squad/xquad.en.json",
    "squad-adversarial/sample1k-HCVerifyAll.json",
    "squad-adversarial/sample1k-HCVerifySample.json",
)
SHARED = Path(__file__).resolve().parents[2] / "shared"


def random_logits(windows: Windows, seed: int = 0, bump: float = 4.0) -> Logits:
    """Normal noise, plus ``bump`` at the labels (the answer, or [CLS] where a window holds none)."""
    random = np.random.default_rng(seed)
    offsets = np.cumsum(windows.lengths_W) - windows.lengths_W
    start, end = random.standard_normal((2, windows.lengths_W.sum()), np.float32)
    start[offsets + windows.labels["start"]] += bump
    end[offsets + windows.labels["end"]] += bump
    return Logits(start, end)


def reference_decode(
    windows: Windows, logits: Logits, *, n_best=20, max_answer_tokens=30, no_answer=False, null_threshold=0.0
) -> list[tuple]:
    """The rules of ``helpers.spans.decode``, one window and one pair at a time; the tests compare the two.

    For each example: text, span, score, probability, null difference, and the kept spans as (text, span, score).
    """
    windows_of = [[] for _ in windows.examples]
    for window, example in enumerate(windows.example_W.tolist()):
        windows_of[example].append(window)
    cuts, prefixes = np.cumsum(windows.lengths_W)[:-1], windows.prefix_W.tolist()
    rows = list(zip(np.split(logits.start, cuts), np.split(logits.end, cuts), strict=True))
    answers = []
    for example, members in zip(windows.examples, windows_of, strict=True):
        null, pairs = np.float32(np.inf), []
        for window in members:
            start, end = rows[window]
            passage = slice(prefixes[window], prefixes[window] + int(windows.count_W[window]))
            null = min(null, start[0] + end[0])
            start, end = start[passage], end[passage]
            ends = np.argsort(-end, kind="stable")[:n_best].tolist()
            for i in np.argsort(-start, kind="stable")[:n_best].tolist():
                for j in ends:
                    if i <= j < i + max_answer_tokens:
                        pairs.append((-float(start[i] + end[j]), window, i, j))
        pairs.sort()
        kept = []
        for score, window, i, j in pairs[:n_best]:
            chars = windows.context_chars[windows.second_text_W[window]][windows.first_W[window] :]
            span = (int(chars[i][0]), int(chars[j][1]))
            kept.append((example.context[slice(*span)], span, -score))
        best = kept[0] if kept else ("", None, float(null))
        difference = float(null - np.float32(best[2])) if kept else math.inf
        scores = [score for _, _, score in kept] + ([float(null)] if no_answer or not kept else [])
        if no_answer and difference > null_threshold:
            best = ("", None, float(null))
        weights = [math.exp(score - max(scores)) for score in scores]
        probability = math.exp(best[2] - max(scores)) / sum(weights)
        answers.append((*best, probability, difference, kept))
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "qa", help="folder of squad, squad-adversarial")
    parser.add_argument("--model", type=Path, default=SHARED / "models" / "all-MiniLM-L6-v2", help="for its tokenizer")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    times = []
    print(f"{'file':<47}{'windows':>8}{'loop':>9}{'decode':>9}{'ratio':>7}{'with n-best':>13}{'ratio':>7}")
    for name in FILES:
        windows = make_windows(read(arguments.data / name).examples, tokenizer)
        logits = random_logits(windows)
        # Processor time (neither way uses threads) of the quickest turn: other programs disturb it least.
        slow, expected = _quickest(3, lambda: reference_decode(windows, logits))  # noqa: B023
        fast, predictions = _quickest(10, lambda: decode(windows, logits))  # noqa: B023
        full, _ = _quickest(5, lambda: decode(windows, logits)[0].probability)  # noqa: B023
        different = [p.id for p, e in zip(predictions, expected, strict=True) if (p.text, p.span, p.score) != e[:3]]
        if different:
            raise SystemExit(f"{name}: {len(different)} answers differ, first {different[0]}")
        times.append((slow, fast, full))
        _row(name, len(windows), slow, fast, full)
    _row("all, with identical answers", "", *np.sum(times, 0))


def _quickest(turns: int, function) -> tuple[float, object]:
    seconds = []
    for _ in range(turns):
        begin = time.process_time()
        result = function()
        seconds.append(time.process_time() - begin)
    return min(seconds), result


def _row(name, windows, slow: float, fast: float, full: float) -> None:
    numbers = f"{slow * 1e3:>6.0f} ms{fast * 1e3:>6.0f} ms{slow / fast:>7.1f}{full * 1e3:>10.0f} ms{slow / full:>7.1f}"
    print(f"{name:<47}{windows:>8}{numbers}")


if __name__ == "__main__":
    main()
