"""Load the examples that a preset names, once per process.

A source says which records a domain or task has. The records are split into parts, what is tested on is left out of the
other parts, and a draw of the rest becomes examples.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType

from helpers.data import splits
from helpers.data.examples import PARTS, DataError, Domain, Example, Records, TaskData, list_trained_labels
from helpers.files import fingerprint
from helpers.presets.schema import (
    ADVERSARIAL,
    EXAMPLES,
    GENERAL,
    DatasetSettings,
    DataSettings,
    Preset,
    TasksSettings,
    TextsSettings,
)

Parts = dict[str, list]
ADVERSARIAL_SETS = ("clean", *ADVERSARIAL)


@cache
def load(settings: DatasetSettings, name: str) -> Domain:
    """Return a domain, or a task, of a preset's section. Raises DataError."""
    labels = label_names(settings) if isinstance(settings, TextsSettings) else ()
    whole = _before_drawing(settings)
    parts, notes, facts, overlaps = _prepare(whole, name)
    if not settings.is_generated:
        if isinstance(settings, DataSettings):
            parts, more = splits.draw_questions(settings, name, parts)
        else:
            from helpers.data import text_splits  # here, because reading comprehension needs none

            parts, more = text_splits.draw_texts(settings, name, parts, facts.get("labels", labels))
        notes = [*notes, *more]
    if isinstance(settings, DataSettings):
        # A free answer that shares no word with its passage has no span: it is scored, not trained on.
        train = [example for example in parts["train"] if example.span or not example.answers]
        if not train:
            problem = "no training question has an answer with a place in its passage"
            raise DataError(f"{name}: {problem}; correct the answers")
        parts = parts | {"train": train}
    share = getattr(settings, "train_share", 1.0)
    parts = parts | {"train": parts["train"][: max(1, round(share * len(parts["train"])))]}
    kind = TaskData if isinstance(settings, TasksSettings) else Domain
    return kind(name=name, **parts, **facts, notes=notes, overlaps=overlaps)


def load_domains(settings: DatasetSettings) -> dict[str, Domain]:
    """Return all domains, or tasks, of a preset's section, in its order. Raises DataError."""
    if isinstance(settings, TextsSettings):
        label_names(settings)  # which tells that there is no folder
    _load_all(_before_drawing(settings), _split_off_test)  # which reads all files, and tells all that is wrong with any
    return _load_all(settings, load)


def _load_all(settings: DatasetSettings, load_one: Callable) -> dict:
    loaded, problems = {}, []
    for name in settings.named:
        try:
            loaded[name] = load_one(settings, name)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n".join(dict.fromkeys(problems)))
    return loaded


def source_of(settings: DatasetSettings) -> ModuleType:
    """Import the source of a section: the module of that name.

    Its ``read(settings, name)`` returns the `Records` of a domain or task, its ``read_adversarial(settings)`` the
    examples of each adversarial set. A source that generates its examples also has ``label_names(settings)`` and
    ``list_candidates(settings, name)``.
    """
    return import_module(f"helpers.data.{settings.source}")


def _before_drawing(settings: DatasetSettings) -> DatasetSettings:
    # What files and the Hub have is read once for all draws. What is generated is drawn as a whole.
    return settings if settings.is_generated else settings.model_copy(update={"draw": 0})


@cache
def _read(settings: DatasetSettings, name: str) -> Records:
    return source_of(settings).read(settings, name)


@cache
def _split_off_test(settings: DatasetSettings, name: str) -> Records:
    # Returns records with a test part. They have no valid part where their source names none.
    records = _read(settings, name)
    if settings.is_generated:
        return records
    if isinstance(settings, DataSettings):
        parts, notes = splits.split_off_test_questions(name, records.parts, settings.seed)
    else:
        parts, notes = _split_off_test_texts(settings, name)
    return records._replace(parts=parts, notes=[*records.notes, *notes])


