"""Every equation as a pure function of tensors. B examples, L positions; computed in float32, means masked."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

Span = tuple[Tensor, Tensor]  # of start and end
Factors = tuple[Tensor, Tensor]  # queries and keys


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
    """-log P(start) - log P(end) of each example, shape B (IMM Eqs. 4 and 8, summed; BERT halves it)."""
    start = log_probabilities(start_BxL, mask_BxL).gather(1, start_B[:, None])[:, 0]
    end = log_probabilities(end_BxL, mask_BxL).gather(1, end_B[:, None])[:, 0]
    return -(start + end)


def smoothed_negative_log_likelihood(
    student: Span, gold: Span, mask_BxL: Tensor, possible_BxL: Tensor, smoothing: float
) -> Tensor:
    """-sum q log P of start and of end, summed, shape B, with smoothed labels (Szegedy et al. 2016, section 7): q is
    ``smoothing`` divided evenly among the positions that are ``possible``, and 1 - ``smoothing`` more at the gold one.

    ``student`` are logits (B×L each), ``gold`` positions (B each); P is over the unmasked positions.
    """
    hard_B = span_negative_log_likelihood(*student, *gold, mask_BxL)
    logs_BxL = sum(log_probabilities(side, mask_BxL) for side in student)
    even_B = -logs_BxL.masked_fill(possible_BxL == 0, 0.0).sum(-1) / possible_BxL.sum(-1)
    return (1 - smoothing) * hard_B + smoothing * even_B


def probability_at(logits_BxL: Tensor, position_B: Tensor, mask_BxL: Tensor) -> Tensor:
    """Softmax probability of one position of each example, shape B."""
    return log_probabilities(logits_BxL, mask_BxL).gather(1, position_B[:, None])[:, 0].exp()


def gold_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Squared difference of the probabilities of the gold start and end, summed, shape B (IMM Eqs. 5 and 9).

    ``student`` and ``teacher`` are start and end logits (B×L each), ``gold`` the true positions (B each).
    """
    pairs = zip(student, teacher, gold, strict=True)
    return sum((probability_at(s, g, mask_BxL) - probability_at(t, g, mask_BxL)).square() for s, t, g in pairs)


def probability_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Squared distance of the whole start and end distributions, summed, shape B. ``gold`` plays no part."""
    pairs = [[log_probabilities(side, mask_BxL).exp() for side in pair] for pair in zip(student, teacher, strict=True)]
    return sum((s - t).square().sum(-1) for s, t in pairs)


def logit_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Squared difference of start and of end logits, each a mean over real tokens, summed, shape B.

    As in the released code of IMM, for every token of the window, before any softmax. ``gold`` plays no part.
    """
    gaps = [(s.float() - t.float()).masked_fill(mask_BxL == 0, 0.0) for s, t in zip(student, teacher, strict=True)]
    return sum(gap.square().sum(-1) for gap in gaps) / mask_BxL.sum(-1)


def soft_cross_entropy(student: Span, teacher: Span, mask_BxL: Tensor, temperature: float) -> Tensor:
    """-sum q log softmax(student / temperature) of start and of end, summed, shape B (A2D section 3.1, L_KD).

    ``student`` are logits, ``teacher`` probabilities at the same temperature (B×L each), 0 where masked.
    """
    return -sum(
        (q.float() * log_probabilities(s.float() / temperature, mask_BxL)).sum(-1)
        for s, q in zip(student, teacher, strict=True)
    )


def confusion_margin(student: Span, gold: Span, confusing: Span) -> Tensor:
    """max(0, 1 - gold logit + confusing logit) of start and of end, summed, shape B (A2D section 3.2, L_ANS).

    ``student`` are logits (B×L), ``gold`` and ``confusing`` positions (B each); 0 where there is no confusing answer,
    which stands as position 0.
    """
    pairs = [
        [logits.float().gather(1, position[:, None])[:, 0] for position in positions]
        for logits, *positions in zip(student, gold, confusing, strict=True)
    ]
    hinge = sum((1 - right + wrong).clamp_min(0) for right, wrong in pairs)
    return hinge * (confusing[0] > 0)


def level_distance(student_BxLxF: Tensor, teacher_BxLxF: Tensor, mask_BxL: Tensor) -> Tensor:
    """Mean squared difference of two outputs over the unmasked tokens of each example, shape B (HRKD Eqs. 1, 4)."""
    gaps_BxL = functional.mse_loss(student_BxLxF.float(), teacher_BxLxF.float(), reduction="none").mean(-1)
    return (gaps_BxL * mask_BxL).sum(-1) / mask_BxL.sum(-1)


