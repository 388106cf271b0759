"""What the relations of domains say of texts: the ratios of a batch, or of single texts side by side."""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

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


class Places(NamedTuple):
    """Batches of one text a domain, the N-th of each: ``ratios`` N×V×D, ``shares`` of levels N×D×V×V (the last axis is
    what goes into the graph of the one before), and ``labels`` N×D."""

    ratios: np.ndarray
    shares: np.ndarray
    labels: np.ndarray

    def flat_shares(self) -> np.ndarray:
        """N×(V·V)×D."""
        return self.shares.reshape(*self.labels.shape, -1).transpose(0, 2, 1)

    def panels(self, place: int, rows: list[str]) -> dict[str, dict[str, dict[str, float]]]:
        """One place as heat maps in percent: the weight of each domain (``rows``) at each level, and for each domain
        the levels that go into the graph of each, itself and those below."""
        levels = ["embeddings", *(f"layer {layer}" for layer in range(1, self.ratios.shape[1]))]
        panels = {"weight of each domain": _matrix(rows, levels, self.ratios[place].T)}
        graphs = [f"graph of {level}" for level in levels]
        lower = np.where(np.tri(len(levels)), self.shares[place], np.nan)
        return panels | {row: _matrix(graphs, levels, shares_VxV) for row, shares_VxV in zip(rows, lower, strict=True)}


def of_places(learner: Distilled, texts: Mapping[str, Sequences]) -> Places:
    """What a trained student's relations say of the texts of several domains, place by place."""
    number = min(map(len, texts.values()))
    first = [sequences.select(np.arange(number)) for sequences in texts.values()]
    prototypes_NxVxDxF = np.stack([mean_tokens(learner.student, sequences, "fp32") for sequences in first], axis=2)
    with torch.inference_mode():
        found = map(learner.relations, torch.as_tensor(prototypes_NxVxDxF, device=training_device()))
        ratios, shares = (torch.stack(values).cpu().numpy() for values in zip(*found, strict=True))
    return Places(ratios, shares, np.stack([sequences.labels["label"] for sequences in first], 1))


def mean_tokens(encoder: nn.Module, sequences: Sequences, precision: str, first: int = 0) -> np.ndarray:
    """Mean token of each of the encoder's levels from the ``first`` on (-1: of the last), of each text, E×V×F."""
    order, means = [], []
    for index, batch, output in outputs(encoder, sequences, precision=precision, output_hidden_states=True):
        order.append(index)
        levels = [token_mean(level, batch["attention_mask"]) for level in output.hidden_states[first:]]
        means.append(torch.stack(levels, 1).cpu().numpy())
    return np.concatenate(means)[np.argsort(np.concatenate(order))]


def distances(values_NxVxD: np.ndarray, labels_NxD: np.ndarray) -> dict[str, float]:
    """Mean absolute difference of two domains' values where their texts have the same label, and where not: of each
    pair of domains, and then over the pairs, so that domains that differ anyhow do not count as labels that do. Empty
    where no pair has both."""
    apart = {SAME: [], DIFFERENT: []}
    for first, second in itertools.combinations(range(labels_NxD.shape[1]), 2):
        gaps_N = np.abs(values_NxVxD[:, :, first] - values_NxVxD[:, :, second]).mean(1)
        alike_N = labels_NxD[:, first] == labels_NxD[:, second]
        if alike_N.any() and not alike_N.all():
            apart[SAME].append(gaps_N[alike_N].mean())
            apart[DIFFERENT].append(gaps_N[~alike_N].mean())
    return {kind: float(np.mean(gaps)) for kind, gaps in apart.items() if gaps}


def moved(ratios_VxD: np.ndarray) -> float:
    """How far ratios are from all alike: the percentage of a level's weight that would have to move, over levels."""
    return float(50 * np.abs(ratios_VxD - 1 / ratios_VxD.shape[1]).sum(1).mean())


def _matrix(rows: list[str], columns: list[str], values: np.ndarray) -> dict[str, dict[str, float]]:
    """Shares as percentages by row and column, without those that are nan."""
    lines = (zip(columns, map(float, (100 * line).round(1)), strict=True) for line in values)
    return {
        row: {column: value for column, value in line if value == value} for row, line in zip(rows, lines, strict=True)
    }
