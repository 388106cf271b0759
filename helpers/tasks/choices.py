"""Multiple choice: which of an example's endings fits its context (SWAG, CODAH).

The C endings of an example are what classes are to a text: its logits are B×C, its predictions E×C.
"""

from collections.abc import Sequence

import numpy as np

from helpers.data.examples import Choice
from helpers.tasks.labels import labels_of, loss, predict

__all__ = ["loss", "predict", "score"]


def score(examples: Sequence[Choice], predictions: np.ndarray) -> dict[str, float]:
    """Accuracy in percent. Raises DataError where predictions and labels do not fit."""
    return {"accuracy": 100 * float((labels_of(examples, predictions) == predictions.argmax(1)).mean())}
