"""The one training loop, prediction, optimisers and checkpoints. Papers bring batches and a loss, never a loop."""

import io
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import parent_process
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers.batches import Batches
from helpers.errors import UserError
from helpers.files import write_whole
from helpers.models.encoders import inputs_of
from helpers.presets.schema import TrainingSettings
from helpers.sequences import Sequences, collate
from helpers.task import PROGRESS

READ_EVERY = 50  # steps: reading a loss waits for the device
TOLD_EVERY = 5.0  # seconds between two notes of the progress, beside the checkpoint
CURVE_POINTS = 25  # of the losses that a result has
Batch = dict[str, Tensor]  # in batches of several tasks also "task", a name
Loss = Callable[[object, Batch, float], dict[str, Tensor]]
Validate = Callable[[nn.Module], tuple[float, dict]]  # a score, and details for the history


@dataclass
class Fitted:
    """Training outcome. The history has [step, score, details] of each validation, ``losses`` each step's terms."""

    best_score: float = -math.inf
    history: list[list] = field(default_factory=list)
    losses: list[dict[str, float]] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0


def training_device() -> torch.device:
    """Return the GPU, or the CPU where there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def is_bf16(precision: str, device: torch.device) -> bool:
    """Return whether to compute in bfloat16: as ``precision`` says, or for "auto" where the hardware is fast at it."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= 8
    return torch.cpu.get_capabilities().get("avx512_bf16", False)


def forward(model: nn.Module, batch: Batch, precision: str, **arguments):
    """Compute the model's output for a batch. ``arguments`` go to the model as well."""
    device, names = next(model.parameters()).device, inputs_of(model)
    if lacking := [name for name in names if name not in batch]:
        raise UserError(f"the model takes {lacking[0]!r}, and a batch has {', '.join(batch)}; correct model.inputs")
    with torch.autocast(device.type, torch.bfloat16, enabled=is_bf16(precision, device)):
        return model(**{name: batch[name] for name in names}, **arguments)


