"""Questions about passages, from files: one corpus (`read`), or a domain with its three parts (`load_domain`).

Which question falls into which part depends on its text, seed and draw alone: not on the order of a file, nor on the
machine. A passage never stands on both sides of a split that is made here.
"""

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate, chain, combinations
from os import PathLike
from pathlib import Path

from helpers.data.examples import Corpus, DataError, Domain, Example
from helpers.data.formats.files import parse
from helpers.data.formats.folders import PARTS, find_parts, unread
from helpers.data.formats.refusals import corpus_of
from helpers.data.formats.rows import Located, digest

TEST_SHARE = 0.2  # of the questions of one file


def read(
    path: str | PathLike, *, unanswerable: bool = False, part: str | None = None, drop_bad: bool = False
) -> Corpus:
    """Read questions from a file, whose content says its format, from NarrativeQA's folder or from a saved dataset.

    A file is SQuAD's JSON, MRQA's lines of JSON, or rows with the columns of either: JSON, CSV, TSV or Parquet; text
    may be gzipped. SQuAD may be 1.1, 2.0 or adversarial (``Example.group`` is the original question's id).
    NarrativeQA's ``answers`` are its two references, and ``span`` is the stretch of the summary that comes nearest to
    one of them by ROUGE-L. A saved dataset is a folder that `datasets.save_to_disk` made.

    ``unanswerable`` allows questions without an answer; ``part`` takes one of NarrativeQA's train, valid and test.
    ``notes`` of the result count what was repaired and what cannot be trained on. Raises `DataError` with file,
    record and id for anything that is not as its format has it: one for all records of a file that are refused, the
    first ten of them a line each. ``drop_bad`` leaves those out instead; ``left_out`` of the result lists them all.
    """
    parsed = parse(Path(path), unanswerable, drop_bad)
    if part is not None and not parsed.records[0].part:
        raise DataError(f"{path}: part={part!r} is for NarrativeQA's folder; this file has no parts")
    records = [record for record in parsed.records if part in (None, record.part)]
    if not records:
        raise DataError(f"{path}: no question of part {part!r}; the parts are {', '.join(PARTS)}")
    return corpus_of(parsed._replace(records=records))


def sample(examples: list[Example], size: int, seed: int) -> list[Example]:
    """``size`` examples, chosen by content and seed, in their order; a smaller sample is a subset of a larger one."""
    ranked = sorted(examples, key=lambda example: digest(seed, example.context, example.question, example.id))
    chosen = {example.id for example in ranked[:size]}
    return [example for example in examples if example.id in chosen]


def load_domain(
    name: str,
    source: str | PathLike | dict[str, Corpus],
    *,
    seed: int,
    draw: int = 0,
    valid_size: int = 300,
    test_size: int | None = None,
    train_size: int | None = None,
    unanswerable: bool = False,
) -> Domain:
    """Load one domain as train, valid and test, splitting by passage what the files leave together.

    ``source`` is a file, a folder, or what has been read of several parts. A folder holds one file, or files whose
    names say their part, or NarrativeQA. What is there decides what is done:

    - one file: a fifth of its questions to test, then ``valid_size`` of the rest to valid;
    - train and test, or train and valid: the second is the test set, and ``valid_size`` questions of train are valid
      (Liu et al. 2020 validate so);
    - valid (or dev) and test without train: the first is to train, the second is halved by document;
    - all three: as they are.

    Whole passages are taken until a size is reached, so valid and test may exceed theirs by part of a passage.
    ``train_size`` and ``test_size`` then cut train and test down to so many questions, and ``valid_size`` a valid of
    the files' own that is more than twice as large; smaller cuts are subsets of larger ones, and leave the other parts
    alone. Another ``draw`` takes other questions to validate on, where these are taken from train or cut, and to train
    on, where these are cut; the test set is the same. ``Domain.notes`` say what was done. The order of the examples is
    by hash too. Raises `DataError` where data cannot be used or is too little, ValueError for impossible sizes.
    """
    for key, value in {"valid_size": valid_size, "test_size": test_size, "train_size": train_size}.items():
        if value is not None and value < 1:
            raise ValueError(f"{key} has to be at least 1, not {value}")
    given, notes = _load_parts(name, source, unanswerable)
    parts = _complete(name, given, notes, (seed, seed + draw), valid_size)
    cut, passages = {}, {}
    valid_cut = valid_size if len(parts["valid"]) > 2 * valid_size else None
    for part, size in zip(PARTS, (train_size, valid_cut, test_size), strict=True):
        examples, own = [record.example for record in parts[part]], seed if part == "test" else seed + draw
        examples.sort(key=lambda example: (digest(seed, example.context), digest(seed, example.question, example.id)))
        if size is not None and size > len(examples):
            notes.append(f"{name}: {part}_size={size:,} was asked for, there are {len(examples):,}: all are used")
        elif size is not None and size < len(examples):
            kind = {"train": "training", "valid": "validation"}.get(part, part)
            notes.append(f"{name}: {size:,} of {len(examples):,} {kind} questions are used ({part}_size)")
        cut[part] = examples if size is None else sample(examples, size, own)
        passages[part] = {example.context for example in cut[part]}
    for first, second in combinations(PARTS, 2):
        if both := passages[first] & passages[second]:
            notes.append(f"{name}: {len(both):,} passages stand in both {first} and {second}, as the files have it")
    sizes = ", ".join(f"{part} {len(cut[part]):,} on {len(passages[part]):,} passages" for part in PARTS)
    return Domain(name, **cut, notes=[*notes, f"{name}: questions: {sizes}"])


