"""How much each training text weighs by how typical it is of its class (Pan et al. 2020)."""

from functools import cache

import numpy as np
import torch

from helpers.batches.plans import Batches
from helpers.models.expertise import instance_weights
from helpers.models.pretrained import load_encoder
from helpers.presets.schema import TextsSettings
from helpers.tasks import labels, ratios
from helpers.tasks.classifiers import ClassifierTraining
from helpers.training.loop import training_device


def weigh(batches: Batches, training: ClassifierTraining) -> None:
    """Give a training's batches its texts' weights of Meta-KD."""
    preset = training.preset
    known = _instance_weights(training.texts, preset.encoder, preset.random_layers, preset.training.precision)
    values = np.concatenate([known[name] for name in training.domains])
    batches.tensors.labels["weight"] = torch.as_tensor(values, dtype=torch.float32, device=training_device())


@cache
def _instance_weights(texts: TextsSettings, encoder: str, random_layers: int, precision: str) -> dict[str, np.ndarray]:
    """w of every training text of every domain, from the pretrained encoder's states; once a process."""
    layers = {"random_layers": random_layers, "max_length": texts.max_length}
    model = load_encoder(encoder, "labels", seed=0, **layers).to(training_device()).eval()
    states, classes = {}, {}
    for name in texts.domains:
        sequences = labels.sequences_of(texts, encoder, name, "train")
        states[name] = ratios.mean_tokens(model, sequences, precision, first=-1)[:, 0]
        classes[name] = sequences.labels["label"]
    return instance_weights(states, classes)
