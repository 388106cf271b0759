"""Keep what is trained on apart from what is tested on: whatever is a test example, by its texts, is left out."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from helpers.data.examples import Choice, DataError, Example
from helpers.data.files import PARTS, digest, is_blank

Key = tuple[str, ...]  # digests of an example's texts
Parts = Mapping[str, Sequence]  # of a domain or task: examples, or the records of files that hold them


@dataclass
class TestTexts:
    """The test examples of a section by their texts, and the passages that test questions are about.

    Each has the name of its domain, task or adversarial set.
    """

    names: dict[Key, str] = field(default_factory=dict)
    passages: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, parts: Parts) -> None:
        """Add the test part of a domain, of a task or of an adversarial set."""
        for keys in identify(parts)["test"]:
            for key in keys:
                self.names.setdefault(key, name)
                self.passages.setdefault(key[0], name)


def identify(parts: Parts) -> dict[str, list[list[Key]]]:
    """Return by part what tells each example from others whatever its case, white space, Unicode form and invisible
    characters.

    It is passage and question, one text, both texts of a pair, or a context with its endings in any order. A variant of
    a question, with a misleading sentence in its passage, counts as its original too, where the parts have that.
    """
    examples = {part: list(map(_example_of, records)) for part, records in parts.items()}
    originals = {e.id: e for of_part in examples.values() for e in of_part if isinstance(e, Example)}

    def list_keys(example: object) -> list[Key]:
        original = originals.get(getattr(example, "group", ""), example)
        return [_key_of(example)] if original is example else [_key_of(example), _key_of(original)]

    return {part: list(map(list_keys, of_part)) for part, of_part in examples.items()}


def _key_of(example: object) -> Key:
    if isinstance(example, Example):
        texts = example.context, example.question
    elif isinstance(example, Choice):
        texts = example.context, *sorted(example.endings)
    elif example.second is None:
        texts = (example.first,)
    elif isinstance(example.second, str):
        texts = example.first, example.second
    else:
        texts = example.first, *sorted(example.second)
    return tuple(map(_digest, texts))


@lru_cache(maxsize=1 << 14)  # questions about one passage stand together
def _digest(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    for character in filter(is_blank, set(text)):
        text = text.replace(character, "")
    return digest(unicodedata.normalize("NFKC", text))  # again, as case folding takes some Greek letters apart


def leave_out(
    name: str, parts: Parts, tests: TestTexts, *, passages: bool = False
) -> tuple[dict[str, list], list[str]]:
    """Return the parts of a domain or task without what is a test example too, and notes that count it.

    The test part stays. Another question about the passage of a test question is counted, and with ``passages`` left
    out too. Raises DataError where nothing is left to train or to validate on.
    """
    remaining, notes, keys = {}, [], identify(parts)
    for part, records in parts.items():
        remaining[part], tested, beside = [], [], []
        for record, keys_of_one in zip(records, keys[part], strict=True):
            same = [tests.names[key] for key in keys_of_one if key in tests.names]
            about = [tests.passages[passage] for passage, *_ in keys_of_one if passage in tests.passages]
            tested_by = same or (about if passages else [])
            if part == "test" or not tested_by:
                remaining[part].append(record)
                beside += about[:1]
            else:
                tested.append(tested_by[0])
        is_question = any(isinstance(_example_of(record), Example) for record in records[:1])
        noun = "questions" if is_question else "texts"
        if tested:
            size = f"{len(tested):,} of {len(records):,} {noun} of {part}"
            reason = f"are about passages of test {noun}" if passages else f"are test {noun} too"
            notes.append(f"{name}: {size} {reason} ({_list(tested)}) and are left out")
        if tested and not remaining[part] and part in PARTS:
            raise DataError(f"{notes[-1]}; give others for {part}, or for test")
        if beside and is_question and part != "test":
            size = f"{len(beside):,} of {len(remaining[part]):,} {noun} of {part}"
            share = f"{len(beside) / len(remaining[part]):.0%}"
            notes.append(f"{name}: {size} ({share}) are about passages of other test questions ({_list(beside)})")
    return remaining, notes


def _example_of(record: object) -> object:
    return getattr(record, "example", record)


def _list(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
