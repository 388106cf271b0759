"""Decide which labelled text is in which part, by hashes of the texts, or as the released code of Meta-KD does."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from helpers.data.examples import PARTS, Choice, DataError, Pair, TextParts, TextRecord, digest, make_unique
from helpers.data.splits import Parts
from helpers.presets.schema import TasksSettings, TextsSettings

JOINT_SEED, FOLDS = 11111, 10  # of the released code of Meta-KD


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