def fit(
    model: nn.Module,
    batches: Batches,
    loss: Loss,
    settings: TrainingSettings,
    *,
    seed: int,
    validate: Validate | None = None,
    checkpoint: Path | None = None,
    label: str = "",
    graphs: bool = True,
) -> Fitted:
    """Train ``model`` in place. Keep the weights with the best score by ``validate(model)``, or the last.

    The model gets of a batch what its ``forward`` takes of ``input_ids``, ``attention_mask``, ``token_type_ids`` and
    ``segment_ids``, or what its ``inputs`` name. ``loss(output, batch, progress)`` returns terms by name, to add up.
    Progress rises from 0 to 1, and is a tensor in a CUDA graph, so no loss branches on it. ``seed`` decides dropout.
    Returned are ``steps``, ``seconds``, ``losses`` by step, ``best_score`` and the ``history`` of validations: step,
    score and details. The state goes into the file ``checkpoint`` every ``settings.checkpoint_minutes``, and a killed
    training goes on from there to the same weights. With ``graphs`` a GPU takes steps as CUDA graphs. Raises UserError
    without a batch or finite weights at first, TrainingDiverged where the loss is not finite, OSError for a checkpoint.
    """
    check_finite_weights(model)
    if not (steps := len(batches)):
        raise UserError(f"{label or 'training'}: no batch; expected one or more; give examples, or more epochs")
    if not hasattr(batches, "micro_batches"):
        raise UserError(f"batches: expected micro_batches(), found a {type(batches).__name__}; see help(helpers)")
    torch.manual_seed(seed)
    model.to(device := training_device()).train()
    optimizer, multiple = make_optimizer(model, settings), 8

    def take_step(micro_batches, progress) -> dict[str, Tensor]:
        totals = {}
        for share, batch in micro_batches:
            terms = loss(forward(model, batch, settings.precision), batch, progress)
            if not isinstance(terms, dict) or any(term.dim() for term in terms.values()):
                raise UserError("loss: expected scalar terms by name; return such as {'loss': values.mean()}")
            (sum(terms.values()) * share).backward()
            totals = {name: totals.get(name, 0.0) + term.detach() * share for name, term in terms.items()}
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad()
        return totals

    if device.type == "cuda":
        from helpers.graphs import GraphedStep, pad_multiple  # here, because a CPU needs none of it

        padded = pad_multiple(model) if graphs and settings.accumulate == 1 else 0
        take_step, multiple = GraphedStep(take_step, optimizer, padded > 0), padded or multiple
    evaluate_at = {round(steps * (i + 1) / settings.evaluations) for i in range(settings.evaluations)}  # the end too
    fitted, best, unread = Fitted(), {}, []
    if checkpoint and (state := load_checkpoint(checkpoint, partial(check_state, model, optimizer, steps))):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"][0])
        torch.cuda.set_rng_state_all(state["random"][1 : 1 + torch.cuda.device_count()])
        fitted, best = Fitted(**state["done"]), state["best"]
    first, begun = fitted.steps, time.perf_counter()
    saved_at, told_at, begun_at = begun, begun, begun - fitted.seconds

    # Bars of several workers would overwrite each other. ``disable`` overrides TQDM_DISABLE.
    hidden = parent_process() is not None or "TQDM_DISABLE" in os.environ
    shown = {"desc": label, "leave": False, "mininterval": 1.0, "disable": hidden}
    for step in tqdm(range(fitted.steps, steps), initial=fitted.steps, total=steps, **shown):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, settings.learning_rate, settings.warmup)
        unread.append(take_step(batches.micro_batches(step, settings.accumulate, device, multiple), step / steps))
        fitted.steps = step + 1
        if checkpoint and (now := time.perf_counter()) - told_at > TOLD_EVERY:
            write_whole(checkpoint.with_name(PROGRESS), f"{first} {step + 1} {steps} {now - begun:.1f}")
            told_at = now
        is_due = checkpoint and time.perf_counter() - saved_at > 60 * settings.checkpoint_minutes
        if len(unread) == READ_EVERY or is_due or fitted.steps in evaluate_at:
            check_finite(unread, fitted.steps)
            fitted.losses += [{name: float(term) for name, term in terms.items()} for terms in unread]
            unread = []
        if validate and fitted.steps in evaluate_at:
            score, details = validate(model)
            model.train()
            fitted.history.append([fitted.steps, score, details])
            if score > fitted.best_score:
                fitted.best_score = score
                best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if is_due and fitted.steps < steps:
            fitted.seconds = time.perf_counter() - begun_at
            states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            state = {**states, "best": best, "done": vars(fitted)}
            state["random"] = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
            torch.save(state, buffer := io.BytesIO())
            write_whole(checkpoint, buffer.getbuffer())
            saved_at = time.perf_counter()
    if best:
        model.load_state_dict(best)
    fitted.seconds = time.perf_counter() - begun_at
    model.eval()
    return fitted


@torch.inference_mode()
def batch_outputs(
    model: nn.Module, sequences: Sequences, *, batch_size: int = 64, precision: str = "auto", **arguments
) -> Iterator[tuple[np.ndarray, Batch, object]]:
    """Yield row numbers, batch and the model's output, for sequences of like length together. ``arguments`` go to the
    model. Raises ValueError where it is not in evaluation mode."""
    if model.training:
        raise ValueError("expected a model in evaluation mode: call model.eval() first")
    device = next(model.parameters()).device
    order = np.argsort(sequences.lengths_W, kind="stable")
    for begin in range(0, len(order), batch_size):
        index = order[begin : begin + batch_size]
        batch = collate(sequences, index, device)
        yield index, batch, forward(model, batch, precision, **arguments)


class TrainingDiverged(UserError):
    """A training whose loss is not finite any more."""


def check_finite_weights(model: nn.Module) -> None:
    """Raise UserError where a weight is not finite, as no training mends it."""
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            problem = "the encoder, or the model that this training starts from, is damaged; use another"
            raise UserError(f"{name} is not finite before the first step: {problem}")


