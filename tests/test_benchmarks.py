"""The programs of benchmarks/, and what documents have from them."""

import runpy
from itertools import takewhile

import pytest
from conftest import ROOT, benchmark


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_import(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # as for a program
    assert runpy.run_path(str(path), run_name="looked at")["main"]


def test_the_power_table_is_that_of_the_records():
    lines = (ROOT / "docs/statistics.md").read_text(encoding="utf-8").splitlines()
    expected = benchmark("power").table("study")
    known = takewhile(lambda line: line.startswith("|"), lines[lines.index(expected[0]) :])
    assert list(known) == expected, "write it anew: python benchmarks/power.py --preset study"
