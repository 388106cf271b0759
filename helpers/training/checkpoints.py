"""Tensors on disk: one safetensors file, written whole or not at all, and checked when it is read."""

import hashlib
import json
import os
from collections import defaultdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim import Optimizer

from helpers.files import unwritten

Tensors = dict[str, torch.Tensor]


class DamagedFile(ValueError):
    """A file that was cut short or changed after it was written; the message names it."""


def digest(tensors: Tensors, facts: dict[str, str]) -> str:
    """Sixteen hex digits that stand for these tensors, their names, types and shapes, and the facts about them."""
    content = hashlib.sha256(repr(sorted(facts.items())).encode())
    for name, tensor in sorted(tensors.items()):
        content.update(repr((name, tensor.dtype, tuple(tensor.shape))).encode())
        content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()[:16]


def save_tensors(path: Path, tensors: Tensors, facts: dict[str, str], what: str) -> None:
    """Write tensors and ``facts`` about them in one step. Raises OSError, with ``what`` it was, as on a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    try:
        save_file(tensors, temporary, metadata={**facts, "digest": digest(tensors, facts)})
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:  # a full disk is either
        temporary.unlink(missing_ok=True)
        raise unwritten(f"save the {what} {path.name}", error) from error


def load_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """Tensors and facts of a file that ``save_tensors`` wrote. Raises DamagedFile where it is not as it was written."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            facts = dict(file.metadata())
        if facts.pop("digest") != digest(tensors, facts):
            raise DamagedFile(f"{path} is damaged: its content is not what was written")
    except (SafetensorError, OSError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} cannot be read ({error})") from error
    return tensors, facts


def weights(model: nn.Module) -> Tensors:
    """The model's tensors by name, tied ones once."""
    first = {}
    for name, tensor in model.state_dict().items():
        first.setdefault(tensor.data_ptr(), (name, tensor))
    return dict(first.values())


def save_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer, best: Tensors, progress: dict) -> None:
    """Store weights, optimiser, best weights so far, random state and ``progress`` (JSON-able) at ``path``."""
    parts = {"model": weights(model), "best": best, "random": {"cpu": torch.get_rng_state()}}
    if torch.cuda.is_available():
        parts["random"]["cuda"] = torch.cuda.get_rng_state()
    parts |= {f"optimizer.{number}": state for number, state in optimizer.state_dict()["state"].items()}
    tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
    save_tensors(path, tensors, {"progress": json.dumps(progress)}, "checkpoint")


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> tuple[Tensors, dict] | None:
    """Put a stored state back; returns the best weights so far and ``progress``. None, and said, if it is damaged."""
    for stale in path.parent.glob(f"{path.stem}.*.tmp"):  # of a process killed while it saved
        stale.unlink(missing_ok=True)
    if not path.is_file():
        return None
    parts = defaultdict(dict)
    try:
        tensors, facts = load_tensors(path)
        for key, tensor in tensors.items():
            part, name = key.split(".", 1)
            parts[part][name] = tensor
        progress = json.loads(facts["progress"])
    except (KeyError, ValueError) as error:
        print(f"checkpoint {error}; this training starts again")
        return None
    model.load_state_dict(parts["model"], strict=False)
    state = defaultdict(dict)
    for key, tensor in parts["optimizer"].items():
        number, name = key.split(".")
        state[int(number)][name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(parts["random"]["cpu"])
    if "cuda" in parts["random"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(parts["random"]["cuda"])
    device = next(model.parameters()).device
    return {name: tensor.to(device) for name, tensor in parts["best"].items()}, progress
