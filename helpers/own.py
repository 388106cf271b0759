"""Somebody's own domains in, better models out, by whichever paper has a command for it."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Self

import pandas as pd
from tqdm.auto import tqdm

from helpers import papers
from helpers.data.examples import DataError
from helpers.files import file_fingerprint, fingerprint
from helpers.model_cards import card
from helpers.models.pretrained import encoder_fingerprint
from helpers.notebooks.session import Session
from helpers.own_files import QUESTIONS, domains_of, elsewhere, fingerprints, format_of, is_there, located
from helpers.papers.card import OwnDomains, OwnModel, Paper
from helpers.presets.load import keys, load
from helpers.presets.schema import Preset, domain_name
from helpers.results import tables
from helpers.results.records import Record
from helpers.tasks.pace import Pace
from helpers.training import engine
from helpers.training.cached import Cached

MOST = 16  # domains
NAME = "own"  # of the preset, and so of the folder of its trainings and of its records
BAR = "{percentage:3.0f} %|{bar}| {elapsed} so far, {desc}"


class Work(NamedTuple):
    """All tasks that a method can come to do on a preset's domains, and those of them that are left."""

    tasks: dict[str, Cached]
    left: dict[str, Cached]

    @classmethod
    def of(cls, method: OwnDomains, preset: Preset) -> Self:
        """What there is to do; nothing is done."""
        tasks = {task.key: task for task in method.work().tasks(preset)}
        return cls(tasks, {key: task for key, task in tasks.items() if not engine.is_done(task)})

    def table(self) -> pd.DataFrame:
        """How many tasks of each kind, how many are done, and the steps of a training."""
        rows: dict[str, dict] = {}
        for key, task in self.tasks.items():
            kind = task.label.partition(",")[0]
            row = rows.setdefault(kind, {"tasks": 0, "done before": 0, "steps of each": set()})
            row["tasks"] += 1
            row["done before"] += key not in self.left
            row["steps of each"] |= {task.steps} if hasattr(task, "steps") else set()
        for row in rows.values():
            ends = [function(row["steps of each"], default="") for function in (min, max)]
            row["steps of each"] = " to ".join(map(str, dict.fromkeys(ends)))
        return pd.DataFrame.from_dict(rows, orient="index")


def overrides(method: OwnDomains, domains: dict[str, str], preset: str = "lab") -> dict[str, object]:
    """What a preset says instead where a method gets domains by name and file, whose order does not matter. Raises
    DataError."""
    word, number = method.option, len(domains)
    if not 2 <= number <= MOST:
        raise DataError(f"{method.name} needs 2 to {MOST} {word}s, not {number}: give each by --{word} NAME=FILE")
    files: dict[str, dict] = {section: {} for section in (method.section, method.questions) if section}
    for name, file in sorted(domains.items()):
        try:
            domain_name(name)
            form, place = format_of(method, file)
        except ValueError as error:
            raise DataError(f"--{word} {name}={file}: {error}") from None
        if not is_there(place):
            raise DataError(f"--{word} {name}={file}: no such file or folder")
        section = method.questions if form == QUESTIONS else method.section
        files[section][name] = form, Path(place).expanduser().resolve()
    known, changes = load(preset), {"name": NAME}
    for section, given in files.items():
        changes |= {f"{section}.{key}": value for key, value in located(getattr(known, section), given).items()}
    return changes


def check_parameters(method: OwnDomains, parameters: dict[str, object], files: dict[str, object]) -> None:
    """Raises DataError for a parameter that would be ``files``' own, or that nothing here depends on."""
    if clash := sorted(set(parameters) & set(files)):
        names = f"--{method.option} names the files"
        raise DataError(f"-p {clash[0]} has no meaning here: {names}, and results lie below own")

    def is_read(key: str) -> bool:
        section = key.partition(".")[0]
        if section in method.also:
            return f"{method.questions}.domains" in files
        other = section in ("data", *papers.BESIDE) and section != method.section
        return papers.concerns(key, method.notebook) and not other

    for key in (key for key in parameters if key != "preset" and not is_read(key)):
        alike = [known for known in keys() if known.rpartition(".")[2] == key.rpartition(".")[2] and is_read(known)]
        instead = f"; there is {', '.join(alike)}" if alike else ""
        raise DataError(f"-p {key} has no meaning here: {method.name} does not depend on it{instead}")


