"""The one training loop, and prediction. Papers bring a loss and a plan of batches, never a loop of their own."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import parent_process
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from accelerate import Accelerator, PartialState
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers.batches.sequences import Windows
from helpers.batches.tensors import SequenceTensors
from helpers.models.pretrained import inputs_of
from helpers.presets.schema import TrainingSettings
from helpers.tasks.decoding import Logits
from helpers.training.checkpoints import load_checkpoint, save_checkpoint, weights

Batch = dict[str, Tensor]
# loss(output, batch, progress) -> named parts that add up to the loss; progress runs from 0 to 1 over the training
Loss = Callable[[object, Batch, float], dict[str, Tensor]]


class BatchSource(Protocol):
    """Batches by step number, so that any step can be made again; ``part`` of ``parts`` is a slice of its rows."""

    def __len__(self) -> int: ...

    def size(self, step: int) -> int: ...

    def at(self, step: int, part: int = 0, parts: int = 1) -> Batch: ...


@dataclass
class Fitted:
    """What a training did: best validation score and its step, (step, score) pairs, steps, seconds."""

    best_score: float = -math.inf
    best_step: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)
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


def learning_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Linear warm-up over the first ``warmup`` share of the steps, then linear decay to 0 (BERT)."""
    rise = max(1, round(warmup * steps))
    return peak * min((step + 1) / rise, (steps - step) / max(1, steps - rise + 1))


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW; biases and layer norms do not decay."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for _, p in named if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for _, p in named if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)


def fit(
    model: nn.Module,
    batches: BatchSource,
    loss: Loss,
    settings: TrainingSettings,
    *,
    seed: int,
    validate: Callable[[nn.Module], float] | None = None,
    checkpoint: Path | None = None,
    label: str = "training",
) -> Fitted:
    """Train ``model`` in place and leave it at its best validation score, or at the end without ``validate``.

    Dropout follows ``seed``; the batches bring their own order. With ``checkpoint`` the state is stored every
    ``settings.checkpoint_minutes`` and a killed training goes on exactly where it was stored (with several
    processes but for dropout, since one process's random state is kept). Raises
    FloatingPointError at the first loss that is not finite, with its step, windows and parts.
    """
    accelerator = Accelerator(mixed_precision="no", cpu=not torch.cuda.is_available())
    device, processes, rank = accelerator.device, accelerator.num_processes, accelerator.process_index
    bf16 = is_bf16(settings.precision, device)
    torch.manual_seed(seed + rank)
    optimizer = make_optimizer(model, settings)
    model, optimizer = accelerator.prepare(model, optimizer)
    bare = accelerator.unwrap_model(model)

    steps, parts = len(batches), processes * settings.accumulate
    evaluate_at = (
        {round(steps * (i + 1) / settings.evaluations) for i in range(settings.evaluations)} if validate else {}
    )
    done, best, begun = Fitted(), {}, time.perf_counter()
    stored = load_checkpoint(checkpoint, bare, optimizer) if checkpoint else None
    if stored is not None:
        best, progress = stored
        done = Fitted(**progress)
        done.history = [tuple(point) for point in done.history]  # JSON knows only lists
        begun -= done.seconds
    saved_at, pending = time.perf_counter(), None

    shown = parent_process() is None and accelerator.is_main_process  # workers would write over each other
    bar = tqdm(
        range(done.steps, steps), label, steps, leave=False, mininterval=1.0, initial=done.steps, disable=not shown
    )
    bare.train()
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, settings.learning_rate, settings.warmup)
        whole, size = 0.0, batches.size(step)
        for micro in range(settings.accumulate):
            part = rank + processes * micro
            rows = len(range(part, size, parts))
            batch = batches.at(step, part if rows else 0, parts)  # a part without rows goes along with no weight
            last = micro == settings.accumulate - 1
            with contextlib.nullcontext() if last else accelerator.no_sync(model):
                with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                    output = model(**{name: batch[name] for name in inputs_of(bare)})
                terms = loss(output, batch, step / steps)
                part_loss = sum(terms.values()) * (rows * processes / size)
                accelerator.backward(part_loss)
            whole = whole + part_loss.detach()
        _check_finite(pending)  # one step late, so that the device need not be waited for
        pending = (step, whole, batch["window"], {name: term.detach() for name, term in terms.items()})
        accelerator.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        done.steps = step + 1

        if done.steps in evaluate_at:
            _check_finite(pending)
            score = validate(bare)
            bare.train()
            done.history.append((done.steps, score))
            if score > done.best_score:
                done.best_score, done.best_step = score, done.steps
                best = {name: tensor.clone() for name, tensor in weights(bare).items()}
            bar.set_postfix(validation=f"{score:.1f}")
        waited = time.perf_counter() - saved_at
        if checkpoint and done.steps < steps and waited > 60 * settings.checkpoint_minutes and rank == 0:
            _check_finite(pending)
            done.seconds = time.perf_counter() - begun
            save_checkpoint(checkpoint, bare, optimizer, best, vars(done))
            saved_at = time.perf_counter()
    _check_finite(pending)
    if best:
        bare.load_state_dict(best, strict=False)
    done.seconds = time.perf_counter() - begun
    bare.eval()
    return done


def _check_finite(pending: tuple | None) -> None:
    if pending is None:
        return
    step, whole, window, terms = pending
    if not math.isfinite(float(whole)):
        values = ", ".join(f"{name} {float(term):g}" for name, term in terms.items())
        raise FloatingPointError(
            f"the loss is {float(whole)} at step {step} ({values}); the batch holds windows {window.tolist()}. "
            "Lower learning_rate, or set precision to 'fp32' if it is bf16"
        )


def predict(model: nn.Module, windows: Windows, *, batch_size: int = 64, precision: str = "auto") -> Logits:
    """Start and end logits of every real token of every window, in window order, float32.

    The model must be in evaluation mode: a teacher or a scored reader has no dropout.
    """
    read = outputs(model, windows, batch_size=batch_size, precision=precision)
    return Logits.collect(windows, ((index, output.start_logits, output.end_logits) for index, _, output in read))


@torch.inference_mode()
def outputs(
    model: nn.Module, windows: Windows, *, batch_size: int = 64, precision: str = "auto"
) -> Iterator[tuple[np.ndarray, Batch, object]]:
    """Window numbers, batch and the model's output, for windows of like length together. Raises ValueError where the
    model is not in evaluation mode."""
    if model.training:
        raise ValueError("predict needs a model in evaluation mode: call model.eval() first")
    device = next(model.parameters()).device
    bf16 = is_bf16(precision, device)
    tensors = SequenceTensors(windows, device)
    order = np.argsort(windows.lengths_W, kind="stable")
    for begin in range(0, len(order), batch_size):
        index = order[begin : begin + batch_size]
        batch = tensors.gather(index)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            output = model(**{name: batch[name] for name in inputs_of(model)})
        yield index, batch, output
