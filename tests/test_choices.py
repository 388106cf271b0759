"""Choices: endings of one example stay together, and the loss and accuracy are those of a class among them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers.batches.sequences import Sequences, make_choices
from helpers.batches.tensors import SequenceTensors
from helpers.data.examples import Choice, DataError
from helpers.models.pretrained import load_encoder, load_tokenizer
from helpers.tasks import labels

WORDS = ["Ada", "Bela", "Gamma", "Delta"]
EXAMPLES = [
    Choice(str(i), "Ada leads Gamma. " * (i + 1), tuple(f"{word} leads{' Delta' * i}." for word in WORDS), i % 4)
    for i in range(6)
]


@pytest.fixture(scope="module")
def sequences():
    return make_choices(EXAMPLES, load_tokenizer("data/mini"), 40)


def test_an_examples_endings_stand_together(sequences):
    tokenizer = load_tokenizer("data/mini")
    assert len(sequences) == 6 and len(sequences.count_W) == 24
    batch = SequenceTensors(sequences).gather(np.asarray([3, 1]))
    assert batch["input_ids"].shape[:2] == batch["segment_ids"].shape[:2] == (2, 4)
    assert batch["label"].tolist() == [3, 1]
    for row, example in enumerate([EXAMPLES[3], EXAMPLES[1]]):
        own = tokenizer([example.context] * 4, list(example.endings), max_length=40, truncation=True)["input_ids"]
        for ids, mask, expected in zip(batch["input_ids"][row], batch["attention_mask"][row], own, strict=True):
            assert ids[mask == 1].tolist() == expected
    assert sequences.lengths_W[3] == max(batch["attention_mask"][0].sum(1))


def test_examples_are_selected_and_joined_with_all_their_endings(sequences):
    joined = Sequences.concatenate([sequences.select(np.asarray([5, 2])), sequences])
    assert len(joined) == 8 and joined.labels["label"].tolist()[:3] == [1, 2, 0]
    found, expected = (
        SequenceTensors(s).gather(np.asarray(i)) for s, i in ((joined, [0, 1, 4]), (sequences, [5, 2, 2]))
    )
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_cross_entropy_and_accuracy_by_hand():
    logits = torch.tensor([[0.0, math.log(2), 0.0], [0.0, 0.0, 0.0]])
    found = labels.loss(SimpleNamespace(logits=logits), {"label": torch.tensor([1, 0])}, 0.0)
    assert sum(found.values()).item() == pytest.approx((math.log(2) + math.log(3)) / 2)
    predictions = np.eye(4)[[0, 1, 2, 0, 0, 0]]
    assert labels.score(EXAMPLES, predictions)["accuracy"] == pytest.approx(100 * 4 / 6)


def test_predictions_stand_in_the_order_of_the_examples(sequences):
    model = load_encoder("data/mini", "choices", seed=0, random_layers=1).eval()
    found = labels.predict(model, sequences.select(np.arange(6)[::-1]), "fp32")
    batch = SequenceTensors(sequences).gather(np.arange(6))
    with torch.no_grad():
        logits = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).logits
    assert found.shape == (6, 4) and np.allclose(found[::-1], logits.softmax(1).numpy(), atol=1e-5)


def test_another_number_of_endings_is_one_clear_error():
    tokenizer = load_tokenizer("data/mini")
    with pytest.raises(DataError, match="example 'b' has 3 endings; all need 4"):
        make_choices([EXAMPLES[0], Choice("b", "Ada", ("a", "b", "c"), 0)], tokenizer)
    with pytest.raises(DataError, match="example 'a' has 1 endings; all need 2"):
        make_choices([Choice("a", "Ada", ("a",), 0)], tokenizer)
