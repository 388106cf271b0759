"""Kernels that are forked: they run notebooks, share nothing, and end with whoever started them."""

import os
import signal
import subprocess
import sys
import time

import papermill
import psutil
import pytest
from conftest import write_notebook

from helpers import paths
from helpers.notebooks import kernels

PROGRAM = """
import signal
import sys
from helpers.notebooks import kernels
import papermill
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kernels.start_fork_server("ipykernel.kernelapp")  # for kernels that need nothing else
    settings = {"kernel_manager_class": kernels.KernelManager, "extra_arguments": ["--IPKernelApp.log_level=CRITICAL"]}
    try:
        papermill.execute_notebook(*sys.argv[1:], progress_bar=False, **settings)
    except KeyboardInterrupt:
        sys.exit("stopped")
"""
SLEEP = """
import os, time
from pathlib import Path
Path({!r}).write_text(str(os.getpid()))
time.sleep(60)
"""


def execute(path):
    settings = {"kernel_name": "python3", "kernel_manager_class": kernels.KernelManager, "progress_bar": False}
    executed = papermill.execute_notebook(path, path, **settings)
    return "".join(output.text for cell in executed.cells for output in cell.outputs)


def test_kernels_have_imported_everything_and_share_nothing(tmp_path):
    kernels.prepare()
    cells = (
        "import os, sys\nprint('torch' in sys.modules, 'left' in os.environ, os.getpid())",
        "os.environ['left'] = '1'",
    )
    printed = [execute(write_notebook(tmp_path / f"{number}.ipynb", *cells)).split() for number in range(2)]
    assert [words[:2] for words in printed] == [["True", "False"]] * 2
    first, second = (int(words[2]) for words in printed)
    assert first != second and not psutil.pid_exists(first) and not psutil.pid_exists(second)


def test_a_kernel_that_dies_fails_its_notebook_alone(tmp_path):
    kernels.prepare()
    with pytest.raises(Exception, match=r"(?i)kernel died"):
        execute(write_notebook(tmp_path / "dies.ipynb", "import os\nos._exit(3)"))
    assert execute(write_notebook(tmp_path / "runs.ipynb", "print(1)")) == "1\n"


@pytest.fixture
def sleeping(tmp_path):
    """A run whose notebook sleeps, and the process of its kernel."""
    (tmp_path / "program.py").write_text(PROGRAM)
    file = tmp_path / "process"
    place = write_notebook(tmp_path / "sleeps.ipynb", SLEEP.format(str(file)))
    command = [sys.executable, tmp_path / "program.py", place, place]
    settings = {"env": os.environ | {"PYTHONPATH": str(paths.ROOT)}, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **settings) as program:
        try:
            while not file.exists() or not file.read_text():
                assert program.poll() is None
                time.sleep(0.1)
            yield program, int(file.read_text())
        finally:
            program.kill()


def has_ended(process):
    for _ in range(100):
        if not psutil.pid_exists(process):
            return True
        time.sleep(0.1)
    return False


def test_a_killed_run_takes_its_kernel_along(sleeping):
    program, kernel = sleeping
    program.kill()
    assert has_ended(kernel)


def test_an_interrupted_run_takes_its_kernel_along_and_shows_no_traceback(sleeping):
    program, kernel = sleeping
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    assert has_ended(kernel) and program.returncode == 1
    assert "Traceback" not in errors and errors.endswith("stopped\n")


ENDS = """
import asyncio
from helpers.notebooks import kernels
if __name__ == "__main__":
    kernels.start_fork_server("ipykernel.kernelapp")
    manager = kernels.KernelManager(kernel_name="python3")
    asyncio.run(manager.start_kernel())
    print(manager.provisioner.pid)
"""


def test_a_run_that_ends_while_its_kernel_starts_takes_it_along(tmp_path):
    """As it does after Ctrl-C, which comes before anything would stop the kernel."""
    (tmp_path / "program.py").write_text(ENDS)
    command = [sys.executable, tmp_path / "program.py"]
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert not psutil.pid_exists(int(done.stdout)) and "Traceback" not in done.stderr


CELL = """
import sys
sys.path.insert(0, {tests!r})
from test_engine import *
preset = load_preset("smoke")
def plan(names):
    return plan_of(*(Step(preset=preset, label=n, name=n, seconds=1.5 if n > names[0] else 0.0) for n in names))
"""


def outputs_of(client, source, then=lambda: None):
    """What a cell shows, after ``then`` was done while it ran."""
    request = client.execute(source)
    then()
    texts = []
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == request:
            content = message["content"]
            if message["msg_type"] == "error":
                texts.append("\n".join(content["traceback"]))
            if content.get("execution_state") == "idle":
                return texts


def test_an_interrupt_in_jupyter_shows_what_is_kept_and_the_cell_goes_on(results):
    from jupyter_client.manager import start_new_kernel

    environment = {**os.environ, "HELPERS_RESULTS": str(results), "PYTHONPATH": str(paths.ROOT)}
    manager, client = start_new_kernel(kernel_name="python3", env=environment)
    file = results / "smoke/models/done.txt"

    def interrupt():
        while not file.exists():
            time.sleep(0.05)
        time.sleep(0.5)
        manager.interrupt_kernel()

    try:
        outputs_of(client, CELL.format(tests=str(paths.ROOT / "tests")))
        for names, settings in (("ab", "HERE"), ("cdef", "TWO")):  # in the kernel, and in workers
            cell = f"run(plan({names!r}), {settings})"
            state = f"1 of {len(names)} tasks done and kept"
            sentence = f"Stopped: {state}; run this cell again to go on from there"
            assert outputs_of(client, cell, interrupt) == [sentence]
            assert file.read_text().split() == [names[0]]
            assert outputs_of(client, cell) == [] and sorted(file.read_text().split()) == list(names)
            file.unlink()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
