"""The programs of benchmarks/."""

import runpy

import pytest
from conftest import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_import(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # as for a program
    assert runpy.run_path(str(path), run_name="looked at")["main"]
