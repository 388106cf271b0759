"""Decide which example is in which part. Nothing that is trained on is tested on.

What files leave together is split by hashes of the texts, in any order; `split_jointly` shuffles their rows. Whatever
is a test example too, by its texts, is left out of the other parts.
"""

import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, chain

from helpers.data.examples import (
    PARTS,
    Choice,
    DataError,
    Example,
    Pair,
    QuestionRecord,
    TextParts,
    TextRecord,
    digest,
    is_blank,
    make_unique,
)
from helpers.presets.schema import DataSettings, TasksSettings, TextsSettings

TEST_SHARE = 0.2  # of the questions of one file
JOINT_SEED, FOLDS = 11111, 10  # of the released code of Meta-KD
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
        raise DataError(f"{name}: {problem} are too few to set {size:,.0f} aside; {todo}")
    return list(chain(*groups[:count])), list(chain(*groups[count:]))


def sample(examples: list[Example], size: int, seed: int) -> list[Example]:
    """Return ``size`` examples by content and seed, in their order. Smaller samples are subsets of larger ones."""

    def rank(position: int) -> str:
        example = examples[position]
        return digest(seed, example.context, example.question, example.id)

    chosen = sorted(range(len(examples)), key=rank)[:size]
    return [examples[position] for position in sorted(chosen)]


def split_off_test_texts(name: str, parts: TextParts, seed: int) -> tuple[TextParts, list[str]]:
    """Return the parts of labelled texts with a test part, and notes: without parts a tenth, or else valid.

    Raises DataError.
    """
    parts, notes = dict(parts), []
    if "all" in parts:
        parts["test"], parts["train"] = draw_tenth(parts.pop("all"), seed)
        notes.append(f"{name}: {len(parts['test']):,} texts to test on were drawn by content")
    if "train" not in parts:
        raise DataError(f"{name}: no training file, only {', '.join(parts)}; give one with train in its name")
    if "test" not in parts:
        notes.append(f"{name}: no test file: valid (dev) is used to test")
        parts["test"] = parts.pop("valid")
    return parts, notes


def split_off_valid_texts(name: str, parts: TextParts, seed: int, drawn_by: int) -> tuple[TextParts, list[str]]:
    """Return all three parts of labelled texts in the order of a hash, and notes: valid may be a tenth of train."""
    parts, notes = dict(parts), []
    if "valid" not in parts:
        parts["valid"], parts["train"] = draw_tenth(parts["train"], drawn_by)
        notes.append(f"{name}: {len(parts['valid']):,} texts to validate on were drawn from train")
    return {part: order_by_hash(parts[part], seed) for part in PARTS}, notes


def order_by_hash(records: Sequence[TextRecord], seed: int) -> list[TextRecord]:
    """Return ``records`` in the order of a hash; that of `draw_tenth` would leave one label first."""
    return sorted(records, key=lambda record: digest("order", seed, record.first, record.second, record.id))


