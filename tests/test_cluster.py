"""Tasks on Ray: three nodes of a cluster, all on this machine."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from helpers import cluster, engine, paths
from helpers.papers.imm import algorithm
from helpers.presets.load import load_preset
from helpers.presets.schema import EngineSettings

ray = pytest.importorskip("ray", reason="ray is not installed: pip install ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = pytest.mark.slow

MEMORY = 80_000_000  # bytes of a node's store
ATTENTIVE = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 10}
HERE = EngineSettings(processes=1, threads=1)
LONG = {"training.epochs": 12.0}


@pytest.fixture(scope="module")
def nodes():
    node = {"num_cpus": 1, "object_store_memory": MEMORY}
    started = cluster_utils.Cluster(initialize_head=True, head_node_args={**node, "_system_config": ATTENTIVE})
    for _ in range(2):
        started.add_node(**node)
    yield started
    ray.shutdown()
    started.shutdown()


def smoke(**settings):
    return load_preset("smoke", "imm", **{"data.domains": {"news": "news", "encyclopedia": "encyclopedia"}, **settings})


def on(nodes, **settings):
    return EngineSettings(kind="ray", address=nodes.address, threads=1, **settings)


def trained(settings, **changes):
    """Algorithm 1 after one round: the digests of all files that its tasks left, by key."""
    preset = smoke(**changes)
    plans = [algorithm.algorithm1(preset, 0, preset.imm, 1) for _ in range(2)]
    engine.run(plans[0], settings)
    return {key: task.result()["files"] for key, task in engine.Schedule({0: plans[1]}).tasks.items()}


def files(results):
    return {path.relative_to(results).as_posix() for path in results.rglob("*") if path.is_file()}


def done(results):
    return {path: path.stat().st_mtime_ns for path in results.rglob("result.json")}


def wait_for_first(results):
    deadline = time.time() + 120
    while not done(results) and time.time() < deadline:
        time.sleep(0.05)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "nowhere.invalid:6379"])
def test_an_address_where_nobody_answers_is_named(results, address):
    with pytest.raises(cluster.ClusterError, match=f"no Ray answers at engine.address = '{address}'; give HOST:PORT"):
        trained(EngineSettings(kind="ray", address=address))


def test_results_are_those_of_this_machine_to_the_last_digit(nodes, results, monkeypatch):
    there = trained(on(nodes))
    left = files(results)
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("here")))
    assert trained(HERE) == there and len(there) == 4 * 2 + 2
    assert files(results.with_name("here")) == left


def test_a_node_with_another_version_or_without_the_folder_is_named(results, monkeypatch):
    single = algorithm.name_single_readers(smoke(), 0)["news"]
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(cluster.ClusterError, match=r"no folder .*; mount the results there on all nodes"):
        cluster.do_on_node(engine.do_there, single, single.key, 1, str(results))
    results.mkdir()
    with pytest.raises(cluster.ClusterError, match="has another version of this package"):
        cluster.do_on_node(engine.do_there, single, "another", 1, str(results))
    assert not files(results)


def test_nodes_that_die_in_the_middle_are_done_without(nodes, results, monkeypatch):
    first = {}

    def end_two():
        wait_for_first(results)
        first.update(done(results))
        for node in list(nodes.worker_nodes):
            nodes.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=end_two)
    thread.start()
    try:
        there = trained(on(nodes), **LONG)
        thread.join()
        assert not nodes.worker_nodes and 0 < len(first) < len(there)
    finally:
        for _ in range(2 - len(nodes.worker_nodes)):
            nodes.add_node(num_cpus=1, object_store_memory=MEMORY)
    assert first.items() <= done(results).items()  # what was done is not done again
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("here")))
    assert trained(HERE, **LONG) == there


DRIVER = """
import sys, test_cluster
from helpers.presets.schema import EngineSettings
if __name__ == "__main__":
    settings = EngineSettings(kind="ray", address=sys.argv[1], threads=1, processes=1)
    print("started", flush=True)
    print(test_cluster.trained(settings, **test_cluster.LONG), flush=True)
"""


def start(nodes, results):
    path = os.pathsep.join([str(paths.ROOT), str(paths.ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "HELPERS_RESULTS": str(results), "PYTHONPATH": path}
    command = [sys.executable, "-c", DRIVER, nodes.address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "started\n"
    return process


def test_a_killed_run_is_gone_on_with_by_two_at_once(nodes, results, monkeypatch):
    killed = start(nodes, results)
    wait_for_first(results)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    finished = done(results)
    assert 0 < len(finished) < 8
    other = start(nodes, results)
    here = trained(on(nodes, processes=1), **LONG)
    printed, _ = other.communicate(timeout=120)
    assert printed == f"{here}\n" and len(here) == 4 * 2 + 2
    assert finished.items() <= done(results).items()
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("here")))
    assert trained(HERE, **LONG) == here
