"""The documents' own code: another method in notebook 18, another paper, and one loss in a loop of one's own."""

import importlib
import re
import sys
from types import ModuleType

import pytest
import torch

from helpers import engine, papers, paths, records
from helpers.notebooks.session import Session
from helpers.papers.your_domains import comparison
from helpers.presets.load import load_preset
from helpers.results import report, stats

PAGES = (paths.ROOT / "docs/guide.md", paths.ROOT / "CONTRIBUTING.md")
GUIDE = "".join(f"{page.read_text(encoding='utf-8')}\n## " for page in PAGES)  # each section ends at a heading


def blocks(heading: str) -> list[str]:
    """Return the code of a section."""
    (section,) = re.findall(rf"^## {heading}\n(.+?)^## ", GUIDE, re.MULTILINE | re.DOTALL)
    return re.findall(r"```python\n(.+?)```", section, re.DOTALL)


@pytest.fixture
def install(monkeypatch):
    """``install(name, source)``: a module below helpers.papers with this source."""

    def add(name: str, source: str) -> ModuleType:
        module = ModuleType(f"helpers.papers.{name}")
        exec(source, vars(module))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        parent, _, last = module.__name__.rpartition(".")
        monkeypatch.setattr(importlib.import_module(parent), last, module, raising=False)
        return module

    return add


def test_a_loss_in_a_loop_of_ones_own_teaches_the_label(monkeypatch):
    monkeypatch.chdir(paths.ROOT)
    (source,) = blocks("Use one loss in your own loop")
    assert len(source.splitlines()) < 23
    losses = []
    watched = source.replace("    optimizer.step()\n", "    losses.append(output.loss.item())\n    optimizer.step()\n")
    torch.manual_seed(0)
    exec(watched, {"losses": losses})
    assert len(losses) == 10 and losses[-1] < losses[0]


def test_a_record_is_read_in_plain_python(monkeypatch):
    monkeypatch.chdir(paths.ROOT)
    (source,) = blocks("Read a record")
    exec(source, names := {})
    record = records.read("results/study/a2d/table1.json").by_metric()[0]
    assert names["means"].loc["RMR", "Test"] == pytest.approx(stats.estimate(record, [(1, "RMR", ["Test"])]).mean)


def test_what_to_cite_is_in_the_citation_file():
    stated = (paths.ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Cite\n(.+?)^## ", GUIDE, re.MULTILINE | re.DOTALL)
    title, author, year, version, licence = re.findall(r"= \{+([^{}]+)\}", section)
    assert f'title: "{title}"' in stated and f"name: {author}" in stated and f"date-released: {year}-" in stated
    assert f"version: {version}" in stated and f"license: {licence}" in stated


def test_a_method_is_a_folder_and_a_line(install, monkeypatch, results):
    module, line = blocks("Add a method to notebook 18")
    install("smoothing", module)
    monkeypatch.setattr(comparison, "METHODS", dict(comparison.METHODS))
    exec(line, vars(comparison))
    preset = load_preset("smoke", "imm", methods="Mix Smoothed", seeds=2)
    models = engine.run(comparison.train_readers(preset), preset.engine)
    assert list(models.by_row) == ["Single", "Mix", "Mix, smoothed labels"]
    mix, smoothed = (models.first(row, 0) for row in ("Mix", "Mix, smoothed labels"))
    assert smoothed.key != mix.key and smoothed.result()["best"] >= 0
    mix, smoothed = (models.first(row, 1) for row in ("Mix", "Mix, smoothed labels"))
    assert smoothed.preset.data.draw == mix.preset.data.draw == preset.for_seed(1).data.draw


def test_a_paper_is_a_folder_and_a_line(install, monkeypatch, results):
    card, tables = blocks("Add a paper")
    install("toy", card)
    install("toy.tables", tables)
    monkeypatch.setattr(papers, "PAPER_MODULES", (*papers.PAPER_MODULES, "toy"))
    monkeypatch.setattr(papers, "list_papers", papers.list_papers.__wrapped__)  # without its cache
    paper, notebook = papers.find_paper("50_toy_main")
    preset = load_preset("smoke", paper.key)
    (plan,) = notebook.make_plans(preset).values()
    record = Session(preset, {}, "smoke").save("toy/table1", **engine.run(plan, preset.engine))
    assert record.rows == ["all steps", "half of the steps"] and record.columns == list(preset.data.domains)
    page = report.page("smoke", papers.list_papers()).data
    assert "Nobody 2031: shorter training</h2>" in page and '<a href="https://example.org/toy">The paper</a>' in page
