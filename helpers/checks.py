"""The command that looks at data: the domains of a preset, files by themselves, and what would be downloaded."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from helpers import papers
from helpers.data import questions, tasks, warnings
from helpers.data.adversarial import load_adversarial
from helpers.data.domains import load_one, locate_domains
from helpers.data.downloads import plan
from helpers.data.examples import Corpus, DataError, Domain, Example, Task
from helpers.data.formats.folders import ALL_PARTS, PARTS
from helpers.data.formats.squad import write_squad
from helpers.data.texts import label_names, load_texts
from helpers.files import writable, write_whole
from helpers.notebooks import session
from helpers.notebooks.parameters import of_the_preset, preset_for
from helpers.presets.downloads import Collection
from helpers.presets.schema import DataSettings, TasksSettings, TextsSettings

SHOWN = 10  # lines of a list that may be long


def check(given: argparse.Namespace) -> int:
    """What ``python -m helpers data`` does; returns the exit status."""
    parameters = of_the_preset(given.parameters)
    preset = preset_for(parameters)
    if given.plan:
        return _print_plan(parameters)
    if given.files or given.write_repaired or given.drop_bad:
        return _check_files(given, preset.data)
    print(session.limits(parameters, sections=("data", *papers.BESIDE)), end="")
    corpora, known = {section: getattr(preset, section) for section in papers.TEXTS}, {}
    # Who gives texts or tasks alone has them checked alone.
    given_alone = any(section.is_given for section in (*corpora.values(), preset.tasks))
    asked = preset.data.source != "files" or preset.data.folder or not given_alone
    if asked and preset.data.source == "files":
        locate_domains(preset.data)
    failed = 0
    for name in preset.data.domains if asked else ():
        try:
            known[name] = print_domain(preset.data, name)
        except DataError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed += 1
    _print_seen(preset.data, known)
    for section, texts in corpora.items():
        try:
            print_texts(section, texts)
        except DataError as error:
            print(f"{section}: {error}", file=sys.stderr)
            failed += 1
    known_tasks = {}
    for name in preset.tasks.tasks if preset.tasks.is_given else ():
        try:
            known_tasks[name] = print_task("tasks", preset.tasks, name)
        except DataError as error:
            print(f"tasks: {name}: {error}", file=sys.stderr)
            failed += 1
    print_seen(known_tasks, preset.tasks.source)
    return 1 if failed else 0


def print_domain(data: DataSettings, name: str) -> Domain:
    """The sizes of a domain, which is returned, and what was done to it. Raises DataError."""
    domain = load_one(data, name)
    print(f"{name}: {len(domain.train):,} train, {len(domain.valid):,} valid, {len(domain.test):,} test questions")
    print_lines(domain.notes)
    return domain


def _print_seen(data: DataSettings, domains: dict[str, Domain]) -> None:
    """Test passages of one domain that another trains on, those of adversarial questions too. One need not have these
    to use the domains, so what is wrong with them is no failure."""
    if data.source == "mini" or not domains:
        return
    tested = {}
    try:
        tested["adversarial questions"] = load_adversarial(data).get("clean", [])
    except DataError as error:
        print_lines([f"warning: adversarial questions: {error}"])
    print_lines(warnings.seen_elsewhere(domains, tested, {}))


def print_seen(domains: Mapping[str, Domain], source: str) -> None:
    """Test texts of one domain or task that another trains on; those of the miniature world are of one world."""
    if source != "mini":
        print_lines(warnings.seen_elsewhere(domains, {}, {}))


def print_lines(notes: Iterable[str]) -> None:
    """What there is to know, a line each."""
    for note in notes:
        print(f"  {note}")


def print_texts(section: str, texts: TextsSettings) -> None:
    """The sizes of all domains of a preset's section of labelled texts ("": left unsaid), and what was done to them.
    Raises DataError."""
    if not texts.is_given:
        if texts.domains:
            print(f"{section}: no folder is given (-p {section}.folder path/to/texts)")
        return
    for name, domain in (known := load_texts(texts)).items():
        parts = {part: getattr(domain, part) for part in PARTS}
        head = f"{section}: {name}" if section else name
        print(f"{head}: {', '.join(f'{len(pairs):,} {part}' for part, pairs in parts.items())} texts")
        for part, pairs in parts.items():
            counts = Counter(pair.label for pair in pairs)
            shares = (f"{label} {counts[n] / len(pairs):.0%}" for n, label in enumerate(label_names(texts)))
            print(f"  {part}: {', '.join(shares)}")
        print_lines(domain.notes)
    print_seen(known, texts.source)


def print_task(section: str, given: TasksSettings, name: str) -> Task:
    """The sizes of a task of a preset's section ("": left unsaid), its labels, what it is scored by, and what was done
    to it; it is returned. Raises DataError."""
    task = tasks.load_task(given, name)
    sizes = [f"{len(getattr(task, part)):,} {part}" for part in ALL_PARTS if getattr(task, part)]
    labels = f"; {', '.join(task.labels)}" if task.labels else ""
    head = f"{section}: {name}" if section else name
    print(f"{head}: {', '.join(sizes)}{labels}; scored by {' and '.join(task.metrics)}")
    print_lines(task.notes)
    return task


def _print_plan(parameters: dict[str, object]) -> int:
    """What all notebooks together would download."""
    notebooks = ["", *(card.name for paper in papers.ALL for card in paper.notebooks)]
    presets = [preset_for(parameters, name) for name in notebooks]
    beside = [(texts, texts.domains) for texts in (getattr(presets[0], section) for section in papers.TEXTS)]
    beside += [(preset.tasks, preset.tasks.tasks) for preset in presets]
    named = [_as_data(given, names) for given, names in beside if names and given.source == "hub"]
    print("\n".join(plan(*dict.fromkeys([*(preset.data for preset in presets), *named]))))
    return 0


def _as_data(given: TextsSettings | TasksSettings, names: dict[str, str]) -> DataSettings:
    """Settings that download the same: a part of a collection's corpus comes with all of it, and a genre on the Hub."""
    corpora = {}
    for name, source in names.items():
        place, *of_it = source.split(":")
        is_genre = isinstance(given, TextsSettings) and not isinstance(given.downloads.get(place), Collection)
        corpora[name] = ":".join([place, *([] if is_genre else of_it[:1])])
    return DataSettings(source="hub", domains=corpora, downloads=given.downloads)


