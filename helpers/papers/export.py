"""Kept readers as ONNX files, written by transformers' own exporter."""

from importlib.util import find_spec
from pathlib import Path

import torch

from helpers.errors import UserError
from helpers.models.encoders import load_tokenizer

EXPORTS = ("onnx",)
EXPORTERS = ("onnx", "onnxscript")


def check_export(form: str) -> None:
    """Raise UserError where there is no such format, or its packages are not installed."""
    if form not in EXPORTS:
        raise UserError(f"export: expected {' or '.join(EXPORTS)}, found {form!r}; correct it, or leave it out")
    if missing := [name for name in EXPORTERS if not find_spec(name)]:
        raise UserError(f"export: {form} needs {' and '.join(missing)}; run pip install 'reading-distillation[onnx]'")


def export_reader(folder: Path) -> None:
    """Write ``model.onnx`` beside the reader of a folder, for any number and length of windows."""
    from transformers import AutoModelForQuestionAnswering
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    inputs = load_tokenizer(str(folder))(["question"] * 2, ["passage"] * 2, return_tensors="pt")
    with torch.no_grad():
        exported = OnnxExporter().export(model, dict(inputs), config=OnnxConfig(dynamic=True))
    exported.save_pretrained(folder)
