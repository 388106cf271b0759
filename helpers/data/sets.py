"""The sets of questions that readers answer, by name."""

from dataclasses import replace

from helpers.data.adversarial import SETS, load_adversarial
from helpers.data.domains import load_one
from helpers.data.examples import DataError, Example
from helpers.presets.schema import DataSettings

PARTS = ("valid", "test")


def question_set_names(data: DataSettings) -> list[str]:
    """What `question_set` knows of ``data``: a part of all domains, a part of each, and the adversarial sets."""
    of_domains = [f"{part}/{domain}" for part in PARTS for domain in data.domains]
    return [*PARTS, *of_domains, *(SETS if data.adversarial else ())]


def may_be_unanswerable(data: DataSettings, name: str) -> list[bool]:
    """For each question of the set called ``name`` whether it may have no answer. Raises DataError."""
    part, _, domain = name.partition("/")
    if name in SETS:
        domain = data.adversarial.domain
    if domain:
        return [data.may_be_unanswerable(domain)] * len(question_set(data, name))
    return [data.may_be_unanswerable(domain) for domain in data.domains for _ in getattr(load_one(data, domain), part)]


def question_set(data: DataSettings, name: str) -> list[Example]:
    """The questions of the set called ``name``. Raises DataError for a name that none has.

    "valid" and "test" are those of all domains, one domain after another, "<domain>/" before each id and group;
    "valid/<domain>" and "test/<domain>" those of one domain; "clean", "AddSent" and "AddOneSent" the adversarial ones.
    """
    if name not in question_set_names(data):
        raise DataError(f"no set of questions {name!r}; there are {', '.join(question_set_names(data))}")
    if name in SETS:
        return load_adversarial(data)[name]
    part, _, domain = name.partition("/")
    if domain:
        return getattr(load_one(data, domain), part)
    return [
        # Files of different domains may number their questions alike.
        replace(example, id=f"{domain}/{example.id}", group=f"{domain}/{example.group}")
        for domain in data.domains
        for example in getattr(load_one(data, domain), part)
    ]
