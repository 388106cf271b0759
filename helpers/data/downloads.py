"""Download the files of corpora by URL, and check what arrives."""

import gzip
import lzma
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

from filelock import FileLock

from helpers import paths
from helpers.data.examples import DataError
from helpers.files import owner_of, write_whole
from helpers.presets.schema import Download

# What an archive raises that arrived cut, is another file, or lacks a member.
UNPACKABLE = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
UNPACKABLE += (EOFError, KeyError, AttributeError, RuntimeError)


def find_download(downloads: dict[str, Download], source: str) -> tuple[str, str, Download | None]:
    """Split a source such as name:part at the longest name that the preset knows, or else at the first colon."""
    for name in sorted(downloads, key=len, reverse=True):
        if f"{source}:".startswith(f"{name}:"):
            return name, source[len(name) + 1 :], downloads[name]
    name, _, part = source.partition(":")
    return name, part, None


def fetch(name: str, download: Download) -> Path:
    """Return the folder with all files of a corpus; download those that are not as expected. Raises DataError.

    What is taken out of an archive is compared with the archive, which therefore stays.
    """
    import pooch  # here, because it takes a while to import

    pooch.get_logger().setLevel("WARNING")
    folder = paths.CACHE.joinpath(*name.split(":"))
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, file in download.files.items():
        path, checksum = folder / file_name, f"sha256:{file.sha256}" if file.sha256 else None
        try:
            with FileLock(path.with_name(f".{file_name}.lock")):  # several trainings may start at once
                pooch.retrieve(file.url, checksum, file_name, folder, progressbar=sys.stderr.isatty())
                if file.members:
                    _extract(path, file.members, folder, may_delete=not checksum)
        except (OSError, ValueError) as error:  # requests raises OSErrors, pooch ValueErrors
            problem = f"{file.url}: {' '.join(str(error).split())}"
            todo = f"connect to the network, correct the preset, or put the file at {path}"
            if isinstance(error, PermissionError):  # the folder is another user's
                todo = f"ask {owner_of(folder)[1]} for permission to write there"
            raise DataError(f"{problem}; {todo}") from error
    return folder


def check_copy(name: str, download: Download, copy: Path) -> Path:
    """Check a person's copy of a corpus by its checksums; return the folder of its files, or of what archives hold.

    Nothing is written beside the copy. Raises DataError.
    """
    import pooch  # here, because it takes a while to import

    folder = paths.CACHE.joinpath(*name.split(":")) if any(f.members for f in download.files.values()) else copy
    for file_name, file in download.files.items():
        path, instead = copy / file_name, f"fetch it from {file.url}, or remove {copy}, so that it is downloaded"
        if not path.is_file():
            raise DataError(f"{copy}: expected {', '.join(download.files)}, found no {file_name}; {instead}")
        if file.sha256 and (checksum := pooch.file_hash(str(path))) != file.sha256:
            raise DataError(f"{path}: expected the SHA-256 {file.sha256}, found {checksum}; {instead}")
        if file.members:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with FileLock(folder / f".{file_name}.lock"):
                    _extract(path, file.members, folder, may_delete=False)
            except ValueError as error:
                raise DataError(f"{path}: {error}; {instead}") from error
    return folder


def _extract(archive: Path, members: dict[str, str], folder: Path, may_delete: bool) -> None:
    """Write the members of an archive into a folder, where they are not there as they are in it.

    They get names of our own: no path inside leads elsewhere. An archive that cannot be unpacked is deleted if it
    ``may_delete``, so that the next try downloads it again. Raises ValueError.
    """
    try:
        contents = _read_members(archive, {*members.values()})
        contents = {name: contents[path] for name, path in members.items()}
    except UNPACKABLE as error:
        if may_delete:
            archive.unlink()
        deleted = ", so it was deleted" * may_delete
        raise ValueError(f"{error}; expected an archive with {', '.join(members.values())}{deleted}") from error
    for name, content in contents.items():
        file = folder / name
        if not file.is_file() or file.read_bytes() != content:
            write_whole(file, content)


def _read_members(archive: Path, members: set[str]) -> dict[str, bytes]:
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as file:
            return {path: file.read(path) for path in members}
    with tarfile.open(archive) as file:  # in the archive's order, because going back means to unpack it again
        contents = {member.name: file.extractfile(member).read() for member in file if member.name in members}
        while file.fileobj.read(1 << 20):  # the checksum of gzip stands at the end
            pass
    return contents


def check_rows(name: str, download: Download, split: str, rows: int, missing: float = 0.0) -> None:
    """Raise DataError if a split has other rows than the preset says, of which a share may be ``missing``."""
    most = download.rows.get(split, -1)
    if not most - missing * most <= rows <= most:
        expected = f"{download.rows.get(split, 0):,} rows of {split!r}"
        raise DataError(f"{name}: expected {expected}, found {rows:,}; correct the source or its rows in the preset")
