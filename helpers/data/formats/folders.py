"""Which file of a folder is which part of a domain: train, valid or test."""

import re
from collections import defaultdict
from pathlib import Path

from helpers import paths
from helpers.data.examples import DataError
from helpers.data.formats.arrow import is_saved, saved_splits
from helpers.data.formats.files import is_narrativeqa, listing, shard_of, suffix_of
from helpers.presets.schema import DataSettings, Drawn, TasksSettings, TextsSettings

PARTS = ("train", "valid", "test")
ALL_PARTS = (*PARTS, "unlabelled")
FLAGS = {  # the parameter of each section's folder
    DataSettings: "data_dir",
    TextsSettings: "mnli_dir path/to/data or -p reviews_dir",
    TasksSettings: "tasks_dir",
}
_NAMES = {
    **{part: part for part in PARTS},
    **dict.fromkeys(("training", "trn"), "train"),
    **dict.fromkeys(("validation", "validate", "val", "dev", "development"), "valid"),
    **dict.fromkeys(("testing", "tst"), "test"),
}
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_EXPECTED = (
    "expected one file; or files whose names say train, valid (or dev) and test, one each or in numbered shards; or "
    "NarrativeQA's two files"
)
Files = tuple[Path, tuple[Path, ...]]  # a name for messages, and the shards of it, if it is not a file itself


def locate_folder(settings: Drawn) -> Path:
    """The folder of a preset's section, from here or from the repository's root. Raises `DataError`."""
    if folder := paths.find_folder(settings.folder):
        return folder
    raise DataError(
        f"the folder of {settings.names} is {settings.folder!r}, which is no folder; give the one that holds "
        f"{', '.join(settings.named.values())}, such as -p {FLAGS[type(settings)]} path/to/data"
    )


def find_parts(path: Path, begin: str = "") -> dict[str, Files]:
    """The files of each part of the domain at ``path``, or those of "all" where nothing says a part.

    Of several domains in one folder, ``begin`` is the word that the names of this one's files begin with.

    Raises `DataError` where it is not clear which file is what.
    """
    if not path.is_dir() or is_narrativeqa(path) or is_saved(path):
        return {"all": (path, ())}
    if splits := saved_splits(path):
        given = [(split, (path / split, ())) for split in splits]
    else:
        given = list(_sources(path, begin).items())
    if len(given) == 1:
        return {"all": given[0][1]}
    parts: dict[str, Files] = {}
    for name, files in given:
        roles = _roles(name)
        if len(roles) != 1 or roles & set(parts):
            raise DataError(f"{path}: it is not clear which part {name:.60} is; it holds {listing(path)}; {_EXPECTED}")
        parts[roles.pop()] = files
    if not parts:
        raise DataError(f"{path}: no domain {begin and f'{begin!r} '}here; it holds {listing(path)}; {_EXPECTED}")
    return parts


def unread(folder: Path, name: str) -> list[str]:
    """A note on the files that say a part, but are of no known form, as nothing is read from them; ``name`` is that of
    the domain."""
    if not folder.is_dir() or is_narrativeqa(folder) or is_saved(folder):
        return []
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    left = [file.name for file in files if _roles(file.name) and not _is_data(file)]
    return [f"{name}: not read, as they are of no known form: {', '.join(left[:5])}"] if left else []


def _roles(name: str) -> set[str]:
    return {_NAMES[word] for word in re.split(r"[\W_]+", name.lower()) if word in _NAMES}


def _sources(folder: Path, begin: str) -> dict[str, Files]:
    """The data files of a folder by their names, the shards of one as one."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    sources: dict[str, Files] = {}
    shards: dict[tuple[str, str, int], dict[int, Path]] = defaultdict(dict)
    for file in filter(_is_data, files):
        if not re.match(rf"{re.escape(begin)}([\W_]|$)" if begin else "", file.name):
            continue
        if match := shard_of(file):
            key = match["before"], match["after"], int(match["count"])
            shards[key][int(match["number"])] = file
        else:
            sources[file.name] = file, ()
    for (before, after, count), numbered in shards.items():
        if missing := [number for number in range(count) if number not in numbered]:
            raise DataError(
                f"{folder}: {before}…{after} is in {count} shards, of which {len(missing)} are missing, the first with "
                f"the number {missing[0]:05}; fetch them"
            )
        name = f"{before}-*-of-{count:05}{after}"
        sources[name] = folder / name, tuple(numbered[number] for number in range(count))
    return sources


def _is_data(file: Path) -> bool:
    """Whether the suffix says that a file holds questions, or it begins as one of the formats does."""
    if suffix_of(file) in _SUFFIXES:
        return True
    with file.open("rb") as opened:
        head = opened.read(200)
    return head.startswith((b"PAR1", b"\x1f\x8b")) or bool(
        re.match(rb'(\xef\xbb\xbf)?\s*(\[\s*)?\{\s*"|.*\bcontext\b.*\bquestion\b|.*\bquestion\b.*\bcontext\b', head)
    )
