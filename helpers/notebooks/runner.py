"""Run notebooks headlessly with papermill: all trainings first, then every notebook that changed, and the report."""

from __future__ import annotations

import os
import re
import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import nbformat
import papermill

from helpers import engine, papers, paths, records
from helpers.data.folders import state_files
from helpers.files import file_fingerprint, fingerprint, write_whole
from helpers.models.encoders import encoder_fingerprint
from helpers.notebooks import kernels
from helpers.notebooks.session import ParameterError, notebook_names, parameters_of, settle, unknown_parameter
from helpers.papers.model_folders import is_saved
from helpers.presets.load import keys
from helpers.presets.schema import DatasetSettings, Preset
from helpers.results import report

REPORT = "99_report"
UNCHANGED = "done before"
SHOWN = 5  # values that differ from the committed ones
COPIES = re.compile(r" \(\[executed\]\([^)]*\)\)")  # links to executed copies, removed in the copies themselves
WIDGET = "application/vnd.jupyter.widget-view+json"
QUIET = ["--IPKernelApp.log_level=CRITICAL"]  # a kernel's warnings are not about our notebooks


class Job(NamedTuple):
    """A notebook to run, with its parameters, its preset, and the name of the run."""

    notebook: str
    parameters: dict[str, object]
    preset: Preset
    run_name: str

    def __str__(self) -> str:
        return f"{self.notebook} of {self.run_name}" if "+" in self.run_name else self.notebook

    @property
    def card(self) -> papers.Notebook:
        """What the notebook's paper declares of it."""
        return papers.find_paper(self.notebook)[1]

    @property
    def left_out(self) -> str:
        """Why the preset has nothing for the notebook; "" where it has."""
        reason = self.card.left_out(self.preset)
        return reason and f"left out, as {reason}"

    @property
    def output(self) -> Path:
        """The executed notebook."""
        return paths.notebooks(self.run_name) / f"{self.notebook}.ipynb"

    @property
    def running(self) -> Path:
        """The folder, not in git, of unfinished notebooks and of the fingerprints of executed ones."""
        return paths.results(self.run_name) / "running"

    @property
    def folders(self) -> list[DatasetSettings]:
        """The sections of the paper's examples that are in a folder, or downloaded."""
        paper, _ = papers.find_paper(self.notebook)
        sections = [getattr(self.preset, name) for name in paper.examples] if paper else []
        return [section for section in sections if section.folder or section.source == "hub"]

    def plan(self) -> engine.Plan:
        """Make the plan of all tasks that the notebook needs."""
        return (yield self.card.make_plans(self.preset))

    def models(self) -> list[str]:
        """List the names of the models that it keeps; none without a folder for them, or where it is left out."""
        keeps = self.parameters.get("keep") and not self.left_out
        return list(self.card.keeps(self.preset)) if keeps else []

    def is_done(self) -> bool:
        """Return whether the notebook was executed here from the same code, settings and data, and what it kept is
        there."""
        mark, folder = self.running / self.notebook, self.parameters.get("keep")
        if folder and not is_saved(folder, self.card.keeps(self.preset)):
            return False
        return self.output.is_file() and mark.is_file() and mark.read_text() == fingerprint_of(self)


def make_job(notebook: str, parameters: dict[str, object]) -> Job:
    """Make the job of a notebook, with those of the parameters that it declares or that are keys. Raises UserError."""
    declared = parameters_of(notebook)
    values = {"preset": declared["preset"].default}
    values |= {name: value for name, value in parameters.items() if name in declared}
    changes = {key: value for key, value in parameters.items() if key in keys() and key not in declared}
    if changes and "changes" in declared:
        values["changes"] = changes
    settings, options = {}, {}
    for name in [name for name in values if name not in ("preset", "changes")]:
        if declared[name].key:
            settings[declared[name].key] = values[name]
        else:
            values[name] = options[name] = str(values[name]) if type(values[name]) in (int, float) else values[name]
    return Job(
        notebook, values, *settle(notebook, str(values["preset"]), settings | values.get("changes", {}), options)
    )


def select_jobs(names: list[str], parameters: dict[str, object]) -> list[Job]:
    """Make a job of each notebook (all, if none is named), and one of the report for each run.

    Raises UserError, as for an unknown notebook, and for a parameter that none of them has or of the wrong type.
    """
    chosen = [match_notebook(Path(name).stem) for name in names] or notebook_names()
    chosen = [name for name in chosen if name != REPORT]
    declaring = chosen or [REPORT]  # which is told its folder by the others' runs, unless it runs alone
    declared = dict.fromkeys(parameter for name in declaring for parameter in parameters_of(name))
    accepted = [*declared, *keys()] if declared.pop("changes", "") is None else declared
    if unknown := [name for name in parameters if name not in accepted]:
        raise unknown_parameter(declaring[0] if len(declaring) == 1 else "the notebooks", unknown[0], declared)
    jobs = [make_job(name, parameters) for name in chosen]
    check_model_names(jobs)
    runs = {job.run_name: job for job in jobs or [make_job(REPORT, parameters)]}
    for run_name, job in runs.items():
        values = {"preset": job.parameters["preset"]}
        values |= {} if run_name == job.preset.name else {"results": run_name}
        jobs.append(Job(REPORT, values, job.preset, run_name))
    return jobs


