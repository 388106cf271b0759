"""How a result was made: commit, machine, versions, cost and the parameters in force."""

import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

import helpers
from helpers import paths

try:
    import resource
except ImportError:  # Windows has none
    resource = None

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Run(BaseModel):
    """How a result was made.

    ``seconds`` are this run's, ``training_seconds`` all trainings', cached ones too. Memory is this process's peak in
    MiB. ``dirty`` means code other than the commit's.
    """

    model_config = STRICT
    commit: str
    dirty: bool
    device: str
    versions: dict[str, str]
    seconds: Annotated[float, Field(ge=0)]
    training_seconds: Annotated[float, Field(ge=0)] | None = None
    peak_memory_mb: int | None
    peak_gpu_memory_mb: int | None = None
    parameters: dict[str, JsonValue]


class Code(NamedTuple):
    """The commit that is checked out, and whether the code differs from it."""

    commit: str
    dirty: bool


def code() -> Code:
    """The code as it is now. Files of results do not count, nor do new ones outside the package and the notebooks.
    Without git nothing vouches for the code: the commit is "unknown" and ``dirty`` is true."""
    commit, top = _git("rev-parse", "HEAD"), _git("rev-parse", "--show-toplevel")
    if commit is None or top is None or Path(top).resolve() != paths.ROOT:
        return Code("unknown", True)
    changed = _git(
        "--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results"
    )
    new = _git("ls-files", "--others", "--exclude-standard", "--", "helpers", "notebooks")
    return Code(commit, bool(changed or new))


def run_info(parameters: dict[str, Any], started: float, made_by: Code, training_seconds: float | None = None) -> Run:
    """How this run was made, taken at its end.

    ``parameters`` are all that are in force; ``started`` is ``time.perf_counter()`` and ``made_by`` is ``code()``
    of the start, as the files may change meanwhile. Worker processes' memory is not counted.
    """
    import torch  # here, because redrawing a figure needs no torch

    gpu = torch.cuda.is_available()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if resource else None
    packages = {name: version(name) for name in ("torch", "transformers", "datasets", "numpy", "exca")}
    return Run(
        commit=made_by.commit,
        dirty=made_by.dirty,
        device=torch.cuda.get_device_name() if gpu else f"{_processor()}, {torch.get_num_threads()} threads",
        versions={"python": platform.python_version(), **packages, "helpers": helpers.__version__},
        seconds=round(time.perf_counter() - started, 1),
        training_seconds=None if training_seconds is None else round(training_seconds, 1),
        peak_memory_mb=peak and peak // (2**20 if sys.platform == "darwin" else 2**10),  # macOS counts bytes
        peak_gpu_memory_mb=torch.cuda.max_memory_allocated() // 2**20 if gpu else None,
        parameters=parameters,
    )


def _processor() -> str:
    """This machine's processor; by family and model too where its name has no number, as several have it then."""
    listed = Path("/proc/cpuinfo")
    text = listed.read_text() if listed.exists() else ""
    facts = dict(re.findall(r"^(model name|cpu family|model)\s*: *(.+)", text, re.M))
    name = facts.get("model name") or platform.processor() or platform.machine() or "CPU"
    if "cpu family" not in facts or re.search(r"\d", name):
        return name
    return f"{name} family {facts['cpu family']} model {facts['model']}"


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
