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
