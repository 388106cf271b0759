"""Load the examples that a preset names, once per process: from the miniature world, from files or from the Hub."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers import paths
from helpers.data import downloads, splits, texts
from helpers.data.examples import Choice, DataError, Domain, Example, Pair, TaskData
from helpers.data.files import ALL_PARTS, PARTS, leave_out_rejected, make_unique
from helpers.data.mini import tasks as mini_texts
from helpers.data.mini import world as mini
from helpers.data.overlap import TestTexts, leave_out
from helpers.data.questions import FileRecord, find_question_files, parse_questions, read_questions
from helpers.files import fingerprint as hash_texts
from helpers.presets.schema import GENERAL, DataSettings, Drawn, Preset, TasksSettings, TextsSettings

ADVERSARIAL = ("AddSent", "AddOneSent")  # sets of adversarial questions
FileRecords = dict[str, list[FileRecord]]  # by part


@cache
def load(settings: Drawn, name: str) -> Domain:
    """Return a domain, or a task, of a preset's section. Raises DataError."""
    if isinstance(settings, TextsSettings):
        return load_texts(settings)[name]
    return (_load_task if isinstance(settings, TasksSettings) else _load_questions)(settings, name)


def load_domains(settings: Drawn) -> dict[str, Domain]:
    """Return all domains, or tasks, of a preset's section, in its order. Raises DataError."""
    return {name: load(settings, name) for name in settings.named}


def state_overlaps(settings: Drawn) -> list[str]:
    """State what was left out of training as it is tested on, and passages in common. Raises DataError."""
    return [note for domain in load_domains(settings).values() for note in domain.overlaps]


def training_questions(data: DataSettings) -> dict[str, list[str]]:
    """Return the training questions of each domain. Raises DataError."""
    return {name: [example.question for example in domain.train] for name, domain in load_domains(data).items()}


def find_folder(settings: Drawn) -> Path:
    """Return the folder of a section's files. Raises DataError."""
    if folder := paths.find_folder(settings.folder):
        return folder
    raise DataError(
        f"{settings.folder!r} is not a folder; name the one that holds {', '.join(settings.named.values())} with -p "
        "data_dir (questions), mnli_dir, reviews_dir or tasks_dir"
    )


def locate(settings: Drawn, source: str) -> Path:
    """Return the place of a domain's or task's files: below the section's folder, or in the download of that name.

    Downloads what a section without a folder names. Raises DataError.
    """
    name, _, inside = source.partition("/")
    if name in settings.downloads and not settings.folder:
        return downloads.fetch(name, settings.downloads[name]) / inside
    return find_folder(settings) / source


def _sizes_of(settings: Drawn) -> dict[str, int]:
    return {f"{part}_size": size for part in PARTS if (size := getattr(settings, f"{part}_size"))}


def mini_test_part(data: DataSettings) -> dict:
    """Return what decides a miniature domain's test part: its size, its seed and its conventions."""
    return {"size": data.test_size or mini.TEST, "seed": data.drawn_by, "conventions": data.conventions}


def _cut(examples: list, share: float) -> list:
    return examples[: max(1, round(share * len(examples)))]


def _load_questions(data: DataSettings, name: str) -> Domain:
    whole = _before_drawing(data)
    _, notes = _question_parts(whole, name)
    parts, overlaps = _untested_parts(whole, name)
    if data.source != "mini":
        parts, more = splits.split_off_valid_questions(name, parts, data.seed, data.drawn_by, data.valid_size)
        notes = [*notes, *more]
        # Valid questions that the files set apart are sampled only if there are many more than needed.
        valid_size = data.valid_size * (len(parts["valid"]) > 2 * data.valid_size)
        for part, size in {"train": data.train_size, "valid": valid_size, "test": data.test_size}.items():
            if 0 < size < len(parts[part]):
                notes.append(f"{name}: {size:,} of {len(parts[part]):,} questions of {part} are used ({part}_size)")
                parts[part] = splits.sample(parts[part], size, data.seed if part == "test" else data.drawn_by)
    # A free answer that shares no word with its passage has no span: it is scored, not trained on.
    train = [example for example in parts["train"] if example.span or not example.answers]
    if not train:
        raise DataError(f"{name}: no training question has an answer with a place in its passage; correct the answers")
    return Domain(name, **parts | {"train": _cut(train, data.train_share)}, notes=notes, overlaps=overlaps)


