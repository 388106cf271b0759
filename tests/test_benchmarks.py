"""The programs of benchmarks/."""

import json
import os
import runpy
import subprocess
import sys

import pytest
from conftest import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_import(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # as for a program
    assert runpy.run_path(str(path), run_name="looked at")["main"]


@pytest.mark.slow
def test_the_gpus_benchmark_goes_through_all_parts_in_small(tmp_path):
    out, command = tmp_path / "gpu.json", [sys.executable, ROOT / "benchmarks/gpu.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([*command, "--out", out], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert not [row for row in rows if "error" in row], done.stderr
    assert {"eager", "Trainer", "eager, again", "eager, profile"} <= {row["how"] for row in rows}
    assert {row["same_digits"] for row in rows if "same_digits" in row} == {True}
    assert "windows/s" in done.stdout