def draw_tenth(records: Sequence[TextRecord], seed: int) -> tuple[list[TextRecord], list[TextRecord]]:
    """Return a tenth, drawn by hash and stratified by label, and the rest. Equal texts stay together.

    Labels share the tenth by largest remainders, and one text of each stays in the rest where possible.
    """
    size, by_text = len(records) - len(records) * 9 // 10, defaultdict(list)
    for record in records:
        by_text[digest(seed, record.first, record.second)].append(record)
    groups = [by_text[key] for key in sorted(by_text)]
    counts = Counter(record.label for record in records)
    seats = {label: size * counts[label] // len(records) for label in sorted(counts)}
    remainders = {label: size * counts[label] % len(records) for label in seats}
    by_remainder = sorted(seats, key=lambda label: (counts[label] - seats[label] < 2, -remainders[label]))
    for label in by_remainder[: size - sum(seats.values())]:
        seats[label] += 1
    taken: set[int] = set()

    def fill(room: int, label: str = "") -> int:
        for number, group in enumerate(groups):
            if label in ("", min(r.label for r in group)) and number not in taken and len(group) <= room:
                taken.add(number)
                room -= len(group)
        return room

    fill(sum(fill(count, label) for label, count in seats.items()))  # groups too large for their label leave seats free
    tenth = [record for number in sorted(taken) for record in groups[number]]
    return tenth, [record for number, group in enumerate(groups) if number not in taken for record in group]


def split_jointly(domains: dict[str, TextParts]) -> dict[str, TextParts]:
    """Split all domains from one shuffled table: a tenth is test, a tenth of the rest valid, stratified by label.

    Amazon's four domains get the sizes of Dong et al. 2021, Table 1. Raises DataError.
    """
    from sklearn.model_selection import StratifiedKFold  # here, because it takes a second to import
    from sklearn.utils import shuffle

    if named := [name for name, parts in domains.items() if set(parts) != {"all"}]:
        raise DataError(f'{named[0]}: its files name parts already; set split = "content" in the preset')
    table = [(name, record) for name, parts in domains.items() for record in parts["all"]]
    label, count = Counter(record.label for _, record in table).most_common()[-1]
    if count < 2 * FOLDS:
        problem = f'split = "joint" needs {2 * FOLDS} texts of each label, found {count} of {label}'
        raise DataError(f'{problem}; give more, or set split = "content" in the preset')

    def fold(rows: list) -> tuple[list, list]:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=JOINT_SEED)
        rest, first = next(folds.split(rows, [record.label for _, record in rows]))
        return [rows[number] for number in rest], [rows[number] for number in first]

    train, test = fold(shuffle(table, random_state=JOINT_SEED))
    train, valid = fold(train)
    parts = {"train": train, "valid": valid, "test": test}
    return {name: {p: [record for other, record in parts[p] if other == name] for p in PARTS} for name in domains}


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


def draw_texts(
    settings: TextsSettings | TasksSettings, name: str, parts: Parts, labels: tuple[str, ...]
) -> tuple[Parts, list[str]]:
    """Return the examples of a draw by part, from all texts that are left of a domain or task, and notes.

    Without ``labels`` they are scores. Raises DataError.
    """
    notes = []
    unlabelled = parts.get("unlabelled", [])
    if getattr(settings, "split", "content") == "content":
        parts, notes = split_off_valid_texts(name, parts, settings.seed, settings.drawn_by)
    if settings.draw:  # as parts are cut from the front, another order is another draw
        parts = parts | {"train": order_by_hash(parts["train"], settings.drawn_by)}
    _check_texts(name, parts, labels)
    taken: set[str] = set()
    examples = {}
    for part in PARTS:
        all_of_part = [_to_example(record, labels, taken) for record in parts[part]]
        examples[part] = all_of_part[: getattr(settings, f"{part}_size") or None]
    if isinstance(settings, TasksSettings):
        chosen = order_by_hash(unlabelled, settings.seed)[: settings.unlabelled_size or None]
        examples["unlabelled"] = [Pair(record.id, record.first, record.second, None) for record in chosen]
    return examples, notes


def _check_texts(name: str, parts: Parts, labels: tuple[str, ...]) -> None:
    if empty := [part for part in PARTS if not parts[part]]:
        raise DataError(f"{name}: no text is left for {empty[0]}; give more, or a file for each part")
    if not labels:
        return
    present = {part: {record.label for record in parts[part]} for part in PARTS}
    if unseen := (present["valid"] | present["test"]) - present["train"]:
        raise DataError(f"{name}: no training text is labelled {min(unseen)}; give some, or remove the others")
    if len(present["train"]) < 2:
        raise DataError(f"{name}: every text is labelled {min(present['train'])}; give at least two labels")


def _to_example(record: TextRecord, labels: tuple[str, ...], taken: set[str]) -> Pair | Choice:
    name = make_unique(record.id, taken)
    if isinstance(record.second, tuple):
        return Choice(name, record.first, record.second, int(record.label))
    return Pair(name, record.first, record.second, labels.index(record.label) if labels else float(record.label))


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