def _before_drawing(settings: Drawn) -> Drawn:
    # What files and the Hub have is read once for all draws; the miniature world is drawn as a whole.
    return settings if settings.source == "mini" else settings.model_copy(update={"draw": 0})


@cache
def _question_parts(data: DataSettings, name: str) -> tuple[dict[str, list], list[str]]:
    # Reads a domain with its test part apart, and no valid part where its files name none. The miniature world has all.
    source = data.domains[name]
    if data.source == "mini":
        domain = mini.load_domain(source, seed=data.drawn_by, conventions=data.conventions, **_sizes_of(data))
        return {part: getattr(domain, part) for part in PARTS}, []
    records, notes = _read_questions(data, source, data.may_be_unanswerable(name))
    parts, more = splits.split_off_test_questions(name, records, data.seed)
    return parts, [*notes, *more]


@cache
def _untested_parts(settings: Drawn, name: str) -> tuple[dict[str, list], list[str]]:
    # Returns the parts of a domain or task without what is tested on, and notes, once for all draws.
    # What all readers learn first is about other passages than all tests.
    return leave_out(name, _read_parts(settings, name), _test_texts(settings), passages=name == GENERAL)


def _read_parts(settings: Drawn, name: str) -> dict[str, list]:
    if isinstance(settings, TextsSettings):
        return _text_parts(settings)[name][0]
    return (_task_parts if isinstance(settings, TasksSettings) else _question_parts)(settings, name)[0]


@cache
def _test_texts(settings: Drawn) -> TestTexts:
    # Collects the test examples of all domains or tasks of a section, however many of them are used.
    tests = TestTexts()
    for name in settings.named:
        tests.add(name, _read_parts(settings, name))
    # The miniature world's adversarial questions are variants of test questions.
    if isinstance(settings, DataSettings) and settings.adversarial and settings.source != "mini":
        for name, path in locate_adversarial(settings).items():
            if path.exists():  # without its adversarial files a folder of questions can still be trained on
                tests.add(name, {"test": read_adversarial(path)})
    return tests


def _read_questions(data: DataSettings, source: str, unanswerable: bool) -> tuple[FileRecords, list[str]]:
    if data.source == "files":
        return _read_files(locate(data, source), unanswerable)
    name, configuration, download = downloads.find(data.downloads, source)
    if download and download.files:
        records, notes = _read_files(downloads.fetch(name, download), unanswerable)
        for split in download.rows:
            downloads.check_rows(name, download, split, len(records.get(split.removesuffix("ation"), ())))
        return {"train": records["train"], "test": records["valid"]}, notes
    records, notes, taken = {}, [], set()
    for part, split in (("train", "train"), ("test", "validation")):  # the papers report on public validation sets
        rows = downloads.load_hub(name, configuration, split, download)
        of_split, more = parse_questions(rows, f"{source}[{split}]", unanswerable)
        records[part] = [*_with_unique_ids(of_split, taken)]
        notes += more
    return records, notes


@cache  # a section with a further domain, such as that of general questions, reads the same files
def _read_files(path: Path, unanswerable: bool) -> tuple[FileRecords, list[str]]:
    records, notes, taken = {}, [], set()
    for part, files in find_question_files(path).items():
        for file in files:
            of_file, more = read_questions(file, unanswerable)
            notes += more
            for record in _with_unique_ids(of_file, taken):
                records.setdefault(record.part or part, []).append(record)
    return records, notes


def _with_unique_ids(records: list[FileRecord], taken: set[str]) -> Iterator[FileRecord]:
    # An id that another file or split of the domain has gets a number, also as the original of variants.
    names = {record.example.id: make_unique(record.example.id, taken) for record in records}
    for record in records:
        example = record.example
        group = names.get(example.group, example.group)
        yield record._replace(example=replace(example, id=names[example.id], group=group))


