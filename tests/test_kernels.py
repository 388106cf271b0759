"""Kernels that are forked: they run notebooks, share nothing, and end with whoever started them."""

import os
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
import sys
from helpers.notebooks import kernels
import papermill
if __name__ == "__main__":
    kernels.prepare()
    papermill.execute_notebook(*sys.argv[1:], kernel_manager_class=kernels.KernelManager, progress_bar=False)
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


def test_a_killed_run_takes_its_kernel_along(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    says = tmp_path / "process"
    cell = (
        f"import os, time\nfrom pathlib import Path\nPath({str(says)!r}).write_text(str(os.getpid()))\ntime.sleep(60)"
    )
    place = write_notebook(tmp_path / "sleeps.ipynb", cell)
    command = [sys.executable, tmp_path / "program.py", place, place]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(paths.ROOT)}) as program:
        while not says.exists() or not says.read_text():
            assert program.poll() is None
            time.sleep(0.1)
        program.kill()
    for _ in range(100):
        if not psutil.pid_exists(int(says.read_text())):
            break
        time.sleep(0.1)
    assert not psutil.pid_exists(int(says.read_text()))


ENDS = """
import asyncio
from helpers.notebooks import kernels
if __name__ == "__main__":
    kernels.prepare()
    manager = kernels.KernelManager(kernel_name="python3")
    asyncio.run(manager.start_kernel())
    print(manager.provisioner.pid)
"""


def test_a_run_that_ends_while_its_kernel_starts_takes_it_along(tmp_path):
    """As it does after Ctrl-C, which comes before anything would stop the kernel."""
    (tmp_path / "program.py").write_text(ENDS)
    command = [sys.executable, tmp_path / "program.py"]
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert not psutil.pid_exists(int(done.stdout)) and "Traceback" not in done.stderr


CELL = """
import sys
sys.path.insert(0, {tests!r})
from test_engine import *
preset, others = load("smoke"), {others!r}
tasks = [Step(preset=preset, label=n, name=n, seconds=2.0 if n > "a" else 0.0) for n in "a" + others]
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


@pytest.mark.parametrize("others", ["b", "bcd"], ids=["in the kernel", "in workers"])
def test_an_interrupt_in_jupyter_shows_what_is_kept_and_the_cell_goes_on(results, others):
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
        outputs_of(client, CELL.format(tests=str(paths.ROOT / "tests"), others=others))
        cell = "run(plan_of(*tasks), TWO)"
        sentence = "Stopped: what is finished is kept; run this cell again to go on from there"
        assert outputs_of(client, cell, interrupt) == [sentence]
        assert file.read_text().split() == ["a"]
        assert outputs_of(client, cell) == [] and sorted(file.read_text().split()) == list("a" + others)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
