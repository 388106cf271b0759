"""Run notebooks headlessly with papermill: skip what is done, go on after a failure, end with the report."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

import nbformat
import papermill
import psutil
from filelock import FileLock

from helpers import papers, paths
from helpers.data.adversarial import load_adversarial
from helpers.data.domains import narrative
from helpers.data.examples import DataError
from helpers.data.sections import check_folder, fingerprint, fingerprints
from helpers.files import write_whole
from helpers.models.glove import glove_digest
from helpers.models.pretrained import EncoderError, encoder_fingerprint
from helpers.notebooks import inventory, session
from helpers.notebooks.pace import bar_over
from helpers.notebooks.parameters import REPORT, asked, of_the_preset, preset_for
from helpers.presets.schema import Preset
from helpers.results import report, summary

DONE = "done before"
WIDGET = "application/vnd.jupyter.widget-view+json"
QUIET = ["--IPKernelApp.log_level=CRITICAL"]  # a kernel's warnings are not about our notebooks


def key_of(name: str, parameters: dict[str, object]) -> str:
    """Names what an executed notebook depends on: its source, the package's, the settings but for other papers', and
    all data of the preset's draws, with the records or models that it shows; of the report, the records alone."""
    preset, digest = preset_for(parameters, name), hashlib.sha256()
    sources = [*paths.PACKAGE.rglob("*.py"), *paths.PACKAGE.rglob("*.css")]
    sources += [paths.PRESETS / f"{shown}.toml" for shown in ("paper_results", "methods")]
    for file in (paths.NOTEBOOKS / f"{name}.ipynb", *sorted(sources)):
        digest.update(file.read_bytes())
    if name == REPORT:
        for shown in dict.fromkeys((str(parameters.get("results") or preset.name), *summary.PRESETS)):
            for file in sorted(paths.results(shown).glob("*/*.json")):
                digest.update(file.read_bytes())
        return digest.hexdigest()[:16]
    paper, card = papers.card_of(name)
    if card.shows_models:
        digest.update(repr(sorted(map(str, preset.models.glob("*/*/model")))).encode())
    if card.shows_growth:
        tables = [f"{other.key}/{table}" for other in papers.ALL for table in (*other.growth, *other.regimes)]
        for file in (paths.record(size, table) for size in preset.sizes for table in tables):
            digest.update(file.read_bytes() if file.exists() else b"")
    foreign = dict.fromkeys(papers.foreign(paper), True)
    folders = {section: {"folder"} for section in ("data", *papers.BESIDE)}
    settings = preset.model_dump_json(exclude={"encoder": True, **folders, **foreign})
    others = {key: value for key, value in parameters.items() if key not in ("preset", *papers.parameters())}
    known = [settings, others, encoder_fingerprint(preset.encoder), glove_digest(preset.mnemonic.glove)]
    read = [section for section in ("data", *papers.BESIDE) if section not in foreign]
    for drawn in dict.fromkeys(map(preset.drawn, range(preset.seeds))):
        known += _contents(drawn, read)
    digest.update(json.dumps(known, sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _contents(preset: Preset, sections: Iterable[str]) -> Iterator[str]:
    """All examples of some sections by their content; what cannot be read is said by the notebook that needs it."""
    data = preset.data
    known = [content for section in sections for content in fingerprints(getattr(preset, section))]
    for content in (*known, lambda: repr(load_adversarial(data)), lambda: fingerprint(narrative(data), "stories")):
        try:
            yield content()
        except DataError as error:
            yield str(error)


def run(wanted: list[str], parameters: dict[str, object], *, force: bool = False) -> int:
    """Run the notebooks (all, if none is named) and the report; returns 0, or 1 if one failed.

    Each notebook gets those ``parameters`` that it declares; one that none declares is an error. A notebook that was
    executed here from the same code, settings and data is skipped, unless ``force``. The report comes last, whenever
    another has run, and is exported as one page. A notebook that fails does not stop the others.
    """
    own, parameters = asked(wanted, parameters)
    preset, chosen = preset_for(parameters).name, [name for name in own if name != REPORT]
    print(session.limits(parameters, *chosen), end="")
    jobs = [Job(name, session.place(own[name], name), own[name]) for name in chosen]
    for place in list(dict.fromkeys(job.place for job in jobs)) or [parameters.get("results") or preset]:
        jobs.append(Job(REPORT, place, own[REPORT] | ({} if place == preset else {"results": place})))
    outcome: dict[str, str] = {}
    with _bar(parameters, chosen):
        for job in jobs:
            try:
                outcome[str(job)] = _run(job, force)
            except papermill.PapermillExecutionError as error:
                first, *more = error.evalue.splitlines() or [""]
                said = f"{first} {more[0].strip()}" if first.endswith(":") and more else first
                outcome[str(job)] = f"FAILED: {error.ename}: {said} (see {os.path.relpath(job.unfinished)})"
            except Exception as error:  # a dead kernel, bad data, a full disk: the others may still run
                outcome[str(job)] = f"FAILED: {type(error).__name__}: {error}"
            if list(outcome.values()).count(outcome[str(job)]) == 1 or not outcome[str(job)].startswith("FAILED"):
                print(f"{job}: {outcome[str(job)]}", flush=True)
    failed = [name for name, text in outcome.items() if text.startswith("FAILED")]
    print("\n" + "\n".join(_summary(outcome)) + "\n")
    for job in (job for job in jobs if job.name == REPORT and str(job) not in failed):
        print(f"report: {os.path.relpath(paths.report(job.place))}")
    if failed:
        print(f"{len(failed)} of {len(outcome)} notebooks failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _bar(parameters: dict[str, object], notebooks: list[str]) -> AbstractContextManager:
    """The bar over the trainings of notebooks, where somebody looks."""
    if not sys.stderr.isatty():
        return nullcontext()
    known = papers.parameters()
    asked = of_the_preset({name: value for name, value in parameters.items() if name == "preset" or name in known})
    try:
        return bar_over(inventory.of(asked), asked, notebooks)
    except (DataError, EncoderError):  # which the notebook says that needs the data or the encoder
        return nullcontext()


def _summary(outcome: dict[str, str]) -> Iterator[str]:
    """What came of each notebook, a line each; one line for all that failed alike."""
    for name, text in outcome.items():
        alike = [other for other in outcome if outcome[other] == text] if text.startswith("FAILED") else [name]
        if name == alike[0]:
            yield f"{', '.join(alike):<22} {text}"


class Job(NamedTuple):
    """A notebook to run, with its parameters, and where its results lie."""

    name: str
    place: str
    parameters: dict[str, object]

    @property
    def output(self) -> Path:
        """The executed notebook."""
        return paths.notebooks(self.place) / f"{self.name}.ipynb"

    @property
    def unfinished(self) -> Path:
        """The notebook as far as it came, while it runs and where it fails; another run has its own."""
        return paths.models(self.place) / "running" / self.place / f"{self.name}.{os.getpid()}.ipynb"

    def __str__(self) -> str:
        return f"{self.name} of {self.place}" if "+" in self.place else self.name


def _run(job: Job, force: bool) -> str:
    """Run one notebook, if it has to be, and export it if it is the report; returns what came of it."""
    preset, (paper, card) = preset_for(job.parameters, job.name), papers.card_of(job.name)
    if reason := card.left_out(preset):
        return f"left out, as {reason}"
    for section in papers.sections_of(paper) if paper and not card.shows_models else ():
        check_folder(getattr(preset, section))
    # What was executed here, by its key. It is not in git, so that a clone runs everything itself.
    done = paths.models(job.place) / f"{job.place}.done"
    begun, key = time.perf_counter(), key_of(job.name, job.parameters)
    if _keys(done).get(job.name) == key and job.output.is_file() and not force:
        return DONE
    print(f"{job.name} ...", flush=True)
    for path in (job.unfinished, job.output):
        path.parent.mkdir(parents=True, exist_ok=True)
    _execute(job.name, job.parameters, job.unfinished)
    os.replace(job.unfinished, job.output)
    for failed in job.unfinished.parent.glob(f"{job.name}.*.ipynb"):
        if not psutil.pid_exists(int(failed.suffixes[0][1:])):
            failed.unlink(missing_ok=True)
    if job.name == REPORT:
        report.export(job.place, job.output)
    done.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(done.with_suffix(".lock")):
        write_whole(done, json.dumps({**_keys(done), job.name: key}, indent=1) + "\n")
    return f"{time.perf_counter() - begun:.0f} s"


def _keys(done: Path) -> dict[str, str]:
    try:
        return json.loads(done.read_text())
    except (FileNotFoundError, ValueError):  # damaged or not there: a notebook run once too often does no harm
        return {}


def _execute(name: str, parameters: dict[str, object], output: Path) -> None:
    """Execute one notebook and keep the copy without what only this machine has, and without its progress bars."""
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
