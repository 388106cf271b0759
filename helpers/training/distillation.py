"""A student beside its teacher, level by level (Jiao et al. 2020; Dong et al. 2021, Eqs. 1, 3, 4)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from helpers.training import losses
from helpers.training.loop import Batch


def level_distances(
    output, batch: Batch, layers: Sequence[int], padding: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """How far a student (``helpers.models.distilled``) is from what its teacher says in the batch as
    ``teacher_levels`` and ``teacher_attention``: distances of each example (B) of the embeddings and of every layer's
    hidden states, and of every layer's attention. ``layers`` are the teacher's (from 1) that the student's match; with
    ``padding`` padded tokens count as well, but as keys of the attention."""
    real_BxL = batch["attention_mask"]
    counted_BxL = torch.ones_like(real_BxL) if padding else real_BxL
    hidden = [
        losses.level_distance(student, batch["teacher_levels"][layer], counted_BxL)
        for student, layer in zip(output.levels, [0, *layers], strict=True)
    ]
    are_scores = isinstance(output.attentions_kept[0], tuple)
    distance = losses.score_distance if are_scores else losses.probability_distance
    attention = [
        distance(student, batch["teacher_attention"][layer - 1], counted_BxL, real_BxL)
        for student, layer in zip(output.attentions_kept, layers, strict=True)
    ]
    return hidden, attention
