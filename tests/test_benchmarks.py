"""The programs of benchmarks/."""

import runpy
import subprocess

import pytest
from conftest import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_import(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # as for a program
    assert runpy.run_path(str(path), run_name="looked at")["main"]


def test_the_script_for_a_gpu_refuses_words_that_it_does_not_know():
    command = ["sh", str(ROOT / "benchmarks/gpu.sh"), "data", "encoder", "everything"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2 and "no part everything: give tests, benchmarks or table" in run.stderr
