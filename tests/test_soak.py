"""What the soak run kills, and how it chooses."""

import random
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest
from conftest import ROOT, benchmark


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return benchmark("soak")


RUN = """
import subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(60)"]
server = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:])"
server += "; subprocess.Popen(sys.argv[1:], start_new_session=True); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", server, *child, "multiprocessing.forkserver"])
time.sleep(60)
"""


def test_kinds_of_processes_are_killed_in_turns_and_those_that_outlive_a_run_are_ended(soak, monkeypatch):
    """A process has a child called a fork server, which has a worker, and a kernel with a session of its own."""
    monkeypatch.setattr(soak, "PATIENCE", 0.2)
    run, whole = subprocess.Popen([sys.executable, "-c", RUN]), "run with all its processes"
    deadline = time.monotonic() + 20
    try:
        while len(soak.processes_of(run).get(whole, [])) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        processes = soak.processes_of(run)
        counts = {kind: len(of_kind) for kind, of_kind in processes.items()}
        assert counts == {"run": 1, "worker": 1, "kernel": 1, whole: 4}
        assert processes["worker"][0].parent().parent() == processes["run"][0]
        kills = Counter({"kills of a run": 1, "kills of a worker": 1, f"kills of a {whole}": 1})
        assert soak.kill([run], kills, random.Random(0)) and kills["kills of a kernel"] == 1
        psutil.wait_procs(processes["kernel"], timeout=10)
        assert run.poll() is None and "kernel" not in soak.processes_of(run)
        assert soak.end(run) == 2 and not psutil.wait_procs(processes[whole], timeout=10)[1]
        assert not soak.kill([run], Counter(), random.Random(0))
    finally:
        soak.end(run, whole=True)
