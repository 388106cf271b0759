"""Classes and scores: the loss and the metrics worked by hand, and predictions in the order of the examples."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from helpers.batches.sequences import make_pairs
from helpers.batches.tensors import SequenceTensors
from helpers.data.examples import DataError, Pair
from helpers.models.pretrained import load_encoder, load_tokenizer
from helpers.tasks import labels

LN3 = math.log(3)


def output(*rows):
    return SimpleNamespace(logits=torch.tensor(rows, requires_grad=True))


def pairs(*values):
    return [
        Pair(str(i), f"Ada leads Gamma {'and Delta ' * i}.", "Bela leads.", label) for i, label in enumerate(values)
    ]


def test_cross_entropy_by_hand():
    said = output([0.0, LN3], [LN3, 0.0], [5.0, -5.0])  # 1/4 to 3/4, 3/4 to 1/4, and without a label
    batch = {"label": torch.tensor([1, 1, -100])}
    values = -math.log(3 / 4), -math.log(1 / 4)
    assert labels.loss(said, batch, 0.0)["label"].item() == pytest.approx(sum(values) / 3)
    batch["weight"] = torch.tensor([1.0, 0.5, 7.0])
    assert labels.loss(said, batch, 0.0)["label"].item() == pytest.approx((values[0] + values[1] / 2) / 3)


def test_squared_error_by_hand():
    said = output([1.0], [2.0], [9.0])
    found = labels.loss(said, {"label": torch.tensor([3.0, 2.5, math.nan])}, 0.0)["label"]
    assert found.item() == pytest.approx((4 + 0.25) / 3)
    found.backward()
    assert said.logits.grad[:, 0].tolist() == pytest.approx([2 * -2 / 3, 2 * -0.5 / 3, 0])


def test_metrics_of_two_classes_by_hand():
    predictions = np.asarray([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])  # 1, 1, 0, 0
    found = labels.score(pairs(1, 0, 0, 1), predictions)
    assert found == pytest.approx({"accuracy": 50, "f1": 50, "matthews": 0})
    found = labels.score(pairs(1, 0, 0, 0), predictions)  # one of two found ones is right, and none is missed
    assert found == pytest.approx({"accuracy": 75, "f1": 200 / 3, "matthews": 100 / math.sqrt(3)})


def test_f1_of_three_classes_is_averaged():
    predictions = np.eye(3)[[0, 0, 1, 1]]
    found = labels.score(pairs(0, 1, 1, 2), predictions)  # F1 of 2/3, 1/2 and 0
    assert found["accuracy"] == 50 and found["f1"] == pytest.approx(100 * (2 / 3 + 1 / 2) / 3)


def test_correlations_are_scipys():
    rng = np.random.default_rng(0)
    truth = np.round(rng.random(50) * 5, 1)  # with ties
    predictions = truth + rng.standard_normal(50).astype(np.float32)
    found = labels.score(pairs(*truth), predictions)
    assert found["pearson"] == pytest.approx(100 * stats.pearsonr(truth, predictions).statistic)
    assert found["spearman"] == pytest.approx(100 * stats.spearmanr(truth, predictions).statistic)
    assert labels.score(pairs(*truth), np.full(50, 2.0)) == {"pearson": 0, "spearman": 0}


@pytest.mark.parametrize(
    ("examples", "words"),
    [(pairs(1), "2 predictions for 1 examples"), (pairs(1, None), "example '1' has no label to score it by")],
)
def test_what_cannot_be_scored_is_one_clear_error(examples, words):
    with pytest.raises(DataError, match=words):
        labels.score(examples, np.eye(2))


@pytest.mark.parametrize("classes", [3, 1])
def test_predictions_stand_in_the_order_of_the_examples(classes):
    examples = pairs(*range(9))[::-1]  # the longest first, and they are read by length
    sequences = make_pairs(examples, load_tokenizer("data/mini"), 64)
    model = load_encoder("data/mini", "labels", seed=0, classes=classes, random_layers=1).eval()
    found = labels.predict(model, sequences, "fp32")
    for row in range(9):
        batch = SequenceTensors(sequences).gather(np.asarray([row]))
        with torch.no_grad():
            logits = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).logits[0]
        expected = logits.softmax(0) if classes == 3 else logits[0]
        assert np.allclose(found[row], expected.numpy(), atol=1e-5)


def test_labels_of_pairs_are_classes_or_scores_and_may_be_missing():
    tokenizer = load_tokenizer("data/mini")
    batch = SequenceTensors(make_pairs(pairs(2, None, 0), tokenizer)).gather(np.asarray([2, 1, 0]))
    assert batch["label"].tolist() == [0, -100, 2] and batch["label"].dtype == torch.int64
    batch = SequenceTensors(make_pairs(pairs(2.5, None), tokenizer, scores=True)).gather(np.asarray([1, 0]))
    assert batch["label"].isnan().tolist() == [True, False] and batch["label"][1] == 2.5


def test_pairs_that_do_not_go_together_are_one_clear_error():
    tokenizer, single = load_tokenizer("data/mini"), Pair("s", "Ada leads.", None, 0)
    with pytest.raises(DataError, match="example 's' has no second text, unlike those before it"):
        make_pairs([*pairs(0, 1), single], tokenizer)
    with pytest.raises(DataError, match="example '0' has a second text, unlike"):
        make_pairs([single, *pairs(0)], tokenizer)
    with pytest.raises(DataError, match=r"max_length \(4\) leaves 1 tokens for the texts; raise it"):
        make_pairs(pairs(0), tokenizer, max_length=4)


def test_sequences_are_joined_and_selected():
    tokenizer = load_tokenizer("data/mini")
    first, second = make_pairs(pairs(0, 1, 2), tokenizer), make_pairs(pairs(3, 4)[::-1], tokenizer)
    joined = type(first).concatenate([first, second])
    assert joined.examples == [*first.examples, *second.examples] and joined.example_W.tolist() == [0, 1, 2, 3, 4]
    chosen = joined.select(np.asarray([3, 0]))
    assert chosen.labels["label"].tolist() == [4, 0] and chosen.example_W.tolist() == [3, 0]
    assert chosen.token_ids(0).tolist() == second.token_ids(0).tolist() != chosen.token_ids(1).tolist()
    assert chosen.fingerprint() != joined.fingerprint() == type(first).concatenate([first, second]).fingerprint()
