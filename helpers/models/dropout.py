"""Dropout that is quick on a CPU, where drawing a random number for every element takes a third of a training step.

One 64-bit draw serves eight elements, a byte each, so the probability is a multiple of 1/256: 0.1 becomes 26/256.
On other devices, and in evaluation mode, everything is as PyTorch and transformers have it.
"""

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from helpers.models import varlen

NAME = "quick_dropout"


def quick_dropout(values: Tensor, probability: float) -> Tensor:
    """``values`` with each element zeroed with ``probability``, to the next 1/256, and the others scaled up."""
    threshold = min(255, round(256 * probability))
    if threshold == 0:
        return values
    count = values.numel()
    words = torch.empty(-(-count // 8), dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(torch.uint8)[:count].view(values.shape) >= threshold
    return values * kept.to(values.dtype).mul_(256 / (256 - threshold))


class QuickDropout(nn.Dropout):
    """``nn.Dropout``, quick on a CPU."""

    def forward(self, values: Tensor) -> Tensor:
        if self.training and values.device.type == "cpu":
            return quick_dropout(values, self.p)
        return super().forward(values)


def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **others):
    """transformers' SDPA attention; with dropout on a CPU, where SDPA has no fused kernel for it, spelt out.

    query, key, value are B×H×L×D; the mask is boolean, True where attended, or None. A module that ``keeps`` its
    "probabilities" (``helpers.models.attention``) is spelt out too, and left them as ``kept``, B×H×L×L; one that keeps
    its "scores" is left the two factors that they are the product of, scaled queries and keys, B×H×L×D each.

    With a ``packing`` among the others the batch is packed, 1×H×T×D, and each row's tokens attend to its own.
    """
    if (packing := others.get("packing")) is not None:
        return varlen.attention(query, key, value, packing, dropout, scaling), None
    keeps = getattr(module, "keeps", "")
    is_fused = keeps != "probabilities" and (dropout == 0.0 or query.device.type != "cpu")
    if keeps or not is_fused:
        scaled = query * scaling
    if keeps == "scores":
        module.kept = scaled, key
    if is_fused:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **others)
    scores = scaled @ key.transpose(2, 3)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    if keeps == "probabilities":
        module.kept = weights
    drop = quick_dropout if query.device.type == "cpu" else nn.functional.dropout
    return (drop(weights, dropout).to(value.dtype) @ value).transpose(1, 2).contiguous(), None


def mask(**arguments) -> Tensor | None:
    """transformers' mask for SDPA. On a GPU it is made even where nothing is padding, since the host would have to wait
    for the device to know."""
    padding = arguments.get("attention_mask")
    if padding is not None and padding.device.type == "cuda":
        arguments["allow_is_bidirectional_skip"] = False
    return sdpa_mask(**arguments)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)


def quicken(model: nn.Module) -> nn.Module:
    """Give ``model`` this module's dropout in place of PyTorch's."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = QuickDropout  # the same state, another forward
    return model
