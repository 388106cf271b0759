"""Reading: numbers by hand, steps, what is asked and stored once, and a reader loaded for answers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import flip, plan_of

from helpers import engine, extractive_qa, load_reader
from helpers.data.examples import DataError, Domain, Example
from helpers.data.load import question_set
from helpers.errors import EncoderError
from helpers.extractive_qa import (
    Questions,
    Reader,
    answer_questions,
    average_gold_probability,
    count_steps,
    ensemble_log_probs,
    likelihood,
    store_logits,
    windows_of,
)
from helpers.models.encoders import load_encoder
from helpers.presets.load import load_preset
from helpers.task import DamagedFile
from helpers.training import Logits, Outputs, Training


@pytest.fixture
def preset(results):
    return load_preset("smoke", "imm", seeds=1)


def reader(preset, *domains, **fields):
    facts = {"preset": preset, "label": "r", "seed": 0, "model": Reader(), "data": Questions(domains, **fields)}
    return Training(**facts, optim=preset.training, loss=likelihood)


def steps_of(training):
    return training.data.steps(training.preset, training.optim)


def untrained(monkeypatch):
    """Let readers load as new ones."""
    monkeypatch.setattr(Training, "load", lambda self: load_encoder("data/mini", seed=0, random_layers=1).eval())


def test_gold_probability_by_hand(preset, monkeypatch):
    """Logits of 0 give every token of a window 1 / length; one that has ln 3 more gets 3 / (length + 2)."""
    windows = windows_of(preset, ["news"], "train")
    answered, lengths = np.flatnonzero(windows.labels["start"]), windows.lengths_W
    places = [(windows.offsets_W + windows.labels[side])[answered] for side in ("start", "end")]

    def predict(model, sequences, precision):
        start, end = np.zeros((2, sequences.lengths_W.sum()), np.float32)
        if sequences is windows:
            start[places[0]], end[places[1]] = np.log(3), np.log(7)
        return Logits(start, end)

    monkeypatch.setattr(extractive_qa, "predict", predict)
    untrained(monkeypatch)
    models = dict.fromkeys(("train/news", "valid/news"), (reader(preset, "news"),))
    probability = Outputs(preset=preset, label="p", models=models, compute=average_gold_probability)
    probability, _ = average_gold_probability(probability)
    expected = np.mean(3 / (lengths[answered] + 2) + 7 / (lengths[answered] + 6)) / 2
    assert probability["train"] == pytest.approx(expected, rel=1e-5)
    valid = windows_of(preset, ["news"], "valid")
    assert probability["valid"] == pytest.approx(np.mean(1 / valid.lengths_W[valid.labels["start"] > 0]), rel=1e-5)


def test_what_labels_lose_is_counted_and_said(results, monkeypatch, capsys):
    """Of 4 answers to train on one is longer than 5 tokens, one in no window, one ends inside a token."""
    answers = ["Ann Lee", "Ann Lee leads Gamma", "Delta. " + "It is old. " * 20 + "So", "Gam"]
    passages = ["Ann Lee leads Gamma.", "Ann Lee leads Gamma.", answers[2], "Ann Lee leads Gamma."]
    examples = [
        Example(
            f"q{number}", "Who leads Gamma?", passage, (text,), (start := passage.index(text), start + len(text)), ""
        )
        for number, (text, passage) in enumerate(zip(answers, passages, strict=True))
    ]
    settings = {"windows.max_length": 40, "windows.stride": 16, "answers.max_tokens": 5}
    preset = load_preset("smoke", "imm", seeds=1, **settings)
    monkeypatch.setattr(extractive_qa, "load", lambda data, name: Domain(name, examples, examples[:1], examples[:2]))
    monkeypatch.setattr(extractive_qa, "fingerprint_examples", lambda *parts: "")
    extractive_qa._windows.cache_clear()
    task = extractive_qa.LabelCheck(preset=preset, label="labels", domain="news")
    engine.run(plan_of(task), preset.engine)
    extractive_qa._windows.cache_clear()
    notes = [
        "news: of 4 train answers, 1 are longer than answers.max_tokens = 5 (raise it), "
        "1 lie in no window (raise windows.max_length), 1 are widened to whole tokens",
        "news: of 2 test answers, 1 are longer than answers.max_tokens = 5 (raise it)",
    ]
    assert task.result() == {"notes": notes, "em": {"train": 25.0, "valid": 100.0, "test": 50.0}, "files": {}}
    assert capsys.readouterr().out.splitlines() == notes


def test_joint_distributions_by_hand():
    """The mean of distributions, window by window: a reader with larger logits weighs no more."""
    windows = SimpleNamespace(lengths_W=np.array([2, 1]), offsets_W=np.array([0, 2]))
    one = Logits(np.float32([np.log(3), 0, 7]), np.float32([0, 0, -7]))  # 3/4 1/4, 1; 1/2 1/2, 1
    other = Logits(np.float32([100, 100 + np.log(4), 0]), np.float32([0, 200, 0]))  # 1/5 4/5, 1; 0 1, 1
    joint = ensemble_log_probs(windows, [one, other])
    assert np.exp(joint.start).tolist() == pytest.approx([(3 / 4 + 1 / 5) / 2, (1 / 4 + 4 / 5) / 2, 1], rel=1e-5)
    assert np.exp(joint.end).tolist() == pytest.approx([1 / 4, 3 / 4, 1], rel=1e-5)
    assert np.isfinite(ensemble_log_probs(windows, [other]).end).all()


def test_steps_follow_the_budget_and_its_stages(preset, monkeypatch):
    alone, staged = reader(preset, "news"), reader(preset, "news", stages=2)
    assert steps_of(staged) == steps_of(alone) // 2 == len(staged.batches())
    assert steps_of(reader(preset, "search", budget=("news",))) == steps_of(alone)
    with pytest.raises(DataError, match=r"make 1 step for 2 stages; raise training\.epochs"):
        steps_of(reader(preset.changed("training", epochs=0.01), "news", stages=2))
    sizes = {"news": (8, 10), "search": (2, 3)}  # questions and windows
    monkeypatch.setattr(extractive_qa, "load", lambda data, name: SimpleNamespace(train=range(sizes[name][0])))
    monkeypatch.setattr(extractive_qa, "windows_of", lambda preset, names, part: range(sizes[names[0]][1]))
    repeated = 2 * (10 + 3 * 4) / preset.training.batch_size  # the small domain four times
    optim = preset.training.model_copy(update={"epochs": 2.0})
    assert count_steps(preset, ["news", "search"], optim) == round(repeated)


def test_questions_that_sets_share_are_asked_once(preset, monkeypatch):
    questions = []

    def answer(preset, models, windows, no_answer, together):
        questions.extend(windows.examples)
        texts = [f"{example.question} {len(list(models))}" for example in windows.examples]
        return [SimpleNamespace(best_text=text, null_difference=0.0) for text in texts]

    monkeypatch.setattr(extractive_qa, "answer", answer)
    models = dict.fromkeys(("test", "test/news", "valid/news"), ())
    task = Outputs(preset=preset, label="a", models=models, compute=answer_questions)
    answers = answer_questions(task)[0]["answers"]
    examples = {name: question_set(preset.data, name) for name in task.sets}
    assert answers == {name: [f"{example.question} 0" for example in part] for name, part in examples.items()}
    distinct = {(example.question, example.context) for part in examples.values() for example in part}
    assert len(questions) == len(distinct) < sum(map(len, examples.values()))


def test_damaged_teacher_logits_are_named(preset, monkeypatch):
    untrained(monkeypatch)
    models = {"train/news": (reader(preset, "news"),)}
    task = Outputs(preset=preset, label="t", models=models, compute=store_logits)
    task.do()
    tokens = int(windows_of(preset, ["news"], "train").lengths_W.sum())
    assert [(len(flat), flat.dtype) for flat in task.tensors().values()] == [(tokens, torch.float16)] * 2
    flip(task.folder / "outputs.safetensors")
    with pytest.raises(DamagedFile, match=r"outputs\.safetensors: not as it was written; delete .* and run again"):
        task.tensors()


def test_what_is_no_trained_reader_is_refused():
    with pytest.raises(EncoderError, match="is no trained model"):
        load_reader("data/mini")


def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub(tmp_path):
    for name in ("news", "trivia"):
        (tmp_path / name).mkdir()
    with pytest.raises(EncoderError, match=r"legal: no such folder; expected .*: news, trivia; correct"):
        load_reader(tmp_path / "legal")
    for name in ("models/none", "../none/at", "a/b/none"):  # cannot be names on the Hub
        with pytest.raises(EncoderError, match=f"^{name}: no such folder; expected a saved reader; correct it"):
            load_reader(name)
    with pytest.raises(EncoderError, match=r"^Single: no such folder, and no training here begins so; run a notebook"):
        load_reader("Single")
