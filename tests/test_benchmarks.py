"""The programs of benchmarks/."""

import json
import re
import runpy
import sys
from types import SimpleNamespace

import nbformat
import pytest
from conftest import ROOT, benchmark
from IPython.core.interactiveshell import InteractiveShell

from helpers import engine
from helpers.presets.load import load_preset
from helpers.presets.schema import EngineSettings
from helpers.results import figures


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_benchmarks_find_what_they_import(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # as for a program
    assert runpy.run_path(str(path), run_name="looked at")["main"]


@pytest.mark.slow
def test_the_gpus_benchmark_measures_in_small(tmp_path, capsys, monkeypatch):
    """In one process; what several do at once is left to a machine with a GPU."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    gpu, file = benchmark("gpu"), tmp_path / "rows.jsonl"
    for part in ("alone", "digits"):
        gpu.measure(part, SimpleNamespace(rows=file, seconds=600, data="", encoder="data/mini"))
    rows = list(map(json.loads, file.read_text().splitlines()))
    assert not [row for row in rows if "error" in row], rows
    assert {"eager", "Trainer", "eager, again"} <= {row["how"] for row in rows}
    assert {row["same_digits"] for row in rows if "same_digits" in row} == {True}
    gpu.show_table(rows)
    assert "windows/s" in capsys.readouterr().out
    late = tmp_path / "late.jsonl"
    gpu.measure("alone", SimpleNamespace(rows=late, seconds=-1, data="", encoder="data/mini"))
    (row,) = map(json.loads, late.read_text().splitlines())
    assert row["what"] == "alone" and row["error"].startswith("no time is left for")


def test_look_shows_an_effect_that_study_supports(results, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    look = benchmark("look")
    preset = load_preset("smoke", "imm", methods="Mix Ensemble A2D")
    results.mkdir(exist_ok=True)
    (results / "study").symlink_to(ROOT / "results/study")
    lines = engine.run(look.look(preset), preset.engine)
    assert [line.startswith(row) for row, line in zip(look.ROWS.values(), lines[1:5], strict=True)] == [True] * 4
    assert lines[0].endswith("supported in study          equal steps")
    assert lines[2].endswith("-0.6 (undecided, EM -4.2)")
    gains = [re.findall(r"[+-]\d+\.\d", line) for line in lines[1:5]]
    assert [len(of_row) for of_row in gains] == [0, 4, 4, 4]  # above a reader per domain, F1 and EM per heading


def test_regimes_and_the_grid_train_what_they_compare(results, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    facts = engine.run(benchmark("regimes").imm_facts(load_preset("smoke", "imm")), EngineSettings())
    assert facts["lowest Single"] <= facts["Single"] <= facts["highest Single"]
    grid = benchmark("a2d_grid")
    monkeypatch.setattr(grid, "TEMPERATURES", (1.0, 2.0))
    monkeypatch.setattr(grid, "ANSWER_WEIGHTS", (0.3,))
    monkeypatch.setattr(grid, "load_preset", lambda *names, **changes: load_preset("smoke", "a2d", seeds=2))
    grid.main()
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_stored_records_have_the_claims_that_are_stated_today(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    claims, number = benchmark("claims"), 0
    for path in (ROOT / "results").glob("*/*/*.json"):
        stored = json.loads(path.read_text(encoding="utf-8"))
        assert claims.restate(stored).model_dump() == stored, f"{path}: run benchmarks/claims.py"
        number += 1
    assert number > 20


def test_executed_notebooks_show_records_and_sources_as_they_are(monkeypatch):
    monkeypatch.setenv("HELPERS_RESULTS", str(ROOT / "results"))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # which a shell replaces, and workers need
    monkeypatch.setattr(figures, "draw_record", lambda record: None)  # pictures are of fonts and versions, too
    monkeypatch.setattr(figures, "seed_curves", lambda record: None)
    changed = benchmark("copies").refresh()
    InteractiveShell.clear_instance()  # later tests are in no notebook
    assert not changed, "run benchmarks/copies.py"


def test_a_copy_that_shows_something_else_is_redone(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    old = nbformat.v4.new_output("display_data", {"text/html": "before", "text/plain": "?"})
    cell = nbformat.v4.new_code_cell("from IPython.display import HTML\nnothing\nHTML('today')", outputs=[old])
    copies, shell = benchmark("copies"), InteractiveShell.instance()
    assert copies.redo(shell, cell) and cell.outputs[0].data["text/html"] == "today"
    assert not copies.redo(shell, cell)
    InteractiveShell.clear_instance()


def test_executed_notebooks_show_the_source_as_it_is():
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "helpers").rglob("*.py"))
    number = 0
    for file in (ROOT / "results").glob("*/notebooks/*.ipynb"):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        for output in [output for cell in cells for output in cell.get("outputs", [])]:
            if "text/latex" in output.get("data", {}):  # of IPython's Code
                for source in "".join(output["data"]["text/plain"]).split("\n\n\n"):
                    assert source.strip() in code, f"{file}: run benchmarks/copies.py"
                    number += 1
    assert number > 20
