"""Download corpora: their authors' files by URL, or datasets on the Hub. Check what arrives."""

import re
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

from filelock import FileLock

from helpers import paths
from helpers.data.examples import DataError
from helpers.files import write_whole
from helpers.presets.schema import Download


def find(downloads: dict[str, Download], source: str) -> tuple[str, str, Download | None]:
    """Split a source such as name:part at the longest name that the preset knows, or else at the first colon."""
    for name in sorted(downloads, key=len, reverse=True):
        if f"{source}:".startswith(f"{name}:"):
            return name, source[len(name) + 1 :], downloads[name]
    name, _, part = source.partition(":")
    return name, part, None


def fetch(name: str, download: Download) -> Path:
    """Return the folder with all files of a corpus; download those that are not as expected. Raises DataError."""
    import pooch  # here, because it takes a while to import

    pooch.get_logger().setLevel("WARNING")
    folder = paths.CACHE.joinpath(*name.split(":"))
    folder.mkdir(parents=True, exist_ok=True)
    for file_name, file in download.files.items():
        path, checksum = folder / file_name, f"sha256:{file.sha256}" if file.sha256 else None
        try:
            with FileLock(path.with_name(f".{file_name}.lock")):  # several trainings may start at once
                pooch.retrieve(file.url, checksum, file_name, folder, progressbar=sys.stderr.isatty())
                if not all((folder / member).is_file() for member in file.members):
                    _extract(path, file.members)
        except (OSError, ValueError) as error:  # requests raises OSErrors, pooch ValueErrors
            problem = f"{file.url}: {' '.join(str(error).split())}"
            todo = f"connect to the network, correct the preset, or put the file at {path}"
            raise DataError(f"{problem}; {todo}") from error
    return folder


def _extract(archive: Path, members: dict[str, str]) -> None:
    """Write the members of an archive beside it, under names of our own: no path inside leads elsewhere."""
    try:
        if archive.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as file:
                contents = {name: file.read(path) for name, path in members.items()}
        else:
            with tarfile.open(archive) as file:
                contents = {name: file.extractfile(path).read() for name, path in members.items()}
    except (zipfile.BadZipFile, tarfile.TarError, KeyError, AttributeError, EOFError, zlib.error) as error:
        raise ValueError(f"{error}; expected an archive with {', '.join(members.values())}") from error
    for name, content in contents.items():
        write_whole(archive.with_name(name), content)


def check_rows(name: str, download: Download, split: str, rows: int) -> None:
    """Raise DataError if a split has another number of rows than the preset says."""
    if download.rows.get(split) != rows:
        expected = f"{download.rows.get(split, 0):,} rows of {split!r}"
        raise DataError(f"{name}: expected {expected}, found {rows:,}; correct the source or its rows in the preset")


def load_hub(name: str, configuration: str, split: str, download: Download | None) -> list[tuple[str, dict]]:
    """Return the rows of a split of a dataset on the Hub, with names for class numbers. Raises DataError."""
    import datasets  # here, because it takes a second to import

    dataset, _, part = name.partition(":")
    revision = download.revision if download else None
    try:
        rows = datasets.load_dataset(dataset, part or configuration or None, split=split, revision=revision)
    except Exception as error:  # network, caches and files raise many types
        cause = error
        while cause.__cause__:  # the outer error often says no more than that something went wrong
            cause = cause.__cause__
        problem = " ".join(f"{type(cause).__name__}: {cause}".split())
        raise DataError(
            f"{name}, split {split!r}: cannot be loaded from the Hub: {problem:.300}; connect to the network, correct "
            f"the name, log in with `hf auth login`, or delete its folders in {datasets.config.HF_DATASETS_CACHE}"
        ) from error
    if download:
        check_rows(name, download, split, len(rows))
        if sorted(rows.column_names) != sorted(download.columns):
            raise DataError(f"{name}: expected the columns {download.columns}, found {rows.column_names}")
        commits = {Path(file["filename"]).parent.name for file in rows.cache_files}
        if others := [commit for commit in commits if re.fullmatch("[0-9a-f]{40}", commit) and commit != revision]:
            # Without a network `datasets` returns the revision in its cache, whichever was requested.
            raise DataError(f"{name}: expected revision {revision}, found {others[0]}; connect to the network")
    names = {column: feature.names for column, feature in rows.features.items() if hasattr(feature, "names")}
    return [
        (f"row {n}", row | {column: names[column][row[column]] for column in names if row[column] not in (None, -1)})
        for n, row in enumerate(rows, 1)
    ]
