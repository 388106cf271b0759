"""The domains that a preset names, from wherever it says, loaded once a process."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers import paths
from helpers.data import mini, questions
from helpers.data.examples import DataError, Domain
from helpers.presets.schema import DataSettings


def load_domains(data: DataSettings) -> dict[str, Domain]:
    """All domains of ``data``, by name, in its order. Raises DataError for data that cannot be used."""
    return {name: load_one(data, name) for name in data.domains}


def load_one(data: DataSettings, name: str) -> Domain:
    """One domain of ``data``."""
    return _load(data.model_dump_json(), name)


def narrative(data: DataSettings) -> DataSettings:
    """The same settings with ``data.narrative`` as their only domain, "stories", and no adversarial questions.

    Raises DataError where the preset names none.
    """
    if not data.narrative:
        raise DataError(
            "data.narrative is empty; name there, as data.source has it, the miniature world's stories, a subfolder "
            "with NarrativeQA's two CSV files, or a dataset on the Hub with free answers"
        )
    return data.model_copy(update={"domains": {"stories": data.narrative}, "adversarial": None})


@cache
def _load(settings: str, name: str) -> Domain:
    data = DataSettings.model_validate_json(settings)
    domain = _all_of(data, name)
    # A free answer that shares no word with its passage has no span: it is scored, and not trained on.
    domain = replace(domain, train=[one for one in domain.train if one.span is not None or not one.answers])
    return replace(domain, train=domain.train[: max(1, round(data.train_share * len(domain.train)))])


def _all_of(data: DataSettings, name: str) -> Domain:
    source = data.domains[name]
    sizes = {"train_size": data.train_size or None, "valid_size": data.valid_size, "test_size": data.test_size or None}
    if data.source == "mini":
        made = mini.load_domain(source, seed=data.seed, **{key: size for key, size in sizes.items() if size})
        return Domain(name, made.train, made.valid, made.test, made.notes)
    if data.source == "hub":
        from helpers.data.formats.hub import load_hub  # imports `datasets`, which takes a second

        dataset, _, subset = source.partition(":")
        parts = {"train": "train", "test": "validation"}  # the papers report on the public validation sets
        given = {part: load_hub(dataset, split, subset=subset or None) for part, split in parts.items()}
        return _capped(questions.load_domain(name, given, seed=data.seed, **sizes), data)
    folder = locate_folder(data)
    return _capped(questions.load_domain(name, folder / source, seed=data.seed, **sizes), data)


def locate_folder(data: DataSettings) -> Path:
    """The folder that a preset's files lie in, from here or from the repository's root. Raises DataError."""
    for place in paths.places(data.folder) if data.folder else ():
        if place.is_dir():
            return place
    raise DataError(
        f"data.folder is {data.folder!r}, which is no folder; give the folder that holds one subfolder a domain, "
        "such as -p data_dir path/to/data"
    )


def _capped(domain: Domain, data: DataSettings) -> Domain:
    """The domain with at most ``valid_size`` validation questions, where its files bring many more."""
    if len(domain.valid) <= 2 * data.valid_size:
        return domain
    note = f"{domain.name}: {data.valid_size:,} of {len(domain.valid):,} validation questions are used"
    return replace(
        domain, valid=questions.sample(domain.valid, data.valid_size, data.seed), notes=[*domain.notes, note]
    )


def fingerprint(data: DataSettings, name: str) -> str:
    """Names a domain's exact questions, passages and answers; part of the key of what is trained on them."""
    return _fingerprint(data.model_dump_json(), name)


@cache
def _fingerprint(settings: str, name: str) -> str:
    domain = _load(settings, name)
    digest = hashlib.sha256()
    for part in (domain.train, domain.valid, domain.test):
        for example in part:
            digest.update(repr((example.question, example.context, example.answers, example.span)).encode())
        digest.update(b"|")
    return digest.hexdigest()[:16]
