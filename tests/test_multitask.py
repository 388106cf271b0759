"""Models of several tasks: choices, what a task needs, trainings, predictions, and one encoder under several heads."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from conftest import are_alike
from torch import nn
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from helpers import classification, metrics
from helpers.answering import load_reader
from helpers.classification import (
    MultiTaskModel,
    SpanPrediction,
    Tasks,
    plan_epochs,
    predictions_of,
    read_predictions,
    save_task,
    task_loss,
    task_sequences,
)
from helpers.data.examples import Choice, DataError, Example
from helpers.errors import EncoderError
from helpers.models.encoders import load_tokenizer
from helpers.models.multihead import Head, load_multihead, new_multihead, set_dropout
from helpers.pairs import make_choices
from helpers.presets.load import load_preset
from helpers.sequences import Sequences, collate
from helpers.task import with_needs
from helpers.training import Training

WORDS = ["Ada", "Bela", "Gamma", "Delta"]
EXAMPLES = [
    Choice(str(i), "Ada leads Gamma. " * (i + 1), tuple(f"{word} leads{' Delta' * i}." for word in WORDS), i % 4)
    for i in range(6)
]


def test_the_endings_of_an_example_stay_together():
    tokenizer = load_tokenizer("data/mini")
    choices = make_choices(EXAMPLES, tokenizer, 40)
    batch = collate(choices, np.asarray([3, 1]))
    assert batch["input_ids"].shape[:2] == (2, 4) and batch["label"].tolist() == [3, 1]
    assert choices.lengths_W[3] == max(batch["attention_mask"][0].sum(1))
    joined = Sequences.concatenate([choices.select(np.asarray([5, 2])), choices])
    assert len(joined) == 8 and joined.labels["label"].tolist()[:3] == [1, 2, 0]
    one, other = (collate(s, np.asarray(i)) for s, i in ((joined, [0, 1, 4]), (choices, [5, 2, 2])))
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(DataError, match="example 'b' has 3 endings; all need 4"):
        make_choices([EXAMPLES[0], Choice("b", "Ada", ("a", "b", "c"), 0)], tokenizer)


def test_a_threshold_leaves_questions_without_an_answer(monkeypatch):
    preset = load_preset("smoke", "mtdnn")
    questions = [Example("a", "?", "Ada led.", ("Ada",), (0, 3), "a"), Example("b", "?", "Ada led.", (), None, "b")]
    monkeypatch.setattr(classification, "examples_of", lambda preset, task, split: questions)
    spans = [SpanPrediction("Ada", -2.0), SpanPrediction("Ada", -1.0)]
    assert classification.threshold(preset, "encyclopedia", spans) == -2.0
    assert metrics.answers_above(spans, -2.0) == ["Ada", ""]
    scores = classification.score_task(preset, "encyclopedia", "valid", spans)
    assert scores == {"em": 100.0, "f1": 100.0} and classification.main_score(scores) == 100.0
    assert classification.main_score({"accuracy": 50.0, "f1": 70.0}) == 60.0
    answerable = preset.changed("data", unanswerable=False)
    assert classification.threshold(answerable, "encyclopedia", spans) == math.inf


def do(tasks):
    for task in with_needs(tasks).values():
        task.do()


def training(preset, *tasks, fresh=False, **changes) -> Training:
    return Training(
        preset=preset,
        label="x",
        seed=0,
        model=MultiTaskModel(dropout=0.1, head_dropout=dict.fromkeys(tasks, 0.1), fresh=fresh),
        data=Tasks(tasks, tasks),
        optim=preset.training.model_copy(update=changes),
        loss=task_loss,
    )


def test_an_epoch_has_all_batches_of_all_tasks_and_may_end_early():
    preset = load_preset("smoke", "mtdnn_kd", **{"training.batch_size": 6})
    epoch = training(preset, "CoLA", "RTE").batches().schedule
    for task in ("CoLA", "RTE"):
        rows = np.concatenate([rows for name, rows in epoch if name == task])
        assert sorted(rows) == list(range(len(task_sequences(preset, task, "train"))))
    epochs = [[0] * 10, [0] * 20, [0] * 30]
    assert [len(plan_epochs(iter(epochs), n)) for n in (1.0, 1.49, 2.0, 0.25, 0.01)] == [10, 20, 30, 2, 1]


def test_a_key_depends_on_windows_where_a_task_is_questions():
    def keys(**changes):
        preset = load_preset("smoke", "mtdnn", **changes)
        return [training(preset, task).key for task in ("CoLA", "encyclopedia")]

    (cola, questions), after = keys(), keys(**{"windows.max_length": 90})
    assert after[0] == cola and after[1] != questions
    assert keys(**{"answers.max_tokens": 9})[1] != questions != keys(**{"data.unanswerable": False})[1]
    assert keys(**{"data.test_size": 5, "tasks.test_size": 5}) == [cola, questions]
    assert keys(**{"tasks.max_length": 60})[0] != cola
    changed = training(load_preset("smoke", "mtdnn"), "CoLA", learning_rate=1e-5)
    assert changed.optim.learning_rate == 1e-5 and changed.key != cola


@pytest.fixture(scope="module")
def several(module_results):
    """A trained model of tasks of all kinds, and one of a single task from it."""
    tasks = {"CoLA": "acceptability", "SWAG": "continuation", "STS-B": "similarity"}
    preset = load_preset("smoke", "mtdnn", **{"training.epochs": 0.4, "tasks.tasks": tasks})
    first = training(preset, "encyclopedia", *tasks)
    second = dataclasses.replace(training(preset, "CoLA"), start=first, label="y")
    do([first, second])
    return first, second


def test_predictions_of_several_models_are_their_mean(several):
    first, second = several
    alone, other, both = (predictions_of({"CoLA": models}, "test", "p") for models in ((first,), (second,), several))
    questions = predictions_of({"encyclopedia": (first,), "CoLA": (first,)}, "test", "p")
    do([alone, other, both, questions])
    values = [read_predictions(predictions)["CoLA"] for predictions in (alone, other, both)]
    assert np.allclose((values[0] + values[1]) / 2, values[2]) and np.allclose(values[2].sum(1), 1, atol=1e-5)
    assert list(read_predictions(questions)) == ["encyclopedia", "CoLA"]
    assert np.mean([*first.best_scores().values()]) == pytest.approx(first.best)
    assert all(isinstance(one, SpanPrediction) for one in read_predictions(questions)["encyclopedia"])


AUTO = {"encyclopedia": AutoModelForQuestionAnswering, "SWAG": AutoModelForMultipleChoice}


def logits_of(model, inputs):
    with torch.no_grad():
        output = model.eval().cpu()(**inputs)
    return [output.start_logits, output.end_logits] if hasattr(output, "start_logits") else [output.logits]


def test_a_task_by_itself_is_loaded_by_transformers_alone(several, tmp_path):
    first, _ = several
    configs = {}
    for task in first.data.names:
        save_task(first, task, folder := tmp_path / task)
        auto = AUTO.get(task, AutoModelForSequenceClassification)
        saved, report = auto.from_pretrained(folder, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        tokenizer = AutoTokenizer.from_pretrained(folder)
        inputs = tokenizer(["a dull one", "two facts"], ["another", "of two"], padding=True, return_tensors="pt")
        inputs = {key: value[None] if task == "SWAG" else value for key, value in inputs.items()}
        logits = [logits_of(model, inputs) for model in (saved, first.load(task))]
        assert all(are_alike(*pair) for pair in zip(*logits, strict=True))
        configs[task] = saved.config
        assert not hasattr(saved.config, "heads") and (task == "encyclopedia" or tokenizer.model_max_length == 64)
    assert configs["CoLA"].id2label == {0: "unacceptable", 1: "acceptable"}
    assert (configs["STS-B"].problem_type, configs["STS-B"].num_labels) == ("regression", 1)
    reader = load_reader(tmp_path / "encyclopedia")
    assert reader.unanswerable and reader.windows["max_length"] == 96
    assert abs(reader.calibration["null_threshold"]) <= 1e38 and 0.1 <= reader.calibration["temperature"] <= 10


def test_tasks_share_the_encoder_and_fresh_heads_are_new(several):
    first, _ = several
    model = load_multihead(first.saved(), first.data.names)
    assert set(model.tasks) == set(first.data.names)
    assert all(part.base_model is model.shared for part in model.tasks.values())
    begun, fresh = (
        dataclasses.replace(training(first.preset, "CoLA", fresh=new), start=first).build() for new in (False, True)
    )
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(model.shared.state_dict()[name], fresh.shared.state_dict()[name])
    assert torch.equal(model.tasks["CoLA"].classifier.weight, begun.tasks["CoLA"].classifier.weight)
    assert not torch.equal(model.tasks["CoLA"].classifier.weight, fresh.tasks["CoLA"].classifier.weight)
    same = new_multihead(str(first.saved()), {"CoLA": Head("labels", 2)}, seed=0)
    assert torch.equal(same.tasks["CoLA"].classifier.weight, fresh.tasks["CoLA"].classifier.weight)
    heads = new_multihead("data/mini", dict.fromkeys("ab", Head("labels", 2)), seed=0, random_layers=1).tasks
    assert not torch.equal(heads["a"].classifier.weight, heads["b"].classifier.weight)  # each begins by itself
    with pytest.raises(EncoderError, match="has no task MRPC; it has "):
        load_multihead(first.saved(), ["MRPC"])


def test_dropout_of_encoder_and_heads(several):
    model = load_multihead(several[0].saved(), several[0].data.names)
    set_dropout(model, 0.25, {"encyclopedia": 0.1, "CoLA": 0.5, "SWAG": 0.1, "STS-B": 0.2})
    assert {module.p for module in model.shared.modules() if isinstance(module, nn.Dropout)} == {0.25}
    assert (model.tasks["CoLA"].dropout.p, model.tasks["STS-B"].dropout.p) == (0.5, 0.2)
