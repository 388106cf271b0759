"""Find the domains in a folder of files: every file and subfolder that holds data is one."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from glob import escape
from itertools import chain
from pathlib import Path

from helpers import paths
from helpers.data.downloads import find_download
from helpers.data.examples import DataError
from helpers.data.files import fetch_place, find_section_folder
from helpers.data.questions import find_question_files
from helpers.data.rows import DATA_SUFFIXES, PART_WORDS
from helpers.data.texts import CONFIGURATIONS
from helpers.presets.schema import (
    LONGEST_NAME,
    DatasetSettings,
    DataSettings,
    TasksSettings,
    UnlabelledSettings,
    is_word,
)

REVIEWS = ".review"  # ends the names of Amazon's files
WEIGHTS = (".safetensors", ".bin", ".pt")  # of a saved model
MAX_NAMES = 8  # names that a text lists
PART = rf"[\W_](?:{'|'.join(PART_WORDS)})(?![^\W_]).*|\.(?:positive|negative)\{REVIEWS}"  # behind a domain's name


def with_every_domain(settings: DatasetSettings) -> DatasetSettings:
    """Return a section with every file and subfolder of its folder as a domain or task, unless its own are there.

    Its own count if all are there (questions: a user's folder may have a "news" too) or any (texts, tasks).

    Files with one prefix before their part are one domain. What is no data by its name is passed over, as saved models
    are. Labels are then read from the texts. Raises DataError.
    """
    folder = paths.find_folder(settings.folder)
    if settings.source != "files" or not folder:
        return settings
    stems = _find_stems(folder)
    present = {word for source in settings.named.values() for word in source.split(":") if (folder / word).exists()}
    present |= set(stems)
    enough = all if isinstance(settings, DataSettings) else any
    if enough(present.intersection(source.split(":")) for source in settings.named.values()):
        return settings
    others = {"adversarial": None, "narrative": "", "labels": [], "split": "content"}
    others = {key: value for key, value in others.items() if key in type(settings).model_fields}
    return settings.model_copy(update={settings.names: _name_domains(stems, folder), **others})


def find_unlabelled(data: DataSettings) -> UnlabelledSettings:
    """Return the section of the questions in ``data.unlabelled``, every file and subfolder of which is a domain.

    Its sizes and seeds are those of ``data``. Raises DataError.
    """
    if not (folder := paths.find_folder(data.unlabelled)):
        raise DataError(f"unlabelled: expected a folder, found none at {data.unlabelled}; correct the path")
    fields = data.model_dump(include={"seed", "draw", "train_size", "valid_size", "test_size", "unlabelled"})
    domains = _name_domains(_find_stems(folder), folder)
    return UnlabelledSettings(source="files", folder=data.unlabelled, domains=domains, **fields)


def _find_stems(folder: Path) -> dict[str, str]:
    # Returns what names each domain of a folder by its place.
    stems = {}
    for entry in sorted(folder.iterdir()):
        if _holds_data(entry):
            prefix = None if entry.is_dir() else re.fullmatch(rf"(?is)(.+?)(?:{PART})", entry.name)
            place = prefix[1] if prefix else entry.name
            stems[place] = place if prefix or entry.is_dir() else _remove_suffix(place)
    return stems


def _holds_data(entry: Path) -> bool:
    # Tells it by names alone: README.md, LICENSE and pictures beside the data are none.
    if entry.name.startswith("."):
        return False
    if entry.is_dir():
        files = [file for file in entry.iterdir() if file.is_file()]
        return not any(file.suffix in WEIGHTS for file in files) and any(map(_holds_data, files))
    return _remove_suffix(entry.name) != entry.name


def _remove_suffix(name: str) -> str:
    ending = "|".join(map(re.escape, (*DATA_SUFFIXES, REVIEWS)))
    return re.sub(rf"({ending})(\.gz)?$", "", name, flags=re.IGNORECASE)


def _name_domains(stems: dict[str, str], folder: Path) -> dict[str, str]:
    # Returns the places by name. Names differ by more than case, as they name folders.
    if not stems:
        listing = _list(entry.name for entry in sorted(folder.iterdir()))
        raise DataError(
            f"{folder}: no data file; expected names that end in {', '.join(DATA_SUFFIXES)}, found {listing}"
        )
    _check_have_domains(stems, folder)
    names: dict[str, str] = {}
    for place, stem in stems.items():
        cleaned, number, taken = clean_name(stem) or "domain", 1, {name.casefold() for name in names}
        name = cleaned
        while name.casefold() in taken:
            number += 1
            name = f"{clean_name(cleaned, LONGEST_NAME - 4)}-{number}"
        names[name] = place
    return names


def clean_name(text: str, size: int = LONGEST_NAME) -> str:
    """Return what of a text can name a domain: letters and digits of any script, - and _; "" where none is left.

    Other characters become "-". What is longer than ``size`` bytes is cut.
    """
    characters = [char if is_word(char) else "-" for char in unicodedata.normalize("NFC", text)]
    name = re.sub("-+", "-", "".join(characters)).encode()[:size].decode(errors="ignore").rstrip("-_")
    while name and not name[0].isalnum():
        name = name[1:]
    return name


def _check_have_domains(names: Iterable[str], folder: Path) -> None:
    # Files such as train-v2.0.json and dev-v2.0.json are no two domains.
    alike = defaultdict(list)
    for name in names:
        if match := re.fullmatch(rf"(?is)(?:{'|'.join(PART_WORDS)})(?![^\W_])(.*)", name):
            alike[match[1]].append(name)
    for parts in alike.values():
        if len(parts) > 1:
            raise DataError(
                f"{folder}: {_list(parts)} name parts and no domain; put them into a subfolder named for it"
            )


def find_copy(settings: DatasetSettings, source: str) -> Path | None:
    """Return where a section's folder has a copy of a corpus that is downloaded otherwise; None where it has none.

    That of mrqa-2019:SQuAD is in mrqa-2019/SQuAD, with the files as downloads name them; that of nyu-mll/glue:cola is
    the Hub's repository in nyu-mll/glue.
    """
    if not (folder := paths.find_folder(settings.folder)):
        return None
    corpus, _, download = find_download(settings.downloads, source)
    words = corpus.split(":")
    place = folder.joinpath(*(words if download and download.files else words[:1]))
    return place if place.is_dir() else None


def find_local(settings: DatasetSettings, name: str) -> DatasetSettings | None:
    """Return the section with source "files" where its folder has files of a domain or task; None where it has none.

    They are under its name, or the last part of its source, as books is that of amazon-reviews:texts:books. A copy of
    the corpus itself (`find_copy`) comes first.
    """
    folder, source = paths.find_folder(settings.folder), settings.named[name]
    if not folder or find_copy(settings, source):
        return None
    last = source.rpartition(":")[2]
    for place in (name, last):
        if (folder / place).exists() or any(folder.glob(f"{escape(place)}[._-]*")):
            form = f"{CONFIGURATIONS.get(last, 'texts')}:" if isinstance(settings, TasksSettings) else ""
            named = {**settings.named, name: f"{form}{place}"}
            return settings.model_copy(update={"source": "files", settings.names: named})
    return None


def list_sources(settings: DatasetSettings) -> list[str]:
    """List where a section's domains or tasks are, and its adversarial questions."""
    adversarial = getattr(settings, "adversarial", None)
    return [*settings.named.values(), *(adversarial.places.values() if adversarial else ())]


def list_read(settings: DatasetSettings) -> list[str]:
    """List what a section reads: its sources, and stories."""
    return [source for source in [*list_sources(settings), getattr(settings, "narrative", "")] if source]


def list_copies(data: DataSettings) -> list[Path]:
    """List the files of a section's folder that are read instead of what is downloaded, sorted."""
    copies = {copy for source in list_sources(data) if (copy := find_copy(data, source))}
    files = {file for copy in copies for file in copy.rglob("*") if file.is_file()}
    for name in data.domains:
        if as_files := find_local(data, name):
            files.update(_list_files(as_files, as_files.domains[name]))
    return sorted(files)


def find_source(folder: Path, source: str) -> Path:
    """Return the place of a source such as ``file:genre`` or ``FORMAT:place`` in a folder."""
    places = [folder / word for word in (source, *source.split(":"))]
    return next((place for place in places if place.exists()), places[0])


def state_files(settings: DatasetSettings) -> str:
    """State the files that each domain or task of a section is read from, a line each, and what is passed over.

    Raises DataError.
    """
    if settings.is_generated:
        return f"no files: the {settings.names} {_list(settings.named)} are generated"
    if settings.source != "files":
        return "\n".join(f"{name}: {_state_source(settings, name)}" for name in settings.named)
    folder, lines, read = paths.find_folder(settings.folder), [], []
    for name, source in settings.named.items():
        files = _list_files(settings, source)
        places = [file.relative_to(folder) if folder and file.is_relative_to(folder) else file.name for file in files]
        lines.append(f"{name}: {_list(map(str, places))}")
        read += files
    entries = sorted(folder.iterdir()) if folder else []
    others = [entry.name for entry in entries if not any(file.is_relative_to(entry) for file in read)]
    if others:
        lines.append(f"not read as domains: {_list(others)}")
    return "\n".join(lines)


def _state_source(settings: DatasetSettings, name: str) -> str:
    source = settings.named[name]
    if copy := find_copy(settings, source):
        return f"{copy.relative_to(paths.find_folder(settings.folder))}, checked as {source}"
    if copies := find_local(settings, name):
        return _list(file.name for file in _list_files(copies, copies.named[name]))
    _, _, download = find_download(settings.downloads, source)
    return f"{source}, by URL" if download and download.files else f"{source}, from the Hub"


def _list_files(settings: DatasetSettings, source: str) -> list[Path]:
    if isinstance(settings, DataSettings):
        return [*chain(*find_question_files(fetch_place(settings, source)).values())]
    place = find_source(find_section_folder(settings), source)
    if not place.is_dir():  # a file, or what stands before the part in the names of several
        return [place] if place.exists() else sorted(place.parent.glob(f"{escape(place.name)}[._-]*"))
    return sorted(file for file in place.iterdir() if file.is_file() and not file.name.startswith("."))


def _list(names: Iterable[str]) -> str:
    shown = [name if name.isprintable() else repr(name) for name in names]  # no name breaks the line
    more = [f"and {len(shown) - MAX_NAMES} more"] * (len(shown) > MAX_NAMES)
    return ", ".join([*shown[:MAX_NAMES], *more]) or "nothing"
