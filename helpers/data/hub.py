"""Source "hub": read domains and tasks from datasets on the Hugging Face Hub, or from their authors' files by URL.

What the section's folder has is read from there instead: a copy of the corpus, which is checked like what arrives, or
files under the domain's name.
"""

import re
from pathlib import Path

from helpers.data import downloads
from helpers.data.examples import DataError, Example, Records
from helpers.data.files import read as read_files
from helpers.data.files import read_parts_once
from helpers.data.folders import find_copy, find_local
from helpers.data.questions import parse_questions, read_adversarial_file, rename_taken
from helpers.data.rows import REJECTED_SHARE, leave_out_rejected, read_each
from helpers.data.texts import CONFIGURATIONS, GLUE, LABELS, describe_task, parse_choices, parse_glue, parse_texts
from helpers.data.texts import read_texts as read_text_files
from helpers.presets.schema import DatasetSettings, DataSettings, Download, TasksSettings, TextsSettings


def read(settings: DatasetSettings, name: str) -> Records:
    """Read a domain or task of a section: a dataset on the Hub, or what the preset downloads. Raises DataError."""
    if copies := find_local(settings, name):
        return read_files(copies, name)
    if isinstance(settings, DataSettings):
        return _read_questions(settings, name)
    if isinstance(settings, TextsSettings):
        return _read_texts(settings, settings.domains[name])
    return _read_task(settings, name)


def _read_questions(data: DataSettings, name: str) -> Records:
    unanswerable, may_reject = data.may_be_unanswerable(name), data.reject == "count"
    source = data.domains[name]
    corpus, configuration, download = downloads.find_download(data.downloads, source)
    if download and download.files:
        records, notes = read_parts_once(_fetch(data, source), unanswerable, may_reject)
        for split in download.rows:
            rows = len(records.get(split.removesuffix("ation"), ()))
            downloads.check_rows(corpus, download, split, rows, REJECTED_SHARE * may_reject)
        if "test" in records:  # NarrativeQA's is public
            return Records(records, notes, {})
        return Records({"train": records["train"], "test": records["valid"]}, notes, {})
    taken: set[str] = set()

    def read_split(split: str) -> tuple[list, list[str]]:
        rows = load_split(corpus, configuration, split, download, find_copy(data, source))
        records, notes = parse_questions(rows, f"{source}[{split}]", unanswerable, may_reject)
        return rename_taken(records, taken), notes

    # The papers report on public validation sets.
    parts, notes = read_each({"train": ["train"], "test": ["validation"]}, read_split)
    return Records(parts, notes, {})


def _read_texts(settings: TextsSettings, source: str) -> Records:
    corpus, genre, download = downloads.find_download(settings.downloads, source)
    if download and download.files:  # a domain each, instead of a genre
        parts, notes = read_text_files(_fetch(settings, source) / genre, settings.labels)
        downloads.check_rows(corpus, download, genre, sum(map(len, parts.values())))
        return Records(parts, notes, {})

    def read_split(split: str) -> tuple[list, list[str]]:
        rows = load_split(corpus, "", split, download, find_copy(settings, source))
        labelled = [(where, row) for where, row in rows if all(row.get(column) != -1 for column in LABELS)]
        labelled, notes = leave_out_rejected(labelled, f"{source}[{split}]")
        return parse_texts(labelled, f"{source}[{split}]", settings.labels, genre=genre), notes

    # The first validation set of MNLI has the genres of its training set.
    validation = [split for split in download.rows if split.startswith("validation")] if download else []
    parts, notes = read_each({"train": ["train"], "test": (validation or ["validation"])[:1]}, read_split)
    return Records(parts, notes, {})


def _read_task(settings: TasksSettings, name: str) -> Records:
    source = settings.tasks[name]
    dataset, _, configuration = source.partition(":")
    if configuration not in CONFIGURATIONS:
        configurations = ", ".join(CONFIGURATIONS)
        raise DataError(f"{name}: {source!r} names no configuration of {configurations}; write dataset:configuration")
    form = CONFIGURATIONS[configuration]
    task = GLUE.get(form)
    variant = task.variant if task else ""
    splits = {"train": "train", "valid": f"validation{variant}"}
    if task:
        splits["unlabelled"] = f"test{variant}"
    parts = {}
    for part, split in splits.items():
        rows = load_split(dataset, configuration, split, settings.downloads.get(source), find_copy(settings, source))
        place = f"{source}[{split}]"
        if task:
            parts[part] = parse_glue(rows, place, task, "" if part == "unlabelled" else "label")
        else:
            parts[part] = parse_choices(rows, place)
    return Records(parts, [], describe_task(form, parts))


def read_adversarial(data: DataSettings, *, must_exist: bool = True) -> dict[str, list[Example]]:
    """Read the adversarial sets by name, or those whose file is there. Raises DataError."""
    files = {}
    for name, source in data.adversarial.places.items():
        _, _, download = downloads.find_download(data.downloads, source)
        if not download or not download.files:
            raise DataError(f"{source}: the preset says no URL of it; add one to data.downloads")
        files[name] = _fetch(data, source) / next(iter(download.files))
    return {name: read_adversarial_file(file) for name, file in files.items() if must_exist or file.exists()}


def _fetch(settings: DatasetSettings, source: str) -> Path:
    # Returns the folder of the files of a corpus: of the person's copy, or of what is downloaded.
    corpus, _, download = downloads.find_download(settings.downloads, source)
    if copy := find_copy(settings, source):
        return downloads.check_copy(corpus, download, copy)
    return downloads.fetch(corpus, download)


def load_split(
    name: str, configuration: str, split: str, download: Download | None, copy: Path | None = None
) -> list[tuple[str, dict]]:
    """Return the rows of a split of a dataset on the Hub, or of a copy of its repository, with names for class numbers.

    Raises DataError."""
    import datasets  # here, because it takes a second to import

    dataset, _, part = name.partition(":")
    revision = download.revision if download and not copy else None
    try:
        place = str(copy or dataset)
        rows = datasets.load_dataset(place, part or configuration or None, split=split, revision=revision)
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
        downloads.check_rows(name, download, split, len(rows))
        if sorted(rows.column_names) != sorted(download.columns):
            raise DataError(f"{name}: expected the columns {download.columns}, found {rows.column_names}")
        commits = set() if copy else {Path(file["filename"]).parent.name for file in rows.cache_files}
        if others := [commit for commit in commits if re.fullmatch("[0-9a-f]{40}", commit) and commit != revision]:
            # Without a network `datasets` returns the revision in its cache, whichever was requested.
            raise DataError(f"{name}: expected revision {revision}, found {others[0]}; connect to the network")
    names = {column: feature.names for column, feature in rows.features.items() if hasattr(feature, "names")}
    named_rows = []
    for number, row in enumerate(rows, 1):
        labels = {column: names[column][row[column]] for column in names if row[column] not in (None, -1)}
        named_rows.append((f"row {number}", row | labels))
    return named_rows