def probability_distance(
    student_BxHxLxL: Tensor, teacher_BxHxLxL: Tensor, query_BxL: Tensor, key_BxL: Tensor
) -> Tensor:
    """Mean squared difference of two attentions over the heads and all pairs of an unmasked query and an unmasked key
    of each example, shape B (HRKD Eq. 3). Where they differ in their number of heads, the means over the heads are
    compared."""
    if student_BxHxLxL.shape[1] != teacher_BxHxLxL.shape[1]:
        student_BxHxLxL, teacher_BxHxLxL = (each.mean(1, keepdim=True) for each in (student_BxHxLxL, teacher_BxHxLxL))
    gaps_BxHxLxL = functional.mse_loss(student_BxHxLxL.float(), teacher_BxHxLxL.float(), reduction="none")
    over_keys_BxHxL = (gaps_BxHxLxL @ key_BxL.float()[:, None, :, None])[..., 0]
    pairs_B = query_BxL.sum(-1) * key_BxL.sum(-1)
    return (over_keys_BxHxL * query_BxL[:, None]).sum(-1).mean(-1) / pairs_B


def score_distance(student: Factors, teacher: Factors, query_BxL: Tensor, key_BxL: Tensor) -> Tensor:
    """The same of the scores before the softmax, shape B, from the queries and keys (B×H×L×D) that they are made of.

    No score is computed: the sum of the products of two models' scores q kᵀ and Q Kᵀ is that of the elements of qᵀQ and
    kᵀK multiplied one by one, which have the width of a head and not the length of a text; and (s - S)² is
    s² - 2 s S + S².
    """
    if student[0].shape[1] != teacher[0].shape[1]:  # the mean over heads is one head, as wide as all of them
        student, teacher = (_one_head(*factors) for factors in (student, teacher))
    masks = query_BxL[:, None, :, None], key_BxL[:, None, :, None]
    student, teacher = (  # heads come as views, which products would copy again and again
        [each.float().contiguous() * mask for each, mask in zip(factors, masks, strict=True)]
        for factors in (student, teacher)
    )
    squares_BxH = _product(student, student) - 2 * _product(student, teacher) + _product(teacher, teacher)
    return squares_BxH.mean(1).clamp_min(0) / (query_BxL.sum(-1) * key_BxL.sum(-1))


def _product(one: Sequence[Tensor], other: Sequence[Tensor]) -> Tensor:
    """The sum of the products of two models' scores, B×H."""
    queries_BxHxDxE, keys_BxHxDxE = (a.transpose(2, 3) @ b for a, b in zip(one, other, strict=True))
    return (queries_BxHxDxE * keys_BxHxDxE).sum((2, 3))


def _one_head(queries_BxHxLxD: Tensor, keys_BxHxLxD: Tensor) -> Factors:
    queries, keys = (each.transpose(1, 2).flatten(2)[:, None] for each in (queries_BxHxLxD, keys_BxHxLxD))
    return queries / queries_BxHxLxD.shape[1], keys


def soft_label_cross_entropy(logits_BxC: Tensor, probabilities_BxC: Tensor) -> Tensor:
    """-sum q log softmax(logits) over the classes, shape B (Liu et al. 2019, MT-DNN with distillation, Eq. 4)."""
    return -(probabilities_BxC * logits_BxC.float().log_softmax(-1)).sum(-1)


def class_cross_entropy(student_BxC: Tensor, teacher_BxC: Tensor, temperature: float) -> Tensor:
    """-sum softmax(teacher / temperature) log softmax(student / temperature) over the classes, shape B (HRKD Eq. 2).
    Both are logits; no factor of the temperature's square."""
    teacher_BxC, student_BxC = (logits.float() / temperature for logits in (teacher_BxC, student_BxC))
    return soft_label_cross_entropy(student_BxC, teacher_BxC.softmax(-1))


def of_domains(values_B: Tensor, domain_B: Tensor, domains: int) -> Tensor:
    """Mean over the examples of each of the domains, shape D; 0 for a domain without."""
    sums_D, counts_D = (
        values.new_zeros(domains).index_add(0, domain_B, values)
        for values in (values_B, torch.ones_like(domain_B))  # not bincount, for which the host waits
    )
    return sums_D / counts_D.clamp_min(1)


def attention_distance(student_BxPxQ: Tensor, teacher_BxPxQ: Tensor) -> Tensor:
    """Half the squared distance between two attentions over the question, summed over the passage's tokens, shape B
    (A2D section 3.3, L_ATT). Both are 0 at padding."""
    return (student_BxPxQ.float() - teacher_BxPxQ.float()).square().sum((1, 2)) / 2
