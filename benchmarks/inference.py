"""How much faster are answers to many questions at once than by the usual loop, from text to text?

    python benchmarks/inference.py [--data ../shared/data/qa/squad/xquad.en.json] [--encoder path/to/encoder]

The usual loop reads windows that the tokenizer makes, padded to 384 tokens, in the order of the questions,
32 at a time in float32, and pairs the 20 best starts and ends of each. Ours is ``load_reader(...).answer_all``, which
reads as presets of real text train. Both ask the same reader, whose head is random. They take turns, and the median
counts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import median

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, PreTrainedTokenizerFast

from helpers.answering import TrainedReader, load_reader
from helpers.data.examples import Example
from helpers.data.questions import read_questions
from helpers.models.encoders import load_encoder, load_tokenizer, save_encoder

BATCH, LENGTH, STRIDE, N_BEST, LONGEST = 32, 384, 128, 20, 30


def usual(model: torch.nn.Module, tokenizer: PreTrainedTokenizerFast, examples: list[Example]) -> list[str]:
    """The answers of the usual loop."""
    windows = tokenizer(
        [example.question for example in examples], [example.context for example in examples], truncation="only_second",
        max_length=LENGTH, stride=STRIDE, padding="max_length", return_overflowing_tokens=True,
        return_offsets_mapping=True, return_tensors="pt",
    )  # fmt: skip
    of, offsets = windows.pop("overflow_to_sample_mapping").tolist(), windows.pop("offset_mapping").numpy()
    best = [(-np.inf, "")] * len(examples)
    for begin in range(0, len(of), BATCH):
        with torch.inference_mode():
            output = model(**{name: values[begin : begin + BATCH].to(model.device) for name, values in windows.items()})
        sides = (side.cpu().numpy() for side in (output.start_logits, output.end_logits))
        for row, (start, end) in enumerate(zip(*sides, strict=True)):
            window, text = begin + row, examples[of[begin + row]].context
            passage = np.array([side == 1 for side in windows.sequence_ids(window)])
            start, end = (np.where(passage, side, -np.inf) for side in (start, end))
            for i in np.argsort(-start, kind="stable")[:N_BEST]:
                for j in np.argsort(-end, kind="stable")[:N_BEST]:
                    if i <= j < i + LONGEST and start[i] + end[j] > best[of[window]][0]:
                        span = text[offsets[window, i, 0] : offsets[window, j, 1]]
                        best[of[window]] = (start[i] + end[j], span)
    return [text for _, text in best]


def ours(reader: TrainedReader, examples: list[Example]) -> list[str]:
    """The same by `TrainedReader.answer_all`."""
    return [prediction.text for prediction in reader.answer_all(examples)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/qa/squad/xquad.en.json")
    parser.add_argument("--encoder", default="../shared/models/all-MiniLM-L6-v2")
    parser.add_argument("--precision", default="auto", help="ours; auto: bfloat16 where the processor is fast at it")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    examples = [record.example for record in read_questions(Path(options.data), unanswerable=True)[0]][
        : options.questions
    ]
    with tempfile.TemporaryDirectory() as folder:
        model = load_encoder(options.encoder, seed=0)
        cut = {"max_length": LENGTH, "stride": STRIDE, "stride_is": "overlap"}
        model.config.update({"windows": cut, "precision": options.precision})
        save_encoder(model, load_tokenizer(options.encoder), folder)
        reader, tokenizer = load_reader(folder), AutoTokenizer.from_pretrained(folder)
        model = AutoModelForQuestionAnswering.from_pretrained(folder).to(reader.model.device).eval()
        ways, durations = {"usual": partial(usual, model, tokenizer), "ours": partial(ours, reader)}, defaultdict(list)
        for way in ways.values():
            way(examples[:32])  # thread pools and caches
        for _ in range(options.turns):
            for name, way in ways.items():
                begun = time.perf_counter()
                answers = way(examples)
                durations[name].append(time.perf_counter() - begun)
                if name == "usual":
                    expected = answers
    alike = np.mean([one == other for one, other in zip(expected, answers, strict=True)])
    seconds = {name: median(times) for name, times in durations.items()}
    ratio = seconds["usual"] / seconds["ours"]
    print(f"{len(examples)} questions: {seconds['usual']:.1f} s and {seconds['ours']:.1f} s, {ratio:.1f} times as fast")
    print(f"{alike:.1%} of the answers are the same")


if __name__ == "__main__":
    main()