def locate_adversarial(data: DataSettings) -> dict[str, Path]:
    """Return the file of each adversarial set, by its name; downloads it where the preset says so. Raises DataError."""
    files = {}
    for name in ADVERSARIAL:
        source = getattr(data.adversarial, name)
        if data.source == "hub":
            corpus, _, download = downloads.find(data.downloads, source)
            if not download or not download.files:
                raise DataError(f"{source}: the preset says no URL of it; add one to data.downloads")
            files[name] = downloads.fetch(corpus, download) / next(iter(download.files))
        else:
            files[name] = locate(data, source)
    return files


@cache
def read_adversarial(path: Path) -> list[Example]:
    """Read a file of clean questions and their variants. Raises DataError."""
    examples = [record.example for record in read_questions(path)[0]]
    clean = sum(example.id == example.group for example in examples)
    if clean in (0, len(examples)):
        raise DataError(
            f"{path}: expected clean questions and variants with ids such as <clean>-high-conf-turk0, found {clean} "
            f"clean ones of {len(examples)}; correct [data.adversarial] in the preset"
        )
    return examples


def narrative(data: DataSettings) -> DataSettings:
    """Return the settings with ``data.narrative`` as the only domain, "stories". Raises DataError if it is not set."""
    if not data.narrative:
        raise DataError("data.narrative is empty; name the stories there, or the folder or download of NarrativeQA")
    return data.model_copy(update={"domains": {"stories": data.narrative}, "adversarial": None})


@cache
def load_texts(settings: TextsSettings) -> dict[str, Domain]:
    """Return all domains of labelled texts; a `Pair`'s label is its number in `label_names`. Raises DataError."""
    labels, domains, whole = label_names(settings), {}, _before_drawing(settings)
    for name, (_, notes) in _text_parts(whole).items():
        parts, overlaps = _untested_parts(whole, name)
        if settings.source == "mini":
            train = _cut(parts["train"], settings.train_share)
            domains[name] = Domain(name, **parts | {"train": train}, overlaps=overlaps)
            continue
        if settings.split == "content":
            parts, more = splits.split_off_valid_texts(name, parts, settings.seed, settings.drawn_by)
            notes = [*notes, *more]
        domains[name] = _make(Domain, settings, name, parts, labels, notes=notes, overlaps=overlaps)
    return domains


@cache
def _text_parts(settings: TextsSettings) -> dict[str, tuple[dict[str, list], list[str]]]:
    # Reads all domains with their test parts apart, and no valid part where their files name none.
    if settings.source == "mini":
        sizes = {"seed": settings.drawn_by, **_sizes_of(settings)}
        generated = {name: mini_texts.load_texts(source, **sizes) for name, source in settings.domains.items()}
        return {name: ({part: getattr(domain, part) for part in PARTS}, []) for name, domain in generated.items()}
    read = _read_texts(settings)
    if len({next(iter(parts.values()))[0].second is None for parts in read.values()}) > 1:
        raise DataError(f"{', '.join(read)}: some have pairs of texts, others single texts; give one kind")
    if settings.split == "joint":
        split = {name: (parts, []) for name, parts in splits.split_jointly(read).items()}
    else:
        split = {name: splits.split_off_test_texts(name, parts, settings.seed) for name, parts in read.items()}
    read_notes = {name: notes for name, (_, notes) in _read_noted_texts(settings).items()}
    return {name: (parts, read_notes[name] + notes) for name, (parts, notes) in split.items()}


def label_names(settings: TextsSettings) -> tuple[str, ...]:
    """Return the labels by number: those of the preset, or else all that are trained on, sorted. Raises DataError."""
    if not settings.is_given:
        raise DataError("the preset names no labelled texts; give their folder with -p mnli_dir or -p reviews_dir")
    if settings.source != "mini":
        return tuple(settings.labels) or _trained_labels(*_read_texts(_before_drawing(settings)).values())
    labels, *others = {mini_texts.label_names(source) for source in settings.domains.values()}
    if others or tuple(settings.labels or labels) != labels:
        names = ", ".join(settings.domains)
        raise DataError(f"{names}: expected the labels {', '.join(labels)} everywhere; correct them")
    return labels


