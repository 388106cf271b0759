"""Splits of labelled texts: by their content, or all domains together as Meta-KD does."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from helpers.data.examples import DataError
from helpers.data.formats.labelled import Labelled
from helpers.data.formats.rows import digest

JOINT_SEED = 11111  # of the released code of Meta-KD
FOLDS = 10


def by_content(records: Sequence[Labelled], size: int, seed: int) -> tuple[list[Labelled], list[Labelled]]:
    """``size`` records, by the hash of their texts and ``seed``, and the rest.

    Labels share ``size`` as they share the records, to one. Equal texts stay together, so fewer are taken where too
    many of them are equal.
    """
    groups: dict[str, list[Labelled]] = defaultdict(list)
    for record in records:
        groups[digest(seed, record.first, record.second)].append(record)
    ordered = [groups[key] for key in sorted(groups)]
    labels = [min(record.label for record in group) for group in ordered]
    taken: set[int] = set()

    def fill(room: int, label: str | None = None) -> int:
        for number, group in enumerate(ordered):
            if label in (None, labels[number]) and number not in taken and len(group) <= room:
                taken.add(number)
                room -= len(group)
        return room

    seats = _seats(Counter(record.label for record in records), size)
    left = sum(fill(count, label) for label, count in seats.items())
    fill(left)  # groups that were too large for their label's seats left some free
    chosen = [record for number, group in enumerate(ordered) if number in taken for record in group]
    return chosen, [record for number, group in enumerate(ordered) if number not in taken for record in group]


def in_order(records: Sequence[Labelled], seed: int) -> list[Labelled]:
    """``records`` by a hash of their texts; another than `by_content` goes by, which leaves one label first."""
    return sorted(records, key=lambda record: digest("order", seed, record.first, record.second, record.id))


def _seats(counts: Counter[str], size: int) -> dict[str, int]:
    """How many of each label are taken, by largest remainders; of each that occurs, one is left if that can be."""
    total = counts.total()
    seats = {label: size * counts[label] // total for label in sorted(counts)}
    by_remainder = sorted(seats, key=lambda label: (counts[label] - seats[label] < 2, -(size * counts[label] % total)))
    for label in by_remainder[: size - sum(seats.values())]:
        seats[label] += 1
    return seats


def jointly(domains: dict[str, Sequence[Labelled]]) -> dict[str, dict[str, list[Labelled]]]:
    """Train, valid and test of all domains from one shuffled table of them, in its order.

    A tenth is test, by label and not by domain, then a tenth of the rest valid; with the four domains of Amazon
    Reviews as they are in their files, positive reviews first, sizes are those of Dong et al. 2021, Table 1. Raises
    `DataError` where a label is too rare.
    """
    from sklearn.model_selection import StratifiedKFold  # here, because it takes a second to import
    from sklearn.utils import shuffle

    table = [(name, record) for name, records in domains.items() for record in records]
    rarest, count = min(Counter(record.label for _, record in table).items(), key=lambda item: item[1])
    if count < 2 * FOLDS:
        raise DataError(
            f'split = "joint" needs {2 * FOLDS} texts of each label, and {count} are labelled {rarest}; give more, or '
            'set split = "content" in the preset'
        )
    table = shuffle(table, random_state=JOINT_SEED)

    def fold(rows: list) -> tuple[list, list]:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=JOINT_SEED)
        rest, first = next(folds.split(rows, [record.label for _, record in rows]))
        return [rows[number] for number in rest], [rows[number] for number in first]

    rest, test = fold(table)
    train, valid = fold(rest)
    parts = {"train": train, "valid": valid, "test": test}
    return {name: {part: [r for own, r in rows if own == name] for part, rows in parts.items()} for name in domains}
