"""What a training does with a GPU, against Hugging Face's Trainer at its best, alone and side by side; in 8 minutes.

    python benchmarks/gpu.py --data path/to/domain --encoder path/to/encoder --out gpu.json

The parts, most important first, each in a process of its own that may fail or be late without harm to the others:

tests     those that need a GPU
alone     one training: eagerly, as CUDA graphs with lengths padded to multiples of 32 and of 64, and by Trainer (bf16,
          fused AdamW, SDPA, grouped by length, workers that load data)
together  1 to 12 trainings of the small encoder, with and without MPS
compiled  Trainer with torch.compile
profile   what kernels the device's time goes into, and how much of a step's time that is
digits    what deterministic algorithms cost, and whether two trainings give the same digits

Encoders have random weights and are made here; texts are random tokens, in windows as long as those of the data given,
or else drawn from a log-normal distribution (median 150 tokens, sigma 0.5, from 32 to 384). What is timed is the loop
that trains everything, on the same windows as Trainer, after steps in which every shape of batch was seen. The share
counts the matrix products on real tokens, over the peak of a bf16 product measured in the same process. Without a GPU
everything is gone through in small, in float32, to see that it runs; the numbers say nothing then.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import transformers
from peak import matmul_peak, read_domain, training_flops, wait
from transformers import AutoConfig, AutoModelForQuestionAnswering

from helpers import engine, extractive_qa, graphs, mps
from helpers.batches import Batches, length_buckets
from helpers.loop import fit, training_device
from helpers.models import attention
from helpers.models.attention import quicken
from helpers.models.encoders import load_tokenizer
from helpers.presets.schema import TrainingSettings
from helpers.sequences import Template, TokenRow, Windows, make_windows

ROOT = Path(__file__).parents[1]
VOCABULARY = 30522
SIZES = {  # layers, width, heads, inner width
    "BERT-base": (12, 768, 12, 3072),
    "MiniLM-L6": (6, 384, 12, 1536),
    "tiny": (2, 32, 2, 64),
}
QUESTION = 14  # tokens
TEMPLATE = Template(before=(101,), between=(102,), after=(102,), types=(0, 0, 0, 1, 1), padding=0)
EAGER = 0  # instead of a multiple that lengths are padded to
SECONDS = 470  # of all parts
KERNELS = {  # what kernels do, by their names
    "attention": "fmha|flash|attention|sdpa",
    "products of matrices": "gemm|nvjet|xmma|cutlass|splitk",
    "optimizer and clipping": "multi_tensor|adam|lpnorm",
    "dropout": "dropout|masked_scale",
    "layer norms": "layer_norm|gammabeta",
    "copies and casts": "copy|memcpy|memset|cat",
    "other": "",
}
PARTS = {"tests": 90, "alone": 180, "together": 150, "compiled": 110, "profile": 60, "digits": 60}  # seconds, at most


class Scale(NamedTuple):
    """How much is measured."""

    alone: tuple[tuple[str, int], ...]  # sizes and batches
    compiled: tuple[tuple[str, int], ...]
    small: tuple[str, int]
    together: tuple[int, ...]
    longest: int
    warm: int  # steps of Trainer
    steps: int
    precision: str


FULL = Scale(
    (("BERT-base", 32), ("MiniLM-L6", 16), ("BERT-base", 128), ("MiniLM-L6", 32)),
    (("MiniLM-L6", 16), ("MiniLM-L6", 32), ("BERT-base", 32), ("BERT-base", 128)),
    ("MiniLM-L6", 16), (12, 1, 4, 8), 384, 60, 50, "bf16",
)  # fmt: skip
SMALL = Scale((("tiny", 4),), (), ("tiny", 4), (2, 1), 48, 2, 4, "fp32")


class Speed(NamedTuple):
    """What the timed steps of a training did, the seconds before them, and a digest of the weights at the end."""

    windows: int
    flops: float
    steps: int
    seconds: float
    warm_seconds: float
    digest: str = ""


# --- windows and models ---------------------------------------------------------------------------------------------


def lengths_of(data: str, encoder: str, number: int, longest: int, seed: int = 0) -> np.ndarray:
    """Tokens of each of so many windows: of a domain's questions, or drawn."""
    rng = np.random.default_rng(seed)
    if not data:
        return np.clip(rng.lognormal(np.log(150), 0.5, number), 32, longest).astype(int)
    examples = read_domain(data).train
    lengths = make_windows(examples, load_tokenizer(encoder), max_length=FULL.longest).lengths_W
    return np.clip(rng.choice(lengths, number), QUESTION + 4, longest)


