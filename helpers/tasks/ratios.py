"""What the relations of domains say of texts: the ratios of a batch, or of single texts side by side."""

import itertools
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from helpers.batches.sequences import Sequences
from helpers.models.distilled import Distilled
from helpers.models.expertise import token_mean
from helpers.training.loop import outputs, training_device

BATCH = 16  # texts of each domain that ratios are traced on
SAME, DIFFERENT = "same label", "different labels"


def of_batch(learner: Distilled, sequences: Sequences) -> np.ndarray:
    """Ratios V×D of the first texts of each domain, as a batch of all domains has them."""
    domain_W = sequences.labels["domain"]
    rows = np.concatenate([np.flatnonzero(domain_W == domain)[:BATCH] for domain in np.unique(domain_W)])
    ((_, _, output),) = outputs(learner, sequences.select(rows), batch_size=len(rows), precision="fp32")
    return output.ratios.cpu().numpy()


def of_places(learner: Distilled, sequences: Mapping[str, Sequences]) -> tuple[np.ndarray, np.ndarray]:
    """Ratios N×V×D and shares of levels N×D×V×V where a batch is one text a domain: the N-th of each."""
    number = min(map(len, sequences.values()))
    each = [mean_tokens(learner.student, texts.select(np.arange(number)), "fp32") for texts in sequences.values()]
    prototypes_NxVxDxF = torch.as_tensor(np.stack(each, axis=2), device=training_device())
    with torch.inference_mode():
        ratios, shares = zip(*map(learner.relations, prototypes_NxVxDxF), strict=True)
    return torch.stack(ratios).cpu().numpy(), torch.stack(shares).cpu().numpy()


def mean_tokens(encoder: nn.Module, sequences: Sequences, precision: str) -> np.ndarray:
    """Mean token of each of the encoder's levels, of each text, E×V×F."""
    order, means = [], []
    for index, batch, output in outputs(encoder, sequences, precision=precision, output_hidden_states=True):
        order.append(index)
        levels = [token_mean(level, batch["attention_mask"]) for level in output.hidden_states]
        means.append(torch.stack(levels, 1).cpu().numpy())
    return np.concatenate(means)[np.argsort(np.concatenate(order))]


def distances(values_NxVxD: np.ndarray, labels_NxD: np.ndarray) -> dict[str, float]:
    """Mean absolute difference of two domains' values where their texts have the same label, and where not: of each pair
    of domains, and then over the pairs, so that domains that differ anyhow do not count as labels that do."""
    apart = {SAME: [], DIFFERENT: []}
    for first, second in itertools.combinations(range(labels_NxD.shape[1]), 2):
        gaps_N = np.abs(values_NxVxD[:, :, first] - values_NxVxD[:, :, second]).mean(1)
        alike_N = labels_NxD[:, first] == labels_NxD[:, second]
        if alike_N.any() and not alike_N.all():
            apart[SAME].append(gaps_N[alike_N].mean())
            apart[DIFFERENT].append(gaps_N[~alike_N].mean())
    return {kind: float(np.mean(gaps)) for kind, gaps in apart.items()}


def moved(ratios_VxD: np.ndarray) -> float:
    """How far ratios are from all alike: the percentage of a level's weight that would have to move, mean over levels."""
    return float(50 * np.abs(ratios_VxD - 1 / ratios_VxD.shape[1]).sum(1).mean())
