"""NVIDIA's MPS, with a stand-in for its program: started, stopped, and ended with a run that is killed."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from helpers import engine, mps
from helpers.presets.schema import EngineSettings

CONTROL = """#!/bin/sh
# As NVIDIA's: -f serves until it is told to quit, else a command comes in; both meet in the folder of the pipes.
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
    echo $$ >control
    while [ ! -e quit ]; do sleep 0.05; done
    exit
fi
[ -e control ] || exit 1
read command rest
if [ "$command" = quit ]; then touch quit; else cat users 2>/dev/null; true; fi
"""
USE = "import os; open(os.environ['CUDA_MPS_PIPE_DIRECTORY'] + '/users', 'w').write('1')"


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    """Install the stand-in, under which the probe succeeds as on a GPU."""
    (tmp_path / "bin").mkdir()
    file = tmp_path / "bin" / mps.CONTROL
    file.write_text(CONTROL)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(mps.tempfile, "tempdir", None)
    monkeypatch.delenv(mps.PIPES, raising=False)
    monkeypatch.setattr(mps, "PROBE", USE)
    yield file
    mps.stop()


def number_of(folder):
    with open(f"{folder}/control") as file:
        return int(file.read())


def is_running(number):
    return psutil.pid_exists(number) and psutil.Process(number).status() != psutil.STATUS_ZOMBIE


def wait_until(fact, seconds=30):
    deadline = time.monotonic() + seconds
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fact()


def test_it_serves_until_it_is_stopped_and_leaves_nothing():
    environment = mps.start()
    folder = environment[mps.PIPES]
    service = number_of(folder)
    assert mps.start() == environment and is_running(service)
    mps.stop()
    assert not is_running(service) and not os.path.exists(folder)
    mps.stop()


def test_it_is_left_out_where_it_is_not_installed_runs_already_or_does_not_work(program, monkeypatch, tmp_path):
    monkeypatch.setattr(mps, "PROBE", "pass")  # which does not reach it
    assert mps.start() == {}
    monkeypatch.setattr(mps, "PROBE", "raise SystemExit(1)")
    assert mps.start() == {} and not [*tmp_path.glob("mps-*")]
    monkeypatch.setattr(mps, "PROBE", USE)
    monkeypatch.setenv(mps.PIPES, "/tmp/nvidia-mps")
    assert mps.start() == {}
    monkeypatch.delenv(mps.PIPES)
    program.unlink()
    assert mps.start() == {}


PROGRAM = f"""
import sys, time
from helpers import mps
mps.PROBE = {USE!r}
print(mps.start()[mps.PIPES], flush=True)
sys.stdin.read()
"""


def test_it_ends_with_a_run_however_that_ends_and_other_runs_keep_theirs():
    how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen([sys.executable, "-c", PROGRAM], **how) for _ in range(2)]
    try:
        folders = [run.stdout.readline().strip() for run in runs]
        services = list(map(number_of, folders))
        assert len({*services}) == 2
        runs[0].kill()
        wait_until(lambda: not is_running(services[0]) and not os.path.exists(folders[0]))
        assert is_running(services[1])
        runs[1].stdin.close()
        assert runs[1].wait(30) == 0
        assert not is_running(services[1]) and not os.path.exists(folders[1])
    finally:
        for run in runs:
            run.kill()


@pytest.mark.parametrize(("cores", "slots", "expected"), [(8, 3, [[0, 1], [2, 3], [4, 5]]), (2, 3, [[0], [1], [0]])])
def test_workers_that_share_a_gpu_have_cores_of_their_own(monkeypatch, cores, slots, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(cores)})
    assert [engine.cores_of(number, slots) for number in range(slots)] == expected


def test_workers_have_it_only_where_they_share_a_gpu(monkeypatch):
    pools = []
    monkeypatch.setattr(engine, "ProcessPoolExecutor", lambda *_, initargs, **__: pools.append(initargs))
    monkeypatch.setattr(engine.torch.cuda, "device_count", lambda: 1)
    for settings in ({"processes": 4}, {"processes": 4, "mps": False}, {"processes": 1, "deterministic": True}):
        engine.workers.__wrapped__(EngineSettings(**settings))
    (_, four, served), (_, none, alone), (_, zero, repeatable) = pools
    assert mps.PIPES in served and alone == {} and repeatable == engine.REPEATABLE
    assert (four, none, zero) == (4, 0, 0)
