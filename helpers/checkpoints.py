"""Saving and loading in the middle of a training: one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's tensors by name, tied ones once."""
    seen: set[int] = set()
    state = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            state[name] = tensor
    return state


def save_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, best: dict[str, torch.Tensor], progress: dict
) -> None:
    """Store weights, optimiser, best weights so far, random state and ``progress`` (JSON-able) at ``path``."""
    tensors = {f"model.{name}": tensor for name, tensor in weights(model).items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        save_file(
            {k: v.contiguous() for k, v in tensors.items()}, temporary, metadata={"progress": json.dumps(progress)}
        )
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:  # a full disk is either
        temporary.unlink(missing_ok=True)
        raise OSError(f"cannot save the checkpoint {path.name}: {error}; free some space and run again") from error


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, torch.Tensor], dict] | None:
    """Put a stored state back; returns the best weights so far and ``progress``. None, and said, if unreadable."""
    for stale in path.parent.glob(f"{path.stem}.*.tmp"):  # of a process killed while it saved
        stale.unlink()
    if not path.is_file():
        return None
    device = str(next(model.parameters()).device)
    parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "best": {}, "optimizer": {}, "random": {}}
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            for key in file.keys():  # noqa: SIM118 (not a dict)
                part, name = key.split(".", 1)
                parts[part][name] = file.get_tensor(key)
            progress = json.loads(file.metadata()["progress"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        print(f"checkpoint {path} cannot be read ({error}); this training starts again")
        return None
    model.load_state_dict(parts["model"], strict=False)
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in parts["optimizer"].items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(parts["random"]["cpu"])
    if "cuda" in parts["random"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(parts["random"]["cuda"])
    return {name: tensor.to(device) for name, tensor in parts["best"].items()}, progress
