"""The loss of a student with soft targets (Liu et al. 2019, Eqs. 2 and 4)."""

import torch
from torch import Tensor

from helpers.extractive_qa import weighted_mean


def soft_target_cross_entropy(logits_BxC: Tensor, targets_BxC: Tensor) -> Tensor:
    """Compute -sum Q(c|X) log P(c|X) over the classes c, shape B (Eq. 4). Targets are probabilities."""
    return -(targets_BxC * logits_BxC.float().log_softmax(-1)).sum(-1)


def student_loss(
    label_loss: Tensor, logits_BxC: Tensor, label_B: Tensor, targets: Tensor, soft: float
) -> dict[str, Tensor]:
    """Return 1 - ``soft`` times the loss of the labels (Eq. 2), and ``soft`` times that of the soft targets (Eq. 4).

    ``targets`` are probabilities (B×C), or scores (B), which count by the squared error. Texts without a label (-100 or
    nan) have the second term alone, with weight 1.
    """
    if targets.dim() == 1:
        has_label_B, soft_B = ~label_B.isnan(), (logits_BxC[:, 0].float() - targets).square()
    else:
        has_label_B, soft_B = label_B >= 0, soft_target_cross_entropy(logits_BxC, targets)
    return {"label": (1 - soft) * label_loss, "soft": weighted_mean(soft_B, torch.where(has_label_B, soft, 1.0))}
