"""A student beside its teacher, level by level (Jiao et al. 2020; Dong et al. 2021, Eqs. 1, 3, 4)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from helpers.training import losses
from helpers.training.loop import Batch


class Levels(NamedTuple):
    """Distances of each example (B) at each level: ``hidden`` of the embeddings and of every layer, ``attention`` of
    every layer."""

    hidden: list[Tensor]
    attention: list[Tensor]


def level_distances(output, batch: Batch, layers: Sequence[int], padding: bool = False) -> Levels:
    """How far a student (``helpers.models.distilled``) is from what its teacher says in the batch as
    ``teacher_levels`` and ``teacher_attention``. ``layers`` are the teacher's (from 1) that the student's match; with
    ``padding`` padded tokens count as well, but as keys of the attention."""
    real_BxL = batch["attention_mask"]
    counted_BxL = torch.ones_like(real_BxL) if padding else real_BxL
    return Levels(
        [
            losses.level_distance(student, batch["teacher_levels"][layer], counted_BxL)
            for student, layer in zip(output.levels, [0, *layers], strict=True)
        ],
        [
            _attention_distance(student, batch["teacher_attention"][layer - 1], counted_BxL, real_BxL)
            for student, layer in zip(output.attentions_kept, layers, strict=True)
        ],
    )


def _attention_distance(student, teacher, query_BxL: Tensor, key_BxL: Tensor) -> Tensor:
    distance = losses.score_distance if isinstance(student, tuple) else losses.probability_distance
    return distance(student, teacher, query_BxL, key_BxL)
