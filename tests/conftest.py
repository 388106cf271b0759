import contextlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

ROOT = Path(__file__).parents[1]
os.environ.setdefault("HELPERS_RESULTS", str(ROOT / "results"))  # the committed ones, whatever was run here
SHARED = ROOT.parent / "shared"


def benchmark(name: str):
    """A program of benchmarks/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


def write_notebook(path: Path, *sources: str) -> str:
    """A notebook of code cells, the first of them that of the parameters; its path."""
    import nbformat  # here, because a machine with a GPU may lack it

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    notebook.cells[0].metadata.tags = ["parameters"]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return str(path)


def plan_of(*tasks):
    """A plan of tasks alone."""
    yield tasks


def waves_of(plan):
    """All waves of a plan, nothing trained, and what it returns."""
    waves = []
    while True:
        try:
            waves.append(list(next(plan)))
        except StopIteration as stop:
            return waves, stop.value


def are_alike(*logits) -> bool:
    """Whether tensors are equal to rounding.

    Some processors round a sum by where its terms lie in memory, so a model that was saved and loaded again may differ
    in the last bit.
    """
    first, *others = logits
    return all(first.shape == other.shape and torch.allclose(first, other, rtol=0, atol=1e-6) for other in others)


def flip(path: Path) -> None:
    """Turn over a bit near the end of a file."""
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))


def text_of(windows, window: int, first: int, last: int) -> str:
    """Passage text between two positions of a window, both included."""
    chars, shift = windows.rows[window].chars, -windows.passage_start_W[window]
    context = windows.examples[windows.example_W[window]].context
    return context[chars[first + shift][0] : chars[last + shift][1]]


@pytest.fixture(scope="module")
def module_results(tmp_path_factory):
    """A folder of results that all tests of a module share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HELPERS_RESULTS", str(folder := tmp_path_factory.mktemp("results")))
        yield folder


def pytest_collection_modifyitems(session, items):
    """Begin with the file that takes longest, and skip tests of a GPU where there is none."""
    items.sort(key=lambda item: item.path.name != "test_notebooks.py")
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a GPU, and PyTorch sees none"))


@pytest.fixture(scope="session")
def smoke(tmp_path_factory) -> Path:
    """The results of every notebook on preset smoke."""
    folder = tmp_path_factory.mktemp("smoke")
    environment = {**os.environ, "HELPERS_RESULTS": str(folder), "HELPERS_PROCESSES": "2"}
    command = [sys.executable, "-m", "helpers", "run", "--preset", "smoke"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return folder / "smoke"


@pytest.fixture
def shared() -> Path:
    """The folder of real data and models beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("no real data: ../shared is not there")
    return SHARED


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """An empty results folder for this test alone."""
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def disk_of():
    """``with disk_of(size)``: no file can grow beyond ``size`` bytes, as on a full disk."""
    import resource

    @contextlib.contextmanager
    def limited(size: int):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
