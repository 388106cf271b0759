"""The layers of the package: who may import whom."""

import ast
import subprocess
import sys
from collections import defaultdict
from graphlib import TopologicalSorter

import pytest

from helpers import papers, paths

# A module imports from its own layer and from those before it.
LAYERS = (
    ("errors", "files", "paths"),
    ("presets",),
    ("data",),
    ("sequences", "batches", "mixtures", "pairs"),
    ("models",),
    ("metrics",),
    ("task", "engine", "mps", "cluster", "loop", "graphs", "training", "progress"),
    ("extractive_qa", "answering", "classification"),
    ("records", "results"),
    ("papers",),
    ("notebooks",),
    ("__main__", "__init__"),
)
FILES = sorted(paths.PACKAGE.rglob("*.py"))


def module_of(path):
    return ".".join(path.relative_to(paths.ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports():
    """Yield every module with each module of the package that it imports anywhere."""
    modules = {module_of(path) for path in FILES}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("helpers")):
                assert not node.level, f"{path.name}: import by the whole name"
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield module_of(path), inner if inner in modules else node.module


def layer_of(module):
    name = (*module.split("."), "__init__")[1]
    (layer,) = [number for number, layer in enumerate(LAYERS) if name in layer]
    return layer


def test_imports_go_one_way():
    for module, imported in imports():
        if imported != "helpers":
            assert layer_of(imported) <= layer_of(module), f"{module} imports {imported}"


def test_no_circle():
    graph = defaultdict(set)
    for module, imported in imports():
        if module != "helpers":  # which imports the reader when it is asked for
            graph[module].add(imported)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("name", ["helpers", "helpers.data.questions", "helpers.__main__"])
def test_imports_are_light(name):
    slow = {"torch", "transformers", "datasets", "sklearn", "scipy", "pyarrow", "pandas"}
    code = f"import sys, {name}; print({slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_nothing_below_the_papers_names_one():
    keys = {paper.key for paper in papers.list_papers()[1:]}
    for path in FILES:
        if path.is_relative_to(paths.PACKAGE / "papers") or path.is_relative_to(paths.PRESETS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in keys:
                pytest.fail(f"{path.name}, line {node.lineno}: names the paper {node.value!r}")