def random_windows(lengths: np.ndarray, seed: int = 1) -> Windows:
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


def make_model(size: str, kind: str = attention.NAME) -> torch.nn.Module:
    """A reader with random weights and BERT's dropout; ``kind`` names its attention."""
    layers, width, heads, inner = SIZES[size]
    config = AutoConfig.for_model(
        "bert", num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=inner,
        vocab_size=VOCABULARY,
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForQuestionAnswering.from_config(config, attn_implementation=kind, dtype=torch.float32)


# --- trainings ------------------------------------------------------------------------------------------------------


class Marked(Batches):
    """Batches that note the time before two steps, when the device has done all before; ``begin`` and ``end`` are
    called then."""

    def mark(self, first: int, last: int, begin: Callable = lambda: None, end: Callable = lambda: None) -> None:
        self.calls, self.times = {first: begin, last: end}, []

    def micro_batches(self, step, *others, **more):
        if call := self.calls.get(step):
            wait(training_device())
            call()
            self.times.append(time.perf_counter())
        return super().micro_batches(step, *others, **more)


def train(size: str, batch: int, multiple: int, lengths: np.ndarray, scale: Scale, **calls) -> Speed:
    """Train by this project's loop and time ``scale.steps`` steps, when each shape of them was seen often enough.

    ``multiple`` is that of lengths in graphs, or `EAGER`.
    """
    model, windows = quicken(make_model(size)), random_windows(lengths[: scale.steps * batch])
    timed = length_buckets(windows.lengths_W, batch, np.random.default_rng(0))
    shapes = {-(-windows.lengths_W[rows].max() // (multiple or 8)): rows for rows in timed}
    warm = [rows for rows in shapes.values() for _ in range(graphs.EAGER + (multiple > 0))]
    batches = Marked(windows, [*warm, *timed, timed[0]])
    batches.mark(len(warm), len(warm) + len(timed), **calls)
    settings = TrainingSettings(learning_rate=1e-5, batch_size=batch, epochs=1.0, precision=scale.precision)
    begun = time.perf_counter()
    with mock.patch.object(graphs, "MULTIPLE", multiple or graphs.MULTIPLE):
        fit(model, batches, extractive_qa.likelihood, settings, seed=0, graphs=multiple > 0)
    seconds, digest = batches.times[1] - batches.times[0], hashlib.sha256()
    for weight in model.parameters():
        digest.update(weight.detach().cpu().numpy().tobytes())
    flops = training_flops(model, windows.lengths_W)
    return Speed(len(windows), flops, len(timed), seconds, batches.times[0] - begun, digest.hexdigest()[:12])


def train_by_trainer(size: str, batch: int, lengths: np.ndarray, scale: Scale, encoder: str, **settings) -> Speed:
    """Train by Trainer at its best on windows as long, and time as many steps after ``scale.warm``."""
    from training import Rows
    from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    device, times, begun = training_device(), [], time.perf_counter()
    on_gpu, names = device.type == "cuda", TrainingArguments.__dataclass_fields__

    class Marks(TrainerCallback):
        def on_step_begin(self, arguments, state, control, **others):
            if state.global_step == scale.warm:
                wait(device)
                times.append(time.perf_counter())

        def on_train_end(self, arguments, state, control, **others):
            wait(device)
            times.append(time.perf_counter())

    model, windows = make_model(size, "sdpa"), random_windows(lengths[: (scale.warm + scale.steps) * batch])
    tokenizer = load_tokenizer(encoder)
    sampled = {"train_sampling_strategy": "group_by_length"}
    best = {"bf16": True, "optim": "adamw_torch_fused", "dataloader_num_workers": 4} if on_gpu else {"use_cpu": True}
    best |= sampled if sampled.keys() <= names.keys() else {"group_by_length": True}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=batch, max_steps=scale.warm + scale.steps, learning_rate=1e-5,
            weight_decay=0.01, logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True,
            **best, **settings,
        )  # fmt: skip
        collator = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)
        rows = Rows(windows, tokenizer, padded=False)
        trainer = Trainer(model, arguments, train_dataset=rows, data_collator=collator, callbacks=[Marks()])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    number = scale.steps * batch
    flops = training_flops(make_model(size), windows.lengths_W) * number / len(windows)
    return Speed(number, flops, scale.steps, times[1] - times[0], times[0] - begun)


# --- parts ----------------------------------------------------------------------------------------------------------


class Report:
    """The measurements of a part: each is printed and written at once. ``until`` is when the part has to be done."""

    def __init__(self, out: str, seconds: float):
        self.out, self.until, self.device = out, time.monotonic() + seconds, training_device()
        is_gpu = self.device.type == "cuda"
        self.hardware = torch.cuda.get_device_name() if is_gpu else "no GPU: in small, in float32"
        self.peak = matmul_peak(self.device, torch.bfloat16 if is_gpu else torch.float32)

    def add(self, what: str, how: str, **facts) -> None:
        row = {"hardware": self.hardware, "what": what, "how": how, **facts}
        with open(self.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        values = ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                           for name, value in facts.items())  # fmt: skip
        print(f"{what:<28} {how:<34} {values}", flush=True)

    def rate(self, what: str, how: str, done: list[Speed], **facts) -> None:
        """Add what trainings that ran at once did per second."""
        slowest = max(each.seconds for each in done)
        rates = {"windows_per_second": sum(each.windows for each in done) / slowest}
        rates["share"] = sum(each.flops for each in done) / slowest / self.peak
        rates["ms_per_step"] = 1e3 * slowest / done[0].steps
        self.add(what, how, **rates, warm_seconds=done[0].warm_seconds, **facts)

    @contextmanager
    def attempt(self, what: str, how: str) -> Iterator[None]:
        """Do what may fail; note why it did. Raises TimeoutError where no time is left to begin."""
        if time.monotonic() > self.until:
            raise TimeoutError(f"no time is left for {what}, {how}")
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.add(what, how, error=f"{type(error).__name__}: {error}".splitlines()[0][:200])
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def run_tests(report: Report, lengths: np.ndarray, scale: Scale, encoder: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "-m", "gpu", "tests/test_gpu.py"]
    with report.attempt("tests", "of a GPU"):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PARTS["tests"])
        print(done.stdout[-6000:], done.stderr[-2000:])
        report.add("tests", "of a GPU", result=done.stdout.strip().splitlines()[-1], status=done.returncode)


