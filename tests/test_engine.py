import os
import signal
import subprocess
import sys
import time

import pytest

from helpers import engine, paths
from helpers.papers import imm
from helpers.presets import Engine, load


@pytest.fixture
def preset():
    return load("smoke", seeds=1, **{"data.domains": {"news": "news", "search": "search"}})


def test_trainings_are_cached_and_shared(results, preset):
    tasks = imm.table1_readers(preset)
    engine.run(tasks.values(), preset.engine)
    files = {path: path.stat().st_mtime_ns for path in paths.models("smoke").rglob("model.safetensors")}
    assert len(files) == 3  # two Single, one Mix for both domains
    engine.run(imm.table1_readers(preset).values(), preset.engine)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    result = tasks["Mix", "news", 0].fit()
    assert set(result["f1"]) == {"news", "search"} and len(result["f1"]["news"]) == 12


def test_workers_give_the_scores_of_this_process(results, preset, monkeypatch):
    here = imm.table1_readers(preset)
    engine.run(here.values(), Engine(processes=1, threads=1))
    expected = {key: task.fit()["f1"] for key, task in here.items()}
    monkeypatch.setenv("HELPERS_RESULTS", str(results / "workers"))
    there = imm.table1_readers(preset)
    engine.run(there.values(), Engine(processes=2, threads=1))
    assert all(task.infra.status() == "completed" for task in there.values())
    assert {key: task.fit()["f1"] for key, task in there.items()} == expected


def test_a_setting_that_changes_changes_the_key(results, preset):
    def key(**overrides):
        return imm.reader(load("smoke", **overrides), "Single", ["news"], 0).infra.uid()

    same = key()
    assert key() == same == key(**{"training.checkpoint_minutes": 1.0}) == key(**{"engine.threads": 2})
    different = [
        key(**{"training.epochs": 2.0}),
        key(**{"windows.stride": 16}),
        key(**{"data.train_size": 20}),
        key(random_layers=2),
    ]
    assert len({same, *different}) == 5


def test_one_failure_does_not_stop_the_others(results, preset, monkeypatch):
    tasks = imm.table1_readers(preset)

    def refuse(*arguments, **settings):
        raise RuntimeError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(imm, "save_reader", refuse)
        with pytest.raises(
            engine.TrainingsFailed, match=r"2 of 2 trainings failed:\n  Single, news, seed 0: .*no disk"
        ):
            engine.run([tasks["Single", name, 0] for name in ("news", "search")], Engine(processes=1))
    engine.run(imm.table1_readers(preset).values(), Engine(processes=1))  # errors are tried again
    assert all(task.infra.status() == "completed" for task in tasks.values())


DRIVER = """
from helpers import engine
from helpers.papers import imm
from helpers.presets import Engine, load
if __name__ == "__main__":
    preset = load("smoke", **{"training.epochs": 4000.0})
    print("started", flush=True)
    engine.run(imm.table1_readers(preset).values(), Engine(processes=2, threads=1))
"""


def test_workers_end_with_a_killed_driver(results):
    environment = {**os.environ, "HELPERS_MARK": str(os.getpid())}
    process = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "started\n"
    deadline = time.time() + 60
    while len(marked(environment["HELPERS_MARK"])) < 4 and time.time() < deadline:
        time.sleep(0.2)
    assert len(marked(environment["HELPERS_MARK"])) >= 4  # driver, fork server, two workers
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while marked(environment["HELPERS_MARK"]) and time.time() < deadline:
        time.sleep(0.2)
    assert not marked(environment["HELPERS_MARK"])


def marked(value):
    """Processes that carry the mark in their environment (Linux)."""
    found = []
    for folder in paths.Path("/proc").glob("[0-9]*"):
        try:
            if f"HELPERS_MARK={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
