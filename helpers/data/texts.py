"""Labelled texts by domain, from wherever a preset says, loaded once a process.

Which text falls into which part depends on its words, seed and draw alone, but for the split "joint". The same text
never stands on both sides of a split that is made here by content.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import TypeVar

from helpers.data import originals, warnings
from helpers.data.examples import DataError, Domain, Pair
from helpers.data.formats.folders import FLAGS, PARTS, locate_folder
from helpers.data.formats.labelled import Labelled, Parts, from_rows, read_texts
from helpers.data.formats.refusals import unused
from helpers.data.splits import by_content, in_order, jointly
from helpers.presets.downloads import Collection
from helpers.presets.schema import Drawn, TasksSettings, TextsSettings

D = TypeVar("D", bound=Domain)


def load_texts(texts: TextsSettings) -> dict[str, Domain]:
    """All domains of ``texts``, by name, in its order; a `Pair`'s label is its number in `label_names`.

    What a domain's files are decides what is done: where nothing says a part, a tenth is test and a tenth of the rest
    valid (split "content"), or all domains are split together (split "joint"); where there is train with test or valid
    (dev), that is test, and a tenth of train valid; all three stay as they are. Each part is then cut from the front.
    Raises `DataError` for data that cannot be used.
    """
    return _load(texts)[0]


def label_names(texts: TextsSettings) -> tuple[str, ...]:
    """The labels' names by number: the preset's, or else those found in what is to train on, sorted."""
    return _load(texts)[1]


@cache
def _load(texts: TextsSettings) -> tuple[dict[str, Domain], tuple[str, ...]]:
    if not texts.is_given:
        raise DataError(
            "the preset has no labelled texts here: name domains, and for files their folder, such as -p "
            f"{FLAGS[TextsSettings]} path/to/data"
        )
    if texts.source == "mini":
        return _mini(texts)
    read = {name: _read(texts, name) for name in texts.domains}
    found = {record.label for parts, _ in read.values() for part in ("all", "train") for record in parts.get(part, ())}
    labels = tuple(texts.labels or sorted(found))
    paired = {name: next(iter(parts.values()))[0].second is not None for name, (parts, _) in read.items()}
    if len(set(paired.values())) > 1:
        pairs, single = (next(name for name, is_pair in paired.items() if is_pair == kind) for kind in (True, False))
        raise DataError(f"{pairs} has pairs of texts, {single} texts alone; all domains have to be of one kind")
    if texts.split == "joint":
        if parted := [name for name, (parts, _) in read.items() if set(parts) != {"all"}]:
            raise DataError(f'{parted[0]}: its files say parts already; set split = "content" in the preset')
        note = "all domains were split together, by label: a tenth is test, a tenth of the rest valid"
        joint = jointly({name: parts["all"] for name, (parts, _) in read.items()})
        split = {name: (_drawn(parts, texts), [f"{name}: {note}"]) for name, parts in joint.items()}
    else:
        split = {name: complete(name, parts, texts) for name, (parts, _) in read.items()}
    domains = {}
    for name, (parts, notes) in split.items():
        check(name, parts)
        pairs, numbered = examples_of(name, parts, lambda r: Pair(r.id, r.first, r.second, labels.index(r.label)))
        domain = Domain(name, **pairs, notes=[*read[name][1], *notes, *numbered])
        domains[name] = _cut(texts, domain, labels)
    return domains, labels


def _mini(texts: TextsSettings) -> tuple[dict[str, Domain], tuple[str, ...]]:
    from helpers.data.mini import texts as mini

    sizes = {key: size for key in ("train_size", "valid_size", "test_size") if (size := getattr(texts, key))}
    domains, labels = {}, tuple(texts.labels)
    for name, source in texts.domains.items():
        own = tuple(mini.labels(source))
        if own != (labels := labels or own):
            raise DataError(f"{name}: expected the labels {', '.join(own)}, found {', '.join(labels)}; correct labels")
        domain = mini.load_domain(source, seed=texts.drawn_by, **sizes)
        domains[name] = _cut(texts, replace(domain, name=name, notes=list(domain.notes)), labels)
    return domains, labels


def _read(texts: TextsSettings, name: str) -> tuple[Parts, list[str]]:
    """The texts of one domain by part, and notes. Raises `DataError`."""
    place, _, of_it = texts.domains[name].partition(":")
    if texts.source == "files":
        if (whole := locate_folder(texts) / texts.domains[name]).exists():  # a name may have a colon
            return read_texts(whole, texts.labels)
        return read_texts(locate_folder(texts) / place, texts.labels, of_it)
    known = texts.downloads.get(place)
    if isinstance(known, Collection):
        corpus, _, own = of_it.partition(":")
        folder = originals.fetch_all(place, known, corpus)
        parts, notes = read_texts(folder / own, texts.labels)
        found, expected = sum(map(len, parts.values())), known.corpora[corpus].rows.get(own)
        if found != expected:
            raise DataError(
                f"{place}:{of_it}: expected {expected or 'no'} texts, as the preset says, found {found:,} in {folder}; "
                "delete it to have it fetched again, or correct the preset"
            )
        return parts, notes
    from helpers.data.formats.hub import hub_rows  # imports `datasets`, which takes a second

    splits = [split for one in known.configurations.values() for split in one.rows] if known else []
    # The papers report on the public validation sets; MNLI's first one has the genres of its training set.
    test = next((split for split in splits if split.startswith("validation")), "validation")
    parts, notes = {}, []
    for part, split in {"train": "train", "test": test}.items():
        rows = hub_rows(place, split, pinned=known)
        parts[part], new = from_rows(rows, f"{place}[{split}]", texts.labels, of_it)
        notes += new
    return parts, notes


def complete(name: str, parts: Parts, settings: Drawn) -> tuple[Parts, list[str]]:
    """All three parts from those that the files give, each in the order of a hash, and notes on what was done."""
    notes, given, seed = [], dict(parts), settings.seed
    if "all" in given:
        given["test"], given["train"] = _tenth(given.pop("all"), seed)
        notes.append(f"{name}: nothing says a part: {len(given['test']):,} texts to test were taken by content")
    elif "test" not in given and "train" in given:
        given["test"] = given.pop("valid")
        notes.append(f"{name}: no test file: valid (dev) is used to test")
    if "train" not in given:
        raise DataError(f"{name}: no file to train on, only {', '.join(given)}; give one whose name says train")
    if "valid" not in given:
        given["valid"], given["train"] = _tenth(given["train"], settings.drawn_by)
        notes.append(f"{name}: {len(given['valid']):,} texts to validate on were taken from train, by content")
    return _drawn({part: in_order(given[part], seed) for part in PARTS}, settings), notes


def _drawn(parts: Parts, settings: Drawn) -> Parts:
    """The parts with what is to train on in another order for another draw, as it is cut from its front."""
    return {**parts, "train": in_order(parts["train"], settings.drawn_by)} if settings.draw else parts


def _tenth(records: list[Labelled], seed: int) -> tuple[list[Labelled], list[Labelled]]:
    """A tenth, and the rest, which has int(0.9 n) of n texts."""
    return by_content(records, len(records) - len(records) * 9 // 10, seed)


def check(name: str, parts: Parts, classes: bool = True) -> None:
    """Raises `DataError` where a part is empty or, with ``classes``, the texts to train on have not all labels."""
    if empty := [part for part in PARTS if not parts[part]]:
        total = sum(map(len, parts.values()))
        raise DataError(
            f"{name}: too small to split: of {total:,} texts none is left for {empty[0]}; give more, or train, valid "
            "and test in files of their own"
        )
    if not classes:
        return
    trained = {record.label for record in parts["train"]}
    for part in PARTS[1:]:
        if unseen := next((record for record in parts[part] if record.label not in trained), None):
            raise DataError(
                f"{name}: {unseen.where}: no text to train on is labelled {unseen.label}, as this one in {part} is; "
                "give some, or remove it"
            )
    if len(trained) < 2:
        raise DataError(f"{name}: every text is labelled {trained.pop()}; give texts of at least two labels")


def examples_of(name: str, parts: Parts, example: Callable[[Labelled], object]) -> tuple[dict[str, list], list[str]]:
    """The ``example`` of each record by part, and notes; ids occur once then: a second one gets a number behind it."""
    taken: set[str] = set()
    made: dict[str, list] = {part: [] for part in PARTS}
    notes, twice = [], 0
    for part in PARTS:
        for record in parts[part]:
            taken.add(identifier := unused(record.id, taken))
            twice += identifier != record.id
            made[part].append(example(record._replace(id=identifier)))
    if twice:
        notes.append(f"{name}: ids that stood there before have a number behind them: {twice:,}")
    for one, other in combinations(PARTS, 2):
        if both := {(r.first, r.second) for r in parts[one]} & {(r.first, r.second) for r in parts[other]}:
            notes.append(f"{name}: texts that stand in both {one} and {other}: {len(both):,}")
    return made, notes


def cut(settings: TextsSettings | TasksSettings, data: D, parts: Sequence[str] = PARTS) -> D:
    """Each of ``parts`` from its front, as the preset's sizes say, with notes."""
    name, notes, kept = data.name, list(data.notes), {}
    for part in parts:
        examples, key = getattr(data, part), f"{part}_size"
        size = getattr(settings, key) or len(examples)
        kept[part] = examples[:size]
        if size < len(examples):
            notes.append(f"{name}: {size:,} of {len(examples):,} texts of {part} are used ({key})")
        elif size > len(examples):
            notes.append(f"{name}: {key}={size:,} was asked for, there are {len(examples):,}: all are used")
    return replace(data, **kept, notes=notes)


def _cut(texts: TextsSettings, domain: Domain, labels: tuple[str, ...]) -> Domain:
    """`cut`, and ``train_share`` of what is left to train on; warns of parts that are small, but for miniature ones."""
    domain = cut(texts, domain)
    name, train, notes = domain.name, domain.train, domain.notes
    if texts.train_share < 1:
        train = train[: max(1, round(texts.train_share * len(train)))]
        notes.append(f"{name}: {len(train):,} of {len(domain.train):,} texts of train are used (train_share)")
        domain = replace(domain, train=train)
    return domain if texts.source == "mini" else replace(domain, notes=[*notes, *warnings.of_texts(domain, labels)])
