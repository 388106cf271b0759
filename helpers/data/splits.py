"""Decide which example is in which part. Nothing that is trained on is tested on.

What files leave together is split by hashes of the texts, in any order. Whatever is a test example too, by its texts,
is left out of the other parts. Labelled texts are split by `helpers.data.text_splits`.
"""

import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, chain

from helpers.data.examples import PARTS, Choice, DataError, Example, QuestionRecord, digest, is_blank
from helpers.presets.schema import DataSettings

TEST_SHARE = 0.2  # of the questions of one file
Key = tuple[str, ...]  # digests of an example's texts
Parts = Mapping[str, Sequence]  # of a domain or task: examples, or the records of files that hold them


def split_off_test_questions(
    name: str, parts: dict[str, list[QuestionRecord]], seed: int
) -> tuple[dict[str, list[QuestionRecord]], list[str]]:
    """Return the parts of a domain with a test part, without splitting a passage, and notes. Raises DataError.

    - One file: a fifth of its questions is test, the rest is train.
    - Train and test (or valid): the second is test (Liu et al. 2020).
    - Valid and test: the first is train, the second is halved by document.
    """
    if set(parts) == {"valid", "test"}:
        valid, test = split_by_passage(name, parts["test"], len(parts["test"]) / 2, seed, by_document=True)
        note = f"{name}: no training file: valid (dev) is used to train, and test is halved by document"
        return {"train": parts["valid"], "valid": valid, "test": test}, [note]
    if len(parts) == 1:
        (records,) = parts.values()
        test, train = split_by_passage(name, records, TEST_SHARE * len(records), seed)
        return {"train": train, "test": test}, [f"{name}: one file: {TEST_SHARE:.0%} of its questions are the test set"]
    if len(parts) == 2:
        return {"train": parts["train"], "test": parts.get("test") or parts["valid"]}, []
    return parts, []


def split_off_valid_questions(
    name: str, parts: dict[str, list[QuestionRecord]], seed: int, drawn_by: int, valid_size: int
) -> tuple[dict[str, list[Example]], list[str]]:
    """Return all three parts of a domain in the order of hashes, and notes on what was done. Raises DataError.

    Where the files set no valid part apart, at least ``valid_size`` questions are taken from train in whole passages.
    """
    notes = []
    if "valid" not in parts:
        valid, train = split_by_passage(name, parts["train"], valid_size, drawn_by)
        notes.append(f"{name}: {len(valid):,} questions to validate on were taken from train")
        parts = parts | {"train": train, "valid": valid}

    def order(example: Example) -> tuple[str, str]:
        return digest(seed, example.context), digest(seed, example.question, example.id)

    return {part: sorted((record.example for record in parts[part]), key=order) for part in PARTS}, notes


def split_by_passage(
    name: str, records: list[QuestionRecord], size: float, seed: int, by_document: bool = False
) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    """Return at least ``size`` questions in whole passages (or documents), and the rest. Raises DataError.

    Passages with variants of one question count as one, as do documents that share a passage.
    """
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def root(kind: str, text: str) -> tuple[str, str]:
        node = kind, text
        while parent.setdefault(node, node) != node:
            node = parent[node]
        return node

    for record in records:
        if by_document:
            parent[root("passage", record.example.context)] = root("document", record.document)
        parent[root("group", record.example.group)] = root("passage", record.example.context)
    by_root = defaultdict(list)
    for record in records:
        by_root[root("passage", record.example.context)].append(record)
    groups = sorted(by_root.values(), key=lambda group: digest(seed, *sorted({r.example.context for r in group})))
    count = bisect_left(list(accumulate(map(len, groups))), size) + 1
    if count >= len(groups):
        problem = f"{len(records):,} questions in {len(groups):,} {'documents' if by_document else 'passages'}"
        todo = "give more, lower data.valid_size, or give train, valid and test in files of their own"
        if len(groups) < 2:
            todo = "give three passages or more, as train, valid and test share none"
        raise DataError(f"{name}: {problem} are too few to set {max(size, 1):,.0f} aside; {todo}")
    return list(chain(*groups[:count])), list(chain(*groups[count:]))


def sample(examples: list[Example], size: int, seed: int) -> list[Example]:
    """Return ``size`` examples by content and seed, in their order. Smaller samples are subsets of larger ones."""

    def rank(position: int) -> str:
        example = examples[position]
        return digest(seed, example.context, example.question, example.id)

    chosen = sorted(range(len(examples)), key=rank)[:size]
    return [examples[position] for position in sorted(chosen)]


def draw_questions(data: DataSettings, name: str, parts: Parts) -> tuple[Parts, list[str]]:
    """Return the examples of a draw by part, from all that are left of a domain's, and notes. Raises DataError."""
    parts, notes = split_off_valid_questions(name, parts, data.seed, data.drawn_by, data.valid_size)
    # Valid questions that the files set apart are sampled only if there are many more than needed.
    valid_size = data.valid_size if len(parts["valid"]) > 2 * data.valid_size else 0
    for part, size in {"train": data.train_size, "valid": valid_size, "test": data.test_size}.items():
        if 0 < size < len(parts[part]):
            notes.append(f"{name}: {size:,} of {len(parts[part]):,} questions of {part} are used ({part}_size)")
            parts[part] = sample(parts[part], size, data.seed if part == "test" else data.drawn_by)
    return parts, notes


@dataclass
class TestedTexts:
    """The test examples of a section by their texts, and the passages that test questions are about.

    Each has the name of its domain, task or adversarial set.
    """

    names: dict[Key, str] = field(default_factory=dict)
    passages: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, parts: Parts) -> None:
        """Add the test part of a domain, of a task or of an adversarial set."""
        for keys in identify_examples(parts)["test"]:
            for key in keys:
                self.names.setdefault(key, name)
                self.passages.setdefault(key[0], name)


def identify_examples(parts: Parts) -> dict[str, list[list[Key]]]:
    """Return by part what tells examples apart whatever their case, white space, Unicode form, invisible characters.

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
    name: str, parts: Parts, tests: TestedTexts, *, passages: bool = False
) -> tuple[dict[str, list], list[str]]:
    """Return the parts of a domain or task without what is a test example too, and notes that count it.

    The test part stays. Another question about the passage of a test question is counted, and with ``passages`` left
    out too. Raises DataError where nothing is left to train or to validate on.
    """
    remaining, notes, keys = {}, [], identify_examples(parts)
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
