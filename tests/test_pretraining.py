"""General distillation of the miniature student and growth of the larger encoder, a few steps each; and both."""

import json

import torch

from helpers import paths, pretrain
from helpers.models.distilled import check_pair
from helpers.models.pretrained import load_encoder, load_tokenizer
from helpers.results.provenance import Run


def test_a_few_steps_make_a_student_that_loads_and_learns(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "BATCH", 4)
    monkeypatch.setattr(pretrain, "CHUNK", 2)
    record = json.loads(pretrain.distil(tmp_path, steps=2).read_text())
    Run.model_validate(record["run"])
    assert set(record["losses"]) == {"hidden", "attention"} and all(value > 0 for value in record["losses"].values())
    student = load_encoder(str(tmp_path), "labels", seed=0, classes=2)
    assert student.config.hidden_size == 48 and student.config.num_hidden_layers == 3
    assert sum(p.numel() for p in student.bert.parameters() if p.requires_grad) >= record["parameters"]
    assert load_tokenizer(str(tmp_path)).get_vocab() == load_tokenizer("data/mini").get_vocab()


def test_the_student_that_is_there_is_small_and_was_made_from_committed_code():
    folder = paths.MINI / "student"
    record = json.loads((folder / "pretraining.json").read_text())
    assert not record["run"]["dirty"] and record["parameters"] == 136752
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1_000_000
    check_pair("data/mini/student", "data/mini")
    weights = load_encoder("data/mini/student", "labels", seed=0).state_dict()
    assert all(tensor.isfinite().all() for tensor in weights.values() if tensor.dtype == torch.float32)


def test_a_few_steps_make_a_larger_encoder_of_the_same_vocabulary(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "BATCH", 4)
    monkeypatch.setattr(pretrain, "CHUNK", 1)
    settings = pretrain.LARGE_SETTINGS.model_copy(update={"learning_rate": 1e-9})
    monkeypatch.setattr(pretrain, "LARGE_SETTINGS", settings)
    record = json.loads(pretrain.enlarge(tmp_path, steps=1).read_text())
    Run.model_validate(record["run"])
    assert record["clozes"]["questions"] == 1000 and record["run"]["parameters"]["num_hidden_layers"] == 6
    large, small = (load_encoder(folder, "labels", seed=0).bert for folder in (str(tmp_path), "data/mini"))
    for number, layer in enumerate(large.encoder.layer):
        for name, weights in small.encoder.layer[number // 2].state_dict().items():
            torch.testing.assert_close(layer.state_dict()[name], weights, atol=1e-6, rtol=1e-3)
    assert load_tokenizer(str(tmp_path)).get_vocab() == load_tokenizer("data/mini").get_vocab()


def test_the_larger_encoder_that_is_there_was_made_from_committed_code_and_answers_clozes():
    folder = paths.MINI / "large"
    record = json.loads((folder / "pretraining.json").read_text())
    assert not record["run"]["dirty"] and record["parameters"] == 1007872 and record["clozes"]["em"] > 90
    assert load_tokenizer("data/mini/large").get_vocab() == load_tokenizer("data/mini").get_vocab()
    assert sum(file.stat().st_size for file in folder.iterdir()) < 3_000_000
    weights = load_encoder("data/mini/large", "labels", seed=0).state_dict()
    assert all(tensor.isfinite().all() for tensor in weights.values() if tensor.dtype == torch.float32)
