"""The losses of a student by its teacher (Dong et al. 2021, Eqs. 1 to 5, 17)."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from helpers.classification import check_shapes, domain_means, label_loss, soften
from helpers.extractive_qa import take, weighted_mean
from helpers.loop import Batch
from helpers.papers.hrkd.tinybert import match_layers


def level_distance(student_BxLxF: Tensor, teacher_BxLxF: Tensor, mask_BxL: Tensor) -> Tensor:
    """Average the squared difference of two levels over the unmasked tokens of each text, shape B (HRKD, Eqs. 1, 4).

    Raises ValueError for levels of two shapes, as a narrower student's have to be projected to the teacher's width, and
    for a mask that is not B×L.
    """
    check_shapes(student_BxLxF, teacher_BxLxF, "project the student's to the teacher's width")
    check_mask(student_BxLxF, mask_BxL)
    gaps_BxL = functional.mse_loss(student_BxLxF.float(), teacher_BxLxF.float(), reduction="none").mean(-1)
    return (gaps_BxL * mask_BxL).sum(-1) / mask_BxL.sum(-1)


def check_mask(values_BxLxF: Tensor, mask_BxL: Tensor) -> None:
    """Raise ValueError for a mask that is not B×L and, on a CPU, for texts without a real token."""
    shape, expected = getattr(mask_BxL, "shape", None), values_BxLxF.shape[:2]
    if shape != expected:
        there = mask_BxL if shape is None else (*shape,)
        raise ValueError(f"expected a mask of shape {(*expected,)}, found {there}; give one of the same batch")
    if mask_BxL.device.type == "cpu" and not mask_BxL.any(-1).all():
        raise ValueError("expected a real token in each text, found a mask of zeros alone; leave such texts out")


def class_cross_entropy(student_BxC: Tensor, teacher_BxC: Tensor, temperature: float) -> Tensor:
    """Compute -sum softmax(teacher / t) log softmax(student / t) of each text, shape B (HRKD, Eq. 2; no factor t²).

    Both are logits. Raises ValueError for other shapes and for a temperature that is not above 0.
    """
    check_shapes(student_BxC, teacher_BxC)
    teacher_BxC, student_BxC = (soften(logits, temperature) for logits in (teacher_BxC, student_BxC))
    return -(teacher_BxC.softmax(-1) * student_BxC.log_softmax(-1)).sum(-1)


def score_distance(
    student: Sequence[Tensor], teacher: Sequence[Tensor], query_mask_BxL: Tensor, key_mask_BxL: Tensor
) -> Tensor:
    """Average the squared difference of attentions over heads and pairs of real tokens, shape B (HRKD, Eq. 3).

    Attention is taken before the softmax, as in TinyBERT. Each side gives scaled queries, then keys (B×H×L×D), and the
    masks their real tokens. Numbers of heads that differ are averaged over first. No score is computed: the sum over
    all pairs of q kᵀ · Q Kᵀ is the sum of the elements of qᵀQ · kᵀK, which have the width of a head instead of the
    length of a text, and (s - S)² is s² - 2 s S + S². Of differences that are a millionth of the squares or less,
    float32 leaves nothing. Raises ValueError for scores in place of queries and keys, and for masks that are not B×L.
    """
    if any(len(side) != 2 or side[0].dim() != 4 for side in (student, teacher)):
        raise ValueError("expected queries and keys (B×H×L×D each) of each side; give these in place of scores")
    for side in (student, teacher):
        for factor, mask_BxL in zip(side, (query_mask_BxL, key_mask_BxL), strict=True):
            check_mask(factor[:, 0], mask_BxL)
    if student[0].shape[1] != teacher[0].shape[1]:
        student, teacher = map(_one_head, (student, teacher))
    masks = query_mask_BxL[:, None, :, None], key_mask_BxL[:, None, :, None]
    student, teacher = (  # heads come as views, which products would copy again and again
        [each.float().contiguous() * mask for each, mask in zip(factors, masks, strict=True)]
        for factors in (student, teacher)
    )

    def product_BxH(one: list[Tensor], other: list[Tensor]) -> Tensor:
        queries_BxHxDxE, keys_BxHxDxE = (a.transpose(2, 3) @ b for a, b in zip(one, other, strict=True))
        return (queries_BxHxDxE * keys_BxHxDxE).sum((2, 3))

    squares_BxH = product_BxH(student, student) - 2 * product_BxH(student, teacher) + product_BxH(teacher, teacher)
    return squares_BxH.mean(1).clamp_min(0) / (query_mask_BxL.sum(-1) * key_mask_BxL.sum(-1))


def _one_head(factors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    queries, keys = (each.transpose(1, 2).flatten(2)[:, None] for each in factors)
    return queries / factors[0].shape[1], keys  # the scores are the mean of the heads'


def distillation_loss(
    output, batch: Batch, progress: float = 0.0, *, domains: int, gamma: float, temperature: float, padding: bool
) -> dict[str, Tensor]:
    """Compute the terms of Eq. 17: losses of levels weighted by the ratios r_m,d, and of classes weighted by gamma / D.

    ``output`` is that of `TinyBertStudent`; the batch has the teacher's levels, attention and logits. With equal ratios
    it is Eq. 5 over D. Where Meta-KD's teacher gives its view of the domains, texts have weights, and the distance of
    the views is added. With ``padding`` padded tokens count in means.
    """
    real_BxL, domain_B = batch["attention_mask"], batch["domain"]
    mask_BxL = torch.ones_like(real_BxL) if padding else real_BxL  # padding is never a key of the attention
    teacher_H, teacher_A = batch["teacher_levels"], batch["teacher_attention"]
    # Of the teacher, for each level of the student
    layers = [0, *match_layers(len(output.attentions_kept), len(teacher_A))]
    hidden = [level_distance(H, teacher_H[m], mask_BxL) for H, m in zip(output.levels, layers, strict=True)]
    pairs = zip(output.attentions_kept, layers[1:], strict=True)
    attention = [score_distance(A, teacher_A[m - 1], mask_BxL, real_BxL) for A, m in pairs]
    r_0, r_m = output.ratios[:1], output.ratios[1:]
    losses = {"embedding": (r_0, hidden[:1]), "attention": (r_m, attention), "hidden": (r_m, hidden[1:])}
    teacher_BxC, weight_B = batch["teacher_logits"], torch.ones_like(hidden[0])
    if "teacher_view" in batch:
        weight_B = meta_weights(teacher_BxC, batch["label"], batch["weight"])
        losses["view"] = r_0, [(output.domain_view - batch["teacher_view"]).square().mean(1) / 2]
    means = partial(domain_means, domain_B=domain_B if domains > 1 else torch.zeros_like(domain_B), domains=domains)
    terms = {
        name: sum((r_D * means(weight_B * values_B)).sum() for r_D, values_B in zip(*levels, strict=True))
        for name, levels in losses.items()
    }
    values_B = class_cross_entropy(output.logits, teacher_BxC, temperature)
    return {**terms, "prediction": gamma / domains * means(values_B).sum()}


def meta_weights(teacher_BxC: Tensor, label_B: Tensor, weight_B: Tensor) -> Tensor:
    """Compute (1 + w) / (exp((p - 1)²) + 1), p the teacher's probability of the right class, shape B."""
    right_B = take(teacher_BxC.float().softmax(-1), label_B)
    return (1 + weight_B) / (torch.exp((right_B - 1).square()) + 1)


def meta_teacher_loss(output, batch: Batch, progress: float = 0.0, *, corruption_weight: float) -> dict[str, Tensor]:
    """Add to the loss of labels that of domains in a shuffled order, times beta: it hides the domain from the states.

    Texts are weighted by how typical they are (Pan et al. 2020).
    """
    shuffled_B = batch["domain"][torch.randperm(len(batch["domain"]), device=batch["domain"].device)]
    values_B = functional.cross_entropy(output.domain_logits.float(), shuffled_B, reduction="none")
    corruption = corruption_weight * weighted_mean(values_B, batch["weight"])
    return label_loss(output, batch) | {"corruption": corruption}