def forecast(work: Work, pace: Pace) -> str:
    """How much is left and how long it will take, in words."""
    if not work.left:
        return f"all {len(work.tasks)} trainings and scorings are done"
    left = work.left.values()
    at_once = f", {pace.processes} at a time" if pace.processes > 1 else ""
    step = " to ".join(f"{seconds:.2g}" for seconds in pace.steps(left))
    return (
        f"{len(work.tasks)} trainings and scorings at most, {len(work.tasks) - len(work.left)} done before; about "
        f"{tables.duration(pace.seconds(left) / pace.processes)}" + f" (a step takes {step} s{at_once})" * bool(step)
    )


@contextmanager
def progress(work: Work, pace: Pace) -> Iterator[engine.After]:
    """A bar over what is left, in expected seconds, with the time left; and the function that moves it on.

    Until something is done the time left is that of ``pace``; then what is done says how good that was.
    """
    total, begun, ended = pace.seconds(work.left.values()), time.perf_counter(), threading.Event()
    expected, last = total / pace.processes, "nothing yet"

    def show() -> None:
        left = tables.duration(max(0.0, expected - (time.perf_counter() - begun)))
        bar.set_description_str(f"about {left} left; last done: {last}")

    def keep_showing() -> None:
        while not ended.wait(1.0 if sys.stderr.isatty() else 60.0):
            show()

    def after(task: Cached) -> None:
        nonlocal expected, last
        bar.update(min(pace.seconds([task]), total - bar.n))
        last = task.label
        if bar.n:
            expected = (time.perf_counter() - begun) * total / bar.n
        show()

    with tqdm(total=total, bar_format=BAR, disable=not work.left) as bar:
        shower = threading.Thread(target=keep_showing, daemon=True)
        shower.start()
        try:
            show()
            yield after
            bar.update(total - bar.n)  # there may be less to do than was thought
        finally:
            ended.set()
            shower.join()


def improve(paper: Paper, session: Session, out: Path, after: Callable[[Cached], None] = lambda task: None) -> Record:
    """Train models of the domains and what they are compared with, save each folder's with a model card, and return the
    scores. Raises DataError, before anything is trained, on unreadable domains and on an ``out`` of other files."""
    preset, method = session.preset, paper.own_domains
    domains = domains_of(method, preset)
    folders = method.work().folders(preset)
    check_place(method, folders, out)
    out.mkdir(parents=True, exist_ok=True)
    parts, models = method.work().train(preset, after)
    # One record a run: it is named by its settings and data, so that the same run writes the same one.
    record = session.save(f"{paper.key}/{NAME}", variant=identity(method, preset), **parts)
    for folder, model in models.items():
        put(model, card(paper, preset, record, domains, folders[folder], model), out / folder)
    return record


def identity(method: OwnDomains, preset: Preset) -> str:
    """Eight hex digits that stand for settings, data and encoders, these by their contents, wherever they lie."""
    keys = [flag.key for flag in method.flags if flag.encoder]
    encoders = [place and content(place) for place in (attrgetter(key)(preset) for key in keys)]
    left_out = {"limits": True, "engine": True, **elsewhere(method, preset)}
    for section, _, key in (key.rpartition(".") for key in keys):
        left_out |= {section: {key}} if section else {key: True}
    settings = preset.model_dump_json(exclude=left_out)
    return fingerprint(settings, fingerprints(method, preset), *encoders)[:8]


def content(place: str) -> str:
    """What stands for a file, or for an encoder, wherever it lies."""
    file = Path(place).expanduser()
    return file_fingerprint(file) if file.is_file() else encoder_fingerprint(place)


def check_place(method: OwnDomains, folders: Iterable[str], out: Path) -> None:
    """Raises DataError where ``out`` holds folders of these names that are not ours, or is no folder."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file; give the name of a folder by --out")
    for folder in (out / name for name in folders):
        known = folder / "README.md"
        title = f"# A {method.product} of "  # of a card, by which our own folders are known
        if folder.exists() and not (known.is_file() and title in known.read_text("utf-8", errors="replace")):
            raise DataError(f"{folder} holds something that is no {method.product} of ours; give another --out")


def put(model: OwnModel, card: str, folder: Path) -> None:
    """A trained model with its card in place of ``folder``, whole or not at all."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    model.write(new)
    (new / "README.md").write_text(card, encoding="utf-8")
    if folder.exists():
        shutil.rmtree(folder)
    new.rename(folder)
