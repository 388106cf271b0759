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
    domains = {"news": "news", "search": "search"}
    settings = {"training.epochs": 40.0, "training.checkpoint_minutes": 0.0, "data.domains": domains, "seeds": 1}
    preset = load("smoke", **settings)
    print("started", flush=True)
    engine.run(imm.table1_readers(preset).values(), Engine(processes=2, threads=1))
    print(sorted((key, task.fit()["f1"]) for key, task in imm.table1_readers(preset).items()), flush=True)
"""


def start(results, mark):
    environment = {**os.environ, "HELPERS_MARK": mark, "HELPERS_RESULTS": str(results)}
    return subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.skipif(not paths.Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_killed_run_leaves_no_process_and_goes_on_to_the_same_scores(results):
    mark = f"{os.getpid()}-{time.time()}"
    process, deadline = start(results, mark), time.time() + 120
    assert process.stdout.readline() == "started\n"
    while len(stored(results)) < 2 and time.time() < deadline:
        time.sleep(0.02)
    before = marked(mark)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(before) >= 4  # driver, fork server, two workers
    while marked(mark) and time.time() < deadline:
        time.sleep(0.1)
    assert not marked(mark)
    assert stored(results)  # it had not finished
    again, straight = start(results, mark), start(results / "straight", mark)
    first, second = (run.communicate(timeout=200)[0] for run in (again, straight))
    assert first == second and "news" in first


def stored(results):
    return list(results.rglob("checkpoint.safetensors"))


def marked(value):
    """Processes that carry the mark in their environment."""
    found = []
    for folder in paths.Path("/proc").glob("[0-9]*"):
        try:
            if f"HELPERS_MARK={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
