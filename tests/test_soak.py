"""What the soak run kills, and how it chooses."""

import random
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest
from conftest import benchmark


@pytest.fixture
def soak(monkeypatch):
    from conftest import ROOT

    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return benchmark("soak")


RUN = """
import subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(60)"]
subprocess.Popen([*child, "ipykernel"])
server = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", server, *child, "multiprocessing.forkserver"])
time.sleep(60)
"""


@pytest.fixture
def run(soak):
    """A process with a child called a kernel, and one called a fork server that has a worker."""
    process = subprocess.Popen([sys.executable, "-c", RUN])
    deadline = time.monotonic() + 20
    while len(soak.processes_of(process).get("run with all its processes", [])) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    yield process
    soak.end(process, whole=True)


def test_processes_of_a_run_by_kind(soak, run):
    processes = soak.processes_of(run)
    assert {kind: len(of_kind) for kind, of_kind in processes.items()} == {
        "run": 1,
        "worker": 1,
        "kernel": 1,
        "run with all its processes": 4,
    }
    assert processes["worker"][0].parent().parent() == processes["run"][0]


def test_kinds_are_killed_in_turns(soak, run):
    counts = Counter({"kills of a run": 1, "kills of a worker": 1, "kills of a run with all its processes": 1})
    kernel = soak.processes_of(run)["kernel"][0]
    assert soak.kill([run], counts, random.Random(0)) and counts["kills of a kernel"] == 1
    psutil.wait_procs([kernel], timeout=10)
    assert run.poll() is None and "kernel" not in soak.processes_of(run)


def test_processes_that_outlive_a_run_are_counted_and_ended(soak, run, monkeypatch):
    monkeypatch.setattr(soak, "PATIENCE", 0.2)
    others = soak.processes_of(run)["run with all its processes"]
    assert soak.end(run) == 3
    assert not psutil.wait_procs(others, timeout=10)[1] and not soak.kill([run], Counter(), random.Random(0))