def name_how(multiple: int) -> str:
    return f"graphs, multiples of {multiple}" if multiple else "eager"


def measure_alone(report: Report, lengths: np.ndarray, scale: Scale, encoder: str) -> None:
    for size, batch in scale.alone:
        what = f"{size}, batch {batch}"
        for multiple in (EAGER, 64, 32):
            with report.attempt(what, name_how(multiple)):
                report.rate(what, name_how(multiple), [train(size, batch, multiple, lengths, scale)])
        with report.attempt(what, "Trainer"):
            report.rate(what, "Trainer", [train_by_trainer(size, batch, lengths, scale, encoder)])


def measure_compiled(report: Report, lengths: np.ndarray, scale: Scale, encoder: str) -> None:
    torch._dynamo.config.assume_static_by_default = False  # one compilation for all lengths
    for size, batch in scale.compiled:
        what = f"{size}, batch {batch}"
        with report.attempt(what, "Trainer, compiled"):
            done = train_by_trainer(size, batch, lengths, scale, encoder, torch_compile=True)
            report.rate(what, "Trainer, compiled", [done])


def begin_process(barriers: dict, numbers, slots: int) -> None:
    """What one of several processes begins with; with ``slots`` it has cores of its own."""
    global BARRIERS
    BARRIERS = barriers
    if slots:
        os.sched_setaffinity(0, engine.cores_of(numbers.get(), slots))
    torch.set_num_threads(1)


def train_in_step(number: int, how: tuple) -> Speed:
    """A training in one of several processes, whose timed steps begin when those of all others do."""
    return train(*how, begin=BARRIERS[number].wait)


