"""Attention within the rows of a packed batch, whose tokens lie end to end. On a GPU it is the variable-length kernel
that PyTorch has, with its own dropout; elsewhere a slow reference with the same result, for tests."""

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from helpers.batches.packed import Packing

TOLERANCE = 0.02  # of bfloat16, whose numbers have 8 bits


def attention(query: Tensor, key: Tensor, value: Tensor, packing: Packing, dropout: float, scaling: float) -> Tensor:
    """Attention within each row of a packed batch, 1×T×H×D, of queries, keys and values 1×H×T×D."""
    parts = [each[0].transpose(0, 1) for each in (query, key, value)]
    function = fused if query.device.type == "cuda" else spelt_out
    return function(*parts, packing.edges, packing.longest, dropout, scaling)[None]


def fused(query, key, value, edges: Tensor, longest: int, dropout: float, scaling: float) -> Tensor:
    """The kernel, T×H×D, in bfloat16 or float16. ``torch.nn.attention.varlen`` calls it too, but without dropout."""
    sizes = (edges, edges, longest, longest)
    return torch.ops.aten._flash_attention_forward(query, key, value, *sizes, dropout, False, False, scale=scaling)[0]


def spelt_out(query, key, value, edges: Tensor, longest: int, dropout: float, scaling: float) -> Tensor:
    """The same by a mask that is block-diagonal, T×H×D."""
    row_T = torch.bucketize(torch.arange(len(query), device=query.device), edges[1:], right=True)
    scores = torch.einsum("thd,shd->hts", query * scaling, key).masked_fill(row_T[:, None] != row_T, -torch.inf)
    return torch.einsum("hts,shd->thd", functional.dropout(scores.softmax(-1), dropout), value)


@cache
def has_kernel(device: torch.device) -> bool:
    """Whether the kernel works on this device. Warns where a GPU's does not."""
    return device.type == "cuda" and is_right(fused, device)


@torch.inference_mode(False)
@torch.enable_grad()
def is_right(function: Callable[..., Tensor], device: torch.device) -> bool:
    """Whether ``function`` gives in bfloat16 what the reference does, gradients too. Warns where it does not."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.tensor([0, 5, 70, 128], dtype=torch.int32, device=device)
    drawn = [torch.randn(128, 2, 64, generator=generator).to(device, torch.bfloat16) for _ in range(4)]

    def run(function: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        inputs = [each.to(dtype, copy=True).requires_grad_() for each in drawn[:3]]
        output = function(*inputs, edges, 65, 0.0, 0.125)
        return [output.detach(), *torch.autograd.grad(output, inputs, drawn[3].to(dtype))]

    try:
        pairs = zip(run(function, torch.bfloat16), run(spelt_out, torch.float32), strict=True)
        gaps = [float((found.float() - expected).norm() / expected.norm()) for found, expected in pairs]
    except (AttributeError, NotImplementedError, RuntimeError, TypeError) as error:  # the kernel is no public function
        warnings.warn(f"variable-length attention does not work here, batches stay padded: {error}", stacklevel=2)
        return False
    if not all(gap < TOLERANCE for gap in gaps):
        warnings.warn(f"variable-length attention is off here, batches stay padded: {gaps}", stacklevel=2)
        return False
    return True
