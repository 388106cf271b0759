"""The domains that a preset names, from wherever it says, loaded once a process."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers.data import questions, warnings
from helpers.data.examples import Corpus, DataError, Domain
from helpers.data.formats.files import listing
from helpers.data.formats.folders import locate_folder
from helpers.data.mini import domains as mini
from helpers.data.originals import load_original
from helpers.presets.downloads import Collection
from helpers.presets.schema import DataSettings


def load_domains(data: DataSettings) -> dict[str, Domain]:
    """All domains of ``data``, by name, in its order. Raises DataError for data that cannot be used."""
    return {name: load_one(data, name) for name in data.domains}


@cache
def load_one(data: DataSettings, name: str) -> Domain:
    """One domain of ``data``."""
    source, unanswerable = data.domains[name], data.may_be_unanswerable(name)
    sizes = {"train_size": data.train_size or None, "valid_size": data.valid_size, "test_size": data.test_size or None}
    if data.source == "mini":
        known = {key: size for key, size in sizes.items() if size}
        domain = mini.load_domain(source, seed=data.drawn_by, conventions=data.conventions, **known)
    else:
        if data.source == "hub":
            splits = {"train": "train", "test": "validation"}  # the papers report on the public validation sets
            given = {part: from_hub(data, source, split, unanswerable) for part, split in splits.items()}
        else:
            given = locate_domains(data) / source
        domain = questions.load_domain(name, given, seed=data.seed, draw=data.draw, unanswerable=unanswerable, **sizes)
    # A free answer that shares no word with its passage has no span: it is scored, and not trained on.
    train = [example for example in domain.train if example.span is not None or not example.answers]
    if domain.train and not train:
        raise DataError(
            f"domain {name}: none of its {len(domain.train):,} training questions has an answer with a place in its "
            "passage; correct the answers, or take the domain out of data.domains"
        )
    shared = train[: max(1, round(data.train_share * len(train)))]
    domain, notes = replace(domain, name=name, train=shared), list(domain.notes)
    if data.source != "mini":
        if len(shared) < len(train):
            notes.append(f"{name}: {len(shared):,} of {len(train):,} training questions are used (train_share)")
        notes += warnings.of_questions(domain)
    return replace(domain, notes=notes)


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


def from_hub(data: DataSettings, source: str, split: str, unanswerable: bool = False) -> Corpus:
    """What a preset calls dataset:part or dataset; ``unanswerable`` allows questions without an answer.

    Where the preset's downloads know the dataset, what arrives is checked against them. What comes identifies a
    training by its content (`fingerprint`), so neither revision nor checksum is part of a key by itself.
    """
    dataset, _, part = source.partition(":")
    known = data.downloads.get(dataset)
    if isinstance(known, Collection):
        return load_original(dataset, known, part, split, unanswerable=unanswerable)
    from helpers.data.formats.hub import load_hub  # imports `datasets`, which takes a second

    return load_hub(dataset, split, part, pinned=known, unanswerable=unanswerable)


def locate_domains(data: DataSettings) -> Path:
    """The folder of its files. Raises DataError where it has none of several, as it is then a folder of others."""
    folder, names = locate_folder(data), data.domains
    if len(names) > 1 and not any((folder / source).exists() for source in names.values()):
        raise DataError(
            f"{folder} holds {listing(folder)}, and none of the preset's domains {', '.join(names)}; name yours below "
            "[data.domains] in a preset of your own (data/README.md says how)"
        )
    return folder