def _trained_labels(*domains: texts.Parts) -> tuple[str, ...]:
    labels = sorted({r.label for parts in domains for part in ("all", "train") for r in parts.get(part, ())})
    texts.check_labels(labels, "all domains")
    return tuple(labels)


def _read_texts(settings: TextsSettings) -> dict[str, texts.Parts]:
    return {name: parts for name, (parts, _) in _read_noted_texts(settings).items()}


@cache
def _read_noted_texts(settings: TextsSettings) -> dict[str, tuple[texts.Parts, list[str]]]:
    return {name: _read_text_domain(settings, source) for name, source in settings.domains.items()}


def _read_text_domain(settings: TextsSettings, source: str) -> tuple[texts.Parts, list[str]]:
    name, genre, download = downloads.find(settings.downloads, source)
    if settings.source == "files":
        return texts.read_texts(locate(settings, name), settings.labels, genre)
    if download and download.files:  # a domain each, instead of a genre
        parts, notes = texts.read_texts(downloads.fetch(name, download) / genre, settings.labels)
        downloads.check_rows(name, download, genre, sum(map(len, parts.values())))
        return parts, notes
    # The first validation set of MNLI has the genres of its training set.
    validation = [split for split in download.rows if split.startswith("validation")] if download else []
    parts, notes = {}, []
    for part, split in {"train": "train", "test": (validation or ["validation"])[0]}.items():
        rows = downloads.load_hub(name, "", split, download)
        labelled = [(where, row) for where, row in rows if all(row.get(column) != -1 for column in texts.LABELS)]
        labelled, rejected = leave_out_rejected(labelled, f"{source}[{split}]")
        notes += rejected
        parts[part] = texts.parse_texts(labelled, f"{source}[{split}]", settings.labels, genre=genre)
    return parts, notes


def _load_task(tasks: TasksSettings, name: str) -> TaskData:
    whole = _before_drawing(tasks)
    _, notes, facts = _task_parts(whole, name)
    parts, overlaps = _untested_parts(whole, name)
    if tasks.source == "mini":
        return TaskData(name, **parts, **facts, overlaps=overlaps)
    unlabelled = splits.in_order(parts.get("unlabelled", []), tasks.seed)[: tasks.unlabelled_size or None]
    parts, more = splits.split_off_valid_texts(name, parts, tasks.seed, tasks.drawn_by)
    facts = {**facts, "notes": [*notes, *more], "overlaps": overlaps}
    facts["unlabelled"] = [Pair(record.id, record.first, record.second, None) for record in unlabelled]
    return _make(TaskData, tasks, name, parts, facts["labels"], **facts)


@cache
def _task_parts(tasks: TasksSettings, name: str) -> tuple[dict[str, list], list[str], dict]:
    # Reads a task with its test part apart, and no valid part where its files name none; kind, labels and metrics.
    if tasks.source == "mini":
        more = {"unlabelled_size": tasks.unlabelled_size, **_sizes_of(tasks)}
        task = mini_texts.load_task(tasks.tasks[name], name, seed=tasks.drawn_by, **more)
        parts = {part: getattr(task, part) for part in ALL_PARTS}
        return parts, [], {"kind": task.kind, "labels": task.labels, "metrics": task.metrics}
    form, parts, read_notes = (_read_task_files if tasks.source == "files" else _read_hub_task)(tasks, name)
    if glue := texts.GLUE.get(form):
        kind, labels, metrics = "labels" if glue.labels else "score", glue.labels, glue.metrics
    else:
        labels, metrics = _trained_labels(parts) if form == "texts" else (), ("accuracy",)
        kind = "labels" if labels else "choices"
    parts, notes = splits.split_off_test_texts(name, parts, tasks.seed)
    return parts, read_notes + notes, {"kind": kind, "labels": labels, "metrics": metrics}


def _read_task_files(tasks: TasksSettings, name: str) -> tuple[str, texts.Parts, list[str]]:
    formats = (*texts.GLUE, *texts.CHOICES, "texts")
    form, colon, place = tasks.tasks[name].partition(":")
    if not colon:
        form, place = (name if name in formats else "texts"), form
    if form not in formats:
        raise DataError(f"{name}: {form!r} is no format of {', '.join(formats)}; write FORMAT:place in the preset")
    path = locate(tasks, place)
    if form == "texts":
        return form, *texts.read_texts(path)
    return form, (texts.read_glue if form in texts.GLUE else texts.read_choices)(path, form), []