def _load_parts(
    name: str, source: str | PathLike | dict[str, Corpus], unanswerable: bool
) -> tuple[dict[str, list[Located]], list[str]]:
    """Records by part (train, valid, test, or "all" for one file), and notes."""
    if isinstance(source, dict):
        parts = {
            part: [Located("", *pair) for pair in zip(corpus.examples, corpus.documents, strict=True)]
            for part, corpus in source.items()
        }
        return parts, [note for corpus in source.values() for note in corpus.notes]
    parts, notes = defaultdict(list), unread(Path(source), name)
    for part, (path, shards) in find_parts(Path(source)).items():
        records, _, new = parse(path, unanswerable, shards=shards)
        notes += new
        for record in records:
            parts[record.part or part].append(record)  # NarrativeQA's rows say which part they are
    return parts, notes


def _complete(
    name: str,
    parts: dict[str, list[Located]],
    notes: list[str],
    seeds: tuple[int, int],
    valid_size: int,
) -> dict[str, list[Located]]:
    """All three parts from those that the files give; says in ``notes`` what it did. ``seeds`` are that of the test
    part and that of the others."""
    seed, drawn_by = seeds
    if len(parts) == 3:
        return parts
    if set(parts) == {"valid", "test"}:
        notes.append(f"{name}: no file to train on: valid (dev) is used to train, and test is halved by document")
        valid, test = _split(name, parts["test"], len(parts["test"]) / 2, seed, by_document=True)
        return {"train": parts["valid"], "valid": valid, "test": test}
    if len(parts) == 1:
        notes.append(f"{name}: one file: {TEST_SHARE:.0%} of it, by passage, are the test set")
        (records,) = parts.values()
        test, train = _split(name, records, TEST_SHARE * len(records), seed)
    else:
        train, test = parts["train"], parts.get("test") or parts["valid"]
        if "test" not in parts:
            notes.append(f"{name}: no test file: valid (dev) is used to test")
    if valid_size >= len(train):
        raise DataError(
            f"{name}: too small to split: valid_size={valid_size:,} leaves nothing to train on of the {len(train):,} "
            "questions there; make it smaller, or give a validation file"
        )
    valid, train = _split(name, train, valid_size, drawn_by)
    notes.append(f"{name}: {len(valid):,} questions to validate on were taken from train, by passage")
    return {"train": train, "valid": valid, "test": test}


def _split(
    name: str, records: list[Located], size: float, seed: int, by_document: bool = False
) -> tuple[list[Located], list[Located]]:
    """At least ``size`` questions in whole passages (or documents), and the rest; the hash of their text decides.

    Documents that share a passage count as one, and so do passages that hold variants of one question.
    """
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def root(node: tuple[str, str]) -> tuple[str, str]:
        while parent.setdefault(node, node) != node:
            node = parent[node]
        return node

    for record in records if by_document else ():
        parent[root(("passage", record.example.context))] = root(("document", record.document))
    for record in records:
        parent[root(("group", record.example.group))] = root(("passage", record.example.context))
    by_root = defaultdict(list)
    for record in records:
        by_root[root(("passage", record.example.context))].append(record)
    groups = sorted(by_root.values(), key=lambda group: digest(seed, *sorted({r.example.context for r in group})))
    count = bisect_left(list(accumulate(map(len, groups))), size) + 1
    if count >= len(groups):
        unit = "documents" if by_document else "passages"
        raise DataError(
            f"{name}: too small to split: {len(records):,} questions in too few {unit} (whole {unit} go to one part); "
            "give more data, ask for less of it in valid and test, or give train, valid and test in files of their own"
        )
    return list(chain(*groups[:count])), list(chain(*groups[count:]))