def _split_off_test_texts(settings: TextsSettings | TasksSettings, name: str) -> tuple[Parts, list[str]]:
    from helpers.data import text_splits  # here, because reading comprehension needs none

    if isinstance(settings, TasksSettings):
        return text_splits.split_off_test_texts(name, _read(settings, name).parts, settings.seed)
    domains = _read_text_parts(settings)
    firsts = [next(iter(parts.values()))[0] for parts in domains.values()]
    if len({first.second is None for first in firsts}) > 1:
        raise DataError(f"{', '.join(domains)}: some have pairs of texts, others single texts; give one kind")
    if settings.split == "joint":
        return _split_jointly(settings)[name], []
    return text_splits.split_off_test_texts(name, domains[name], settings.seed)


@cache
def _split_jointly(settings: TextsSettings) -> dict[str, Parts]:
    from helpers.data import text_splits  # here, because reading comprehension needs none

    return text_splits.split_jointly(_read_text_parts(settings))


def _read_text_parts(settings: TextsSettings) -> dict[str, Parts]:
    return {name: _read(settings, name).parts for name in settings.domains}


@cache
def _prepare(settings: DatasetSettings, name: str) -> tuple[Parts, list[str], dict, list[str]]:
    # Does what is the same for all draws; for the papers' questions, for all processes.
    if settings.source == "hub" and isinstance(settings, DataSettings):
        from helpers.data.prepared import prepare_once  # here, because few presets need it

        return prepare_once(settings, name, _leave_out_tested)
    return _leave_out_tested(settings, name)


def _leave_out_tested(settings: DatasetSettings, name: str) -> tuple[Parts, list[str], dict, list[str]]:
    # Returns the parts of a domain or task without what is tested on, notes, facts, and notes on what is left out.
    parts, notes, facts = _split_off_test(settings, name)
    # What all readers learn first is about other passages than all tests.
    parts, overlaps = splits.leave_out(name, parts, _test_texts(settings), passages=name == GENERAL)
    return parts, notes, facts, overlaps


@cache
def _test_texts(settings: DatasetSettings) -> splits.TestedTexts:
    # Collects the test examples of all domains or tasks of a section, however many of them are used.
    tests = splits.TestedTexts()
    for name, records in _load_all(settings, _split_off_test).items():
        tests.add(name, records.parts)
    # Adversarial questions that are generated are variants of test questions.
    if isinstance(settings, DataSettings) and settings.adversarial and not settings.is_generated:
        # Without its adversarial files a folder of questions can still be trained on.
        for name, examples in source_of(settings).read_adversarial(settings, must_exist=False).items():
            tests.add(name, {"test": examples})
    return tests


def label_names(settings: TextsSettings) -> tuple[str, ...]:
    """Return the labels by number: those of the preset, or else all that are trained on, sorted. Raises DataError."""
    if not settings.has_source:
        raise DataError("the preset names no labelled texts; give their folder with -p mnli_dir or -p reviews_dir")
    if settings.is_generated:
        return source_of(settings).label_names(settings)
    return tuple(settings.labels) or list_trained_labels(_read_text_parts(_before_drawing(settings)).values())


def state_overlaps(settings: DatasetSettings) -> list[str]:
    """State what was left out of training as it is tested on, and passages in common. Raises DataError."""
    return [note for domain in load_domains(settings).values() for note in domain.overlaps]


def training_questions(data: DataSettings) -> dict[str, list[str]]:
    """Return the training questions of each domain. Raises DataError."""
    return {name: [example.question for example in domain.train] for name, domain in load_domains(data).items()}


def narrative(data: DataSettings) -> DataSettings:
    """Return the settings with ``data.narrative`` as the only domain, "stories". Raises DataError if it is not set."""
    if not data.narrative:
        raise DataError("data.narrative is empty; name the stories there, or the folder or download of NarrativeQA")
    return data.model_copy(update={"domains": {"stories": data.narrative}, "adversarial": None})


@cache
def fingerprint_examples(settings: DatasetSettings, name: str, *parts: str) -> str:
    """Identify the exact examples of some parts (default: train, valid, test) of a domain or task, for cache keys."""
    domain, content = load(settings, name), hashlib.sha256()
    for part in parts or PARTS:
        for example in getattr(domain, part):  # all but id and group; another field here would change every cache key
            fields = tuple(getattr(example, field) for field in example.__slots__ if field not in ("id", "group"))
            content.update(repr(fields).encode())
        content.update(b"|")
    return content.hexdigest()[:16]


