"""What Meta-KD knows of domains (Pan et al. 2020): how typical a text is of its class, and which domain it shows."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput

from helpers.models.pretrained import inputs_of


class DomainView(nn.Module):
    """A text's mean token with its domain's vector, through one layer (B×F), and which of the domains that shows."""

    def __init__(self, width: int, domains: int, dropout: float = 0.1):
        super().__init__()
        self.domain = nn.Embedding(domains, width)
        self.inner, self.outer, self.dropout = nn.Linear(width, width), nn.Linear(width, domains), nn.Dropout(dropout)

    def forward(self, states_BxLxF: Tensor, mask_BxL: Tensor, domain_B: Tensor) -> tuple[Tensor, Tensor]:
        """View (B×F) and logits of the domains (B×D)."""
        view_BxF = torch.tanh(self.inner(token_mean(states_BxLxF, mask_BxL) + self.domain(domain_B)))
        return view_BxF, self.outer(self.dropout(view_BxF))


@dataclass
class ViewedOutput(ModelOutput):
    """A classifier's output, with ``domain_view`` (B×F) and ``domain_logits`` (B×D)."""

    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions_kept: tuple | None = None
    domain_view: Tensor | None = None
    domain_logits: Tensor | None = None


class Viewed(nn.Module):
    """A classifier whose output has ``domain_view`` and ``domain_logits`` too."""

    def __init__(self, classifier: nn.Module, view: DomainView):
        super().__init__()
        self.classifier, self.view = classifier, view

    @property
    def inputs(self) -> tuple[str, ...]:
        """What of a batch it takes."""
        return (*inputs_of(self.classifier), "domain")

    def forward(self, domain: Tensor, **inputs: Tensor):
        output = self.classifier(**inputs, output_hidden_states=True)
        view_BxF, logits_BxD = self.view(output.hidden_states[-1].float(), inputs["attention_mask"], domain)
        kept = getattr(output, "attentions_kept", None)
        return ViewedOutput(output.logits, output.hidden_states, kept, view_BxF, logits_BxD)


def token_mean(states_BxLxF: Tensor, mask_BxL: Tensor) -> Tensor:
    """Mean over the unmasked tokens, B×F."""
    return (states_BxLxF.float() * mask_BxL[:, :, None]).sum(1) / mask_BxL.sum(1, keepdim=True)


def instance_weights(states: Mapping[str, np.ndarray], classes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """How typical each text is of its class, by domain: half its cosine with the mean state of the class in its own
    domain, and half that with the mean of the class's means in the other domains.

    ``states`` are E×F and ``classes`` E of each domain. Where no other domain has the class, its own alone count.
    """
    means = {
        name: {c: values[classes[name] == c].mean(0) for c in np.unique(classes[name])}
        for name, values in states.items()
    }
    weights = {}
    for name, values in states.items():
        weights[name] = np.empty(len(values), np.float32)
        for c, own in means[name].items():
            others = [means[other][c] for other in means if other != name and c in means[other]]
            sides = [own, np.mean(others, axis=0)] if others else [own]
            rows = classes[name] == c
            weights[name][rows] = np.mean([_cosines(values[rows], side) for side in sides], axis=0)
    return weights


def _cosines(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return rows @ vector / (np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)).clip(1e-9)
