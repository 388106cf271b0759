"""Load the examples that a preset names, once per process: from the miniature world, from files or from the Hub."""

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers import paths
from helpers.data import downloads, splits, texts
from helpers.data.examples import Choice, DataError, Domain, Pair, TaskData
from helpers.data.files import PART_WORDS, PARTS, find_parts, leave_out_rejected, make_unique
from helpers.data.mini import tasks as mini_texts
from helpers.data.mini import world as mini
from helpers.data.questions import FileRecord, is_narrativeqa, parse_questions, read_questions
from helpers.files import fingerprint as hash_texts
from helpers.presets.schema import DataSettings, Drawn, Preset, TasksSettings, TextsSettings

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


def with_every_domain(settings: Drawn) -> Drawn:
    """Return a section with every file and subfolder of its folder as a domain or task, unless its own are there.

    Its own count if all are there (questions: a user's folder may have a "news" too) or any (texts, tasks).

    Files with one prefix before their part are one domain. Labels are then read from the texts.
    """
    folder = paths.find_folder(settings.folder)
    if settings.source != "files" or not folder:
        return settings
    places: dict[str, str] = {}
    parts = rf"(.+?)(?:[\W_](?:{'|'.join(PART_WORDS)})(?![^\W_]).*|\.(?:positive|negative)\.review)"
    for entry in sorted(folder.iterdir()):
        match = None if entry.is_dir() else re.fullmatch(parts, entry.name, re.IGNORECASE)
        place = match[1] if match else entry.name
        if not entry.name.startswith(".") and place not in places.values():
            name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(place).stem).strip("-_")
            places[name if name and name not in places else place] = place
    present = {word for source in settings.named.values() for word in source.split(":") if (folder / word).exists()}
    present |= set(places.values())
    enough = all if isinstance(settings, DataSettings) else any
    if enough(present.intersection(source.split(":")) for source in settings.named.values()):
        return settings
    others = {"adversarial": None, "narrative": "", "labels": [], "split": "content"}
    others = {key: value for key, value in others.items() if key in type(settings).model_fields}
    return settings.model_copy(update={settings.names: places, **others})


def _sizes_of(settings: Drawn) -> dict[str, int]:
    return {f"{part}_size": size for part in PARTS if (size := getattr(settings, f"{part}_size"))}


def mini_test_part(data: DataSettings) -> dict:
    """Return what decides a miniature domain's test part: its size, its seed and its conventions."""
    return {"size": data.test_size or mini.TEST, "seed": data.drawn_by, "conventions": data.conventions}


def _cut(examples: list, share: float) -> list:
    return examples[: max(1, round(share * len(examples)))]


def _load_questions(data: DataSettings, name: str) -> Domain:
    source, notes = data.domains[name], []
    if data.source == "mini":
        domain = mini.load_domain(source, seed=data.drawn_by, conventions=data.conventions, **_sizes_of(data))
        parts = {part: getattr(domain, part) for part in PARTS}
    else:
        records, notes = _read_questions(data, source, data.may_be_unanswerable(name))
        parts, more = splits.split_questions(name, records, data.seed, data.drawn_by, data.valid_size)
        notes += more
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
    return Domain(name, **parts | {"train": _cut(train, data.train_share)}, notes=notes)


def _read_questions(data: DataSettings, source: str, unanswerable: bool) -> tuple[FileRecords, list[str]]:
    if data.source == "files":
        return _read_files(locate(data, source), unanswerable)
    name, configuration, download = downloads.find(data.downloads, source)
    if download and download.files:
        records, notes = _read_files(downloads.fetch(name, download), unanswerable)
        for split in download.rows:
            downloads.check_rows(name, download, split, len(records.get(split.removesuffix("ation"), ())))
        return {"train": records["train"], "test": records["valid"]}, notes
    records, notes = {}, []
    for part, split in (("train", "train"), ("test", "validation")):  # the papers report on public validation sets
        rows = downloads.load_hub(name, configuration, split, download)
        records[part], more = parse_questions(rows, f"{source}[{split}]", unanswerable)
        notes += more
    return records, notes


def _read_files(path: Path, unanswerable: bool) -> tuple[FileRecords, list[str]]:
    records, notes = {}, []
    for part, files in ({"all": [path]} if is_narrativeqa(path) else find_parts(path)).items():
        for file in files:
            of_file, more = read_questions(file, unanswerable)
            notes += more
            for record in of_file:
                records.setdefault(record.part or part, []).append(record)
    return records, notes


def narrative(data: DataSettings) -> DataSettings:
    """Return the settings with ``data.narrative`` as the only domain, "stories". Raises DataError if it is not set."""
    if not data.narrative:
        raise DataError("data.narrative is empty; name the stories there, or the folder or download of NarrativeQA")
    return data.model_copy(update={"domains": {"stories": data.narrative}, "adversarial": None})


@cache
def load_texts(settings: TextsSettings) -> dict[str, Domain]:
    """Return all domains of labelled texts; a `Pair`'s label is its number in `label_names`. Raises DataError."""
    labels, drawn_by = label_names(settings), settings.drawn_by
    if settings.source == "mini":
        domains = {}
        for name, source in settings.domains.items():
            domain = mini_texts.load_texts(source, seed=drawn_by, **_sizes_of(settings))
            domains[name] = replace(domain, name=name, train=_cut(domain.train, settings.train_share))
        return domains
    read = _read_texts(settings)
    if len({next(iter(parts.values()))[0].second is None for parts in read.values()}) > 1:
        raise DataError(f"{', '.join(read)}: some have pairs of texts, others single texts; give one kind")
    if settings.split == "joint":
        split = {name: (parts, []) for name, parts in splits.split_jointly(read).items()}
    else:
        split = {name: splits.split_texts(name, parts, settings.seed, drawn_by) for name, parts in read.items()}
    read_notes = {name: notes for name, (_, notes) in _read_noted_texts(settings).items()}
    return {
        name: _make(Domain, settings, name, parts, labels, notes=read_notes[name] + notes)
        for name, (parts, notes) in split.items()
    }


def label_names(settings: TextsSettings) -> tuple[str, ...]:
    """Return the labels by number: those of the preset, or else all that are trained on, sorted. Raises DataError."""
    if not settings.is_given:
        raise DataError("the preset names no labelled texts; give their folder with -p mnli_dir or -p reviews_dir")
    if settings.source != "mini":
        return tuple(settings.labels) or _trained_labels(*_read_texts(settings).values())
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
    if tasks.source == "mini":
        more = {"unlabelled_size": tasks.unlabelled_size, **_sizes_of(tasks)}
        return mini_texts.load_task(tasks.tasks[name], name, seed=tasks.drawn_by, **more)
    form, parts, read_notes = (_read_task_files if tasks.source == "files" else _read_hub_task)(tasks, name)
    unlabelled = splits.in_order(parts.pop("unlabelled", []), tasks.seed)[: tasks.unlabelled_size or None]
    if glue := texts.GLUE.get(form):
        kind, labels, metrics = "labels" if glue.labels else "score", glue.labels, glue.metrics
    else:
        labels, metrics = _trained_labels(parts) if form == "texts" else (), ("accuracy",)
        kind = "labels" if labels else "choices"
    parts, notes = splits.split_texts(name, parts, tasks.seed, tasks.drawn_by)
    more = {"kind": kind, "labels": labels, "metrics": metrics, "notes": read_notes + notes}
    more["unlabelled"] = [Pair(record.id, record.first, record.second, None) for record in unlabelled]
    return _make(TaskData, tasks, name, parts, labels, **more)


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
