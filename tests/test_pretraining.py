"""Pretraining of the miniature encoders by a few steps, and the encoders that are committed."""

import importlib.util
import json

import pytest
import torch

from helpers import paths
from helpers.models.encoders import load_encoder, load_tokenizer
from helpers.papers.hrkd.tinybert import check_pair
from helpers.records import Run

SIZES = {"student": (136752, 1_000_000), "large": (1007872, 3_000_000)}  # parameters, bytes of the folder


@pytest.fixture
def pretrain(monkeypatch):
    """data/mini/pretrain.py as a module, with small batches."""
    spec = importlib.util.spec_from_file_location("pretrain", paths.MINI / "pretrain.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    monkeypatch.setattr(module, "BATCH", 4)
    monkeypatch.setattr(module, "CHUNK", 2)
    return module


def test_a_few_steps_make_a_student_that_loads_and_learns(pretrain, tmp_path):
    pretrain.pretrain("student", tmp_path, paths.MINI, steps=3)
    record = json.loads((tmp_path / "pretraining.json").read_text())
    assert Run.model_validate(record["run"]).parameters["steps"] == 3
    assert set(record["losses"]) == {"hidden", "attention"} and all(value > 0 for value in record["losses"].values())
    student = load_encoder(str(tmp_path), "labels", seed=0, classes=2)
    assert student.config.hidden_size == 48 and student.config.num_hidden_layers == 3
    assert load_tokenizer(str(tmp_path)).get_vocab() == load_tokenizer("data/mini").get_vocab()


def test_a_larger_encoder_is_initialised_from_each_layer_twice(pretrain, tmp_path, monkeypatch):
    monkeypatch.setitem(pretrain.RATES, "large", 1e-9)
    pretrain.pretrain("large", tmp_path, paths.MINI, steps=1)
    large, small = (load_encoder(folder, "labels", seed=0).bert for folder in (str(tmp_path), "data/mini"))
    assert len(large.encoder.layer) == 6
    for number, layer in enumerate(large.encoder.layer):
        for name, weights in small.encoder.layer[number // 2].state_dict().items():
            torch.testing.assert_close(layer.state_dict()[name], weights, atol=1e-6, rtol=1e-3)


@pytest.mark.slow
def test_an_encoder_begins_with_a_vocabulary_of_its_own(pretrain, tmp_path):
    pretrain.pretrain("encoder", tmp_path, paths.MINI, steps=2)
    assert set(json.loads((tmp_path / "pretraining.json").read_text())["losses"]) == {"likelihood", "words"}
    assert len(load_tokenizer(str(tmp_path))) == pretrain.VOCABULARY
    assert load_encoder(str(tmp_path), seed=0).config.num_hidden_layers == 3


@pytest.mark.parametrize("name", SIZES)
def test_committed_encoders_are_small_and_were_made_from_committed_code(name):
    folder, (parameters, size) = paths.MINI / name, SIZES[name]
    record = json.loads((folder / "pretraining.json").read_text())
    assert not record["run"]["dirty"] and record["parameters"] == parameters
    assert sum(file.stat().st_size for file in folder.iterdir()) < size
    check_pair(f"data/mini/{name}", "data/mini")
    weights = load_encoder(f"data/mini/{name}", "labels", seed=0).state_dict()
    assert all(tensor.isfinite().all() for tensor in weights.values() if tensor.dtype == torch.float32)
