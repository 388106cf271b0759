"""Folders of models that are kept: what may be written there, what an earlier run left, how it is replaced."""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from helpers import paths
from helpers.errors import UserError
from helpers.files import file_fingerprint, follow_umask, write_whole

KEPT = "kept.json"  # of a kept model: its files with fingerprints of their content


def check_keep(folder: str, names: Iterable[str], inputs: Iterable[str] = ()) -> None:
    """Raise UserError where `shared.keep_models` could not write models of these names into ``folder``.

    Each has a subfolder, which has to be new, empty, or as an earlier run left it. ``inputs`` are folders of data.
    """
    root = Path(folder).expanduser()
    for place in filter(None, inputs):
        if root.resolve().is_relative_to(paths.find(place).resolve()):
            raise UserError(f"keep: {root} lies in {place}, where every entry is a domain; choose a folder outside")
    if root.is_symlink():
        raise UserError(f"keep: {root}: it is a link; give the folder that it leads to")
    there = next(place for place in (root, *root.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"keep: {there}: expected a folder, found a file; choose another folder")
    try:
        TemporaryFile(dir=there).close()
    except OSError as error:
        raise UserError(f"keep: {there} cannot be written ({error.strerror}); choose another folder") from None
    for name in names:
        if problem := find_obstacle(root / name):
            raise UserError(f"keep: {root / name}: {problem}; choose another folder, or move this one away")


def find_obstacle(target: Path) -> str:
    """Return why the folder of a kept model must not be replaced; "" where it may."""
    if target.is_symlink():
        return "it is a link"
    if target.exists() and not target.is_dir():
        return "expected a folder, found a file"
    kept = read_kept(target)
    for file in sorted(target.rglob("*")):
        name = file.relative_to(target).as_posix()
        if file.is_symlink():
            return f"{name} is a link"
        if not file.is_dir() and name != KEPT:
            if name not in kept:
                return f"{name} was not kept there by an earlier run"
            if file_fingerprint(file) != kept[name]:
                return f"{name} has changed since it was kept"
    return ""


def read_kept(target: Path) -> dict[str, str]:
    """Read the list of a kept model's files; {} where there is none, or none that is readable."""
    try:
        kept = json.loads((target / KEPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def is_kept(folder: str, names: Iterable[str]) -> bool:
    """Return whether all models of these names are in ``folder``, each with all its files."""
    targets = [Path(folder).expanduser() / name for name in names]
    lists = {target: read_kept(target) for target in targets}
    return all(files and all((target / name).is_file() for name in files) for target, files in lists.items())


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """Give a folder to write a model into, and put it in the place of ``target``, with the list of its files.

    Where the process is killed, the earlier model stays, or none.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        written = Path(scratch) / "new"
        yield written
        follow_umask(written)
        files = [file for file in sorted(written.rglob("*")) if file.is_file()]
        kept = {file.relative_to(written).as_posix(): file_fingerprint(file) for file in files}
        write_whole(written / KEPT, json.dumps(kept, indent=1) + "\n")
        if target.exists():
            target.rename(Path(scratch) / "old")
        written.rename(target)


def copy_files(source: Path, target: Path) -> None:
    """Copy the files of a folder, with the permissions of new ones."""
    for file in [file for file in source.rglob("*") if file.is_file()]:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
