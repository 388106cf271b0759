import contextlib
import json
import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"


def waves_of(plan):
    """All waves of a plan, nothing trained, and what it returns."""
    waves = []
    while True:
        try:
            waves.append(list(next(plan)))
        except StopIteration as stop:
            return waves, stop.value


def write_squad(path: Path, examples) -> None:
    """Questions with an answer each as a SQuAD file."""
    paragraphs = [
        {"context": e.context, "qas": [{"id": e.id, "question": e.question, "answers": [answer_of(e)]}]}
        for e in examples
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))


def answer_of(example) -> dict:
    return {"text": example.answers[0], "answer_start": example.span[0]}


def text_of(windows, window: int, first: int, last: int) -> str:
    """Passage text between two positions of a window, both included."""
    chars = windows.context_chars[windows.second_text_W[window]]
    shift = windows.first_W[window] - windows.prefix_W[window]
    context = windows.examples[windows.example_W[window]].context
    return context[chars[first + shift][0] : chars[last + shift][1]]


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
