"""The rooms of the package: who may import whom, the papers' shape, and a sixth paper."""

import ast
import sys
from collections import defaultdict

import pytest
from IPython.display import HTML

from helpers import papers, paths
from helpers.results import provenance, records, report

ROOMS = ("presets", "data", "batches", "models", "training", "tasks", "results", "papers", "notebooks")
OUTSIDE = ("helpers", "helpers.paths", "helpers.files", "helpers.errors")  # which every room may import
FILES = sorted(paths.PACKAGE.rglob("*.py"))


def module_of(path):
    return ".".join(path.relative_to(paths.ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports():
    """Every module and what of the package it imports anywhere, modules by their full names."""
    modules = {module_of(path) for path in FILES}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("helpers"):
                assert not node.level, f"{path.name}: import by the whole name"
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield module_of(path), inner if inner in modules else node.module


def room_of(module):
    parts = module.split(".")
    return ROOMS.index(parts[1]) if len(parts) > 1 and parts[1] in ROOMS else None


def test_imports_go_one_way():
    for module, imported in imports():
        if module in OUTSIDE[1:]:
            assert room_of(imported) is None, f"{module} imports {imported}"
        elif room_of(module) is not None:
            known = room_of(imported)
            below = known is not None and known <= room_of(module)
            assert below or imported in OUTSIDE, f"{module} imports {imported}"


def test_no_circle():
    graph = defaultdict(set)
    for module, imported in imports():
        if imported != module:
            graph[module].add(imported)
    graph["helpers.papers"].clear()  # names its modules in a list
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path, module])
        if module not in done:
            path.append(module)
            for imported in sorted(graph[module]):
                visit(imported)
            path.pop()
            done.add(module)

    for module in sorted(graph):
        visit(module)


def test_modules_are_short():
    assert {path.name: n for path in FILES if (n := len(path.read_text().splitlines())) > 260} == {}


def test_papers_have_the_same_files():
    for paper in papers.ALL[1:]:
        folder = paths.PACKAGE / "papers" / paper.key
        more = {"own.py"} if paper.own_domains else set()
        more |= {"ablations.py"} & {path.name for path in folder.iterdir()}  # where these are too much for two files
        files = sorted({"__init__.py", "algorithm.py", "tables.py", "trainings.py"} | more)
        assert sorted(path.name for path in folder.glob("*.py")) == files


def test_general_modules_know_no_paper_by_name():
    keys = [paper.key for paper in papers.ALL[1:]]
    for module, imported in imports():
        for key in keys:
            assert not imported.startswith(f"helpers.papers.{key}") or module.startswith(f"helpers.papers.{key}")
    for path in FILES:
        own = path.is_relative_to(paths.PACKAGE / "papers") or path.is_relative_to(paths.PRESETS)
        if own or path.stem in ("__main__",):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in keys:
                pytest.fail(f"{path.name}, line {node.lineno}: names the paper {node.value!r}")


TOY = """
from helpers.papers.card import Artefact, Notebook, Paper

CARD = Paper(
    key="toy",
    title="Nobody 2031: a toy",
    reference="https://example.org/toy",
    artefacts=(Artefact("table2", "Toy, Table 2"), Artefact("table1", "Toy, Table 1")),
    notebooks=(Notebook("50_toy_main", ("seeds",)),),
)
"""


def test_a_sixth_paper_is_its_folder_and_a_line(results, tmp_path, monkeypatch):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/__init__.py").write_text(TOY)
    monkeypatch.setattr(papers, "__path__", [*papers.__path__, str(tmp_path)])
    monkeypatch.setattr(papers, "ALL", [*papers.ALL, papers.load("toy")])  # the line
    monkeypatch.delitem(sys.modules, "helpers.papers.toy")
    assert papers.card_of("50_toy_main")[0].title == "Nobody 2031: a toy" and papers.parameters()["seeds"] == "seeds"
    run = provenance.run_info({}, 0.0, provenance.Code("0", False))
    for name in ("toy/table1", "toy/table2", "imm/table1", "corpora/other"):
        score = records.Score(method="A", column="x", seed=0, value=12.3)
        parts = {"title": name, "unit": "F1", **papers.artefact(name)}
        records.write(records.Record(artefact=name, preset="smoke", scores=[score], run=run, **parts))
    page = report.page("smoke", papers.ALL)
    assert isinstance(page, HTML)
    places = [page.data.index(text) for text in ("corpora-other", "imm-table1", "toy-table2", "toy-table1")]
    assert places == sorted(places)
    assert 'Nobody 2031: a toy <a href="https://example.org/toy">paper</a>' in page.data and "Toy, Table 2" in page.data