def check_finite(losses: list[dict[str, Tensor]], steps: int) -> None:
    """Raise TrainingDiverged at the first loss that is not finite; ``steps`` counts the steps done."""
    for step, terms in enumerate(losses, steps - len(losses)):
        if not math.isfinite(sum(terms.values())):
            values = ", ".join(f"{name} {float(term):g}" for name, term in terms.items())
            # No rate has had a part in step 0
            first = "lower learning_rate" if step else "check the loss, use another encoder"
            advice = f"{first}, or set precision to 'fp32'"
            raise TrainingDiverged(f"the loss is not finite at step {step} ({values}); {advice}")


def average_losses(losses: list[dict[str, float]]) -> list[list]:
    """Average each term over at most ``CURVE_POINTS`` stretches of steps: [last step, means by name] of each."""
    length, curve = -(-len(losses) // CURVE_POINTS), []
    for begin in range(0, len(losses), length or 1):
        stretch, values = losses[begin : begin + length], {}
        for name, value in (pair for terms in stretch for pair in terms.items()):
            values.setdefault(name, []).append(value)  # a batch of another task has other terms
        curve.append([begin + len(stretch), {name: round(float(np.mean(each)), 6) for name, each in values.items()}])
    return curve


def load_checkpoint(path: Path, check: Callable[[dict], None] = lambda state: None) -> dict | None:
    """Read a training's state; None if there is none. A damaged one, or one failing ``check``, is named and ignored."""
    for stale in path.parent.glob(f".{path.name}.*"):  # of a process that was killed while it saved
        stale.unlink(missing_ok=True)
    if not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as parts:  # torch compares no checksums
            if part := parts.testzip():
                raise ValueError(f"{part} is damaged")
        state = torch.load(path, map_location="cpu", weights_only=True)
        check(state)
        return state
    except Exception as error:  # there is no end to what damage makes zipfile, torch and pickle raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"checkpoint {path} cannot be read ({reason}); this training starts again")
        return None


def check_state(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, state: dict) -> None:
    """Raise where a checkpoint's state is not one of this model and optimiser before the last of ``steps``."""
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    for weights in (state["model"], state["best"] or state["model"]):
        if {name: weight.shape for name, weight in weights.items()} != shapes:
            raise ValueError("it has the weights of another model")
    needed, stored = (
        [(group["params"], group.keys()) for group in each["param_groups"]]
        for each in (optimizer.state_dict(), state["optimizer"])
    )
    trained = [weight for group in optimizer.param_groups for weight in group["params"]]
    has_shapes = all(
        moment.shape in ((), trained[number].shape)  # AdamW's fused step crashes with others
        for number, moments in state["optimizer"]["state"].items()
        for moment in moments.values()
    )
    if needed != stored or not has_shapes:
        raise ValueError("it has the state of another optimiser")
    if not 0 < Fitted(**state["done"]).steps < steps:
        raise ValueError("it has other steps")
    torch.Generator().set_state(state["random"][0])


class DecoupledAdamax(torch.optim.Adamax):
    """Adamax (Kingma and Ba 2015, section 7.1) with a group's ``decay`` shrinking its weights, as AdamW's does.

    torch adds its ``weight_decay`` to the gradient, where the infinity norm divides it away; it stays 0.
    """

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            if weights := [weight for weight in group["params"] if weight.grad is not None]:
                torch._foreach_mul_(weights, 1 - group["lr"] * group["decay"])
        return super().step(closure)


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Make ``settings.optimizer`` with decoupled weight decay. Biases and layer norms do not decay."""
    is_adamax = settings.optimizer == "adamax"
    trained, decay = [one for one in model.parameters() if one.requires_grad], "decay" if is_adamax else "weight_decay"
    groups = [
        {"params": [weight for weight in trained if weight.dim() > 1], decay: settings.weight_decay},
        {"params": [weight for weight in trained if weight.dim() <= 1], decay: 0.0},
    ]
    kind, fast = (DecoupledAdamax, "foreach") if is_adamax else (torch.optim.AdamW, "fused")
    return kind(groups, lr=settings.learning_rate, capturable=next(model.parameters()).is_cuda, **{fast: True})


def learning_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Rise linearly over the first ``warmup`` share of the steps, then fall linearly to 0 (BERT)."""
    rise = max(1, round(warmup * steps))
    return peak * min((step + 1) / rise, (steps - step) / max(1, steps - rise + 1))