def measure_together(report: Report, lengths: np.ndarray, scale: Scale, encoder: str) -> None:
    size, batch = scale.small
    most, context = max(scale.together), multiprocessing.get_context("spawn")
    for is_served in (False, True):
        with report.attempt(f"{most} x {size}, batch {batch}", "MPS" if is_served else "no MPS"):
            served = mps.start() if is_served else {}
            if is_served and not served:
                report.add("MPS", "does not run here: see nvidia-cuda-mps-control")
                return
            os.environ.update(served)
            barriers = {number: context.Barrier(number, timeout=100) for number in scale.together}
            numbers = context.Queue()
            for number in range(most):
                numbers.put(number)
            begin = {"initializer": begin_process, "initargs": (barriers, numbers, most if served else 0)}
            with ProcessPoolExecutor(most, context, **begin) as pool:
                runs = [(most, EAGER), *((number, graphs.MULTIPLE) for number in scale.together)]
                for number, multiple in runs if not is_served else runs[1:] + runs[:1]:
                    what = f"{number} x {size}, batch {batch}"
                    how = f"{name_how(multiple)}{', MPS' if served else ''}"
                    with report.attempt(what, how):
                        task = size, batch, multiple, lengths, scale
                        futures = [pool.submit(train_in_step, number, task) for _ in range(number)]
                        report.rate(what, how, [future.result(timeout=110) for future in futures])
            mps.stop()


def measure_digits(report: Report, lengths: np.ndarray, scale: Scale, encoder: str) -> None:
    os.environ.update(engine.REPEATABLE)  # before the first product of matrices in float32
    for size, batch in (scale.small, scale.alone[0]):
        for multiple in (graphs.MULTIPLE, EAGER):
            for is_on in (True, False):
                what, how = f"{size}, batch {batch}", f"{name_how(multiple)}{', deterministic' * is_on}"
                with report.attempt(what, how), engine._deterministic(is_on):
                    done = [train(size, batch, multiple, lengths, scale) for _ in range(2)]
                    report.rate(what, f"{how}, again", done[1:], same_digits=done[0].digest == done[1].digest,
                                digest=done[1].digest)  # fmt: skip


def measure_profile(report: Report, lengths: np.ndarray, scale: Scale, encoder: str) -> None:
    from torch.profiler import ProfilerActivity, profile

    few = scale._replace(steps=min(10, scale.steps))
    kinds = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * (report.device.type == "cuda")]
    for (size, batch), multiple in [(scale.small, EAGER), *((each, graphs.MULTIPLE) for each in scale.alone[:3])]:
        what, how = f"{size}, batch {batch}", f"{name_how(multiple)}, profile"
        with report.attempt(what, how):
            profiler = profile(activities=kinds, acc_events=True)
            train(size, batch, multiple, lengths, few, begin=profiler.start, end=profiler.stop)
            events = [each for each in profiler.events() if each.device_type == torch.autograd.DeviceType.CUDA]
            events = [each for each in events if not each.is_user_annotation and "##" not in each.name]
            launches = sum(each.name.startswith(("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch"))
                           for each in profiler.events())  # fmt: skip
            by_name, by_kind = Counter(), Counter()  # milliseconds a step
            for each in events:
                spent = each.self_device_time_total / 1e3 / few.steps
                by_name[each.name[:60]] += spent
                by_kind[next(kind for kind, names in KERNELS.items() if re.search(names, each.name.lower()))] += spent
            bare = train(size, batch, multiple, lengths, few)
            report.add(
                what, how, kernels=len(events) / few.steps, launches=launches / few.steps,
                device_ms=sum(by_kind.values()), step_ms=1e3 * bare.seconds / bare.steps,
                kinds={kind: round(spent, 3) for kind, spent in by_kind.most_common()},
                most={name: round(spent, 3) for name, spent in by_name.most_common(12)},
            )  # fmt: skip
    shortest = np.full(few.steps * 2, QUESTION + 18)
    for multiple in (EAGER, graphs.MULTIPLE):
        what = f"{scale.small[0]}, 2 shortest windows"
        with report.attempt(what, name_how(multiple)):
            report.rate(what, name_how(multiple), [train(scale.small[0], 2, multiple, shortest, few)])


