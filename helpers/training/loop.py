"""The one training loop, and prediction. Papers bring a loss and a plan of batches, never a loop of their own."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import parent_process
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from accelerate.utils import extract_model_from_parallel
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers.batches.packed import packing
from helpers.batches.tensors import SequenceTensors
from helpers.batches.texts import Sequences
from helpers.models.pretrained import inputs_of
from helpers.models.unpadded import can_skip_padding, skip_padding, skips_padding
from helpers.models.varlen import has_kernel
from helpers.presets.schema import TrainingSettings
from helpers.training.checkpoints import load_checkpoint, save_checkpoint, weights
from helpers.training.optimizers import learning_rate, make_optimizer
from helpers.training.trace import Step, Trace

CURVE = 50  # points of a training's curve
# among them, on the host, "window", the sequences' numbers, and "lengths"; in batches of several tasks "task", a name
Batch = dict[str, Tensor]
# loss(output, batch, progress) -> named parts that add up to the loss; progress runs from 0 to 1 over the training
Loss = Callable[[object, Batch, float], dict[str, Tensor]]
Validate = Callable[[nn.Module], float | tuple[float, dict]]  # a score, or one with what is beside it in the history


class BatchSource(Protocol):
    """Batches by step number, so that any step can be made again; ``part`` of ``parts`` is a slice of its rows."""

    def __len__(self) -> int: ...
    def size(self, step: int) -> int: ...
    def at(self, step: int, part: int = 0, parts: int = 1) -> Batch: ...


@dataclass
class Fitted:
    """What a training did: best validation score, [step, score] of each validation with what else it found, [step,
    learning rate, mean of each part of the loss since the one before] at about ``CURVE`` steps, steps, seconds."""

    best_score: float = -math.inf
    history: list[list] = field(default_factory=list)  # lists, as in a checkpoint's JSON
    curve: list[list] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0


def training_device() -> torch.device:
    """A GPU of NVIDIA's or AMD's (this process's own, if there are several), or else the CPU."""
    return PartialState(cpu=not torch.cuda.is_available()).device


def is_bf16(precision: str, device: torch.device) -> bool:
    """Whether to compute in bfloat16: as asked, or ("auto") where the hardware is fast at it."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= 8
    return device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()


def forward(model: nn.Module, batch: Batch, precision: str, **arguments):
    """The model's output for a batch, computed in the precision asked for. ``arguments`` go to the model as well, which
    then sees all of the padding: they ask for what is inside."""
    bare, ids = extract_model_from_parallel(model), batch["input_ids"]
    inputs, is_short = {name: batch[name] for name in inputs_of(bare)}, is_bf16(precision, ids.device)
    if skips_padding(bare) and not arguments and (is_short or ids.device.type == "cpu"):  # as kernels take it
        inputs["packing"] = packing(batch["lengths"], ids.shape[-1], ids.device)
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=is_short):
        return model(**inputs, **arguments)


def choose_padding(model: nn.Module, precision: str, device: torch.device, padding_free: bool | None = None) -> None:
    """Let ``model`` leave out padding, where it can and that is wanted; None: where the device has a kernel for it."""
    if can_skip_padding(model):
        has_means = is_bf16(precision, device) and has_kernel(device)
        skip_padding(model, has_means if padding_free is None else padding_free)


def fit(
    model: nn.Module,
    batches: BatchSource,
    loss: Loss,
    settings: TrainingSettings,
    *,
    seed: int,
    validate: Validate | None = None,
    checkpoint: Path | None = None,
    label: str = "training",
    padding_free: bool | None = None,
) -> Fitted:
    """Train ``model`` in place and leave it at its best validation score, or at the end without ``validate``, which
    returns a score, or one with what is to stand beside it in the history.

    Dropout follows ``seed``; the batches bring their own order. With ``checkpoint`` the state is stored every
    ``settings.checkpoint_minutes`` and a killed training goes on exactly where it was stored, but for the curve's next
    point, which is the mean since then, and with several processes for dropout, as one's random state is kept. Raises
    FloatingPointError at the first loss that is not finite, with its step, windows and parts, some steps later: no step
    waits for the device. ``padding_free`` says whether the encoder is to leave out padding where it can (None: where
    the device is quick at it).
    """
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)  # such as the heads of other tasks
    accelerator = Accelerator(mixed_precision="no", cpu=not torch.cuda.is_available(), kwargs_handlers=[unused])
    processes, rank = accelerator.num_processes, accelerator.process_index
    torch.manual_seed(seed + rank)
    choose_padding(model, settings.precision, accelerator.device, padding_free)
    model, optimizer = accelerator.prepare(model, make_optimizer(model, settings))
    bare = accelerator.unwrap_model(model)
    bare.train()
    steps, parts = len(batches), processes * settings.accumulate
    evaluate_at = {round(steps * (i + 1) / settings.evaluations) for i in range(settings.evaluations)}
    curve_at = {math.ceil(steps * (i + 1) / CURVE) for i in range(CURVE)}

    # restore
    best, progress = (checkpoint and load_checkpoint(checkpoint, bare, optimizer)) or ({}, {})
    done = Fitted(**progress)
    trace = Trace(done.curve)
    saved_at = time.perf_counter()
    begun = saved_at - done.seconds

    hidden = rank > 0 or parent_process() is not None  # workers would write over each other
    left = range(done.steps, steps)
    for step in (bar := tqdm(left, label, steps, initial=done.steps, leave=False, mininterval=1.0, disable=hidden)):
        # step: the parts of a batch add up to its mean
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, settings.learning_rate, settings.warmup)
        terms, size = {}, batches.size(step)
        for part in range(rank, parts, processes):
            rows = len(range(part, size, parts))
            weight = rows * processes / size
            batch = batches.at(step, part if rows else 0, parts)  # a part without rows goes along with no weight
            with nullcontext() if part + processes >= parts else accelerator.no_sync(model):
                of_part = loss(forward(model, batch, settings.precision), batch, step / steps)
                accelerator.backward(sum(of_part.values()) * weight)
            terms = {name: terms.get(name, 0.0) + term.detach() * weight for name, term in of_part.items()}
        trace.add(Step(step, sum(terms.values()), terms, batch["window"], batch.get("task")))
        accelerator.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        done.steps = step + 1

        if done.steps in curve_at:
            trace.mark(done.steps, optimizer.param_groups[0]["lr"])

        # validate
        if validate and done.steps in evaluate_at:
            trace.read()
            score, *details = found if isinstance(found := validate(bare), tuple) else (found,)
            bare.train()
            done.history.append([done.steps, score, *details])
            if score > done.best_score:
                done.best_score = score
                best = {name: tensor.clone() for name, tensor in weights(bare).items()}
            bar.set_postfix(validation=f"{score:.1f}")

        # checkpoint
        minutes = (time.perf_counter() - saved_at) / 60
        if checkpoint and rank == 0 and done.steps < steps and minutes > settings.checkpoint_minutes:
            trace.read()
            done.seconds = time.perf_counter() - begun
            save_checkpoint(checkpoint, bare, optimizer, best, vars(done))
            saved_at = time.perf_counter()
    trace.read()
    if best:
        bare.load_state_dict(best, strict=False)
    done.seconds = time.perf_counter() - begun
    bare.eval()
    return done


@torch.inference_mode()
def outputs(
    model: nn.Module, sequences: Sequences, *, batch_size: int = 64, precision: str = "auto", **arguments
) -> Iterator[tuple[np.ndarray, Batch, object]]:
    """Row numbers, batch and the model's output, for sequences of like length together; ``arguments`` go to the model.
    Raises ValueError where it is not in evaluation mode."""
    if model.training:
        raise ValueError("predict needs a model in evaluation mode: call model.eval() first")
    weights_on = (weight.device for weight in model.parameters())
    device = next(weights_on, torch.device("cpu"))  # ONNX files hide theirs, and are read on the CPU
    if skips_padding(model) is None:
        choose_padding(model, precision, device)
    tensors = SequenceTensors(sequences, device)
    order = np.argsort(sequences.lengths_W, kind="stable")
    for begin in range(0, len(order), batch_size):
        index = order[begin : begin + batch_size]
        batch = tensors.gather(index)
        yield index, batch, forward(model, batch, precision, **arguments)
