"""Sets of questions that readers answer, by name: parts of domains, and adversarial questions."""

from dataclasses import replace
from functools import cache

from helpers.data.examples import PARTS, DataError, Example
from helpers.data.load import load, source_of
from helpers.data.splits import sample
from helpers.files import fingerprint
from helpers.presets.schema import ADVERSARIAL, EXAMPLES, DatasetSettings, DataSettings, Preset

SETS = ("clean", *ADVERSARIAL)


@cache
def load_adversarial(data: DataSettings) -> dict[str, list[Example]]:
    """Return clean questions, and adversarial sets that include them (Jia and Liang 2017), by name (`SETS`).

    A variant has a misleading sentence in its passage and shares its question's ``group``. AddSent has several per
    question, AddOneSent one. All sets are about the same questions. Empty where the preset names no such questions.
    Raises DataError.
    """
    settings = data.adversarial
    if settings is None:
        return {}
    sets = source_of(data).read_adversarial(data)
    common = {example.group for example in sets["AddOneSent"]}
    clean = [example for example in sets["AddSent"] if example.id == example.group and example.group in common]
    if not clean:
        raise DataError(f"{settings.AddSent} and {settings.AddOneSent} have no question in common; correct the preset")
    clean = sample(clean, data.test_size or len(clean), data.seed)
    order = {example.group: number for number, example in enumerate(clean)}
    sets = {name: [example for example in examples if example.group in order] for name, examples in sets.items()}
    for examples in sets.values():
        examples.sort(key=lambda example: order[example.group])
    return {"clean": clean, **sets}


def question_set_names(data: DataSettings) -> list[str]:
    """Return the names that `question_set` accepts: a part of all domains, a part of each, adversarial sets."""
    of_domains = [f"{part}/{domain}" for part in PARTS[1:] for domain in data.domains]
    return [*PARTS[1:], *of_domains, *(SETS if data.adversarial else ())]


def may_be_unanswerable(data: DataSettings, name: str) -> list[bool]:
    """Tell for each question of the set called ``name`` whether it may have no answer. Raises DataError."""
    part, _, domain = name.partition("/")
    if domain or name in SETS:
        return [data.may_be_unanswerable(domain or data.adversarial.domain)] * len(question_set(data, name))
    return [data.may_be_unanswerable(domain) for domain in data.domains for _ in getattr(load(data, domain), part)]


def question_set(data: DataSettings, name: str) -> list[Example]:
    """Return the questions of a set such as "test", "test/<domain>" or "AddSent". Raises DataError.

    Those of all domains follow each other in their order, with "<domain>/" before each id and group, since files of
    different domains may number their questions alike.
    """
    if name not in question_set_names(data):
        raise DataError(f"no set of questions {name!r}; choose one of {', '.join(question_set_names(data))}")
    if name in SETS:
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
    allowed = may_be_unanswerable(settings, name) if is_asked else []
    examples = _load_set(settings, name)
    fields = [field for field in examples[0].__slots__ if field not in ("id", "group")] if examples else []
    return fingerprint(*([getattr(example, field) for field in fields] for example in examples), allowed)