MEASURES = {
    "tests": run_tests, "alone": measure_alone, "together": measure_together, "compiled": measure_compiled,
    "profile": measure_profile, "digits": measure_digits,
}  # fmt: skip


def measure(part: str, options: argparse.Namespace) -> None:
    """Do one part, in this process."""
    scale = FULL if training_device().type == "cuda" else SMALL
    number = max(batch for _, batch in scale.alone) * (scale.warm + scale.steps)
    report = Report(options.rows, options.seconds)
    lengths = lengths_of(options.data, options.encoder, number, scale.longest)
    try:
        MEASURES[part](report, lengths, scale, options.encoder)
    except TimeoutError as error:
        report.add(part, "the rest", error=str(error))


# --- all parts, and the table ---------------------------------------------------------------------------------------


def show_table(rows: list[dict]) -> None:
    """Print every measurement, and its ratio to the best that Trainer did on the same."""
    best = {}
    for row in rows:
        if row["how"].startswith("Trainer") and "windows_per_second" in row:
            best[row["what"]] = max(best.get(row["what"], 0.0), row["windows_per_second"])
    eager = {row["what"]: row["windows_per_second"] for row in rows if row["how"] == "eager" and "share" in row}
    print(f"\n{'what':<26} {'how':<38} {'windows/s':>9} {'Trainer':>8} {'ratio':>6} {'to eager':>8} {'of peak':>8}")
    for row in rows:
        head = f"{row['what']:<26} {row['how']:<38}"
        if "windows_per_second" not in row:
            shown = ("result", "error", "kernels", "launches", "device_ms", "step_ms")
            print(head, *(f"{name} {row[name]}"[:160] for name in shown if name in row))
            continue
        speed, other = row["windows_per_second"], best.get(row["what"], 0.0)
        ratio = f"{speed / other:6.2f}" if other else " " * 6
        before = f"{speed / eager[row['what']]:8.2f}" if row["what"] in eager else " " * 8
        digits = {True: "same digits", False: "other digits"}.get(row.get("same_digits"), "")
        print(f"{head} {speed:9.0f} {other:8.0f} {ratio} {before} {row['share']:8.1%} {digits}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder or file of a domain's questions, for the windows' lengths")
    parser.add_argument("--encoder", default="data/mini", help="whose tokenizer cuts them")
    parser.add_argument("--out", default="gpu.json", help="file for all measurements")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of all parts")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)  # one part, in this process
    parser.add_argument("--rows", help=argparse.SUPPRESS)  # the file for its measurements
    options = parser.parse_args()
    if options.part:
        measure(options.part, options)
        return
    command, until = f"python benchmarks/gpu.py --data {Path(options.data).name}", time.monotonic() + options.seconds
    facts, rows = {"command": command, "torch": torch.__version__, "transformers": transformers.__version__}, []
    facts["cores"] = engine.cores()
    print(facts, flush=True)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
        "PYTHONUNBUFFERED": "1",
        "TQDM_DISABLE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        for part in options.parts:
            begun, file = time.monotonic(), Path(folder, f"{part}.jsonl")
            seconds = min(PARTS[part], until - begun)
            print(f"\n{part}, at most {seconds:.0f} s", flush=True)
            if seconds < 15:
                continue
            child = [sys.executable, __file__, "--part", part, "--rows", file, "--seconds", str(seconds - 15)]
            child += ["--data", options.data, "--encoder", options.encoder]
            done = run_part(list(map(str, child)), environment, seconds + 10)
            rows += [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
            if done:
                rows.append({"what": part, "how": "as a whole", "error": done})
            print(f"{part} took {time.monotonic() - begun:.0f} s {done}", flush=True)
            Path(options.out).write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    show_table(rows)


def run_part(command: list[str], environment: dict[str, str], seconds: float) -> str:
    """Run a process, and end it with all that it started where it is late; return what went wrong."""
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        status = process.wait(seconds)
        return f"ended with {status}" if status else ""
    except subprocess.TimeoutExpired:
        return "was late"
    finally:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            process.wait()


if __name__ == "__main__":
    main()