def _check_files(given: argparse.Namespace, data: DataSettings) -> int:
    """Files by themselves, or folders of the files of a domain."""
    unanswerable, failed = bool(data.unanswerable), 0
    if given.write_repaired or not given.files:
        return _write_repaired(given, unanswerable)
    for file in given.files:
        try:
            if Path(file).is_dir() and not given.drop_bad:
                sizes = {"seed": data.seed, "valid_size": data.valid_size}
                domain = questions.load_domain(Path(file).name, file, unanswerable=unanswerable, **sizes)
                examples, notes = [*domain.train, *domain.valid, *domain.test], domain.notes
            else:
                corpus = questions.read(file, unanswerable=unanswerable, drop_bad=given.drop_bad)
                examples, notes = corpus.examples, [*corpus.notes, *_left_out(corpus)]
        except DataError as error:
            print(f"error: {error}", file=sys.stderr)
            failed += 1
            continue
        print(f"{file}: {_amount(examples)}")
        print_lines(notes)
    return 1 if failed else 0


def _write_repaired(given: argparse.Namespace, unanswerable: bool) -> int:
    """One file anew as SQuAD's JSON, and beside it what was left out."""
    if len(given.files) != 1 or not given.write_repaired:
        raise DataError("give one file, and another to write: python -m helpers data FILE --write-repaired OUT")
    out = writable(given.write_repaired)
    if out.resolve() == Path(given.files[0]).resolve() or out.suffix == ".gz":
        raise DataError(f"{out}: give another name, of a plain .json file; the original stays as it is")
    corpus = questions.read(given.files[0], unanswerable=unanswerable, drop_bad=given.drop_bad)
    write_squad(corpus.examples, out, corpus.documents)
    print(f"{os.path.relpath(out)}: {_amount(corpus.examples)}")
    print_lines([*corpus.notes, *_left_out(corpus)])
    listing = out.with_suffix(".left_out.txt")
    listing.unlink(missing_ok=True)  # of an earlier time
    if corpus.left_out:
        write_whole(listing, "\n".join(corpus.left_out) + "\n")
        print(f"{os.path.relpath(listing)}: all that was left out")
    return 0


def _amount(examples: list[Example]) -> str:
    return f"{len(examples):,} questions on {len({example.context for example in examples}):,} passages"


def _left_out(corpus: Corpus) -> list[str]:
    lines = [f"left out: {line}" for line in corpus.left_out[:SHOWN]]
    return lines + [f"and {len(corpus.left_out) - SHOWN:,} more"] * (len(corpus.left_out) > SHOWN)
