"""Meta-KD's knowledge of domains (Pan et al. 2020): how typical a text is of its class, and which domain it shows."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from helpers.loop import batch_outputs
from helpers.models.encoders import inputs_of
from helpers.sequences import Sequences
from helpers.training import join_in_order


class DomainView(nn.Module):
    """A text's mean token with its domain's vector, through one layer (B×F), and logits of the domains from that."""

    def __init__(self, width: int, domains: int, dropout: float = 0.1):
        super().__init__()
        self.domain = nn.Embedding(domains, width)
        self.inner, self.outer, self.dropout = nn.Linear(width, width), nn.Linear(width, domains), nn.Dropout(dropout)

    def forward(self, states_BxLxF: Tensor, mask_BxL: Tensor, domain_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return the view (B×F) and the domains' logits (B×D)."""
        view_BxF = self.look(states_BxLxF, mask_BxL, domain_B)
        return view_BxF, self.outer(self.dropout(view_BxF))

    def look(self, states_BxLxF: Tensor, mask_BxL: Tensor, domain_B: Tensor) -> Tensor:
        """Return the view alone, B×F."""
        return torch.tanh(self.inner(token_mean(states_BxLxF, mask_BxL) + self.domain(domain_B)))


class WithDomainView(nn.Module):
    """A classifier with a `DomainView` of its last layer."""

    def __init__(self, classifier: nn.Module, view: DomainView):
        super().__init__()
        self.classifier, self.view = classifier, view

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*inputs_of(self.classifier), "domain")

    def forward(self, domain: Tensor, **inputs: Tensor):
        """Return the classifier's output with ``domain_view`` (B×F) and ``domain_logits`` (B×D)."""
        output = self.classifier(**inputs, output_hidden_states=True)
        states_BxLxF = output.hidden_states[-1].float()
        output.domain_view, output.domain_logits = self.view(states_BxLxF, inputs["attention_mask"], domain)
        return output


def token_mean(states_BxLxF: Tensor, mask_BxL: Tensor) -> Tensor:
    """Average the unmasked tokens, B×F."""
    return (states_BxLxF.float() * mask_BxL[:, :, None]).sum(1) / mask_BxL.sum(1, keepdim=True)


def mean_tokens(encoder: nn.Module, sequences: Sequences, precision: str, first: int = 0) -> np.ndarray:
    """Average the tokens of each text at the encoder's levels from ``first`` on (-1: the last), E×V×F, float32."""
    numbers, means = [], []
    for index, batch, output in batch_outputs(encoder, sequences, precision=precision, output_hidden_states=True):
        levels = [token_mean(level, batch["attention_mask"]) for level in output.hidden_states[first:]]
        numbers.append(index)
        means.append(torch.stack(levels, 1).cpu())
    return join_in_order(numbers, means)


def instance_weights(states: Mapping[str, np.ndarray], classes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return by domain how typical each text is of its class: half its cosine with the mean state of the class in its
    domain, and half that with the mean of the class's means in the other domains.

    ``states`` are E×F and ``classes`` E per domain. Where no other domain has the class, its own domain alone counts.
    """
    means, weights = {}, {name: np.empty(len(values), np.float32) for name, values in states.items()}
    for name, values in states.items():
        means[name] = {c: values[classes[name] == c].mean(0) for c in np.unique(classes[name])}
    for name, values in states.items():
        for c, mean in means[name].items():
            others = [means[other][c] for other in means if other != name and c in means[other]]
            sides = [mean, np.mean(others, axis=0)] if others else [mean]
            rows = classes[name] == c
            weights[name][rows] = np.mean([_cosines(values[rows], side) for side in sides], axis=0)
    return weights


def _cosines(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return rows @ vector / (np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)).clip(1e-9)
