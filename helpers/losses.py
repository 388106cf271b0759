"""Every equation as a pure function of tensors. B examples, L positions; computed in float32, means masked."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def mean(values_B: Tensor, weight_B: Tensor | None = None) -> Tensor:
    """Mean over examples, each weighted: sum(w v) / B. B counts zero weights too (IMM Eq. 7 divides by |M|)."""
    return (values_B if weight_B is None else values_B * weight_B).sum() / len(values_B)


def log_probabilities(logits_BxL: Tensor, mask_BxL: Tensor) -> Tensor:
    """log softmax over the unmasked positions (IMM Eqs. 1, 2); masked ones get the lowest float32."""
    lowest = torch.finfo(torch.float32).min
    return functional.log_softmax(logits_BxL.float().masked_fill(mask_BxL == 0, lowest), dim=-1)


def span_negative_log_likelihood(
    start_BxL: Tensor, end_BxL: Tensor, start_B: Tensor, end_B: Tensor, mask_BxL: Tensor
) -> Tensor:
    """-log P(start) - log P(end) of each example, shape B (IMM Eqs. 4 and 8, summed, not halved).

    Hugging Face and BERT halve it; ``fit`` is told by the caller which is meant.
    """
    start = log_probabilities(start_BxL, mask_BxL).gather(1, start_B[:, None])[:, 0]
    end = log_probabilities(end_BxL, mask_BxL).gather(1, end_B[:, None])[:, 0]
    return -(start + end)
