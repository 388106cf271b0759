"""The terms of Eq. 1 (Hu et al. 2018, section 3)."""

from torch import Tensor

from helpers import extractive_qa
from helpers.classification import check_probabilities, check_shapes, soften
from helpers.extractive_qa import Span, log_probabilities, take
from helpers.loop import Batch
from helpers.presets.schema import Preset


def soft_cross_entropy(student: Span, teacher_probabilities: Span, mask_BxL: Tensor, temperature: float) -> Tensor:
    """Compute -sum q log softmax(student / temperature) of start and of end, summed, shape B (A2D, section 3.1).

    ``student`` are logits, ``teacher_probabilities`` are at the same temperature (B×L each), 0 where masked. The mask
    is 1 at real tokens. Eq. 1 multiplies the result by the square of the temperature; this function does not. Raises
    ValueError for other shapes, for a temperature that is not above 0 and, on a CPU, for logits in the place of
    probabilities and for probabilities where the mask is 0.
    """
    loss_B = 0
    for logits, q in zip(student, teacher_probabilities, strict=True):
        check_shapes(logits, q)
        log_p = log_probabilities(soften(logits, temperature), mask_BxL)
        check_probabilities(q, mask_BxL)
        loss_B = loss_B - (q.float() * log_p).sum(-1)
    return loss_B


def confusion_margin(student: Span, gold: Span, confusing: Span) -> Tensor:
    """Compute max(0, 1 - gold logit + confusing logit) of start and of end, summed, shape B (A2D, section 3.2).

    ``student`` are logits (B×L), ``gold`` and ``confusing`` positions (B). Confusing position 0 means none: no loss.
    """
    hinge_B = 0
    for logits_BxL, *positions in zip(student, gold, confusing, strict=True):
        right_B, wrong_B = (take(logits_BxL.float(), position_B) for position_B in positions)
        hinge_B = hinge_B + (1 - right_B + wrong_B).clamp_min(0)
    return hinge_B * (confusing[0] > 0)


def attention_distance(student_BxPxQ: Tensor, teacher_BxPxQ: Tensor) -> Tensor:
    """Halve the squared distance of two attentions, summed over passage tokens, shape B (A2D, section 3.3).

    Raises ValueError for other shapes, such as those of several heads.
    """
    check_shapes(student_BxPxQ, teacher_BxPxQ)
    if student_BxPxQ.dim() != 3:
        raise ValueError(f"expected attentions B×P×Q, found {(*student_BxPxQ.shape,)}; average heads first")
    return (student_BxPxQ.float() - teacher_BxPxQ.float()).square().sum((1, 2)) / 2


def joint_loss(
    output, batch: Batch, progress: float = 0.0, *, weights: dict[str, float], temperature: float
) -> dict[str, Tensor]:
    """Compute the terms of Eq. 1 that have a weight (CE, KD, ANS, ATT), weighted, averaged over windows."""
    student, gold = (output.start_logits, output.end_logits), (batch["start"], batch["end"])
    terms = {}
    if "CE" in weights:
        terms["CE"] = extractive_qa.likelihood(output, batch)["likelihood"]
    if "KD" in weights:
        teacher = batch["teacher_start"], batch["teacher_end"]
        terms["KD"] = soft_cross_entropy(student, teacher, batch["attention_mask"], temperature).mean()
    if "ANS" in weights:
        confusing = batch["teacher_confusing_start"], batch["teacher_confusing_end"]
        terms["ANS"] = confusion_margin(student, gold, confusing).mean()
    if "ATT" in weights:
        terms["ATT"] = attention_distance(output.attention, batch["teacher_attention"]).mean()
    return {name: weights[name] * term for name, term in terms.items()}


def weigh_terms(preset: Preset, without: str = "") -> dict[str, float]:
    """Return the weights of Eq. 1 that are not 0. That of KD is tau squared (section 2.2)."""
    tau, gamma, delta = preset.a2d.temperature, preset.a2d.answer_weight, preset.a2d.attention_weight
    weights = {"CE": 1.0, "KD": tau**2, "ANS": gamma, "ATT": delta}
    return {name: weight for name, weight in weights.items() if weight and name != without}


def smoothed_loss(output, batch: Batch, progress: float = 0.0, *, smoothing: float) -> dict[str, Tensor]:
    """Compute -sum q log P of start and of end, a mean over windows: a control (Szegedy et al. 2016, section 7).

    q spreads ``smoothing`` evenly over passage tokens and [CLS], and adds the rest to the gold token.
    """
    student, mask_BxL = (output.start_logits, output.end_logits), batch["attention_mask"]
    possible_BxL = batch["segment_ids"] == 2
    possible_BxL[:, 0] = True
    hard_B = extractive_qa.span_negative_log_likelihood(student, (batch["start"], batch["end"]), mask_BxL)
    logs_BxL = sum(log_probabilities(side, mask_BxL) for side in student)
    even_B = -logs_BxL.masked_fill(~possible_BxL, 0.0).sum(-1) / possible_BxL.sum(-1)
    return {"CE": extractive_qa.weighted_mean((1 - smoothing) * hard_B + smoothing * even_B)}
