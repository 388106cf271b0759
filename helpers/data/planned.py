"""Source "planned": stand-ins for the corpora that a preset downloads, a hundredth as large, to plan without them."""

from collections.abc import Iterator

from helpers.data.downloads import find_download
from helpers.data.examples import Example, QuestionRecord, Records, TextRecord
from helpers.data.texts import CONFIGURATIONS, GLUE, describe_task
from helpers.presets.schema import DatasetSettings, DataSettings, Download, TasksSettings

SCALE = 100
PER_WORD = 1.25  # word pieces per word of a passage
LEAST = 20  # examples of a part: splits need some
MOST = 800  # words of a passage: MRQA cuts it there
SPREAD = (-0.6, -0.3, 0.0, 0.3, 0.6)  # of lengths of passages around the mean, unless some were longer than MOST
QUESTION = "who the the the the the the the the the the the"


def read(settings: DatasetSettings, name: str) -> Records:
    """Make the records of a domain or task: as many as the preset says of its corpus, with passages of its length."""
    source = settings.named[name]
    corpus, part, download = find_download(settings.downloads, source)
    if isinstance(settings, DataSettings):
        splits = {"train": "train", "test": "validation"}
        if "test" in download.rows:
            splits = {"train": "train", "valid": "validation", "test": "test"}
        parts = {to: list(_make_questions(name, download, split)) for to, split in splits.items()}
        return Records(parts, [], {})
    if isinstance(settings, TasksSettings):
        form = CONFIGURATIONS[source.rpartition(":")[2]]
        labels = GLUE[form].labels or ("1.0", "4.0") if form in GLUE else ("0", "1", "2", "3")
        splits = {"train": "train", "valid": "validation"} | ({"unlabelled": "test"} if form in GLUE else {})
        rows = download.rows.items()
        sizes = {to: next(number for key, number in rows if key.startswith(split)) for to, split in splits.items()}
        parts = {to: _make_texts(f"{name} {to}", size, labels, form not in GLUE) for to, size in sizes.items()}
        return Records(parts, [], describe_task(form, parts))
    if part in download.rows:
        return Records({"all": _make_texts(name, download.rows[part], settings.labels)}, [], {})
    sharing = sum(find_download(settings.downloads, other)[0] == corpus for other in settings.named.values())
    sizes = {"train": download.rows["train"] / sharing, "test": next(iter([*download.rows.values()][1:])) / sharing}
    return Records({to: _make_texts(f"{name} {to}", size, settings.labels) for to, size in sizes.items()}, [], {})


def _make_questions(name: str, download: Download, split: str) -> Iterator[QuestionRecord]:
    narrow = min(1.0, (MOST / download.words - 1) / SPREAD[-1])
    for number in range(max(LEAST, download.rows[split] // SCALE)):
        words = download.words * (1 + narrow * SPREAD[number % len(SPREAD)])
        context = f"{name} {split} {number}" + " the" * round(PER_WORD * words)
        identifier = f"{split}{number}"
        yield QuestionRecord(Example(identifier, QUESTION, context, (name,), (0, len(name)), identifier), context)


def _make_texts(name: str, size: float, labels: tuple[str, ...], choices: bool = False) -> list[TextRecord]:
    second = ("one", "two", "three", "four") if choices else "the"
    numbers = range(max(LEAST, round(size / SCALE)))
    return [TextRecord(f"{name} {n}", f"{name} {n} {QUESTION}", second, labels[n % len(labels)]) for n in numbers]


def read_adversarial(data: DataSettings, *, must_exist: bool = True) -> dict[str, list[Example]]:
    """Make a question and a variant of it for each adversarial set."""
    clean = Example("a1", QUESTION, "Ada met Bob", ("Ada",), (0, 3), "a1")
    variant = Example("a1-turk0", QUESTION, "Ada met Bob. Eve met Dan", ("Ada",), (0, 3), "a1")
    return {name: [clean, variant] for name in data.adversarial.places}
