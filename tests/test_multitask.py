"""One encoder under several heads: shared, saved, taken apart; and the loss of a task with teachers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import are_alike
from torch import nn
from transformers import AutoModelForMultipleChoice, AutoModelForQuestionAnswering, AutoModelForSequenceClassification

from helpers.batches.tensors import SequenceTensors
from helpers.batches.texts import EncoderError
from helpers.models.multitask import Head, load_multitask, new_multitask, part_of, set_dropout
from helpers.models.pretrained import load_tokenizer, save_encoder
from helpers.presets.load import load
from helpers.tasks import kinds
from helpers.tasks.multitask import parts_of, steps_of, task_loss, turns_of
from helpers.training.losses import soft_label_cross_entropy

HEADS = {"squad": Head("spans"), "mnli": Head("labels", 3), "sts": Head("labels", 1), "swag": Head("choices")}
AUTO = {
    "squad": AutoModelForQuestionAnswering,
    "mnli": AutoModelForSequenceClassification,
    "sts": AutoModelForSequenceClassification,
    "swag": AutoModelForMultipleChoice,
}


@pytest.fixture(scope="module")
def model():
    made = new_multitask("data/mini", HEADS, seed=1).eval()
    with torch.no_grad():
        for _, weight in made.named_parameters():
            weight.add_(0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    return made


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    model.config.update({"heads": {task: head._asdict() for task, head in HEADS.items()}})
    save_encoder(model, load_tokenizer("data/mini"), folder)
    return folder


def batch_of(task: str) -> dict:
    ids = torch.arange(5, 65).view(2, 30) if task != "swag" else torch.arange(5, 125).view(2, 2, 30)
    mask = torch.ones_like(ids)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids), "segment_ids": mask}


def logits_of(output):
    return [output.start_logits, output.end_logits] if hasattr(output, "start_logits") else [output.logits]


def test_all_tasks_share_one_encoder(model):
    assert all(part.base_model is model.shared for part in model.tasks.values())
    sizes = {name: sum(weight.numel() for weight in part.parameters()) for name, part in model.tasks.items()}
    encoder = sum(weight.numel() for weight in model.shared.parameters())
    heads = sum(size - encoder for size in sizes.values())
    assert sum(weight.numel() for weight in model.parameters()) == encoder + heads
    assert heads == 128 * (2 + 3 + 1 + 1) + 2 + 3 + 1 + 1


@pytest.mark.parametrize("task", HEADS)
def test_a_saved_task_gives_the_same_logits_alone(model, saved, task, tmp_path):
    batch = batch_of(task)
    expected = logits_of(model(task, **batch))
    again = load_multitask(saved, [task])
    assert list(again.tasks) == [task]
    save_encoder(part_of(again, task), load_tokenizer("data/mini"), tmp_path)
    alone, report = AUTO[task].from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    taken = {name: values for name, values in batch.items() if name != "segment_ids"}
    weights = model.tasks[task].state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in alone.state_dict().items())
    for found in (again(task, **batch), alone.eval()(**taken)):
        assert all(are_alike(*pair) for pair in zip(expected, logits_of(found), strict=True))


def test_a_part_names_its_labels(model):
    part = part_of(model, "mnli", ("entailment", "neutral", "contradiction"))
    assert part.config.id2label[2] == "contradiction" and part.config.num_labels == 3
    assert model.tasks["mnli"].config.id2label[2] != "contradiction"


def test_fresh_heads_on_a_trained_encoder(model, saved):
    again = load_multitask(saved, fresh={"rte": Head("labels", 2), "mnli": HEADS["mnli"]}, seed=7)
    assert torch.equal(again.shared.embeddings.word_embeddings.weight, model.shared.embeddings.word_embeddings.weight)
    assert not torch.equal(again.tasks["mnli"].classifier.weight, model.tasks["mnli"].classifier.weight)
    same = load_multitask(saved, fresh={"mnli": HEADS["mnli"]}, seed=7)
    assert torch.equal(again.tasks["mnli"].classifier.weight, same.tasks["mnli"].classifier.weight)


def test_a_task_that_is_not_there_is_named(saved):
    with pytest.raises(EncoderError, match="has no task cola; it has mnli, squad, sts, swag"):
        load_multitask(saved, ["cola"])


def test_dropout_of_encoder_and_heads(model):
    set_dropout(model, 0.25, {"mnli": 0.5, "sts": 0.1, "swag": 0.1, "squad": 0.1})
    assert {module.p for module in model.shared.modules() if isinstance(module, nn.Dropout)} == {0.25}
    assert (model.tasks["mnli"].dropout.p, model.tasks["sts"].dropout.p) == (0.5, 0.1)


def test_a_loss_with_teachers_by_hand():
    logits = torch.tensor([[0.0, 0.0], [np.log(3), 0.0]]).float()
    said = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    batch = {"task": "rte", "label": torch.tensor([1, 1]), "teacher_probabilities": said}
    hard, soft = (np.log(2) + np.log(4)) / 2, (np.log(2) + np.log(4 / 3)) / 2
    for share in (0.0, 0.5, 1.0):
        terms = task_loss({"rte": "labels"}, share)(SimpleNamespace(logits=logits), batch, 0.0)
        assert terms["label"].item() == pytest.approx((1 - share) * hard)
        assert terms["soft"].item() == pytest.approx(share * soft)
    without = {name: values for name, values in batch.items() if name != "teacher_probabilities"}
    assert list(task_loss({"rte": "labels"}, 0.5)(SimpleNamespace(logits=logits), without, 0.0)) == ["label"]


def test_a_text_without_a_label_counts_by_its_teachers_alone():
    logits = torch.tensor([[np.log(3), 0.0], [np.log(3), 0.0]]).float()
    said = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    batch = {"task": "rte", "label": torch.tensor([0, -100]), "teacher_probabilities": said}
    terms = task_loss({"rte": "labels"}, 0.25)(SimpleNamespace(logits=logits), batch, 0.0)
    value = np.log(4 / 3)
    assert terms["label"].item() == pytest.approx(0.75 * value / 2)
    assert terms["soft"].item() == pytest.approx((0.25 * value + value) / 2)


def test_scores_are_taught_by_scores():
    batch = {"task": "sts", "label": torch.tensor([1.0, np.nan]), "teacher_probabilities": torch.tensor([3.0, 5.0])}
    terms = task_loss({"sts": "labels"}, 0.5)(SimpleNamespace(logits=torch.tensor([[2.0], [2.0]])), batch, 0.0)
    assert terms["label"].item() == pytest.approx(0.5 * 1 / 2)
    assert terms["soft"].item() == pytest.approx((0.5 * 1 + 9) / 2)


def test_soft_labels_by_hand():
    logits, probabilities = torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([[0.2, 0.3, 0.5]])
    assert soft_label_cross_entropy(logits, probabilities).tolist() == [pytest.approx(np.log(3))]


def test_steps_of_epochs_and_of_parts_of_one():
    epochs = [[0] * 10, [0] * 20, [0] * 30]
    assert [steps_of(iter(epochs), number) for number in (1.0, 1.5, 2.0, 0.25, 0.01)] == [10, 20, 30, 2, 1]


def test_tasks_of_a_preset_and_their_heads():
    preset = load("smoke", "mtdnn")
    assert kinds.head_of(preset, "encyclopedia") == Head("spans")
    assert kinds.head_of(preset, "CoLA") == Head("labels", 2) and kinds.head_of(preset, "SWAG") == Head("choices")
    assert kinds.head_of(load("smoke", "mtdnn_kd"), "MNLI", san=True) == Head("labels", 3, san=True)
    assert kinds.head_of(load("smoke", "mtdnn_kd"), "STS-B", san=True) == Head("labels", 1)
    with pytest.raises(ValueError, match="there is no task 'QQP'; there are CoLA, SWAG, encyclopedia"):
        kinds.head_of(preset, "QQP")


def test_an_encoder_reads_the_longest_text_of_any_part(monkeypatch):
    lengths = {"train": [5, 9], "valid": [], "test": [31, 2]}
    monkeypatch.setattr(kinds, "sequences_of", lambda p, name, part: SimpleNamespace(lengths_W=np.array(lengths[part])))
    preset = load("smoke", "mtdnn")
    assert kinds.longest(preset, "CoLA", lengths) == 31
    assert kinds.longest(preset, "encyclopedia", lengths) == preset.windows.max_length


def test_texts_without_a_label_are_parts_where_there_are_some():
    preset = load("smoke", "mtdnn_kd")
    assert parts_of(preset, "MNLI", False) == ["train"] and parts_of(preset, "MNLI", True) == ["train", "unlabelled"]
    joined = kinds.sequences_over(preset, "MNLI", ["train", "unlabelled"])
    assert len(joined) == 24 and (SequenceTensors(joined).labels["label"][16:] == -100).all()
    scored = SequenceTensors(kinds.sequences_over(preset, "STS-B", ["train", "unlabelled"])).labels["label"]
    assert scored.isnan().tolist() == [False] * (len(scored) - 8) + [True] * 8


def test_an_epoch_has_all_batches_of_all_tasks():
    preset = load("smoke", "mtdnn_kd")
    sequences = {task: kinds.sequences_of(preset, task, "train") for task in ("CoLA", "RTE")}
    epoch = next(turns_of(sequences, 6, seed=0))
    for task, known in sequences.items():
        rows = np.concatenate([rows for name, rows in epoch if name == task])
        assert sorted(rows) == list(range(len(known)))
