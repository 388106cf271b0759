"""Optimisers by name, and the learning rate of each step."""

import torch
from torch import nn

from helpers.presets.schema import TrainingSettings


class DecoupledAdamax(torch.optim.Adamax):
    """Adamax (Kingma and Ba 2015, section 7.1) whose weight decay shrinks the weights, as AdamW's does.

    torch's own adds ``weight_decay`` to the gradient, where the infinity norm divides it away; so it stays 0 there and
    is kept as each group's ``decay``.
    """

    def __init__(self, groups: list[dict], lr: float):
        own = [{"params": group["params"], "decay": group["weight_decay"]} for group in groups]
        super().__init__(own, lr=lr, foreach=True)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights and group["decay"]:
                torch._foreach_mul_(weights, 1 - group["lr"] * group["decay"])
        return super().step(closure)


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """``settings.optimizer`` with decoupled weight decay; biases and layer norms do not decay."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if weight.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in trained if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    if settings.optimizer == "adamax":
        return DecoupledAdamax(groups, settings.learning_rate)
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)


def learning_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Linear warm-up over the first ``warmup`` share of the steps, then linear decay to 0 (BERT)."""
    rise = max(1, round(warmup * steps))
    return peak * min((step + 1) / rise, (steps - step) / max(1, steps - rise + 1))
