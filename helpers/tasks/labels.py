"""Texts and pairs of texts with a label: a class, or a score where the model has a single output (GLUE).

D domains with C classes each and a head of their own are D·C outputs, the first C those of the first domain.
"""

import dataclasses
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.batches.sequences import Sequences, make_pairs
from helpers.data.examples import Choice, DataError, Pair
from helpers.data.texts import load_texts
from helpers.models.pretrained import load_tokenizer
from helpers.presets.schema import TextsSettings
from helpers.training.loop import Batch, outputs
from helpers.training.losses import mean


@cache
def sequences_of(texts: TextsSettings, encoder: str, domain: str, part: str) -> Sequences:
    """One part ("train", "valid" or "test") of a domain, tokenised once a process. A second label, ``domain``, is the
    domain's number in its corpus."""
    made = make_pairs(getattr(load_texts(texts)[domain], part), load_tokenizer(encoder), texts.max_length)
    number = np.full(len(made), list(texts.domains).index(domain), np.int32)
    return dataclasses.replace(made, labels={**made.labels, "domain": number})


def own_logits(logits_BxN: Tensor, domain_B: Tensor, classes: int) -> Tensor:
    """Of N = D·classes logits those of each example's domain, B×classes; all where there is one head for all."""
    heads = logits_BxN.shape[1] // classes
    if heads == 1:
        return logits_BxN
    return logits_BxN.view(-1, heads, classes)[torch.arange(len(domain_B), device=domain_B.device), domain_B]


def loss(output, batch: Batch, progress: float) -> dict[str, Tensor]:
    """Cross-entropy of classes (logits B×N), squared error of scores (B×1), as a mean over the batch, weighted where it
    has weights. Examples without a label (-100 or nan) add nothing."""
    logits, label = output.logits.float(), batch["label"]
    if logits.shape[1] == 1:
        values_B = (logits[:, 0] - label.where(~label.isnan(), logits[:, 0])).square()
    else:
        values_B = functional.cross_entropy(logits, label, reduction="none")
    return {"label": mean(values_B, batch.get("weight"))}


def predict(model: nn.Module, sequences: Sequences, precision: str = "auto", classes: int = 0) -> np.ndarray:
    """Probabilities of the classes (E×N), or scores (E) where the model has one output, of each example, float32. With
    ``classes`` those of its domain's head alone (E×classes)."""
    order, values = [], []
    for index, batch, output in outputs(model, sequences, precision=precision):
        logits = own_logits(output.logits, batch["domain"], classes).float() if classes else output.logits.float()
        order.append(index)
        values.append((logits[:, 0] if logits.shape[1] == 1 else logits.softmax(1)).cpu().numpy())
    return np.concatenate(values)[np.argsort(np.concatenate(order))]


def score(examples: Sequence[Pair], predictions: np.ndarray) -> dict[str, float]:
    """In percent: accuracy, F1 (of class 1 where there are two, else averaged over classes) and Matthews's correlation
    of classes, Pearson's and Spearman's correlation of scores, 0 where predictions are all the same.

    Raises DataError where predictions and labels do not fit.
    """
    labels = labels_of(examples, predictions)
    if predictions.ndim == 1:
        ranks = (pd.Series(predictions).rank(), pd.Series(labels).rank())
        values = {"pearson": _correlation(predictions, labels), "spearman": _correlation(*ranks)}
    else:
        from sklearn import metrics  # here, because it takes a second to import

        classes, average = predictions.argmax(1), "binary" if predictions.shape[1] == 2 else "macro"
        values = {
            "accuracy": metrics.accuracy_score(labels, classes),
            "f1": metrics.f1_score(labels, classes, average=average, zero_division=0.0),
            "matthews": metrics.matthews_corrcoef(labels, classes),
        }
    return {name: 100 * float(value) for name, value in values.items()}


def labels_of(examples: Sequence[Pair] | Sequence[Choice], predictions: np.ndarray) -> np.ndarray:
    """The examples' labels. Raises DataError where one has none, or where there is not one prediction for each."""
    if len(examples) != len(predictions) or not len(examples):
        raise DataError(f"{len(predictions)} predictions for {len(examples)} examples; need one for each, and some")
    for example in examples:
        if example.label is None:
            raise DataError(f"example {example.id!r} has no label to score it by")
    return np.asarray([example.label for example in examples])


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return np.corrcoef(one, other)[0, 1] if np.ptp(one) > 0 and np.ptp(other) > 0 else 0.0