def check_model_names(jobs: list[Job]) -> None:
    """Raise ParameterError where two notebooks would keep a model of one name in the same folder."""
    keepers: dict[str, str] = {}
    for job in jobs:
        for name in job.models():
            if name in keepers:
                both = f"{keepers[name]} and {job.notebook} would both keep {name!r}"
                raise ParameterError(f"keep: {both}; run them one by one, with a folder each")
            keepers[name] = job.notebook


def match_notebook(name: str) -> str:
    """Return the notebook of a name or of the number before it, such as 02. Raises ParameterError."""
    names = {notebook.partition("_")[0]: notebook for notebook in notebook_names()}
    if name in names or name in names.values():
        return names.get(name, name)
    near = [names[name.zfill(2)]] if name.zfill(2) in names else get_close_matches(name, names.values(), 1)
    near = near or names.values()
    raise ParameterError(f"no notebook {name}; choose from {', '.join(near)}")


def fingerprint_of(job: Job) -> str:
    """Return what an executed notebook depends on: its source, the package's, parameters, preset, data and encoder.

    Files count by place, size and time, since reading them takes long; for the report records count too.
    """
    paper, _ = papers.find_paper(job.notebook)
    sources = [file for kind in ("py", "html", "toml") for file in sorted(paths.PACKAGE.rglob(f"*.{kind}"))]
    code = [file_fingerprint(file) for file in (paths.NOTEBOOKS / f"{job.notebook}.ipynb", *sources)]
    files = paths.find_results("", "*/*/*.json") if job.notebook == REPORT else []
    files += job.preset.models.glob("*/result.json") if job.card.shows_models else []
    names = [getattr(job.preset, section).folder for section in paper.examples] if paper else []
    names += [job.preset.data.unlabelled, job.preset.teacher, *job.preset.teacher.split()]
    hrkd, others = job.preset.hrkd, [job.preset.warmup_data, job.preset.mtdnn.large, job.preset.mnemonic.glove]
    names += [hrkd.mnli_student, hrkd.reviews_student, *others]
    for place in [place for name in names if name for place in paths.places(name)]:
        files += [file for file in (place, *place.rglob("*")) if file.is_file()]
    facts = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(files)]
    return fingerprint(code, job.parameters, job.preset, encoder_fingerprint(job.preset.encoder), facts)


