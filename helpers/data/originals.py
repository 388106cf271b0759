"""Corpora as their authors' files: downloaded once into data/cache, and checked before every use."""

import hashlib
import shutil
import tarfile
import urllib.request
import zipfile
import zlib
from functools import partial
from http.client import HTTPException
from pathlib import Path

from filelock import FileLock
from tqdm.auto import tqdm

from helpers import paths
from helpers.data import questions
from helpers.data.examples import Corpus, DataError
from helpers.files import write_whole
from helpers.presets.downloads import Collection, File, Originals

TIMEOUT = 60.0  # seconds without a byte


def load_original(collection: str, known: Collection, corpus: str, split: str, *, unanswerable: bool = False) -> Corpus:
    """The questions of ``split`` of one corpus of a collection, downloaded if they are not there.

    Raises `DataError` for names that the preset does not have, files that cannot be had or are not the expected
    ones, and another number of questions than the preset says.
    """
    name, originals = f"{collection}:{corpus}", _named(collection, known, corpus)
    if split not in originals.rows:
        raise DataError(f"{name}: the preset has no split {split!r} of it; it has {', '.join(originals.rows)}")
    folder = folder_of(collection, corpus)
    own = [file for file in originals.files if file.split(".")[0] == split]
    for file in own or originals.files:
        fetch(originals.files[file], folder / file)
    if own:
        found = questions.read(folder / own[0], unanswerable=unanswerable)
    else:
        found = questions.read(folder, part={"validation": "valid"}.get(split, split), unanswerable=unanswerable)
    if len(found.examples) != originals.rows[split]:
        raise DataError(
            f"{name}[{split}]: expected {originals.rows[split]:,} questions, as the preset says, found "
            f"{len(found.examples):,} in {folder}; delete it to have it fetched again, or correct the preset"
        )
    return found


def fetch_all(collection: str, known: Collection, corpus: str) -> Path:
    """The folder with all files of one corpus of a collection, downloaded if they are not there. Raises `DataError`."""
    folder = folder_of(collection, corpus)
    for name, file in _named(collection, known, corpus).files.items():
        fetch(file, folder / name)
    return folder


def _named(collection: str, known: Collection, corpus: str) -> Originals:
    if corpus not in known.corpora:
        there = ", ".join(f"{collection}:{name}" for name in known.corpora)
        raise DataError(f"{collection}:{corpus}: no such corpus; name one of {there}")
    return known.corpora[corpus]


def folder_of(collection: str, corpus: str) -> Path:
    """Where the files of a corpus are kept."""
    return paths.CACHE / collection / corpus


def fetch(file: File, path: Path) -> None:
    """Have ``file`` at ``path``, with its members beside it: as it lies there, or else downloaded.

    Its size and checksum are verified either way. Raises `DataError` where it cannot be had, or is another file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):  # several trainings may start at once
        if path.is_file():
            if unlike := _difference(file, path):
                raise DataError(f"{path}: {unlike}; delete it, and it is fetched again from {file.url}")
        else:
            _download(file, path)
        if not all(path.with_name(name).is_file() for name in file.members):
            _extract(file, path)


def _download(file: File, path: Path) -> None:
    part = path.with_name(f".{path.name}.part")  # what a killed run leaves of it is overwritten by the next
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT) as answer, part.open("wb") as content:
            size = int(answer.headers.get("Content-Length") or 0) or file.bytes
            with tqdm.wrapattr(answer, "read", total=size or None, desc=path.name, leave=False) as body:
                shutil.copyfileobj(body, content)
        if size and part.stat().st_size != size:
            raise OSError(f"the connection ended after {part.stat().st_size:,} of {size:,} bytes")
        if unlike := _difference(file, part):
            raise DataError(
                f"{file.url}: {unlike}; it is not the file that the preset means: compare with its authors' page, then "
                "correct bytes and sha256 in the preset"
            )
        part.replace(path)
    except (OSError, HTTPException) as error:
        raise DataError(
            f"{file.url}: it cannot be downloaded ({error}); connect to the network and run again, or get the file in "
            f"another way and put it at {path}"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _difference(file: File, path: Path) -> str:
    """How the file at ``path`` differs from what is known of it; empty: not at all."""
    size = path.stat().st_size
    if file.bytes and size != file.bytes:
        return f"expected {file.bytes:,} bytes, found {size:,}"
    if file.sha256:
        with path.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if found != file.sha256:
            return f"expected the SHA-256 {file.sha256}, found {found}"
    return ""


def _extract(file: File, path: Path) -> None:
    kind = "tar.gz" if path.name.endswith(".tar.gz") else "zip"
    try:
        # Members are read, and written under our own names: no path inside an archive leads elsewhere.
        with tarfile.open(path) if kind == "tar.gz" else zipfile.ZipFile(path) as archive:
            read = archive.read if isinstance(archive, zipfile.ZipFile) else partial(_unpacked, archive)
            for name, inside in file.members.items():
                write_whole(path.with_name(name), read(inside))
    except (zipfile.BadZipFile, tarfile.TarError, KeyError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: {error}; expected a .{kind} with {', '.join(file.members.values())}") from error


def _unpacked(archive: tarfile.TarFile, inside: str) -> bytes:
    content = archive.extractfile(inside)
    if content is None:
        raise KeyError(f"{inside} is no file")
    return content.read()
