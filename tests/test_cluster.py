"""Trainings on Ray: three nodes of a cluster, all on this machine, that share no folder or do."""

import os
import signal
import subprocess
import sys
import time

import pytest
import test_engine

from helpers import paths
from helpers.papers.imm import algorithm
from helpers.papers.imm.trainings import TeacherLogits
from helpers.presets.load import load
from helpers.presets.schema import EngineSettings
from helpers.training import engine

ray = pytest.importorskip("ray", reason="ray is not installed: pip install ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = pytest.mark.slow

MEMORY = 80_000_000  # bytes of a node's store
LONG = {"training.epochs": 40.0, "training.checkpoint_minutes": 0.0}


@pytest.fixture(scope="module")
def nodes():
    node = {"num_cpus": 1, "object_store_memory": MEMORY}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=node)
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


@pytest.mark.parametrize("shared", [True, False], ids=["one folder", "folders of their own"])
def test_trainings_are_those_of_this_machine_to_the_last_digit(nodes, results, monkeypatch, shared):
    there = trained(on(nodes, shared=shared))
    left = files(results)
    monkeypatch.setenv("HELPERS_RESULTS", str(results.with_name("here")))
    assert trained(EngineSettings(processes=1, threads=1)) == there and len(there) == 4 * 2
    assert files(results.with_name("here")) == left