def run(names: list[str] | str, parameters: dict[str, object] | None = None, *, force: bool = False) -> int:
    """Run the notebooks (all, if none is named) and the report; return 0, or 1 if one failed.

    ``parameters`` are ``preset`` and those of the notebooks' parameters cells. Results go to results/local/<preset>/.
    First the tasks of all notebooks are done together, so that no core waits for the last training of one. A notebook
    that is done already is skipped, unless ``force``. One that fails does not stop the others. Raises UserError.
    """
    outcomes: dict[str, str] = {}
    jobs = select_jobs([names] if isinstance(names, str) else names, parameters or {})
    for job in jobs:
        if job.left_out:
            outcomes[str(job)] = job.left_out
            print(f"{job}: {outcomes[str(job)]}", flush=True)
        elif job.notebook != REPORT and not force and job.is_done():
            outcomes[str(job)] = UNCHANGED
    if done := [name for name, text in outcomes.items() if text == UNCHANGED]:
        print(f"{UNCHANGED}: {', '.join(done)}", flush=True)
    waiting = [job for job in jobs if str(job) not in outcomes]
    for text in dict.fromkeys(state_files(settings) for job in waiting for settings in job.folders):
        print(text, flush=True)
    if waiting:
        kernels.prepare()
    values = engine.carry_out({str(job): job.plan() for job in waiting}, jobs[0].preset.engine)
    for job in waiting:
        others = [outcomes.get(str(other), "") for other in jobs if other.run_name == job.run_name and other is not job]
        if job.notebook == REPORT and others and all(text.startswith("FAILED") for text in others):
            continue  # there is nothing to report
        value = values[str(job)]
        outcomes[str(job)] = describe_error(value) if isinstance(value, Exception) else execute(job, force)
        print(f"{job}: {outcomes[str(job)]}", flush=True)
    failed = [name for name, text in outcomes.items() if text.startswith("FAILED")]
    for job in jobs:
        if job.notebook == REPORT and str(job) in outcomes and str(job) not in failed:
            print(f"report: {os.path.relpath(paths.report(job.run_name))}")
            print("".join(f"{line}\n" for line in compare_with_committed(job.run_name)), end="")
        if str(job) not in failed and (models := job.models()):
            print(f"kept: {', '.join(os.path.join(job.parameters['keep'], name) for name in models)}")
    if failed:
        print(f"{len(failed)} of {len(outcomes)} notebooks failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def compare_with_committed(run_name: str) -> list[str]:
    """Say in lines how many values of a run's records are those of the committed ones, and which differ."""
    files = {
        paths.record(run_name, f"{file.parent.name}/{file.stem}"): file
        for file in paths.published(run_name).glob("*/*.json")
    }
    pairs = [(records.read(new), records.read(old)) for new, old in files.items() if new != old and new.is_file()]
    text, differing = report.reproduced(*zip(*pairs, strict=True)) if pairs else ("", [])
    more = f"... and {len(differing) - SHOWN:,} more" if len(differing) > SHOWN else ""
    return [line for line in (text and f"beside the committed results: {text}", *differing[:SHOWN], more) if line]


def list_tasks(names: list[str], parameters: dict[str, object]) -> int:
    """Print for each notebook how many of its trainings and answers are done, as far as its plans are known.

    Of notebooks whose corpora are not there yet, print what they will cost. Returns 1 if a plan failed, else 0.
    """
    has_failed = False
    jobs = [job for job in select_jobs(names, parameters) if job.notebook != REPORT]
    for job in [job for job in jobs if job.left_out]:
        print(f"{job}: {job.left_out}")
    jobs = [job for job in jobs if not job.left_out]
    if any(section.source == "hub" for job in jobs for section in job.folders):
        from helpers.notebooks import planning  # here, because few presets need it

        return planning.list_costs(jobs)
    for job in jobs:
        schedule = engine.Schedule({"": job.plan()})
        left, value = len(schedule.pending), schedule.outcomes.get("")
        more = ", and what follows from their results" if left else ""
        state = f"{len(schedule.tasks) - left} tasks done, {left} left{more}"
        failed = isinstance(value, Exception)
        has_failed |= failed
        print(f"{job}: {describe_error(value) if failed else state}")
    return int(has_failed)


def execute(job: Job, force: bool) -> str:
    """Execute one notebook unless it is done and return what came of it.

    The report, which draws all figures anew, is exported.
    """
    if not force and job.is_done():
        return UNCHANGED
    print(f"{job} ...", flush=True)
    begun = time.perf_counter()
    unfinished = job.running / f"{job.notebook}.{os.getpid()}.ipynb"  # stays where the notebook fails
    try:
        mark = fingerprint_of(job)
        for folder in (job.running, job.output.parent):
            folder.mkdir(parents=True, exist_ok=True)
        execute_notebook(job.notebook, job.parameters, unfinished)
        os.replace(unfinished, job.output)
        if job.notebook == REPORT:
            report.export(job.run_name, job.output)
        write_whole(job.running / job.notebook, mark)
    except papermill.PapermillExecutionError as error:
        return f"FAILED: {error.ename}: {' '.join(error.evalue.split())[:400]} (see {os.path.relpath(unfinished)})"
    except Exception as error:  # a dead kernel, bad data, a full disk: the others may still run
        return describe_error(error)
    return f"{time.perf_counter() - begun:.0f} s"


def describe_error(error: Exception) -> str:
    """Return a failure in words."""
    return f"FAILED: {type(error).__name__}: {error}"


def link_from(copy: Path, text: str) -> str:
    """Return a notebook's Markdown for its executed ``copy``, with links to the same files and none to the copy."""
    return COPIES.sub("", text).replace("](../", f"]({os.path.relpath(paths.ROOT, copy.parent)}/")


def is_widget(output: nbformat.NotebookNode) -> bool:
    """Take the widget out of an output; return whether it has nothing else that can be seen without a kernel."""
    data = output.get("data", {})
    return data.pop(WIDGET, None) is not None and {*data} <= {"text/plain"}


def execute_notebook(name: str, parameters: dict[str, object], output: Path) -> None:
    """Execute one notebook; strip progress bars and papermill's metadata from the copy."""
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")  # this environment's kernel, before one of the user's
    source, settings = paths.NOTEBOOKS / f"{name}.ipynb", {"kernel_name": "python3", "extra_arguments": QUIET}
    settings |= {"kernel_manager_class": kernels.KernelManager, "progress_bar": False}
    executed = papermill.execute_notebook(source, output, parameters, **settings)
    for key in ("papermill", "widgets"):
        executed.metadata.pop(key, None)
    for cell in executed.cells:
        cell.metadata.pop("papermill", None)
        if cell.cell_type == "markdown":
            cell.source = link_from(output, cell.source)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected"  # papermill's is another each time
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_widget(output)]
    nbformat.write(executed, output)
