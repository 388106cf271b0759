"""Where the repository's folders and results lie, and what a person's path stands for."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
PRESETS = PACKAGE / "presets"
MINI = ROOT / "data" / "mini"
CACHE = ROOT / "data" / "cache"  # downloads, not in git
NOTEBOOKS = ROOT / "notebooks"


def expand(name: str) -> Path:
    """The path that a name stands for, where ``~`` is somebody's home."""
    return Path(os.path.expanduser(name))  # as Path's own methods raise for the home of nobody and a name too long


def places(name: str) -> list[Path]:
    """Where a file or folder that a person names may lie: as it is, from here, or from the repository's root."""
    return [expand(name), ROOT / name]


def find(name: str) -> Path:
    """The first of the `places` where there is something, or else the name as it is."""
    return next((place for place in places(name) if os.path.exists(place)), Path(name))


def find_folder(name: str) -> Path | None:
    """The folder that a name stands for, from here or from the repository's root; None where there is none."""
    folder = find(name)
    return folder if name and os.path.isdir(folder) else None


def public_name(place: str) -> str:
    """A path without the parts that only this machine has; another name as it is."""
    path = Path(place)
    return path.name if path.is_absolute() or ".." in path.parts else place


# ``run_name`` below is a preset's name, with other settings behind a "+" if there are any.


def published(run_name: str) -> Path:
    """The folder of the results that are committed."""
    return ROOT / "results" / run_name


def results(run_name: str) -> Path:
    """The folder that a run writes to: below results/local, not in git, or HELPERS_RESULTS where that is set."""
    return Path(os.environ.get("HELPERS_RESULTS") or published("local")) / run_name


def find_results(run_name: str, pattern: str) -> list[Path]:
    """List the results that match a pattern, by name: those of local runs, and the committed ones they lack.

    With HELPERS_RESULTS only that folder counts.
    """
    folders = [results(run_name)] if os.environ.get("HELPERS_RESULTS") else [published(run_name), results(run_name)]
    by_name = {file.relative_to(folder): file for folder in folders for file in folder.glob(pattern)}
    return [by_name[name] for name in sorted(by_name)]


def trainings() -> Path:
    """The folder whose subfolders have the cached trainings, the same for local and committed results."""
    return Path(os.environ.get("HELPERS_RESULTS") or published(""))


def record(run_name: str, artefact: str, suffix: str = "json") -> Path:
    """The result record of an artefact such as ``imm/table1``, or its drawing: ``suffix`` is then ``svg``."""
    return results(run_name) / f"{artefact}.{suffix}"


def models(run_name: str) -> Path:
    """The folder of the cached trainings (not in git), whatever else differs from the preset."""
    return trainings() / run_name.partition("+")[0] / "models"


def notebooks(run_name: str) -> Path:
    """The folder of the executed notebooks."""
    return results(run_name) / "notebooks"


def report(run_name: str) -> Path:
    """The one-page report."""
    return results(run_name) / "report.html"
