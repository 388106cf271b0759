"""Run notebooks headlessly with papermill: skip what is done, go on after a failure, end with the report."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

import nbformat
import papermill
from tqdm.auto import tqdm

from helpers import notebook, paths, report
from helpers.data.domains import fingerprint
from helpers.models.reader import encoder_fingerprint

REPORT = "99_report"
QUIET = ["--IPKernelApp.log_level=ERROR"]  # a kernel's warnings are not about our notebooks


def names() -> list[str]:
    """All notebooks, in order."""
    return sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


def key_of(name: str, parameters: dict[str, object]) -> str:
    """Names what an executed notebook depends on: its source, the package's, and the settings and data, or for the
    report the records."""
    preset = notebook.load_preset(parameters)
    digest = hashlib.sha256()
    for file in (paths.NOTEBOOKS / f"{name}.ipynb", *sorted(paths.PACKAGE.rglob("*.py"))):
        digest.update(file.read_bytes())
    if name == REPORT:
        for file in sorted(paths.results(preset.name).glob("*/*.json")):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]
    digest.update(preset.model_dump_json(exclude={"encoder": True, "data": {"folder": True}}).encode())
    digest.update(encoder_fingerprint(preset.encoder).encode())
    for domain in preset.data.domains:
        digest.update(fingerprint(preset.data, domain).encode())
    return digest.hexdigest()[:16]


def run(wanted: list[str], parameters: dict[str, object], *, force: bool = False) -> int:
    """Run the notebooks (all, if none is named) and export the report; returns 0, or 1 if one failed.

    Each notebook gets those ``parameters`` that it declares; one that none declares is an error. A notebook whose
    executed copy was made from the same code, settings and data is skipped, unless ``force``; the report runs
    whenever another has run.
    """
    chosen = [Path(name).stem for name in wanted] or names()
    if unknown := sorted(set(chosen) - set(names())):
        raise notebook.ParameterError(f"no notebook {', '.join(unknown)}; there are {', '.join(names())}")
    declared = {name: notebook.parameters_of(paths.NOTEBOOKS / f"{name}.ipynb") for name in chosen}
    everything = {key: value for known in declared.values() for key, value in known.items()}
    parameters = notebook.check(parameters, everything, "no notebook of these")
    preset = str(parameters["preset"])
    folder = paths.notebooks(preset)
    folder.mkdir(parents=True, exist_ok=True)

    outcome: dict[str, str] = {}
    ran = False
    for name in tqdm(chosen, desc="notebooks", disable=not sys.stderr.isatty()):
        own = {key: value for key, value in parameters.items() if key in declared[name]}
        key, begun = key_of(name, own), time.perf_counter()
        if not force and not (name == REPORT and ran) and _stored_key(folder / f"{name}.ipynb") == key:
            outcome[name] = "done before"
            continue
        print(f"{name} ...", flush=True)
        error = _execute(name, own, folder / f"{name}.ipynb", key)
        outcome[name] = f"FAILED: {error}" if error else f"{time.perf_counter() - begun:.0f} s"
        print(f"{name}: {outcome[name]}", flush=True)
        ran = ran or error is None
    failed = [name for name, text in outcome.items() if text.startswith("FAILED")]
    print("\n" + "\n".join(f"{name:<22} {text}" for name, text in outcome.items()))
    if (folder / f"{REPORT}.ipynb").is_file():
        print(f"\nreport: {os.path.relpath(report.export(preset, folder / f'{REPORT}.ipynb'))}")
    if failed:
        print(f"{len(failed)} of {len(chosen)} notebooks failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _stored_key(executed: Path) -> str | None:
    if not executed.is_file():
        return None
    return nbformat.read(executed, as_version=4).metadata.get("helpers", {}).get("key")


def _execute(name: str, parameters: dict[str, object], output: Path, key: str) -> str | None:
    """Execute one notebook; the error in one line, or None. The copy is marked with ``key`` only if it succeeded."""
    source = str(paths.NOTEBOOKS / f"{name}.ipynb")
    try:
        made = papermill.execute_notebook(
            source, str(output), parameters, kernel_name="python3", progress_bar=False, extra_arguments=QUIET
        )
    except papermill.PapermillExecutionError as error:
        return f"{error.ename}: {error.evalue.splitlines()[0] if error.evalue else ''} (see {os.path.relpath(output)})"
    made.metadata["helpers"] = {"key": key}
    made.metadata.pop("papermill", None)  # holds this machine's paths
    for cell in made.cells:
        cell.metadata.pop("papermill", None)
    nbformat.write(made, output)
    return None
