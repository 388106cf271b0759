"""What the benchmarks share: questions of a domain, what the processor can do at most, and what a training needs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from helpers.data.examples import Domain
from helpers.data.load import load
from helpers.presets.schema import DataSettings


def read_domain(data: str) -> Domain:
    """Read a folder or file of a domain's questions."""
    path, name = Path(data).resolve(), "benchmark"
    return load(DataSettings(source="files", folder=str(path.parent), domains={name: path.name}), name)


def wait(device: torch.device) -> None:
    """Wait until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_peak(device: torch.device, dtype: torch.dtype = torch.bfloat16, size: int = 0, times: int = 20) -> float:
    """Floating-point operations a second of a product of two random square matrices, the median of several."""
    size = size or (8192 if device.type == "cuda" else 512)
    one, other = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(3 + times):
        wait(device)
        begun = time.perf_counter()
        one @ other
        wait(device)
        seconds.append(time.perf_counter() - begun)
    return 2 * size**3 / float(np.median(seconds[3:]))


def training_flops(model: nn.Module, lengths: np.ndarray) -> float:
    """Floating-point operations of training an encoder on sequences of such lengths once: three times those of the
    matrix products of a forward pass, on real tokens alone."""
    weights = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))
    lengths, config = lengths.astype(float), model.config
    attention = 4 * config.num_hidden_layers * config.hidden_size * (lengths**2).sum()
    return 3 * (2 * weights * lengths.sum() + attention)


def main() -> None:
    """Print the peak of the device that trainings run on."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for dtype in (torch.float32, torch.bfloat16):
        print(f"{device.type}, {dtype}: {matmul_peak(device, dtype) / 1e12:.2f} TFLOP/s in products of matrices")


if __name__ == "__main__":
    main()
