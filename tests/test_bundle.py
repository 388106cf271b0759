"""What make gpu-bundle puts together, but for the downloads."""

import subprocess

import torch
from conftest import benchmark
from safetensors.torch import load_file

from helpers import paths
from helpers.models.encoders import load_encoder

bundle = benchmark("bundle")


def test_wheels_are_of_what_the_image_lacks():
    packages = bundle.lacking()
    assert {"pooch", "pydantic", "pydantic-core", "papermill", "ipykernel", "nbconvert"} <= set(packages)
    image = set((paths.ROOT / "benchmarks/torch_image.txt").read_text().split())
    assert {"torch", "transformers", "pyarrow"} <= image and not image & set(packages)
    assert not bundle.SKIPPED & set(packages) and "jupyter-server" not in packages  # nor what only these need


def test_data_are_those_of_preset_lab(tmp_path):
    for name in ("wikipedia", "policy", "elsewhere", "squad-adversarial"):
        (tmp_path / "qa" / name).mkdir(parents=True)
        (tmp_path / "qa" / name / "a.json").write_text("{}")
    (tmp_path / "qa/squad-adversarial/sample1k-HCVerifyAll.json").write_text("{}")
    bundle.cut_data(tmp_path / "qa", tmp_path / "data")
    files = sorted(path.relative_to(tmp_path / "data").as_posix() for path in (tmp_path / "data").rglob("*.json"))
    assert files == ["policy/a.json", "squad-adversarial/sample1k-HCVerifyAll.json", "wikipedia/a.json"]


def test_the_encoder_is_in_float16_and_loads(tmp_path):
    bundle.cut_encoder(paths.ROOT / "data/mini", tmp_path / "encoder")
    stored = load_file(tmp_path / "encoder/model.safetensors")
    assert {tensor.dtype for tensor in stored.values() if tensor.is_floating_point()} == {torch.float16}
    whole, half = (load_encoder(str(folder), seed=0) for folder in (paths.ROOT / "data/mini", tmp_path / "encoder"))
    for one, other in zip(whole.parameters(), half.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-6)


def test_the_set_refuses_words_that_it_does_not_know():
    command = ["sh", str(paths.ROOT / "benchmarks/gpu.sh"), "data", "encoder", "everything"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "no part everything: give tests, benchmarks or table" in done.stderr
