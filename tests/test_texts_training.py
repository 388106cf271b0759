"""Texts with a label: losses and metrics worked by hand, predictions in order, batches of several domains."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import plan_of
from qa_files import pairs
from sklearn.metrics import accuracy_score

from helpers import classification, engine
from helpers.classification import Classifier, DomainTexts, label_loss, predict_examples, read_predictions
from helpers.data.examples import DataError
from helpers.data.load import load_domains
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.models.multihead import MultiHead
from helpers.pairs import make_pairs
from helpers.papers.hrkd.meta_kd import mean_tokens
from helpers.papers.hrkd.tables import score_hits
from helpers.presets.load import load_preset
from helpers.sequences import collate
from helpers.training import Outputs, Training, predict

LN3 = math.log(3)
DOMAINS = ("books", "films", "kitchen")


def output(*rows):
    return SimpleNamespace(logits=torch.tensor(rows, requires_grad=True))


def classifier(order="together", domains=DOMAINS, seed=0, **changes):
    preset, data = load_preset("smoke", "hrkd", **changes), DomainTexts(domains, "reviews", order)
    parts = {"model": Classifier(), "data": data, "optim": preset.training, "loss": data.choose_loss()}
    return Training(preset=preset, label=f"{order}, {' + '.join(domains)}", seed=seed, **parts)


def classes_of(model):
    """The task that predicts the test texts of each domain."""
    models = {f"reviews/test/{name}": (model,) for name in model.data.names}
    return Outputs(preset=model.preset, label="classes", models=models, compute=predict_examples)


def test_cross_entropy_by_hand():
    logits = output([0.0, LN3], [LN3, 0.0], [5.0, -5.0])  # 1/4 to 3/4, 3/4 to 1/4, and without a label
    batch = {"label": torch.tensor([1, 1, -100])}
    values = -math.log(3 / 4), -math.log(1 / 4)
    assert label_loss(logits, batch)["label"].item() == pytest.approx(sum(values) / 3)
    batch["weight"] = torch.tensor([1.0, 0.5, 7.0])
    assert label_loss(logits, batch)["label"].item() == pytest.approx((values[0] + values[1] / 2) / 3)


def test_squared_error_by_hand():
    scores = output([1.0], [2.0], [9.0])
    loss = label_loss(scores, {"label": torch.tensor([3.0, 2.5, math.nan])})["label"]
    assert loss.item() == pytest.approx((4 + 0.25) / 3)
    loss.backward()
    assert scores.logits.grad[:, 0].tolist() == pytest.approx([2 * -2 / 3, 2 * -0.5 / 3, 0])


def test_each_text_reads_the_head_of_its_domain():
    encoder = load_encoder("data/mini", "labels", seed=0, classes=6, random_layers=1)
    inputs = {"input_ids": torch.tensor([[2, 9, 3], [2, 8, 3]]), "attention_mask": torch.ones(2, 3, dtype=torch.long)}
    several, one = (MultiHead({"reviews": encoder}, heads).eval() for heads in (DOMAINS, [""]))
    assert "domain" in several.inputs and "domain" not in one.inputs
    with torch.no_grad():
        logits = encoder.eval()(**inputs).logits
        assert torch.equal(one(**inputs).logits, logits)
        of_domains = several(domain=torch.tensor([0, 2]), **inputs).logits
    assert of_domains.tolist() == [logits[0, :2].tolist(), logits[1, 4:].tolist()]


def test_means_of_domains_by_hand():
    values = torch.tensor([1.0, 3.0, 10.0])
    assert classification.domain_means(values, torch.tensor([0, 0, 2]), 3).tolist() == [2.0, 0.0, 10.0]


def test_cross_entropies_of_domains_are_summed_where_a_batch_has_all():
    batch = {"domain": torch.tensor([0, 0, 1]), "label": torch.tensor([0, 1, 1])}
    logits = SimpleNamespace(logits=torch.zeros(3, 2))
    assert classifier(domains=DOMAINS[:2]).loss(logits, batch, 0.0)["label"].item() == pytest.approx(2 * math.log(2))
    assert classifier("turns", DOMAINS[:2]).loss(logits, batch, 0.0)["label"].item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("classes", [3, 1])
def test_predictions_are_in_the_order_of_the_examples(classes):
    examples = pairs(*range(9))[::-1]  # the longest first, and they are read by length
    sequences = make_pairs(examples, load_tokenizer("data/mini"), 64)
    model = load_encoder("data/mini", "labels", seed=0, classes=classes, random_layers=1).eval()
    predictions = predict(model, sequences, "fp32", batch_size=4)
    means = mean_tokens(model, sequences, "fp32", first=-1)
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
    assert len(alone) == 4 and {len(rows) for rows in alone.schedule} == {4}
    orders = [[rows.tolist() for rows in classifier("turns", seed=seed).batches().schedule] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


def test_steps_follow_epochs_and_none_is_refused():
    def steps(epochs):
        model = classifier(**{"training.epochs": epochs})
        return model.data.steps(model.preset, model.optim)

    assert steps(2.5) == 10
    with pytest.raises(DataError, match=r"0.1 epochs of 16 texts make no step of 4; raise epochs, or give more texts"):
        steps(0.1)


def test_outputs_are_named_by_head_and_label():
    joint, mixed = classifier(), classifier("mixed")
    facts = [model.data.facts(model.preset) for model in (joint, mixed)]
    assert facts[0]["id2label"][2] == "films negative" and facts[0]["heads"] == list(DOMAINS)
    assert facts[1]["label2id"] == {"negative": 0, "positive": 1} and facts[1]["heads"] == [""]
    assert joint.build().config.num_labels == 6 and mixed.build().config.num_labels == 2


def test_a_key_names_what_the_weights_depend_on():
    key = classifier().key
    assert classifier(**{"reviews.test_size": 5}).key == key == classifier(**{"training.checkpoint_minutes": 9.0}).key
    changes = {"reviews.train_size": 12, "reviews.valid_size": 5, "training.epochs": 2.0, "reviews.max_length": 40}
    others = [classifier(**{name: value}) for name, value in changes.items()]
    keys = [other.key for other in (*others, classifier("turns"), classifier(seed=1))]
    assert len({key, *keys}) == 1 + len(keys)
    models = classifier(), classifier(**{"reviews.test_size": 5})
    assert len({classes_of(model).key for model in models}) == 2


def test_labels_are_the_best_weights_and_sklearn_agrees_on_the_accuracy(results):
    model = classifier()
    task = classes_of(model)
    engine.run(plan_of(task), model.preset.engine)
    classes = {name: values.argmax(1) for name, values in read_predictions(task).items()}
    domains, trained = load_domains(model.preset.reviews), model.load()
    for name in DOMAINS:
        truth = [text.label for text in domains[name].test]
        assert np.mean(score_hits("reviews", name, task)) == pytest.approx(100 * accuracy_score(truth, classes[name]))
        again = predict(trained, model.data.sequences(model.preset, "test", name), model.preset.training.precision)
        assert classes[name].tolist() == again.argmax(1).tolist()
    score, details = model.validate(trained)
    assert score == model.result()["best"] == pytest.approx(np.mean([*details["scores"].values()]))
    assert len(model.result()["validation"]) == 2 and model.result()["steps"] == 4
