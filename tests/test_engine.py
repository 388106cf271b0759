import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import exca
import pytest
import torch
from conftest import single_and_both, two_domains

from helpers import paths
from helpers.errors import UserError
from helpers.papers.imm import algorithm
from helpers.presets.load import load
from helpers.presets.schema import EngineSettings
from helpers.training import cached, engine, local, once


@pytest.fixture
def preset():
    return two_domains()


def run(preset, **settings):
    found = single_and_both(preset)
    engine.run(found, EngineSettings(threads=1, **settings))
    return found


def test_trainings_are_cached_and_shared(results, preset):
    run(preset, processes=1)
    files = {path: path.stat().st_mtime_ns for path in paths.models("smoke").rglob("model.safetensors")}
    assert len(files) == 3
    *_, both = run(preset, processes=1)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert both.target == ["news", "encyclopedia"] and both.result()["steps"] == both.steps


def test_trainings_that_run_at_once_share_the_cores(monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: 8)
    share, two, fixed = EngineSettings(threads=0), EngineSettings(threads=0, processes=2), EngineSettings(threads=3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert [local.processes(each) for each in (share, two, fixed)] == [8, 2, 2]
    assert [local.threads(share, at_once) for at_once in (1, 3, 20)] == [8, 2, 1]
    assert [local.threads(two, at_once) for at_once in (1, 3, 20)] == [8, 4, 4]
    assert [local.threads(fixed, at_once) for at_once in (1, 20)] == [3, 3]


def test_one_of_several_processes_begins_no_task(results, preset, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(UserError, match="this is one of 2 processes"):
        run(preset)
    assert not list(results.rglob("job.pkl"))


def test_workers_train_with_their_share_of_the_threads(results, preset, monkeypatch):
    monkeypatch.setattr(local, "cores", lambda: 4)
    monkeypatch.setattr(once, "fit", lambda task, wait: torch.get_num_threads())
    monkeypatch.setattr(local, "_pool", lambda workers, device: ThreadPoolExecutor(1))  # which sees these
    before = torch.get_num_threads()
    start, (task, *_) = local.starter(EngineSettings(threads=0)), single_and_both(preset)
    assert [start(task, True, at_once).result() for at_once in (2, 3, 1)] == [2, 1, 4]
    torch.set_num_threads(before)


def test_a_result_is_read_without_a_look_at_the_configuration(results, preset, monkeypatch):
    run(preset, processes=1)

    def refuse(*arguments, **settings):
        raise AssertionError("this takes 30 ms a training")

    monkeypatch.setattr(exca.TaskInfra, "_check_configs", refuse)
    assert [task.result()["steps"] for task in single_and_both(preset)] == [
        task.steps for task in single_and_both(preset)
    ]


def test_workers_give_the_scores_of_this_process(results, preset, monkeypatch):
    expected = [(task.result()["weights"], task.result()["validation"]) for task in run(preset, processes=1)]
    monkeypatch.setenv("HELPERS_RESULTS", str(results / "workers"))
    there = run(preset, processes=2)
    assert all(task.infra.status() == "completed" for task in there)
    assert [(task.result()["weights"], task.result()["validation"]) for task in there] == expected


def test_a_setting_that_changes_changes_the_key(results, preset):
    def key(**overrides):
        return algorithm.singles(load("smoke", "imm", **overrides), 0)["news"].key

    same = key()
    assert key() == same == key(**{"training.checkpoint_minutes": 1.0}) == key(**{"engine.threads": 2})
    engines = [{"engine.kind": "ray", "engine.gpus": 0.5}, {"engine.address": "a:1", "engine.shared": False}]
    assert {key(**settings) for settings in engines} == {same}
    assert key(**{"imm.rounds": 2}) == key(**{"imm.kd_space": "logits"}) == same  # of no concern to a Single reader
    different = [
        key(**{"training.epochs": 2.0}),
        key(**{"windows.stride": 16}),
        key(**{"data.train_size": 20}),
        key(random_layers=2),
    ]
    assert len({same, *different}) == 5


def test_ray_that_is_not_there_is_one_sentence(results, preset, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "helpers.training.cluster", raising=False)
    with pytest.raises(UserError, match="'ray', which is not installed: pip install ray, or set it to 'local'"):
        run(preset, kind="ray")
    monkeypatch.delitem(sys.modules, "helpers.training.cluster", raising=False)
    run(preset, processes=1)
    run(preset, kind="ray")  # nothing is left, so nobody is asked


def test_one_failure_does_not_stop_the_others(results, preset, monkeypatch):
    def refuse(*arguments, **settings):
        raise RuntimeError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(cached, "save_encoder", refuse)
        with pytest.raises(
            engine.TrainingsFailed, match=r"3 of 3 trainings failed:\n  Single, news, seed 0: .*no disk"
        ):
            run(preset, processes=1)
    assert all(task.infra.status() == "completed" for task in run(preset, processes=1))  # errors are tried again


def test_plans_go_side_by_side_and_a_replay_stops_where_it_is_not_done(results, preset):
    singles = algorithm.singles(preset, 0)
    waves = []

    def plan(name, more):
        yield [singles[name]]
        waves.append((name, singles[name].result()["steps"]))
        if more:
            yield [algorithm.reader(singles[name], "more", [name], [name], start=singles[name].key)]
        return name.upper()

    assert engine.replay(plan("news", True)) == (None, [singles["news"]])
    outcomes = engine.run_plans(
        {1: plan("news", True), 2: plan("encyclopedia", False)}, EngineSettings(processes=1, threads=1)
    )
    assert [outcomes[number].value for number in (1, 2)] == ["NEWS", "ENCYCLOPEDIA"]
    assert [len(outcomes[number].tasks) for number in (1, 2)] == [2, 1] and waves[0][1] == singles["news"].steps
    assert engine.replay(plan("news", True)).value == "NEWS"


@pytest.mark.slow
def test_workers_that_died_are_replaced(results, preset):
    run(preset, processes=2)
    pool = local._pool(2)
    for process in list(pool._processes.values()):
        process.kill()
    other = load("smoke", "imm", seeds=1, **{"data.domains": preset.data.domains, "training.epochs": 2.0})
    with contextlib.suppress(engine.TrainingsFailed):  # noticed before the wave or in it
        run(other, processes=2)
    assert all(task.infra.status() == "completed" for task in run(other, processes=2))


@pytest.mark.skipif(sys.platform == "win32", reason="no limit to the size of a file")
def test_a_full_disk_while_a_reader_is_saved_is_named_and_loses_nothing(results, preset, disk_of):
    here = EngineSettings(processes=1, threads=1)
    one, other = algorithm.singles(preset, 0).values()
    engine.run([one], here)
    with disk_of(50_000), pytest.raises(engine.TrainingsFailed, match=r"1 of 2 trainings failed") as error:
        engine.run([one, other], here)
    assert "File too large" in str(error.value)  # what the limit is called
    assert one.infra.status() == "completed" != other.infra.status()
    engine.run(algorithm.singles(preset, 0).values(), here)
    assert all(single.infra.status() == "completed" for single in algorithm.singles(preset, 0).values())


DRIVER = """
import test_engine
if __name__ == "__main__":
    print("started", flush=True)
    print(test_engine.weights_of(processes=2), flush=True)
"""


def weights_of(processes, minutes=0.0):
    """The readers of Algorithm 1 after one round, by digests of their weights; stored at every step, or so many minutes
    apart."""
    domains = {"news": "news", "encyclopedia": "encyclopedia"}
    settings = {"training.epochs": 3.0, "training.checkpoint_minutes": minutes, "data.domains": domains}
    preset = load("smoke", "imm", **settings)
    plan = algorithm.algorithm1(preset, 0, preset.imm, 1)
    outcome = engine.run_plans({"IMM": plan}, EngineSettings(processes=processes, threads=1))["IMM"]
    return {domain: reader.result()["weights"] for domain, reader in outcome.value.theta[-1].items()}


def start(results, mark):
    environment = {**os.environ, "HELPERS_MARK": mark, "HELPERS_RESULTS": str(results)}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (paths.ROOT, paths.ROOT / "tests")))
    return subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.skipif(not paths.Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_killed_run_leaves_no_process_and_two_at_once_go_on_to_the_same_scores(results, monkeypatch):
    mark = f"{os.getpid()}-{time.time()}"
    process, deadline = start(results, mark), time.time() + 120
    assert process.stdout.readline() == "started\n"
    before = []
    while len(stored(results)) < 2 and time.time() < deadline:
        before = marked(mark)
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in results.rglob("files.json")}
    assert len(before) >= 4  # driver, fork server, two workers
    while marked(mark) and time.time() < deadline:
        time.sleep(0.1)
    assert not marked(mark)
    assert stored(results)  # it had not finished
    other = start(results, mark)
    assert other.stdout.readline() == "started\n"
    here = weights_of(processes=1)
    said, _ = other.communicate(timeout=200)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished  # none was trained again
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("straight")))
    assert list(here) == ["news", "encyclopedia"] and said == f"{here}\n"
    assert weights_of(processes=1, minutes=60.0) == here


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


def test_waiting_threads_sleep_in_this_process_and_in_workers():
    code = (
        "import helpers.training.local as local, os\n"
        "print(local._pool(1).submit(os.getenv, 'OMP_WAIT_POLICY').result())"
    )
    unset = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "KMP_BLOCKTIME")}
    shown = {**unset, "OMP_DISPLAY_ENV": "TRUE"}  # the runtime then says what it goes by, once it is loaded
    done = subprocess.run([sys.executable, "-c", code], env=shown, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "PASSIVE"
    policies = [line for line in done.stderr.splitlines() if "OMP_WAIT_POLICY" in line]
    assert all("PASSIVE" in line for line in policies)
    if sys.platform == "linux":
        assert policies
    kept = subprocess.run(
        [sys.executable, "-c", "import helpers, os; print(os.environ['OMP_WAIT_POLICY'])"],
        env={**unset, "OMP_WAIT_POLICY": "ACTIVE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert kept.stdout.strip() == "ACTIVE"  # who sets it means it
