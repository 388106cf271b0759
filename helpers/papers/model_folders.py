"""Folders of models that are kept: which model, what may be written there, what an earlier run left."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from helpers import paths
from helpers.errors import UserError
from helpers.files import file_fingerprint, write_whole
from helpers.papers.shared import Models
from helpers.paths import public_name
from helpers.records import Record
from helpers.training import Training

FILE_LIST = "kept.json"  # in a model's folder: its files with fingerprints of their content


def check_keep(folder: str, names: Iterable[str], inputs: Iterable[str] = ()) -> None:
    """Raise UserError where `keep_models` could not write models of these names into ``folder``.

    Each has a subfolder, which has to be new, empty, or as an earlier run left it. ``inputs`` are folders of data.
    """
    root = paths.expand(folder)
    targets, resolved = [root / name for name in names], root.resolve()
    for place in filter(None, inputs):
        if resolved.is_relative_to(paths.find(place).resolve()):
            raise UserError(f"keep: {root} lies in {place}, where every entry is a domain; choose a folder outside")
    if os.path.islink(root):
        raise UserError(f"keep: {root}: it is a link; give the folder that it leads to")
    there = next(place for place in (resolved, *resolved.parents) if os.path.exists(place))
    if not there.is_dir():
        raise UserError(f"keep: {there}: expected a folder, found a file; choose another folder")
    try:
        with TemporaryDirectory(dir=there, prefix=".") as trial:
            for target in targets:
                Path(trial, resolved.relative_to(there), target.name).mkdir(parents=True)
    except OSError as error:
        raise UserError(f"keep: {root} cannot be written ({error.strerror}); choose another folder") from None
    for target in targets:
        if problem := find_obstacle(target):
            raise UserError(f"keep: {target}: {problem}; choose another folder, or move this one away")


def find_obstacle(target: Path) -> str:
    """Return why the folder of a kept model must not be replaced; "" where it may."""
    if target.is_symlink():
        return "it is a link"
    if target.exists() and not target.is_dir():
        return "expected a folder, found a file"
    digests = read_list(target)
    for file in sorted(target.rglob("*")):
        name = file.relative_to(target).as_posix()
        if file.is_symlink():
            return f"{name} is a link"
        if not file.is_dir() and name != FILE_LIST:
            if name not in digests:
                return f"{name} was not kept there by an earlier run"
            if file_fingerprint(file) != digests[name]:
                return f"{name} has changed since it was kept"
    return ""


def read_list(target: Path) -> dict[str, str]:
    """Read the list of a kept model's files; {} where there is none, or none that is readable."""
    try:
        digests = json.loads((target / FILE_LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return digests if isinstance(digests, dict) else {}


def is_saved(folder: str, names: Iterable[str]) -> bool:
    """Return whether all models of these names are in ``folder``, each with all its files."""
    lists = {target: read_list(target) for target in (paths.expand(folder) / name for name in names)}
    return all(files and all((target / name).is_file() for name in files) for target, files in lists.items())


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """Give a folder to write a model into, and put it in the place of ``target``, with the list of its files.

    Where the process is killed, the earlier model stays, or none.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        written = Path(scratch) / "new"
        yield written
        files = [file for file in sorted(written.rglob("*")) if file.is_file()]
        digests = {file.relative_to(written).as_posix(): file_fingerprint(file) for file in files}
        write_whole(written / FILE_LIST, json.dumps(digests, indent=1) + "\n")
        if target.exists():
            target.rename(Path(scratch) / "old")
        written.rename(target)


def choose_best(models: Models, row: str) -> dict[str, tuple[str, Training]]:
    """Choose for each domain the seed of a row whose model has the best validation score on it. Return row and model.

    A model of several domains is chosen by its score on each, not by their mean.
    """
    chosen = {}
    for name in next(iter(models.by_row[row].values())):
        candidates = [of_seed[name][0] for of_seed in models.by_row[row].values()]
        chosen[name] = row, max(candidates, key=lambda model: model.best_scores().get(name, model.best))
    return chosen


USES = {  # code that loads a kept model, by kind of head
    "spans": """from helpers import load_reader

print(load_reader("FOLDER").answer("your question", "your passage").text)

# Without helpers:
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

model = AutoModelForQuestionAnswering.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")""",
    "labels": """from transformers import pipeline

print(pipeline("text-classification", "FOLDER", truncation=True)({"text": "your text", "text_pair": ""}))""",
    "choices": """from transformers import AutoModelForMultipleChoice

model = AutoModelForMultipleChoice.from_pretrained("FOLDER")""",
}


def keep_models(
    models: dict[str, tuple[str, Training]], folder: str, record: Record, usage: str, save: Callable | None = None
) -> None:
    """Copy trained models in Hugging Face format into a subfolder of ``folder`` each, with a README.md.

    ``models`` has by name a row of ``record`` and the training. The README says what the model was trained on, has its
    row of the table and ``usage``, code that loads it from FOLDER. ``save`` (of training, name and folder) writes one
    that is more than a copy. What an earlier call wrote is replaced. Raises UserError as `check_keep`.
    """
    check_keep(folder, models)
    for name, (row, training) in models.items():
        target = paths.expand(folder) / name
        with replaced(target) as written:
            if save:
                save(training, name, written)
            else:
                shutil.copytree(training.saved(), written, copy_function=shutil.copyfile)  # modes as of new files
            write_whole(written / "README.md", describe_model(name, row, training, record, usage, target))
        print(f"{target}: {row}")


def describe_model(name: str, row: str, training: Training, record: Record, usage: str, target: Path) -> str:
    """Return the README of a kept model."""
    scores = [score for score in record.scores if score.method == row and score.metric in (None, record.unit)]
    scores = [score for score in scores if score.column == name] or scores  # the others are of other models
    means = {s.column: np.mean([t.value for t in scores if t.column == s.column]) for s in scores}
    cells = [means, ["---"] * len(means), [f"{mean:.1f}" for mean in means.values()]]
    table = [f"| {' | '.join(line)} |" for line in cells]
    preset = training.preset
    encoder = "that of the general reader" if preset.warmup_data else public_name(preset.encoder)
    facts = [f"- {note}" for note in (f"encoder: {encoder}", *record.notes)]
    intro = f"{training.label}. {record.title}, averaged over seeds:"
    code = f"```python\n{usage.replace('FOLDER', str(target))}\n```\n"
    return "\n".join([f"# {name}: {row}", "", intro, "", *table, "", *facts, "", code])
