"""Models as ONNX files: written by torch's exporter, run by onnxruntime. Both are the optional extra ``onnx``."""

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers.errors import UserError
from helpers.models.pretrained import EncoderError, inputs_of, load_config, locate

FILE = "model.onnx"
# Versions of its operators, best first: 23 has attention as one, a fifth faster than its parts, and rotary positions as
# one that onnxruntime 1.32 refuses for ModernBERT.
OPERATORS = (23, 20)
ROUNDED = ["MatMul", "Gemm", "Gather"]  # the operators with weights: linear layers and embeddings
WRITING = ("onnx", "onnxruntime", "onnxscript")  # what the extra installs


class OnnxError(UserError):
    """A package that is missing, or a model that cannot be written as ONNX."""


class OnnxModel(nn.Module):
    """The model whose ONNX file lies in a folder, in evaluation mode, computed on the CPU by as many threads as torch
    has. It is called as the model was, and its output has the same fields.

    Raises OnnxError where onnxruntime is not installed, EncoderError where the file cannot be read.
    """

    def __init__(self, folder: Path):
        super().__init__()
        need("onnxruntime")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # what goes wrong is raised
        try:
            self.session = onnxruntime.InferenceSession(folder / FILE, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's have no class of their own
            reason = f"{str(error).splitlines()[0]:.200}"
            raise EncoderError(f"{folder / FILE} cannot be read: export the reader again ({reason})") from error
        self.inputs = tuple(value.name for value in self.session.get_inputs())
        self.fields = [value.name for value in self.session.get_outputs()]
        self.config = load_config(str(folder))
        self.eval()

    def forward(self, **inputs: Tensor) -> SimpleNamespace:
        """What the model makes of ``inputs``, B×L each: the output's tensors by name. Raises OnnxError where that
        cannot be computed."""
        try:
            found = self.session.run(self.fields, {name: values.numpy() for name, values in inputs.items()})
        except Exception as error:  # as above
            raise OnnxError(f"onnxruntime cannot compute this model: {str(error).splitlines()[0]:.200}") from error
        return SimpleNamespace(**dict(zip(self.fields, map(torch.from_numpy, found), strict=True)))


def exported_folder(model: Path | str) -> Path | None:
    """The folder in which a model lies as ONNX, from here or from the repository's root; None where it does not."""
    folder = Path(locate(str(model))["pretrained_model_name_or_path"])
    return folder if (folder / FILE).is_file() else None


def need(*packages: str) -> None:
    """Raises OnnxError where one of the packages is not installed."""
    if missing := [package for package in packages if not find_spec(package)]:
        raise OnnxError(f"ONNX needs {', '.join(missing)}, which the extra onnx has: pip install {' '.join(WRITING)}")


def write(model: nn.Module, batch: Mapping[str, Tensor], file: Path, operators: int = OPERATORS[0]) -> None:
    """Write a model, float32, as ONNX, in this version of its operators; it takes any number of rows of any length that
    the model does.

    ``batch`` is an example of at least two rows. Above 2 GB the weights lie beside the file. Raises OnnxError where the
    packages are missing, or where the model's steps depend on the values that it computes, as RMR's do.
    """
    need(*WRITING)
    given = {name: batch[name] for name in inputs_of(model)}
    with torch.inference_mode():
        fields = list(model(**given))
    try:
        with _quiet():
            torch.onnx.export(
                model,
                kwargs=given,
                dynamic_shapes={name: {0: "batch", 1: "length"} for name in given},
                output_names=fields,
                opset_version=operators,
                dynamo=True,
                verbose=False,
            ).save(file)
    except torch.onnx.OnnxExporterError as error:
        kind = model.config.model_type
        raise OnnxError(f"a model of the kind {kind!r} cannot be written as ONNX; use one of BERT's kind") from error


def quantise(source: Path, target: Path) -> None:
    """Write an ONNX file with weights of 8 bits, scaled by output; what they multiply is rounded to 8 bits as
    it comes (dynamic quantisation). Raises OnnxError where the packages are missing."""
    need(*WRITING)
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet():
        quantize_dynamic(source, target, op_types_to_quantize=ROUNDED, per_channel=True, weight_type=QuantType.QInt8)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the libraries' reports to their own developers."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
