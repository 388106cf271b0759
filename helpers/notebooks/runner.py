"""Run notebooks headlessly with papermill: skip what is done, go on after a failure, end with the report."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import nbformat
import papermill
from filelock import FileLock
from tqdm.auto import tqdm

from helpers import paths
from helpers.data.adversarial import load_adversarial
from helpers.data.domains import fingerprint, narrative
from helpers.models.pretrained import encoder_fingerprint
from helpers.models.words import glove_digest
from helpers.notebooks import session
from helpers.results import report

REPORT = "99_report"
WIDGET = "application/vnd.jupyter.widget-view+json"
QUIET = ["--IPKernelApp.log_level=ERROR"]  # a kernel's warnings are not about our notebooks


def names() -> list[str]:
    """All notebooks, in order."""
    return sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


def key_of(name: str, parameters: dict[str, object]) -> str:
    """Names what an executed notebook depends on: its source, the package's, and the settings and data, or for the
    report the records."""
    preset = session.load_preset(parameters, *session.topics_of(name))
    digest = hashlib.sha256()
    sources = [*paths.PACKAGE.rglob("*.py"), paths.PRESETS / "paper_results.toml"]
    for file in (paths.NOTEBOOKS / f"{name}.ipynb", *sorted(sources)):
        digest.update(file.read_bytes())
    if name == REPORT:
        for file in sorted(paths.results(preset.name).glob("*/*.json")):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]
    others = {key: value for key, value in parameters.items() if key not in ("preset", *session.PRESET_KEYS)}
    digest.update(json.dumps(others, sort_keys=True).encode())
    digest.update(preset.model_dump_json(exclude={"encoder": True, "data": {"folder": True}}).encode())
    digest.update(encoder_fingerprint(preset.encoder).encode())
    for domain in preset.data.domains:
        digest.update(fingerprint(preset.data, domain).encode())
    if name.endswith("adversarial") or ("_a2d_" in name and not name.endswith("narrativeqa")):
        digest.update(repr(load_adversarial(preset.data)).encode())
    if "_a2d_" in name:
        digest.update(glove_digest(preset.mnemonic.glove).encode())
    if name.endswith("narrativeqa"):
        digest.update(fingerprint(narrative(preset.data), "stories").encode())
    return digest.hexdigest()[:16]


def run(wanted: list[str], parameters: dict[str, object], *, force: bool = False) -> int:
    """Run the notebooks (all, if none is named) and the report; returns 0, or 1 if one failed.

    Each notebook gets those ``parameters`` that it declares; one that none declares is an error. A notebook that was
    executed here from the same code, settings and data is skipped, unless ``force``. The report comes last, whenever
    another has run, and is exported as one page. A notebook that fails does not stop the others.
    """
    chosen = [Path(name).stem for name in wanted] or names()
    if unknown := sorted(set(chosen) - set(names())):
        raise session.ParameterError(f"no notebook {', '.join(unknown)}; there are {', '.join(names())}")
    declared = {name: session.parameters_of(paths.NOTEBOOKS / f"{name}.ipynb") for name in [*chosen, REPORT]}
    everything = {key: value for known in declared.values() for key, value in known.items()}
    parameters = session.check(parameters, everything, chosen[0] if len(chosen) == 1 else "this set of notebooks")
    preset = session.load_preset(parameters).name
    folder = paths.notebooks(preset)
    folder.mkdir(parents=True, exist_ok=True)
    keys = Keys(paths.models(preset) / "notebooks.done")

    outcome: dict[str, str] = {}
    for name in tqdm([*(n for n in chosen if n != REPORT), REPORT], desc="notebooks", disable=not sys.stderr.isatty()):
        own = {key: value for key, value in parameters.items() if key in declared[name]}
        begun = time.perf_counter()
        if name.endswith("narrativeqa") and not session.load_preset(own).data.narrative:
            outcome[name] = "left out, as data.narrative names no free answers"
            continue
        try:
            key = key_of(name, own)
            if keys.stored(name) == key and (folder / f"{name}.ipynb").is_file() and not force:
                outcome[name] = "done before"
                continue
            print(f"{name} ...", flush=True)
            _execute(name, own, folder / f"{name}.ipynb")
            keys.store(name, key)
            outcome[name] = f"{time.perf_counter() - begun:.0f} s"
        except papermill.PapermillExecutionError as error:
            first = error.evalue.splitlines()[0] if error.evalue else ""
            outcome[name] = f"FAILED: {error.ename}: {first} (see {os.path.relpath(folder)}/{name}.ipynb)"
        except Exception as error:  # a dead kernel, bad data, a full disk: the others may still run
            outcome[name] = f"FAILED: {type(error).__name__}: {error}"
        print(f"{name}: {outcome[name]}", flush=True)
    failed = [name for name, text in outcome.items() if text.startswith("FAILED")]
    print("\n" + "\n".join(f"{name:<22} {text}" for name, text in outcome.items()))
    if REPORT not in failed:
        print(f"\nreport: {os.path.relpath(report.export(preset, folder / f'{REPORT}.ipynb'))}")
    if failed:
        print(f"{len(failed)} of {len(outcome)} notebooks failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


class Keys:
    """The keys of the notebooks executed on this machine; not in git, so that a clone runs everything itself."""

    def __init__(self, path: Path):
        self.path = path

    def stored(self, name: str) -> str | None:
        return self._all().get(name)

    def store(self, name: str, key: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps({**self._all(), name: key}, indent=1) + "\n")
            os.replace(new, self.path)

    def _all(self) -> dict[str, str]:
        try:
            return json.loads(self.path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):  # a notebook run once too often does no harm
            return {}


def _execute(name: str, parameters: dict[str, object], output: Path) -> None:
    """Execute one notebook and keep the copy without what only this machine has, and without its progress bars."""
    source = str(paths.NOTEBOOKS / f"{name}.ipynb")
    made = papermill.execute_notebook(
        source, str(output), parameters, kernel_name="python3", progress_bar=False, extra_arguments=QUIET
    )
    for key in ("papermill", "widgets"):
        made.metadata.pop(key, None)
    for cell in made.cells:
        cell.metadata.pop("papermill", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    nbformat.write(made, output)
