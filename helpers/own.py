"""Somebody's own domains in, better readers out."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import pandas as pd
from tqdm.auto import tqdm

from helpers import paths
from helpers.data.domains import fingerprint, load_domains
from helpers.data.examples import DataError
from helpers.files import fingerprint as fingerprint_of
from helpers.models.pretrained import encoder_fingerprint
from helpers.notebooks.session import Session
from helpers.papers.card import OwnDomains, OwnModel
from helpers.presets.load import load
from helpers.presets.schema import Preset, domain_name
from helpers.results import comparisons, tables
from helpers.results.records import Record
from helpers.tasks.pace import Pace
from helpers.tasks.spans import budget
from helpers.training import engine
from helpers.training.cached import Cached

MOST = 16  # domains
TITLE = "# A reader of "  # of a card, by which our own folders are known
NAME = "own"  # of the preset, and so of the folder of its trainings and of its records
BAR = "{percentage:3.0f} %|{bar}| {elapsed} so far, {desc}"


class Work(NamedTuple):
    """All tasks that a method can come to do on a preset's domains, and those of them that are left."""

    tasks: dict[str, Cached]
    left: dict[str, Cached]

    @classmethod
    def of(cls, method: OwnDomains, preset: Preset) -> Self:
        """What there is to do; nothing is done."""
        tasks = {task.key: task for task in method.tasks(preset)}
        return cls(tasks, {key: task for key, task in tasks.items() if not engine.is_done(task)})

    def table(self) -> pd.DataFrame:
        """How many tasks of each kind, how many are done, and the steps of a training."""
        rows: dict[str, dict] = {}
        for key, task in self.tasks.items():
            kind = task.label.partition(",")[0]
            row = rows.setdefault(kind, {"tasks": 0, "done before": 0, "steps of each": getattr(task, "steps", "")})
            row["tasks"] += 1
            row["done before"] += key not in self.left
        return pd.DataFrame.from_dict(rows, orient="index")


def overrides(method: str, domains: dict[str, str], preset: str = "lab") -> dict[str, object]:
    """What a preset says instead where a method gets domains by name and file, whose order does not matter. A share of
    the miniature questions is no share of these. Raises DataError."""
    if not 2 <= len(domains) <= MOST:
        raise DataError(f"{method} needs 2 to {MOST} domains, not {len(domains)}: give --domain NAME=FILE for each")
    for name, file in domains.items():
        try:
            domain_name(name)
        except ValueError as error:
            raise DataError(f"--domain {name}={file}: {error}") from None
    files = {name: str(Path(file).expanduser().resolve()) for name, file in sorted(domains.items())}
    data = {"source": "files", "folder": str(Path.cwd()), "domains": files, "adversarial": None}
    if load(preset).data.source == "mini":
        data["train_share"] = 1.0
    return {"name": NAME, **{f"data.{key}": value for key, value in data.items()}}


def forecast(work: Work, pace: Pace) -> str:
    """How much is left and how long it will take, in words."""
    if not work.left:
        return f"all {len(work.tasks)} trainings and scorings are done"
    seconds = pace.seconds(work.left.values()) / pace.processes
    at_once = f", {pace.processes} at a time" if pace.processes > 1 else ""
    return (
        f"{len(work.tasks)} trainings and scorings at most, {len(work.tasks) - len(work.left)} done before; about "
        f"{tables.duration(seconds)} (a step takes {pace.step:.2g} s, a window {pace.window:.2g} s{at_once})"
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


def improve(
    artefact: str, method: OwnDomains, session: Session, out: Path, after: Callable[[Cached], None] = lambda task: None
) -> Record:
    """Train readers of every domain with and without the others, save each domain's best with a model card, and return
    the scores. Raises DataError, before anything is trained, on unreadable domains and on an ``out`` of other files."""
    preset = session.preset
    load_domains(preset.data)
    check_place(preset.data.domains, out)
    out.mkdir(parents=True, exist_ok=True)
    parts, models = method.train(preset, after)
    # One record a run: it is named by its settings and data, so that the same run writes the same one.
    known = preset.model_dump_json(
        exclude={"limits": True, "engine": True, "encoder": True, "data": {"folder", "domains"}}
    )
    data = {name: fingerprint(preset.data, name) for name in preset.data.domains}
    variant = fingerprint_of(known, data, encoder_fingerprint(preset.encoder))[:8]
    record = session.save(artefact, variant=variant, notes=preset.without_gpu(), **parts)
    for domain, model in models.items():
        put(model.folder, card(preset, record, domain, model, method.name), out / domain)
    return record


def check_place(domains: Iterable[str], out: Path) -> None:
    """Raises DataError where ``out`` holds folders of the domains' names that are not ours, or is no folder."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file; give the name of a folder by --out")
    for folder in (out / domain for domain in domains):
        known = folder / "README.md"
        if folder.exists() and not (known.is_file() and TITLE in known.read_text("utf-8", errors="replace")):
            raise DataError(f"{folder} holds something that is no reader of ours; give another --out")


def put(model: Path, card: str, folder: Path) -> None:
    """A copy of a trained model with its card in place of ``folder``, whole or not at all."""
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(model, new)
    (new / "README.md").write_text(card, encoding="utf-8")
    if folder.exists():
        shutil.rmtree(folder)
    new.rename(folder)


def card(preset: Preset, record: Record, domain: str, model: OwnModel, method: str) -> str:
    """The model card of one domain's reader: how it was made and what it scores."""
    domains = load_domains(preset.data)
    own = {score.method: score.value for score in record.scores if (score.column, score.seed) == (domain, model.seed)}
    template, cut = (paths.PACKAGE / "card.md").read_text(encoding="utf-8"), preset.windows
    stride = f"each {cut.stride} tokens on" if cut.stride_is == "step" else f"which share {cut.stride} tokens"
    unanswerable = ". Where the passage holds no answer it says nothing" * preset.data.may_be_unanswerable(domain)
    chosen = (
        f"It is the best on validation questions of {preset.seeds} trained with different seeds. Over all of them"
        if preset.seeds > 1
        else "One reader was trained"
    )
    return template.format(
        preset=preset,
        record=record,
        domain=domain,
        model=model,
        stride=stride,
        unanswerable=unanswerable,
        chosen=chosen,
        steps=budget(preset),
        encoder=Path(preset.encoder).name if Path(preset.encoder).exists() else preset.encoder,
        tests=len(domains[domain].test),
        f1=own[method],
        single=own["Single"],
        compared=compared(record, domain, method),
        sizes=", ".join(f"{name} {len(parts.train):,}" for name, parts in domains.items()),
        versions=", ".join(f"{name} {number}" for name, number in record.run.versions.items()),
    )


def compared(record: Record, domain: str, method: str) -> str:
    """Single, the method and their difference on one domain, in a line."""
    table = tables.frame(record)[domain].str.replace("*", "")
    found = comparisons.compare(record, method, "Single", [domain])
    text = f"{domain}: Single {table['Single']}, {method} {table[method]}, difference {tables.signed(found.difference)}"
    if found.low is None:
        return text
    return f"{text} ({tables.interval(found)}; P({method} > Single) {tables.chance(found.probability)})"
