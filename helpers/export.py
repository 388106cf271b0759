"""A trained model's folder as ONNX: written, compared with torch on the same questions, and timed beside it."""

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from helpers.batches.sequences import Windows, make_windows
from helpers.batches.tensors import SequenceTensors
from helpers.data.examples import DataError, Example
from helpers.data.mini import domains as mini
from helpers.models import onnx
from helpers.models.pretrained import EncoderError, load_config, load_saved, load_tokenizer
from helpers.tasks.answering import Reader
from helpers.training.loop import outputs

CLOSE = 1e-3  # the largest difference of an output that is rounding
QUESTIONS, PASSAGES = 48, 6  # that both are asked, on so many passages together at most, so that lengths differ
BATCH = 16
TIMES = 3  # of which the fastest counts


class Exported(NamedTuple):
    """What was written: bytes; the questions asked, their windows and the fewest and most tokens of these; the largest
    difference from torch's outputs (logits) before weights were rounded to 8 bits, and that of what
    was written; the share of windows whose likeliest class, or start and end, are the same; and how many times faster
    than torch it is on the same windows, threads and all."""

    size: int
    questions: int
    windows: int
    tokens: tuple[int, int]
    exact: float
    difference: float
    alike: float
    faster: float


def export(place: str, out: Path, int8: bool = False) -> Exported:
    """Write the reader, or the classifier, at ``place`` (a folder, or a name on the Hub) into the folder ``out``, which
    `load_reader` loads; with ``int8`` its weights have 8 bits.

    Raises OnnxError where it cannot be written, or comes out different; EncoderError where there is no trained model;
    DataError where ``out`` holds something else, which is left alone.
    """
    onnx.need(*onnx.WRITING)
    if out.exists() and not (out / onnx.FILE).is_file():
        raise DataError(f"{out} holds something that is no exported model; give another folder by --out")
    kind = str(load_config(place).architectures)
    model = load_saved(place, "labels" if "SequenceClassification" in kind else "spans")
    tokenizer = load_tokenizer(place)
    model.config.update({"windows": Reader(model, tokenizer).windows})  # an ONNX file does not say what it can read
    windows = make_windows(questions(), tokenizer, **model.config.windows)
    new = out.with_name(f".{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        model.config.save_pretrained(new)
        tokenizer.save_pretrained(new)
        written, exact, alike = first_that_runs(model, windows, new)
        if not exact <= CLOSE:
            raise onnx.OnnxError(
                f"{place} as ONNX differs from torch by {exact:.2g} on {len(windows)} windows: not kept"
            )
        difference = exact
        if int8:
            (new / onnx.FILE).rename(new / "float.onnx")
            onnx.quantise(new / "float.onnx", new / onnx.FILE)
            for file in (new / "float.onnx", new / f"{onnx.FILE}.data"):  # the latter where it is above 2 GB
                file.unlink(missing_ok=True)
            difference, alike = compare(model, written := onnx.OnnxModel(new), windows)
        size = sum(file.stat().st_size for file in new.glob(f"{onnx.FILE}*"))
        faster = times_as_fast(written, model, windows)
        shutil.rmtree(out, ignore_errors=True)
        new.rename(out)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    lengths = windows.lengths_W
    asked, tokens = len(windows.examples), (int(lengths.min()), int(lengths.max()))
    return Exported(size, asked, len(windows), tokens, exact, difference, alike, faster)


def first_that_runs(model: nn.Module, windows: Windows, folder: Path) -> tuple[onnx.OnnxModel, float, float]:
    """The model written into a folder by the newest operators that onnxruntime can compute, and how it does in
    `compare`. Raises OnnxError or EncoderError where it can compute none."""
    example = SequenceTensors(windows).gather(np.arange(2))
    *newer, oldest = onnx.OPERATORS
    for operators in newer:
        onnx.write(model, example, folder / onnx.FILE, operators)
        with suppress(onnx.OnnxError, EncoderError):
            return (written := onnx.OnnxModel(folder)), *compare(model, written, windows)
    onnx.write(model, example, folder / onnx.FILE, oldest)
    return (written := onnx.OnnxModel(folder)), *compare(model, written, windows)


def questions() -> list[Example]:
    """Miniature questions, each on one passage or on several in a row."""
    known = mini.load_domain("news", train_size=QUESTIONS).train[:QUESTIONS]
    texts = [example.context for example in known]
    return [
        Example(one.id, one.question, " ".join(texts[number:][: 1 + number % PASSAGES]), (), None, one.id)
        for number, one in enumerate(known)
    ]


def compare(model: nn.Module, exported: onnx.OnnxModel, windows: Windows) -> tuple[float, float]:
    """The largest difference of any output, and the share of windows with the same likeliest places in all."""
    largest, alike = 0.0, 0
    both = (outputs(one, windows, batch_size=BATCH, precision="fp32") for one in (model, exported))
    for (_, _, said), (_, _, other) in zip(*both, strict=True):
        pairs = [(getattr(said, field), getattr(other, field)) for field in exported.fields]
        largest = max(largest, *(float((a - b).abs().max()) for a, b in pairs))
        alike += int(torch.stack([a.argmax(-1) == b.argmax(-1) for a, b in pairs]).all(0).sum())
    return largest, alike / len(windows)


def times_as_fast(exported: nn.Module, model: nn.Module, windows: Windows) -> float:
    """How many times faster one reads windows than the other: both in turns, so that what else the machine does slows
    both, and the fastest of some times after one that is not counted."""
    spent = []
    for _ in range(1 + TIMES):
        for one in (exported, model):
            begun = time.perf_counter()
            for _ in outputs(one, windows, batch_size=BATCH, precision="fp32"):
                pass
            spent.append(time.perf_counter() - begun)
    return min(spent[3::2]) / min(spent[2::2])
