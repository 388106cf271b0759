"""One example in a loss: what notebooks show of a teacher and its student, on numbers that a person can work out."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from helpers.data.examples import Pair
from helpers.data.texts import load_texts
from helpers.papers import examples
from helpers.papers.imm import tables as imm
from helpers.papers.mtdnn import tables as mtdnn
from helpers.papers.mtdnn.algorithm import QA
from helpers.papers.mtdnn.trainings import questions
from helpers.papers.rows import Trained
from helpers.presets.load import load
from helpers.tasks import kinds, spans
from helpers.tasks.kinds import Reply
from helpers.training.teachers import StoredTeacher


class Sure(nn.Module):
    """A reader that gives the same logits at all positions but one, where they are higher."""

    inputs = ("input_ids",)

    def __init__(self, start, end, height):
        super().__init__()
        self.places, self.height = (start, end), height

    def forward(self, input_ids):
        logits = [torch.zeros(input_ids.shape) for _ in self.places]
        for side, place in zip(logits, self.places, strict=True):
            side[:, place] = self.height
        return SimpleNamespace(start_logits=logits[0], end_logits=logits[1])


class Student(SimpleNamespace):
    """A training with a uniform teacher, whose student begins uniform and ends sure of the right answer."""

    key, kd_space = "its key", "gold"

    def model_copy(self, update):
        assert update["weights"] == {}
        return self

    def batches(self, device):
        batches = spans.training_batches(self.preset, ["news"], 1, 0, device)
        flat = torch.zeros(int(self.windows.lengths_W.sum()))
        batches.tensors.labels["weight"] = torch.ones(len(self.windows))
        batches.teachers.append(StoredTeacher(batches.tensors, of_tokens={"start": flat, "end": flat}))
        return batches

    def initial(self):
        return Sure(0, 0, 0.0)

    def load(self, training):
        assert training == self.key
        return Sure(*(int(self.windows.labels[side][self.row]) for side in ("start", "end")), 50.0)


def test_a_question_in_the_loss_of_a_student():
    preset = load("smoke", "imm")
    windows = spans.windows_of(preset, ["news"], "train")
    row = int(np.flatnonzero(windows.labels["start"])[1])
    shown = imm.example(Student(preset=preset, windows=windows, row=row), "news", number=1)
    table, length = shown.data, int(windows.lengths_W[row])
    sides = ["right, first token", "right, last token"]
    for reader in (examples.TEACHER, examples.BEFORE):
        assert table.loc[reader, sides].tolist() == pytest.approx([1 / length] * 2)
    assert table.loc[examples.AFTER, sides].tolist() == pytest.approx([1, 1])
    errors = table[["likelihood", "divergence"]]
    assert errors.loc[examples.TEACHER].isna().all()
    assert errors.loc[examples.BEFORE].tolist() == pytest.approx([2 * math.log(length), 0], abs=1e-6)
    assert errors.loc[examples.AFTER].tolist() == pytest.approx([0, 2 * (1 - 1 / length) ** 2], abs=1e-6)
    example = windows.examples[windows.example_W[row]]
    assert example.question in shown.to_html() and example.answers[0] in shown.to_html()


def test_a_text_compared():
    text = Pair("1", "a < b", None, 1)
    said = {"teacher": np.float32([0.75, 0.25]), "student after": np.float32([0.5, 0.5])}
    shown = examples.compared(["no", "yes"], text, said)
    assert shown.data.loc["teacher", ["no", "yes"]].tolist() == [0.75, 0.25]
    assert shown.data.loc["teacher"].isna().sum() == 2
    of_student = shown.data.loc["student after"]
    assert of_student["cross-entropy with the teacher"] == pytest.approx(math.log(2))
    assert of_student["cross-entropy with the label"] == pytest.approx(math.log(2))
    assert "a &lt; b" in shown.to_html() and "<b>label</b>: yes" in shown.to_html()
    unlabelled = examples.compared(["no", "yes"], Pair("1", "a", None, None), said)
    assert "cross-entropy with the label" not in unlabelled.data


def test_a_certain_student_costs_what_its_teacher_says_of_the_rest():
    said = {"teacher": np.float32([0.75, 0.25]), "student after": np.float32([0.9, 0.1])}
    shown = examples.compared(["no", "yes"], Pair("1", "a", None, 0), said)
    expected = -0.75 * math.log(0.9) - 0.25 * math.log(0.1)
    assert shown.data.loc["student after", "cross-entropy with the teacher"] == pytest.approx(expected)
    assert shown.data.loc["student after", "cross-entropy with the label"] == pytest.approx(-math.log(0.9))


def test_a_text_of_a_domain_is_softened(monkeypatch):
    preset = load("smoke", "hrkd")
    (domain, *_), said = preset.reviews.domains, {"teacher": [0.8, 0.2], "before": [0.5, 0.5], "after": [0.9, 0.1]}
    monkeypatch.setattr(examples.labels, "predict", lambda model, *_: np.float32([said[model.name]]))
    models = {name: nn.Module() for name in said}
    for name, model in models.items():
        model.name = name
    student = SimpleNamespace(texts=preset.reviews, preset=preset, key="after", classes=2)
    student.initial, student.load = lambda: models["before"], lambda key, head: models[key]
    shown = examples.of_text(student, "teacher", domain, number=2, temperature=2.0)
    values = shown.data.iloc[:, :2].to_numpy()
    assert values == pytest.approx(np.array([[2 / 3, 1 / 3], [0.5, 0.5], [0.75, 0.25]]))
    assert load_texts(preset.reviews)[domain].train[2].first in shown.to_html()


def test_the_threshold_decides_about_no_answer(monkeypatch):
    preset = load("smoke", "mtdnn", seeds=1)
    trained = Trained.of(preset, [QA])
    asked = mtdnn.test_questions(preset, 0)
    has_answer = [bool(example.answers) for example in asked]
    differences = [-2.0] * len(asked)
    turned = len(asked) - 1
    differences[turned] = 1.0
    replies = {(QA, 0): {"valid": [], "test": [Reply(f"span {n}", value) for n, value in enumerate(differences)]}}
    monkeypatch.setattr(kinds, "threshold", lambda *_: 2.0)
    table = mtdnn.example(trained, replies)
    assert list(table.index) == ["first with an answer", "first without", "first that the threshold changes"]
    assert table["question"].tolist() == [
        asked[n].question for n in (has_answer.index(True), has_answer.index(False), turned)
    ]
    assert table["probability of no answer"].tolist() == [0.119, 0.119, 0.731]
    assert table["after the threshold"].tolist() == [0.018, 0.018, 0.269]
    assert table["reply"].tolist() == table["best span"].tolist() and table["expected"].iloc[1] == "no answer"
    assert questions(preset) in preset.data.domains
    replies[QA, 0]["test"][turned] = Reply("a span", -2.0)
    assert list(mtdnn.example(trained, replies).index) == ["first with an answer", "first without"]