def _read_hub_task(tasks: TasksSettings, name: str) -> tuple[str, texts.Parts, list[str]]:
    forms = {task.configuration: form for form, task in texts.GLUE.items()} | {"regular": "swag"}
    source = tasks.tasks[name]
    dataset, _, configuration = source.partition(":")
    if configuration not in forms:
        raise DataError(f"{name}: {source!r} names no configuration of {', '.join(forms)}; write dataset:configuration")
    glue, parts = texts.GLUE.get(forms[configuration]), {}
    variant = glue.variant if glue else ""
    for part, split in (("train", "train"), ("valid", f"validation{variant}"), ("unlabelled", f"test{variant}")):
        if glue or part != "unlabelled":
            rows = downloads.load_hub(dataset, configuration, split, tasks.downloads.get(source))
            label, place = "" if part == "unlabelled" else "label", f"{source}[{split}]"
            parts[part] = texts.parse_glue(rows, place, glue, label) if glue else texts.parse_choices(rows, place)
    return forms[configuration], parts, []


def _make(
    cls: type[Domain], settings: Drawn, name: str, parts: texts.Parts, classes: tuple[str, ...], **more
) -> Domain:
    if settings.draw:  # as parts are cut from the front, another order is another draw
        parts = parts | {"train": splits.in_order(parts["train"], settings.drawn_by)}
    if empty := [part for part in PARTS if not parts[part]]:
        raise DataError(f"{name}: no text is left for {empty[0]}; give more, or a file for each part")
    if classes:
        labels = {part: {record.label for record in parts[part]} for part in PARTS}
        if unseen := (labels["valid"] | labels["test"]) - labels["train"]:
            raise DataError(f"{name}: no training text is labelled {min(unseen)}; give some, or remove the others")
        if len(labels["train"]) < 2:
            raise DataError(f"{name}: every text is labelled {min(labels['train'])}; give at least two labels")
    taken: set[str] = set()
    examples = {part: [_convert(record, classes, taken) for record in parts[part]] for part in PARTS}
    examples = {part: examples[part][: getattr(settings, f"{part}_size") or None] for part in PARTS}
    examples["train"] = _cut(examples["train"], getattr(settings, "train_share", 1.0))
    return cls(name, **examples, **more)


def _convert(record: texts.Labelled, classes: tuple[str, ...], taken: set[str]) -> Pair | Choice:
    name = make_unique(record.id, taken)
    if isinstance(record.second, tuple):
        return Choice(name, record.first, record.second, int(record.label))
    return Pair(name, record.first, record.second, classes.index(record.label) if classes else float(record.label))


@cache
def fingerprint(settings: Drawn, name: str, *parts: str) -> str:
    """Identify the exact examples of some parts (default: train, valid, test) of a domain or task, for cache keys."""
    domain, content = load(settings, name), hashlib.sha256()
    for part in parts or PARTS:
        for example in getattr(domain, part):  # all but id and group; another field here would change every cache key
            fields = tuple(getattr(example, field) for field in example.__slots__ if field not in ("id", "group"))
            content.update(repr(fields).encode())
        content.update(b"|")
    return content.hexdigest()[:16]


def draws(preset: Preset, sections: Collection[str], seeds: Iterable[int]) -> dict[str, str]:
    """Identify the examples of some sections that each seed uses, by seed; empty if all seeds share them."""
    presets = {seed: preset.drawn(seed) for seed in seeds}
    drawn = [s for s in sections if any(getattr(of_seed, s) != getattr(preset, s) for of_seed in presets.values())]
    identified = {}
    for seed, of_seed in presets.items() if drawn else ():
        settings = [getattr(of_seed, section) for section in drawn]
        prints = [fingerprint(some, name) for some in settings if some.is_given for name in some.named]
        identified[str(seed)] = hash_texts(*prints)
    return identified
