"""Texts with a label: losses and metrics worked by hand, predictions in order, batches of several domains."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import plan_of
from helpers.texts import Classifier, Labels
from qa_files import pairs
from sklearn.metrics import accuracy_score

from helpers import engine, texts
from helpers.data.examples import DataError
from helpers.data.load import load_domains
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.presets.load import load
from helpers.sequences import collate, make_pairs

LN3 = math.log(3)
DOMAINS = ("books", "films", "kitchen")


def output(*rows):
    return SimpleNamespace(logits=torch.tensor(rows, requires_grad=True))


def classifier(order="together", domains=DOMAINS, seed=0, **changes):
    preset = load("smoke", "hrkd", **changes)
    label = f"{order}, {' + '.join(domains)}"
    return Classifier(preset=preset, label=label, seed=seed, corpus="reviews", domains=domains, order=order)


def test_cross_entropy_by_hand():
    logits = output([0.0, LN3], [LN3, 0.0], [5.0, -5.0])  # 1/4 to 3/4, 3/4 to 1/4, and without a label
    batch = {"label": torch.tensor([1, 1, -100])}
    values = -math.log(3 / 4), -math.log(1 / 4)
    assert texts.loss(logits, batch)["label"].item() == pytest.approx(sum(values) / 3)
    batch["weight"] = torch.tensor([1.0, 0.5, 7.0])
    assert texts.loss(logits, batch)["label"].item() == pytest.approx((values[0] + values[1] / 2) / 3)


def test_squared_error_by_hand():
    scores = output([1.0], [2.0], [9.0])
    loss = texts.loss(scores, {"label": torch.tensor([3.0, 2.5, math.nan])})["label"]
    assert loss.item() == pytest.approx((4 + 0.25) / 3)
    loss.backward()
    assert scores.logits.grad[:, 0].tolist() == pytest.approx([2 * -2 / 3, 2 * -0.5 / 3, 0])


def test_each_text_reads_the_head_of_its_domain():
    logits = torch.arange(12.0).view(2, 6)
    assert texts.head_logits(logits, torch.tensor([0, 2]), 2).tolist() == [[0.0, 1.0], [10.0, 11.0]]
    assert texts.head_logits(logits, torch.tensor([0, 2]), 6).tolist() == logits.tolist()


def test_means_of_domains_by_hand():
    values = torch.tensor([1.0, 3.0, 10.0])
    assert texts.domain_means(values, torch.tensor([0, 0, 2]), 3).tolist() == [2.0, 0.0, 10.0]


def test_cross_entropies_of_domains_are_summed_where_a_batch_has_all():
    batch = {"domain": torch.tensor([0, 0, 1]), "label": torch.tensor([0, 1, 1])}
    logits = SimpleNamespace(logits=torch.zeros(3, 4))
    assert classifier(domains=DOMAINS[:2]).loss(logits, batch, 0.0)["label"].item() == pytest.approx(2 * math.log(2))
    assert classifier("turns", DOMAINS[:2]).loss(logits, batch, 0.0)["label"].item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("classes", [3, 1])
def test_predictions_are_in_the_order_of_the_examples(classes):
    examples = pairs(*range(9))[::-1]  # the longest first, and they are read by length
    sequences = make_pairs(examples, load_tokenizer("data/mini"), 64)
    model = load_encoder("data/mini", "labels", seed=0, classes=classes, random_layers=1).eval()
    predictions = texts.predict(model, sequences, "fp32", batch_size=4)
    means = texts.mean_tokens(model, sequences, "fp32", first=-1)
    for row in range(9):
        batch = collate(sequences, np.asarray([row]))
        inputs = [batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")]
        with torch.no_grad():
            alone = model(*inputs, output_hidden_states=True)
        expected = alone.logits[0].softmax(0) if classes == 3 else alone.logits[0]
        assert np.allclose(predictions[row], expected.numpy(), atol=1e-5)
        real = alone.hidden_states[-1][0][batch["attention_mask"][0] == 1]
        assert np.allclose(means[row, 0], real.mean(0).numpy(), atol=1e-5)


def test_every_order_goes_through_the_same_texts():
    # One epoch of 3 × 16 texts, 12 per step. In turns a domain has steps of 12 and 4.
    for order, steps, domains_of_a_step in (("mixed", 4, {2, 3}), ("turns", 6, {1}), ("together", 4, {3})):
        batches = classifier(order).batches()
        seen = [batches.at(step) for step in range(len(batches))]
        assert len(batches) == steps
        assert sorted(int(n) for batch in seen for n in batch["window"]) == list(range(48))
        assert {len(batch["domain"].unique()) for batch in seen} <= domains_of_a_step
    alone = classifier("mixed", ("films",)).batches()
    assert len(alone) == 4 and {len(rows) for rows in alone.plan} == {4}
    orders = [[rows.tolist() for rows in classifier("turns", seed=seed).batches().plan] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_steps_follow_epochs_and_none_is_refused():
    assert classifier(**{"training.epochs": 2.5}).steps() == 10
    with pytest.raises(DataError, match=r"0.1 epochs of 16 texts make no step of 4; raise epochs, or give more texts"):
        classifier(**{"training.epochs": 0.1}).steps()


def test_outputs_are_named_by_head_and_label():
    joint, mixed = classifier(), classifier("mixed")
    assert joint.config_facts()["id2label"][2] == "films negative" and joint.heads == list(DOMAINS)
    assert mixed.config_facts()["label2id"] == {"negative": 0, "positive": 1} and mixed.heads == [""]
    assert joint.initial().config.num_labels == 6 and mixed.initial().config.num_labels == 2


def test_a_key_names_what_the_weights_depend_on():
    key = classifier().key
    assert classifier(**{"reviews.test_size": 5}).key == key == classifier(**{"training.checkpoint_minutes": 9.0}).key
    changes = {"reviews.train_size": 12, "reviews.valid_size": 5, "training.epochs": 2.0, "reviews.max_length": 40}
    others = [classifier(**{name: value}) for name, value in changes.items()]
    keys = [other.key for other in (*others, classifier("turns"), classifier(seed=1))]
    assert len({key, *keys}) == 1 + len(keys)
    models = classifier(), classifier(**{"reviews.test_size": 5})
    assert len({Labels(preset=model.preset, label="", classifier=model).key for model in models}) == 2


def test_labels_are_the_best_weights_and_sklearn_agrees_on_the_accuracy(results):
    model = classifier()
    task = Labels(preset=model.preset, label="classes", classifier=model)
    engine.run(plan_of(task), model.preset.engine)
    classes = task.result()["classes"]
    domains, trained = load_domains(model.texts), model.load()
    for name in DOMAINS:
        truth = [text.label for text in domains[name].test]
        assert np.mean(task.hits(name)) == pytest.approx(100 * accuracy_score(truth, classes[name]))
        assert classes[name] == model.classify(trained, "test")[name].tolist()
    score, details = model.validate(trained)
    assert score == model.result()["best"] == pytest.approx(np.mean([*details["scores"].values()]))
    assert len(model.result()["validation"]) == 2 and model.result()["steps"] == 4
