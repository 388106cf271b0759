"""A trained model as ONNX: the same outputs for any batch, the same answers, and what is refused."""

import re

import numpy as np
import pytest
import torch
from conftest import are_alike
from encoder_kinds import make_tokenizer
from transformers import AutoModelForQuestionAnswering, ModernBertConfig

import helpers
from helpers import __main__ as cli
from helpers import export
from helpers.data.mini import domains as mini
from helpers.models import onnx
from helpers.models.mnemonic import make_reader
from helpers.models.pretrained import encoder_fingerprint, load_encoder, load_saved, load_tokenizer, save_encoder

NOT_HERE = "ONNX is not installed: pip install onnx onnxruntime onnxscript"


@pytest.fixture(scope="module")
def installed():
    for package in onnx.WRITING:
        pytest.importorskip(package, reason=NOT_HERE)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """An untrained reader of one layer, whose heads have large enough weights for answers to differ."""
    place = tmp_path_factory.mktemp("reader")
    model = load_encoder("data/mini", seed=0, random_layers=1)
    torch.nn.init.normal_(model.qa_outputs.weight)
    model.config.update({"windows": {"max_length": 64, "stride": 16}, "answers": {"n_best": 5, "max_tokens": 4}})
    save_encoder(model, load_tokenizer("data/mini"), place)
    return place


@pytest.fixture(scope="module")
def exported(installed, reader, tmp_path_factory):
    place = tmp_path_factory.mktemp("onnx") / "reader"
    return place, export.export(str(reader), place)


@pytest.fixture(scope="module")
def examples():
    return mini.load_domain("news", train_size=20).train[:6]


def test_it_says_how_far_it_is_from_torch(exported):
    place, said = exported
    assert 0 <= said.exact < 1e-3 and said.difference == said.exact and said.alike == 1
    assert said.questions == 48 < said.windows and said.tokens[0] < said.tokens[1] == 64
    assert said.size == (place / "model.onnx").stat().st_size and said.faster > 0
    assert not [path.name for path in place.parent.iterdir() if path != place]


def test_any_number_of_rows_of_any_length(exported, reader):
    model, written = load_saved(reader), onnx.OnnxModel(exported[0])
    for rows, length in ((1, 3), (2, 64), (5, 17)):
        ids = torch.from_numpy(np.random.default_rng(rows).integers(5, 1000, (rows, length)))
        mask = (torch.arange(length) < length - torch.arange(rows)[:, None]).long()
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
        with torch.inference_mode():
            expected = model(**given)
        said = written(**given)
        for field in ("start_logits", "end_logits"):
            assert torch.allclose(getattr(said, field), getattr(expected, field), rtol=0, atol=1e-4)
    assert not are_alike(said.start_logits, expected.end_logits)


def test_a_reader_of_it_answers_as_the_reader_itself(exported, reader, examples):
    itself, other = helpers.load_reader(reader), helpers.load_reader(exported[0])
    assert isinstance(other.model, onnx.OnnxModel)
    questions, passages = [e.question for e in examples], [" ".join([e.context] * 3) for e in examples]
    for one, two in zip(itself.answer(questions, passages), other.answer(questions, passages), strict=True):
        assert one.text == two.text and len(one.n_best) == len(two.n_best) == 5
        assert one.probability == pytest.approx(two.probability, abs=1e-3)


def test_weights_of_8_bits(exported, reader, tmp_path, capsys):
    assert cli.main(["export", str(reader), "--out", str(tmp_path / "small"), "--int8"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"the largest difference of a logit is \de-\d+\nwith weights of 8 bits it is 0\.\d+, and \d", said)
    assert re.search(r"MB, \d+\.\d times as fast as torch on this CPU$", said)
    small, whole = tmp_path / "small/model.onnx", exported[0] / "model.onnx"
    assert small.stat().st_size < whole.stat().st_size / 2
    assert {path.name for path in small.parent.iterdir()} == {path.name for path in whole.parent.iterdir()}
    assert encoder_fingerprint(str(small.parent)) != encoder_fingerprint(str(whole.parent))  # alike but for that file


def test_a_classifier(installed, tmp_path):
    model = load_encoder("data/mini", "labels", seed=0, random_layers=1, classes=3)
    save_encoder(model, load_tokenizer("data/mini"), tmp_path / "classifier")
    said = export.export(str(tmp_path / "classifier"), tmp_path / "out")
    written = onnx.OnnxModel(tmp_path / "out")
    assert said.exact < 1e-3 and written.fields == ["logits"]
    assert written.config.windows["max_length"] == 160  # as the encoder's table of positions, which is not there


def test_what_onnxruntime_cannot_compute_is_written_in_older_operators(installed, tmp_path):
    tokenizer = make_tokenizer("bert", [example.context for example in export.questions()[:4]])
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    config = ModernBertConfig(vocab_size=len(tokenizer), max_position_embeddings=130, **sizes, **special)
    model = AutoModelForQuestionAnswering.from_config(config)
    model.config.update({"windows": {"max_length": 64, "stride": 32}})
    save_encoder(model, tokenizer, tmp_path / "modern")
    assert export.export(str(tmp_path / "modern"), tmp_path / "out").exact < 1e-3


def test_what_differs_is_not_kept(installed, reader, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "CLOSE", 0.0)
    with pytest.raises(onnx.OnnxError, match="differs from torch by"):
        export.export(str(reader), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_left_alone(installed, reader, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("important")
    assert cli.main(["export", str(reader), "--out", str(tmp_path)]) == 1
    assert "holds something that is no exported model; give another folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_cannot_be_written_is_one_line(installed, tmp_path, capsys):
    tokenizer = load_tokenizer("data/mini")
    rmr = make_reader(tokenizer, 0, word_width=8, letter_width=8, hidden=8, blocks=1)
    save_encoder(rmr, tokenizer, tmp_path / "rmr")
    assert cli.main(["export", str(tmp_path / "rmr"), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == (
        "error: a model of the kind 'mnemonic' cannot be written as ONNX; use one of BERT's kind\n"
    )
    assert cli.main(["export", "data/mini", "--out", str(tmp_path / "out")]) == 1
    assert "is no trained reader" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_file_that_is_damaged_is_named(installed, exported, tmp_path, capsys):
    place = tmp_path / "damaged"
    place.mkdir()
    for file in exported[0].iterdir():
        (place / file.name).write_bytes(file.read_bytes()[: 100 if file.suffix == ".onnx" else None])
    assert cli.main(["answer", str(place), "Who?", str(exported[0] / "config.json")]) == 1
    said = capsys.readouterr().err
    assert "model.onnx cannot be read: export the reader again" in said and said.count("\n") == 1


def test_without_the_packages_it_says_what_to_install(reader, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(onnx, "find_spec", lambda package: None)
    assert cli.main(["export", str(reader), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.endswith("pip install onnx onnxruntime onnxscript\n")
    (tmp_path / "model.onnx").write_text("")
    (tmp_path / "config.json").write_text("{}")
    assert cli.main(["answer", str(tmp_path), "Who?", str(tmp_path / "config.json")]) == 1
    assert "ONNX needs onnxruntime, which" in capsys.readouterr().err
