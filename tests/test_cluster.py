"""Trainings on Ray: three nodes of a cluster, all on this machine, that share no folder or do."""

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import flip

from helpers import paths
from helpers.papers.imm import algorithm
from helpers.presets.load import load
from helpers.presets.schema import EngineSettings
from helpers.training import cluster, engine, once

ray = pytest.importorskip("ray", reason="ray is not installed: pip install ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = pytest.mark.slow

MEMORY = 80_000_000  # bytes of a node's store
ATTENTIVE = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 10}
LONG = {"training.epochs": 12.0}


@pytest.fixture(scope="module")
def nodes():
    node = {"num_cpus": 1, "object_store_memory": MEMORY}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**node, "_system_config": ATTENTIVE})
    for _ in range(2):
        cluster.add_node(**node)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def smoke(**settings):
    return load("smoke", "imm", **{"data.domains": {"news": "news", "encyclopedia": "encyclopedia"}, **settings})


def on(cluster, **settings):
    return EngineSettings(kind="ray", address=cluster.address, threads=1, **settings)


def trained(settings, **changes):
    """Algorithm 1 after one round: digests of all its weights, and results of what was stored, by key."""
    preset = smoke(**changes)
    outcome = engine.run_plans({0: algorithm.algorithm1(preset, 0, preset.imm, 1)}, settings)[0]
    return {task.key: task.result().get("weights", task.result().get("windows")) for task in outcome.tasks}


def files(results):
    return {path.relative_to(results).as_posix() for path in results.rglob("*") if path.is_file()}


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "nowhere.invalid:6379"])
def test_an_address_where_nobody_answers_is_named(results, address):
    with pytest.raises(cluster.ClusterError, match=f"no Ray answers at engine.address = '{address}'; give HOST:PORT"):
        trained(EngineSettings(kind="ray", address=address))


@pytest.mark.parametrize("shared", [True, False], ids=["one folder", "folders of their own"])
def test_trainings_are_those_of_this_machine_to_the_last_digit(nodes, results, monkeypatch, shared):
    there = trained(on(nodes, shared=shared))
    left = files(results)
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("here")))
    assert trained(EngineSettings(processes=1, threads=1)) == there and len(there) == 4 * 2
    assert files(results.with_name("here")) == left


def test_what_comes_back_is_checked_and_a_failure_stops_nothing_else(nodes, results, monkeypatch):
    news, encyclopedia = algorithm.singles(smoke(), 0).values()
    other = algorithm.reader(news, "of nobody", ["news"], ["news"], start="nobody")
    monkeypatch.setattr(cluster, "_unpack", spoil(cluster._unpack, encyclopedia.folder()))
    with pytest.raises(engine.TrainingsFailed, match="2 of 3 trainings failed") as error:
        engine.run([other, news, encyclopedia], on(nodes, shared=False))
    assert "of nobody, seed 0: EncoderError" in str(error.value) and "model.safetensors is damaged" in str(error.value)
    assert [once.is_done(task) for task in (other, news, encyclopedia)] == [False, True, False]
    monkeypatch.undo()
    monkeypatch.setenv("HELPERS_RESULTS", str(results))
    engine.run([encyclopedia], on(nodes, shared=False))
    assert once.is_done(encyclopedia)


def test_a_node_with_another_version_is_named(results, monkeypatch):
    single = algorithm.singles(smoke(), 0)["news"]
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for error in (
        cluster._fit_in_place(single, f"{single.key}, of version 1", str(results), 1, False),
        cluster._fit_apart(single, f"{single.key}, of version 1", 1, []),
    ):
        assert isinstance(error, cluster.ClusterError) and "has another version of this package" in str(error)
    assert not files(results)


def spoil(unpack, folder):
    """``unpack``, and a byte of the model in ``folder`` another one."""

    def unpacked(files, into):
        unpack(files, into)
        if into == folder.parent:
            flip(folder / "model.safetensors")

    return unpacked


@pytest.mark.parametrize("shared", [True, False], ids=["one folder", "folders of their own"])
def test_nodes_that_die_in_the_middle_are_done_without(nodes, results, monkeypatch, shared):
    preset, ended = smoke(**LONG), []
    tasks = [task for seed in range(2) for task in algorithm.singles(preset, seed).values()]

    def end_two(task):
        ended.append((task.infra.uid_folder() / "job.pkl").stat().st_mtime_ns)
        if len(ended) == 1:
            assert len(nodes.worker_nodes) == 2
            for node in list(nodes.worker_nodes):
                nodes.remove_node(node, allow_graceful=False)

    try:
        engine.run(tasks, on(nodes, shared=shared), after=end_two)
        assert not nodes.worker_nodes and len(ended) == len(tasks) == 4
    finally:
        for _ in range(2 - len(nodes.worker_nodes)):
            nodes.add_node(num_cpus=1, object_store_memory=MEMORY)
    left = [(task.infra.uid_folder() / "job.pkl").stat().st_mtime_ns for task in tasks]
    assert ended[0] in left  # what was done is not done again
    there = [task.result()["weights"] for task in tasks]
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("here")))
    here = [task for seed in range(2) for task in algorithm.singles(preset, seed).values()]
    engine.run(here, EngineSettings(processes=1, threads=1))
    assert [task.result()["weights"] for task in here] == there


DRIVER = """
import sys, test_cluster
from helpers.presets.schema import EngineSettings
if __name__ == "__main__":
    settings = EngineSettings(kind="ray", address=sys.argv[1], threads=1, processes=1, shared=sys.argv[2] == "True")
    print("started", flush=True)
    print(test_cluster.trained(settings, **test_cluster.LONG), flush=True)
"""


def start(nodes, results, shared):
    path = os.pathsep.join(map(str, (paths.ROOT, paths.ROOT / "tests")))
    environment = {**os.environ, "HELPERS_RESULTS": str(results), "PYTHONPATH": path}
    command = [sys.executable, "-c", DRIVER, nodes.address, str(shared)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "started\n"
    return process


def done(results):
    return {path: path.stat().st_mtime_ns for path in results.rglob("files.json")}


@pytest.mark.parametrize("shared", [True, False], ids=["one folder", "folders of their own"])
def test_a_killed_run_is_gone_on_with_by_two_at_once(nodes, results, monkeypatch, shared):
    first, deadline = start(nodes, results, shared), time.time() + 60
    while not done(results) and time.time() < deadline:
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    finished = done(results)
    assert 0 < len(finished) < 8
    other = start(nodes, results, shared)
    here = trained(on(nodes, shared=shared, processes=1), **LONG)
    said, _ = other.communicate(timeout=60)
    assert said == f"{here}\n" and len(here) == 8
    assert {path: time for path, time in done(results).items() if path in finished} == finished
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("here")))
    assert trained(EngineSettings(processes=1, threads=1), **LONG) == here
