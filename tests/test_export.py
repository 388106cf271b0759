import numpy as np
import pytest
import torch

from helpers.errors import UserError
from helpers.models.encoders import load_encoder, load_saved, load_tokenizer, save_encoder
from helpers.papers import export


def test_unknown_formats_and_missing_packages_are_named_before_a_training(monkeypatch):
    with pytest.raises(UserError, match="export: expected onnx, found 'onx'"):
        export.check_export("onx")
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs onnx and onnxscript; run pip install"):
        export.check_export("onnx")


def test_an_onnx_file_gives_the_readers_logits_for_other_sizes(tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    export.check_export("onnx")
    save_encoder(load_encoder("data/mini", seed=0), load_tokenizer("data/mini"), tmp_path / "reader")
    export.export_reader(tmp_path / "reader")
    questions, passage = ["Who was born in Dunholm?", "Who?", "What is the town of Elsa?"], "Elsa was born in Dunholm. "
    batch = load_tokenizer("data/mini")(
        questions, [passage, passage * 4, passage * 2], padding=True, return_tensors="pt"
    )
    session = runtime.InferenceSession(str(tmp_path / "reader" / "model.onnx"))
    starts, ends = session.run(["start_logits", "end_logits"], {name: value.numpy() for name, value in batch.items()})
    with torch.no_grad():
        logits = load_saved(tmp_path / "reader")(**batch)
    assert np.abs(starts - logits.start_logits.numpy()).max() < 1e-3
    assert np.abs(ends - logits.end_logits.numpy()).max() < 1e-3
