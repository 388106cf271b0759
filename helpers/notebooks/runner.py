"""Run notebooks headlessly with papermill: all trainings first, then every notebook that changed, and the report."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import nbformat
import papermill
from filelock import FileLock

from helpers import engine, papers, paths
from helpers.files import write_whole
from helpers.models.encoders import encoder_fingerprint
from helpers.notebooks.session import (
    ParameterError,
    check,
    notebook_names,
    parameters_of,
    place_of,
    preset_for,
    unknown_parameter,
)
from helpers.presets.schema import Preset
from helpers.results import report

REPORT = "99_report"
UNCHANGED = "done before"
WIDGET = "application/vnd.jupyter.widget-view+json"
QUIET = ["--IPKernelApp.log_level=CRITICAL"]  # a kernel's warnings are not about our notebooks


class Job(NamedTuple):
    """A notebook to run, with its parameters, its preset, and the folder of its results."""

    notebook: str
    parameters: dict[str, object]
    preset: Preset
    place: str

    @property
    def output(self) -> Path:
        """The executed notebook."""
        return paths.notebooks(self.place) / f"{self.notebook}.ipynb"

    @property
    def unfinished(self) -> Path:
        """The notebook as far as it came, while it runs and where it fails."""
        return paths.models(self.place) / "running" / self.place / f"{self.notebook}.{os.getpid()}.ipynb"

    def plans(self) -> dict[tuple[str, int], engine.Plan]:
        """Make the plans whose tasks the notebook needs."""
        plans = papers.card_of(self.notebook)[1].plans
        return {(str(self), number): plan(self.preset) for number, plan in enumerate(plans)}

    def __str__(self) -> str:
        return f"{self.notebook} of {self.place}" if "+" in self.place else self.notebook


def select_jobs(names: list[str], parameters: dict[str, object]) -> list[Job]:
    """Make a job of each notebook (all, if none is named) and of the report at the end.

    Each notebook gets those of the parameters that it declares. Raises ParameterError for a notebook that there is not,
    and for a parameter that none of them has or that is of the wrong type.
    """
    chosen = [Path(name).stem for name in names] or notebook_names()
    for name in chosen:
        if name not in notebook_names():
            near = get_close_matches(name, notebook_names(), 1) or notebook_names()
            raise ParameterError(f"no notebook {name}; there is {', '.join(near)}")
    chosen = [name for name in chosen if name != REPORT]
    declared = {name: parameters_of(name) for name in [*chosen, REPORT]}
    for name, value in parameters.items():
        taking = [notebook for notebook in declared if name in declared[notebook]]
        if not taking:
            names = dict.fromkeys(each for parameters in declared.values() for each in parameters)
            raise unknown_parameter(chosen[0] if len(chosen) == 1 else "the notebooks", name, names)
        check({name: value}, taking[0])
    jobs = []
    for name in chosen:
        own = {"preset": declared[name]["preset"].default}
        own |= {key: value for key, value in parameters.items() if key in declared[name]}
        jobs.append(Job(name, own, preset_for(name, own), place_of(name, own)))
    own = {"preset": declared[REPORT]["preset"].default}
    own |= {key: value for key, value in parameters.items() if key in declared[REPORT]}
    places = {job.place: (job.parameters["preset"], job.preset) for job in jobs}
    preset = preset_for(REPORT, own)
    for place, (name, of_place) in (
        places or {str(own.get("results") or preset.name): (own["preset"], preset)}
    ).items():
        results = {} if place == of_place.name else {"results": place}
        jobs.append(Job(REPORT, {**own, "preset": name, **results}, of_place, place))
    return jobs


def key_of(job: Job) -> str:
    """Return what an executed notebook depends on: its source, the package's, parameters, preset, data and encoder.

    Files count by place, size and time, since reading them takes long; the report depends on the records alone.
    """
    digest, (paper, card) = hashlib.sha256(), papers.card_of(job.notebook)
    sources = [*paths.PACKAGE.rglob("*.py"), *paths.PACKAGE.rglob("*.css"), *paths.PACKAGE.rglob("*.toml")]
    for file in (paths.NOTEBOOKS / f"{job.notebook}.ipynb", *sorted(sources)):
        digest.update(file.read_bytes())
    files = [*paths.results(job.place).parent.glob("*/*/*.json")] if job.notebook == REPORT else []
    if paper:
        folders = [paths.find_folder(getattr(job.preset, section).folder) for section in paper.examples]
        files += [file for folder in folders if folder for file in folder.rglob("*") if file.is_file()]
    if card.shows_models:
        files += [*job.preset.models.glob("*/result.json")]
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(files)]
    digest.update(repr([job.parameters, job.preset, encoder_fingerprint(job.preset.encoder), facts]).encode())
    return digest.hexdigest()[:16]


def run(names: list[str], parameters: dict[str, object], *, force: bool = False) -> int:
    """Run the notebooks (all, if none is named) and the report; return 0, or 1 if one failed.

    First the tasks of all notebooks are done together, so that no core waits for the last training of one. A notebook
    that was executed here from the same code, settings and data is skipped, unless ``force``. One that fails does not
    stop the others.
    """
    outcomes: dict[str, str] = {}
    jobs = select_jobs(names, parameters)
    keys = {str(job): key_of(job) for job in jobs if job.notebook != REPORT}
    waiting = []
    for job in jobs:
        reason = papers.card_of(job.notebook)[1].left_out(job.preset)
        if reason:
            outcomes[str(job)] = f"left out, as {reason}"
        elif job.notebook != REPORT and not force and done_keys(job).get(job.notebook) == keys[str(job)]:
            outcomes[str(job)] = UNCHANGED
        else:
            waiting.append(job)
    for name, text in outcomes.items():
        print(f"{name}: {text}", flush=True)
    values = carry_out(waiting)
    for job in waiting:
        failures = [value for (name, _), value in values.items() if name == str(job) and isinstance(value, Exception)]
        outcomes[str(job)] = describe(failures[0]) if failures else execute(job, force)
        print(f"{job}: {outcomes[str(job)]}", flush=True)
    failed = [name for name, text in outcomes.items() if text.startswith("FAILED")]
    for job in jobs:
        if job.notebook == REPORT and str(job) not in failed:
            print(f"report: {os.path.relpath(paths.report(job.place))}")
    if failed:
        print(f"{len(failed)} of {len(outcomes)} notebooks failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def carry_out(jobs: list[Job]) -> dict[tuple[str, int], object]:
    """Carry out the plans of all jobs side by side; return the value of each, or its error."""
    plans = {}
    for job in jobs:
        plans |= job.plans()
    return engine.carry_out(plans, jobs[0].preset.engine) if plans else {}


def list_tasks(names: list[str], parameters: dict[str, object]) -> int:
    """Print for each notebook how many of its trainings and answers are done, as far as its plans are known."""
    for job in select_jobs(names, parameters):
        if job.notebook == REPORT or papers.card_of(job.notebook)[1].left_out(job.preset):
            continue
        schedule = engine.Schedule(job.plans())
        errors = [describe(value) for value in schedule.outcomes.values() if isinstance(value, Exception)]
        left = len(schedule.left)
        more = ", and what follows from their results" if left else ""
        state = errors[0] if errors else f"{len(schedule.tasks) - left} tasks done, {left} left{more}"
        print(f"{job}: {state}")
    return 0


def execute(job: Job, force: bool) -> str:
    """Execute one notebook, export it if it is the report, and return what came of it."""
    begun, key = time.perf_counter(), key_of(job)
    if job.notebook == REPORT and done_keys(job).get(REPORT) == key and job.output.is_file() and not force:
        return UNCHANGED
    print(f"{job} ...", flush=True)
    try:
        for path in (job.unfinished, job.output):
            path.parent.mkdir(parents=True, exist_ok=True)
        execute_notebook(job.notebook, job.parameters, job.unfinished)
        os.replace(job.unfinished, job.output)
        if job.notebook == REPORT:
            report.export(job.place, job.output)
        done = done_file(job)
        with FileLock(done.with_suffix(".lock")):
            write_whole(done, json.dumps({**done_keys(job), job.notebook: key}, indent=1) + "\n")
    except papermill.PapermillExecutionError as error:
        return f"FAILED: {error.ename}: {' '.join(error.evalue.split())[:400]} (see {os.path.relpath(job.unfinished)})"
    except Exception as error:  # a dead kernel, bad data, a full disk: the others may still run
        return describe(error)
    return f"{time.perf_counter() - begun:.0f} s"


def describe(error: Exception) -> str:
    """Return a failure in words."""
    return f"FAILED: {type(error).__name__}: {error}"


def done_file(job: Job) -> Path:
    """Locate the keys of the notebooks that were executed here. It is not in git, so a clone runs everything itself."""
    return paths.models(job.place) / f"{job.place}.done"


def done_keys(job: Job) -> dict[str, str]:
    """Read the keys of the notebooks that were executed here; none where the file is damaged."""
    try:
        return json.loads(done_file(job).read_text())
    except (FileNotFoundError, ValueError):  # a notebook that is run once too often does no harm
        return {}


def execute_notebook(name: str, parameters: dict[str, object], output: Path) -> None:
    """Execute one notebook; its copy stays without progress bars and what only this machine has."""
    source, settings = paths.NOTEBOOKS / f"{name}.ipynb", {"kernel_name": "python3", "extra_arguments": QUIET}
    executed = papermill.execute_notebook(source, output, parameters, progress_bar=False, **settings)
    for key in ("papermill", "widgets"):
        executed.metadata.pop(key, None)
    for cell in executed.cells:
        cell.metadata.pop("papermill", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected"  # papermill's is another each time
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    nbformat.write(executed, output)