# --- sets of examples, by name -------------------------------------------------------------------------------------


@cache
def load_adversarial(data: DataSettings) -> dict[str, list[Example]]:
    """Return clean questions, and adversarial sets that include them (Jia and Liang 2017), by name.

    A variant has a misleading sentence in its passage and shares its question's ``group``. AddSent has several per
    question, AddOneSent one. All sets are about the same questions, and named by `ADVERSARIAL_SETS`. Empty where the
    preset names no such questions. Raises DataError.
    """
    settings = data.adversarial
    if settings is None:
        return {}
    sets = source_of(data).read_adversarial(data)
    common = {example.group for example in sets["AddOneSent"]}
    clean = [example for example in sets["AddSent"] if example.id == example.group and example.group in common]
    if not clean:
        raise DataError(f"{settings.AddSent} and {settings.AddOneSent} have no question in common; correct the preset")
    clean = splits.sample(clean, data.test_size or len(clean), data.seed)
    order = {example.group: number for number, example in enumerate(clean)}
    sets = {name: [example for example in examples if example.group in order] for name, examples in sets.items()}
    for examples in sets.values():
        examples.sort(key=lambda example: order[example.group])
    return {"clean": clean, **sets}


def question_set_names(data: DataSettings) -> list[str]:
    """Return the names that `question_set` accepts: a part of all domains, a part of each, adversarial sets."""
    of_domains = [f"{part}/{domain}" for part in PARTS[1:] for domain in data.domains]
    return [*PARTS[1:], *of_domains, *(ADVERSARIAL_SETS if data.adversarial else ())]


def domains_of_set(data: DataSettings, name: str) -> list[str]:
    """Return the domain of each question of the set called ``name``. Raises DataError."""
    part, _, domain = name.partition("/")
    if domain or name in ADVERSARIAL_SETS:
        return [domain or data.adversarial.domain] * len(question_set(data, name))
    return [domain for domain in data.domains for _ in getattr(load(data, domain), part)]


def question_set(data: DataSettings, name: str) -> list[Example]:
    """Return the questions of a set such as "test", "test/<domain>" or "AddSent". Raises DataError.

    Those of all domains follow each other in their order, with "<domain>/" before each id and group, since files of
    different domains may number their questions alike.
    """
    if name not in question_set_names(data):
        raise DataError(f"no set of questions {name!r}; choose one of {', '.join(question_set_names(data))}")
    if name in ADVERSARIAL_SETS:
        return load_adversarial(data)[name]
    part, _, domain = name.partition("/")
    if domain:
        return getattr(load(data, domain), part)
    return [
        replace(example, id=f"{domain}/{example.id}", group=f"{domain}/{example.group}")
        for domain in data.domains
        for example in getattr(load(data, domain), part)
    ]


def section_of(name: str) -> str:
    """Return the section of the preset that a set is from: "tasks" of "tasks/test/RTE", "data" of "test/news"."""
    section = name.partition("/")[0]
    return section if section in EXAMPLES else "data"


def load_set(preset: Preset, name: str) -> list:
    """Return the examples of a set: of "train/news", of a `question_set`, or of another section, as
    "reviews/test/books". Raises DataError."""
    return _load_set(getattr(preset, section_of(name)), name)


def _load_set(settings: DatasetSettings, name: str) -> list:
    section = section_of(name)
    if section == "data" and not name.startswith("train/"):
        return question_set(settings, name)
    split, _, domain = name.removeprefix(f"{section}/").partition("/")
    return getattr(load(settings, domain), split)


def identify_set(preset: Preset, name: str) -> str:
    """Fingerprint the examples of a set, but for their ids, and which of its questions may have no answer."""
    return _identify_set(getattr(preset, section_of(name)), name)


@cache
def _identify_set(settings: DatasetSettings, name: str) -> str:
    is_asked = section_of(name) == "data" and not name.startswith("train/")
    allowed = [*map(settings.may_be_unanswerable, domains_of_set(settings, name))] if is_asked else []
    examples = _load_set(settings, name)
    fields = [field for field in examples[0].__slots__ if field not in ("id", "group")] if examples else []
    return fingerprint(*([getattr(example, field) for field in fields] for example in examples), allowed)
