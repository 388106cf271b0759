"""How far a reader is from its teacher (Liu et al. 2020, section 4)."""

from torch import Tensor

from helpers.extractive_qa import Span, likelihood, log_probabilities, take, weighted_mean
from helpers.loop import Batch


def gold_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Square the difference of the gold start's and end's probabilities, summed, shape B (IMM, Eqs. 5, 9).

    ``student``, ``teacher``: start and end logits (B×L each); ``gold``: positions (B each); ``mask_BxL``: 0 at padding.
    """
    pairs = zip(student, teacher, gold, strict=True)
    return sum((probability_at(s, g, mask_BxL) - probability_at(t, g, mask_BxL)).square() for s, t, g in pairs)


def probability_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Square the distance of the whole start and end distributions, summed, shape B. ``gold`` is unused."""
    pairs = [[log_probabilities(side, mask_BxL).exp() for side in pair] for pair in zip(student, teacher, strict=True)]
    return sum((s - t).square().sum(-1) for s, t in pairs)


def logit_divergence(student: Span, teacher: Span, gold: Span, mask_BxL: Tensor) -> Tensor:
    """Square the difference of start and of end logits, each a mean over real tokens, summed, shape B.

    The released code does so, at every token of the window, before any softmax. ``gold`` is unused.
    """
    gaps = [(s.float() - t.float()).masked_fill(mask_BxL == 0, 0.0) for s, t in zip(student, teacher, strict=True)]
    return sum(gap.square().sum(-1) for gap in gaps) / mask_BxL.sum(-1)


def probability_at(logits_BxL: Tensor, position_B: Tensor, mask_BxL: Tensor) -> Tensor:
    """Return the softmax probability of one position of each example, shape B."""
    return take(log_probabilities(logits_BxL, mask_BxL), position_B).exp()


DIVERGENCES = {"gold": gold_divergence, "probabilities": probability_divergence, "logits": logit_divergence}


def taught_loss(output, batch: Batch, progress: float, *, divergence: str, annealing: str) -> dict[str, Tensor]:
    """Compute L = lambda likelihood + (1 - lambda) divergence from the teacher (Eqs. 6, 11; means, Eqs. 7, 10).

    The divergence is one of `DIVERGENCES`. Lambda rises from 0 to 1 ("linear") or from 1/2 to 1 ("half"), or is 1/2.
    """
    lam = {"linear": progress, "half": (1 + progress) / 2, "constant": 0.5}[annealing]
    divergence_B = DIVERGENCES[divergence](
        (output.start_logits, output.end_logits),
        (batch["teacher_start"], batch["teacher_end"]),
        (batch["start"], batch["end"]),
        batch["attention_mask"],
    )
    average = weighted_mean(divergence_B, batch.get("weight"))
    return {"likelihood": lam * likelihood(output, batch)["likelihood"], "divergence": (1 - lam) * average}
