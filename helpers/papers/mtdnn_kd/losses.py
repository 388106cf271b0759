"""The loss of a student with soft targets (Liu et al. 2019, Eqs. 2 and 4)."""

import torch
from torch import Tensor

from helpers.classification import check_probabilities, check_shapes, task_loss
from helpers.extractive_qa import weighted_mean
from helpers.loop import Batch


def soft_target_cross_entropy(logits_BxC: Tensor, targets_BxC: Tensor) -> Tensor:
    """Compute -sum Q(c|X) log P(c|X) over the classes c, shape B (MT-DNN with distillation, Eq. 4).

    Targets are probabilities. Raises ValueError for logits in their place (on a CPU).
    """
    check_shapes(logits_BxC, targets_BxC)
    check_probabilities(targets_BxC)
    return -(targets_BxC * logits_BxC.float().log_softmax(-1)).sum(-1)


def student_loss(output, batch: Batch, progress: float = 0.0, *, kd_weight: float) -> dict[str, Tensor]:
    """Compute the loss of a batch's task. Where it has soft targets, these are weighed against the labels.

    The terms are 1 - ``kd_weight`` times the loss of labels (Eq. 2), and ``kd_weight`` times that of the soft targets
    (Eq. 4). Targets are probabilities (B×C), or scores (B), which count by the squared error. Texts without a label
    (-100 or nan) have the second term alone, with weight 1.
    """
    terms = task_loss(output, batch, progress)
    if "teacher_targets" not in batch:
        return terms
    targets, label_B = batch["teacher_targets"], batch["label"]
    if targets.dim() == 1:
        has_label_B, soft_B = ~label_B.isnan(), (output.logits[:, 0].float() - targets).square()
    else:
        has_label_B, soft_B = label_B >= 0, soft_target_cross_entropy(output.logits, targets)
    soft = weighted_mean(soft_B, torch.where(has_label_B, kd_weight, 1.0))
    return {"label": (1 - kd_weight) * terms["label"], "soft": soft}
