"""Every path, once. Nothing else in the package spells out where a file lies."""

import os
import re
import tomllib
from pathlib import Path

from helpers.errors import UserError

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
PRESETS = PACKAGE / "presets"
MINI = ROOT / "data" / "mini"
CACHE = ROOT / "data" / "cache"  # downloads, not in git
NOTEBOOKS = ROOT / "notebooks"


def places(name: str) -> list[Path]:
    """Where a file or folder that a person names may lie: as it is, from here, or from the repository's root."""
    return [Path(name).expanduser(), ROOT / name]


def find_folder(name: str) -> Path | None:
    """The folder that a name stands for, from here or from the repository's root; None where there is none."""
    return next((place for place in places(name) if place.is_dir()), None) if name else None


def public_name(place: str) -> str:
    """A path without the parts that only this machine has; another name as it is."""
    path = Path(place)
    return path.name if path.is_absolute() or ".." in path.parts else place


def preset_name(preset: str | Path) -> str:
    """The name of the preset's folder: ``preset`` itself, which may have other settings behind a "+", or the ``name``
    in the TOML file that it points to. Raises UserError for one that cannot name a folder."""
    name = str(preset)
    if name.endswith(".toml"):
        try:
            name = tomllib.loads(Path(preset).read_text(encoding="utf-8")).get("name")
        except FileNotFoundError:
            raise UserError(f"{preset}: there is no such preset file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{preset}: this is not TOML: {error}") from None
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]*(\+[\w.=,-]+)?", name):
        raise UserError(
            f"{preset}: the preset's name is {name!r}, and it names a folder under results/; "
            "use letters, digits, '_', '-' and '.' only"
        )
    return name


def results(preset: str | Path) -> Path:
    """The folder of everything that a preset's runs leave behind, below HELPERS_RESULTS where that is set."""
    return Path(os.environ.get("HELPERS_RESULTS") or ROOT / "results") / preset_name(preset)


def record(preset: str | Path, artefact: str, suffix: str = "json") -> Path:
    """The result record of an artefact such as ``imm/table1``, or its drawing: ``suffix`` is ``png`` or ``svg``."""
    return results(preset) / f"{artefact}.{suffix}"


def models(preset: str | Path) -> Path:
    """The folder of the cached trainings (not in git), whatever else differs from the preset."""
    return results(preset_name(preset).partition("+")[0]) / "models"


def notebooks(preset: str | Path) -> Path:
    """The folder of the executed notebooks."""
    return results(preset) / "notebooks"


def report(preset: str | Path) -> Path:
    """The one-page report."""
    return results(preset) / "report.html"
