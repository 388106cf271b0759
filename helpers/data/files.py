"""Source "files": read domains and tasks from a folder, or from files that are downloaded by URL."""

from functools import cache
from pathlib import Path

from helpers import paths
from helpers.data import downloads
from helpers.data.examples import DataError, Example, Records
from helpers.data.questions import read_adversarial_file, read_question_parts
from helpers.data.texts import FORMATS, describe_task, read_task, read_texts
from helpers.presets.schema import DatasetSettings, DataSettings, TasksSettings, TextsSettings

read_parts_once = cache(read_question_parts)  # a section with a further domain, such as "general", reads the same files


def read(settings: DatasetSettings, name: str) -> Records:
    """Read a domain or task of a section, whose place is below its folder. Raises DataError."""
    place = settings.named[name]
    if isinstance(settings, DataSettings):
        unanswerable = settings.may_be_unanswerable(name)
        parts, notes = read_parts_once(fetch_place(settings, place), unanswerable, is_labelled=settings.is_labelled)
        return Records(parts, notes, {})
    if isinstance(settings, TextsSettings):
        place, genre, _ = downloads.find_download(settings.downloads, place)
        parts, notes = read_texts(fetch_place(settings, place), settings.labels, genre)
        return Records(parts, notes, {})
    return _read_task(settings, name)


def _read_task(settings: TasksSettings, name: str) -> Records:
    form, colon, place = settings.tasks[name].partition(":")
    if not colon:
        form, place = (name if name in FORMATS else "texts"), form
    if form not in FORMATS:
        raise DataError(f"{name}: {form!r} is no format of {', '.join(FORMATS)}; write FORMAT:place in the preset")
    parts, notes = read_task(fetch_place(settings, place), form)
    return Records(parts, notes, describe_task(form, parts))


def read_adversarial(data: DataSettings, *, must_exist: bool = True) -> dict[str, list[Example]]:
    """Read the adversarial sets by name, or those whose file is there. Raises DataError."""
    files = {name: fetch_place(data, place) for name, place in data.adversarial.places.items()}
    return {name: read_adversarial_file(file) for name, file in files.items() if must_exist or file.exists()}


def find_section_folder(settings: DatasetSettings) -> Path:
    """Return the folder of a section's files. Raises DataError."""
    if folder := paths.find_folder(settings.folder):
        return folder
    raise DataError(
        f"{settings.folder!r} is not a folder; name the one that holds {', '.join(settings.named.values())} with -p "
        "data_dir (questions), mnli_dir, reviews_dir or tasks_dir"
    )


def fetch_place(settings: DatasetSettings, place: str) -> Path:
    """Return the place of a domain's or task's files: below the section's folder, or in the download of that name.

    Downloads what a section without a folder names. Raises DataError.
    """
    name, _, inside = place.partition("/")
    if name in settings.downloads and not settings.folder:
        return downloads.fetch(name, settings.downloads[name]) / inside
    return find_section_folder(settings) / place
