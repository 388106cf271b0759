"""What every notebook does first and last: check its parameters and fix the seeds; save its results."""

from __future__ import annotations

import json
import os
import re
import time
from ast import AnnAssign, Assign, Name, literal_eval, parse, unparse
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from glob import escape
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from helpers import engine, papers, paths
from helpers.data.folders import find_source, with_every_domain
from helpers.data.load import draws, state_overlaps
from helpers.errors import UserError
from helpers.extractive_qa import label_notes
from helpers.files import file_fingerprint, fingerprint
from helpers.models.encoders import encoder_fingerprint
from helpers.papers.model_folders import check_keep
from helpers.presets.load import keys, load
from helpers.presets.schema import EXAMPLES, Preset
from helpers.results import figures, records

MACHINE = ("data_dir", "mnli_dir", "reviews_dir", "tasks_dir", "encoder", "glove", "keep")  # no record says them
SECTIONS = EXAMPLES[1:]  # whose keys have the section's name in parameters
WITHOUT_EFFECT = ("preset", "results", "keep")  # parameters that change no number
LONGEST = 66  # characters of a folder's name that say what differs
DIGITS = 6  # of a fingerprint, in such a name
INJECTED = "# Parameters"  # how papermill's own cell begins


class ParameterError(UserError):
    """A parameter that a notebook does not know, or of the wrong type."""


class Parameter(NamedTuple):
    """A notebook's parameter: its type as annotated, and its default."""

    type: str
    default: object


def notebook_names() -> list[str]:
    """List all notebooks, in order."""
    return sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


def parameters_of(notebook: str) -> dict[str, Parameter]:
    """Read the parameters of a notebook from its cell tagged ``parameters``, all of them annotated literals.

    Not with papermill, which takes seconds to import in every kernel.
    """
    cells = json.loads((paths.NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    (source,) = ("".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", []))
    lines = parse(source).body
    return {line.target.id: Parameter(unparse(line.annotation), literal_eval(line.value)) for line in lines}


def check(values: dict[str, object], notebook: str) -> dict[str, object]:
    """Return ``values`` in the order and the types that a notebook declares. Raises ParameterError.

    A whole number may stand for a float, a number for a text, and None for what the preset says.
    """
    declared, checked = parameters_of(notebook), {}
    if unknown := [name for name in values if name not in declared]:
        raise unknown_parameter(notebook, unknown[0], declared)
    for name in [name for name in declared if name in values]:
        (kind, default), value = declared[name], values[name]
        if (kind, type(value)) == ("float", int):
            value = float(value)
        elif kind == "str" and type(value) in (int, float):
            value = str(value)
        if type(value).__name__ != kind and not (value is None and default is None):
            raise ParameterError(f"{notebook}: {name}: expected {kind}, found {value!r}")
        checked[name] = value
    return checked


def unknown_parameter(where: str, name: str, declared: Iterable[str]) -> ParameterError:
    """Return the error about a parameter that is not among those ``declared``."""
    near = get_close_matches(name, declared, 1)
    meant = f"; did you mean {near[0]!r}?" if near else "."
    return ParameterError(
        f"{where}: unknown parameter {name!r}{meant} There is {', '.join(declared)}. Set anything else in a preset "
        "file of your own, and give its path as the preset"
    )


def key_of(parameter: str, paper: papers.Paper | None) -> str:
    """Return the preset's key that a parameter stands for; "" for a notebook's own parameter.

    It is the key's last part, with the section before it for texts and tasks; ``data_dir`` is the folder of [data].
    A key of the paper's own sections comes before one of the sections that all papers read.
    """
    sections = paper.settings if paper else ()
    foreign = {section for other in papers.ALL for section in other.settings} - {*sections, *SECTIONS}
    matching = []
    for key in keys():
        section, _, last = key.rpartition(".")
        name = "dir" if last == "folder" else last
        full_name = f"{section}_{name}" if section in SECTIONS or name == "dir" else name
        if parameter == full_name and section not in foreign:
            matching.append(key)
    return min(matching, key=lambda key: key.partition(".")[0] not in sections, default="")


def preset_for(notebook: str, parameters: dict[str, object]) -> Preset:
    """Load the preset that parameters ask for, with what it has for the notebook's paper and for the notebook alone.

    A parameter that is None leaves the preset's value. In a folder that lacks its domains, every entry is one.
    Raises PresetError, and ParameterError for a folder where the preset's texts are not from files.
    """
    paper, _ = papers.card_of(notebook)
    topics = [paper.key, notebook.partition("_")[2]] if paper else []
    named = {key_of(name, paper): value for name, value in parameters.items() if name != "preset" and value is not None}
    preset = load(str(parameters["preset"]), *topics, **{key: value for key, value in named.items() if key})
    changes: dict[str, object] = {}
    for section in [section for section in EXAMPLES if parameters.get(f"{section}_dir")]:
        settings = getattr(preset, section)
        if settings.source != "files":
            raise ParameterError(
                f"{notebook}: {section}_dir: preset {preset.name} reads no folder (its {section}.source is "
                f'{settings.source!r}); give preset lab, or a file of your own with source = "files" below [{section}]'
            )
        changes[section] = with_every_domain(settings)
    if "general" not in named and changes.get("data", preset.data).domains != preset.data.domains:
        changes["general"] = ""  # a file of the preset's own corpora
    return preset.model_copy(update=changes)


def settle(notebook: str, parameters: dict[str, object]) -> tuple[Preset, str]:
    """Return the preset in force and the name of the folder of results, before anything is trained.

    Raises UserError, also for a name that no record could hold and for a place where no model can be kept.
    """
    preset, (paper, card) = preset_for(notebook, parameters), papers.card_of(notebook)
    text = json.dumps([parameters, preset.model_dump()], ensure_ascii=False)
    if match := re.search('[^"]*[\ud800-\udfff][^"]*', text):  # a byte that Python could not decode
        problem = "is not UTF-8 here; rename it, or set PYTHONUTF8=1 if the locale has ASCII alone"
        raise ParameterError(f"{notebook}: {match[0]!a} {problem}")
    if folder := parameters.get("keep"):
        names = [*card.keeps(preset)]
        if not names:
            raise ParameterError(f"{notebook}: keep: there is no model to keep without texts; give their folder too")
        check_keep(folder, names, [getattr(preset, section).folder for section in paper.examples])
    return preset, place_of(notebook, parameters)


def place_of(notebook: str, parameters: dict[str, object]) -> str:
    """Name the folder of a notebook's results: the preset's, with what its parameters change behind a "+".

    So "mini+seeds=1" is not taken for the preset's own results. What counts is content: a copy of the preset's own
    encoder or files changes nothing, and two encoders, files or folders of one name have two places. Raises
    ParameterError and PresetError.
    """
    values, changes = check(parameters, notebook), []
    if values.get("results"):  # of the report alone
        return find_results(notebook, values["results"])
    preset, paper = preset_for(notebook, {"preset": parameters["preset"]}), papers.card_of(notebook)[0]
    for name, value in values.items():
        key = key_of(name, paper)
        default = attrgetter(key)(preset) if key else parameters_of(notebook)[name].default
        is_same = value in (None, default) or (key and is_copy(preset, key, value))
        if name not in WITHOUT_EFFECT and not is_same:
            changes.append(f"{name}={name_value(key, value)}")
    text = ",".join(changes)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}-{fingerprint(text)[:DIGITS]}"
    return f"{preset.name}+{text}" if text else preset.name


def find_results(notebook: str, name: str) -> str:
    """Return the name of a folder of results. Raises ParameterError where there is none."""
    names = sorted(folder.name for folder in paths.results("").glob("*") if folder.is_dir())
    if name not in names:
        choice = f"give {' or '.join(names)}" if names else "run notebooks first"
        place = os.path.relpath(paths.results(""))
        raise ParameterError(f"{notebook}: results: expected a folder in {place}, found no {name!r}; {choice}")
    return name


def name_value(key: str, value: object) -> str:
    """Name the value of a parameter in a folder's name, without any folder of this machine.

    Digits follow where the name does not say all, as those of a file's content.
    """
    text, content = str(value), identify(key, value)
    name = re.sub(r"[^\w.=-]+", "-", paths.public_name(text)).strip("-")
    return name if name == text == content else f"{name}-{fingerprint(content)[:DIGITS]}"


def is_copy(preset: Preset, key: str, value: object) -> bool:
    """Return whether the value of a key has the content of what the preset names, or that its ``copies`` state."""
    default = attrgetter(key)(preset)
    if identify(key, value) == preset.copies.get(default, identify(key, default)):
        return True
    section, _, last = key.rpartition(".")
    folder = paths.find_folder(str(value)) if last == "folder" else None
    sources = sources_of(preset, section) if folder else []
    return bool(sources) and all(content_of(find_source(folder, name)) == preset.copies.get(name) for name in sources)


def sources_of(preset: Preset, section: str) -> list[str]:
    """List what a preset reads below the folder of a section."""
    settings = getattr(preset, section)
    sources = [*settings.named.values()]
    if section == "data":
        sources += [preset.general, settings.narrative]
        sources += [settings.adversarial.AddSent, settings.adversarial.AddOneSent] if settings.adversarial else []
    return [source for source in sources if source]


def identify(key: str, value: object) -> str:
    """Fingerprint the encoder, file or folder of this machine that a key's value names; else return it as text."""
    name = str(value)
    if not name or keys().get(key) is not str:
        return name
    place = paths.find(name)
    if not key.endswith(".folder") and (place / "config.json").is_file():
        return encoder_fingerprint(name)
    return content_of(place) if place.exists() else name


@cache
def content_of(place: Path) -> str:
    """Fingerprint a file, the files in a folder, or those whose names begin like a place that is neither.

    The names of files count, unless one stands alone; hidden files do not.
    """
    if place.is_file():
        return file_fingerprint(place)
    if place.is_dir():
        root, patterns = place, ("*", "*/*", "*/*/*")  # ** would not follow links to folders
    else:
        root, patterns = place.parent, (f"{escape(place.name)}*",)
    files = {file.relative_to(root).as_posix(): file for pattern in patterns for file in root.glob(pattern)}
    visible = [name for name in sorted(files) if files[name].is_file() and "/." not in f"/{name}"]
    return fingerprint(*(f"{name!a} {file_fingerprint(files[name])}" for name in visible))


@dataclass
class Session:
    """One run of one notebook: the preset in force, the parameters as given, and the folder of its results."""

    preset: Preset
    parameters: dict[str, object]
    place: str
    started: float = field(default_factory=time.perf_counter)
    code: records.Code = field(default_factory=records.code)

    def run(self, plan: engine.Plan) -> Any:
        """Carry out a plan and return its value. Raises TasksFailed."""
        return engine.run(plan, self.preset.engine)

    def save(self, artefact: str, *, training_seconds: float | None = None, **parts) -> records.Record:
        """Write the record of ``artefact`` and its figure, and return the record.

        Title, unit and kind are the card's unless ``parts`` have others. Its ``settings`` are the fields of the preset
        that the artefact was made with instead of the session's. Notes say what was left out as it is tested on.
        """
        card = papers.artefact(artefact)
        (paper,) = (paper for paper in papers.ALL if paper.key == artefact.partition("/")[0])
        parameters = {name: value for name, value in self.parameters.items() if name not in MACHINE}
        seeds = sorted({score.seed for score in parts.get("scores", [])}) or [0]
        preset = self.preset.model_copy(update={**parts.pop("settings", {}), "seeds": len(seeds)})
        settings = preset.model_dump(mode="json", exclude={"engine": {"address"}})
        facts = {"title": card.title, "kind": card.kind, "unit": card.unit, "average": card.average}
        facts |= {"draws": draws(preset, paper.examples, seeds), "paper": papers.printed(artefact)}
        drawn, more = preset.drawn(min(seeds)), []
        if parts.get("unit", card.unit) == "F1" and "data" in paper.examples:
            more += label_notes(drawn)
        for section in [getattr(drawn, name) for name in paper.examples]:
            more += state_overlaps(section) if section.is_given else []
        parts["notes"] = list(dict.fromkeys([*parts.get("notes", []), *more]))
        run = records.run_info(_public({**parameters, "preset": settings}), self.started, self.code, training_seconds)
        record = records.Record(artefact=artefact, preset=self.place, run=run, **facts | parts)
        records.write(record)
        figures.save(record, records.read_all(self.place, record.paper_key))
        return record


def _public(value: Any) -> Any:
    """Return settings without what only this machine has."""
    if isinstance(value, dict):
        return {key: _public(inner) for key, inner in value.items() if key not in ("downloads", "copies")}
    return paths.public_name(value) if isinstance(value, str) else value


def assigned_in(source: str, *kinds: type) -> list[str]:
    """List the names that the statements of some ``kinds`` in a cell assign."""
    try:
        statements = parse(source).body
    except SyntaxError:  # of a cell that is no plain Python
        return []
    targets = [getattr(node, "target", None) or node.targets[0] for node in statements if isinstance(node, kinds)]
    return [target.id for target in targets if isinstance(target, Name)]


def start(notebook: str, namespace: dict[str, object]) -> Session:
    """Check a notebook's parameters, seed torch and print the settings in force.

    ``namespace`` is the notebook's ``globals()``. papermill injects unknown and mistyped parameters without a word, and
    a line of the parameters cell may be misspelt, so they are looked for here. Raises ParameterError, and PresetError
    for the preset itself.
    """
    declared = parameters_of(notebook)
    lines, injected = list(declared), []
    for source in namespace.get("In", []):
        if source.startswith(INJECTED):
            injected = assigned_in(source, Assign)
        elif not declared.keys().isdisjoint(assigned_in(source, AnnAssign)):
            lines = assigned_in(source, Assign, AnnAssign)
    names = dict.fromkeys([*declared, *lines, *injected])
    values = check({name: namespace[name] for name in names if name in namespace}, notebook)
    if missing := [name for name in declared if name not in values or name not in lines]:
        kind, default = declared[missing[0]]
        line = f"{missing[0]}: {kind} = {default!r}"
        raise ParameterError(f"{notebook}: the parameters cell has no {missing[0]!r}; write there the line {line}")
    preset, place = settle(notebook, values)
    namespace.update(values)
    torch.manual_seed(0)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    pd.set_option("display.html.use_mathjax", False)  # "$5 or $10" in a table of texts is no formula
    changed = {name: value for name, value in values.items() if name != "preset" and value != declared[name].default}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    seeds = f", {preset.seeds} seed{'s' if preset.seeds > 1 else ''}" * ("seeds" in declared)
    name, _, changes = place.partition("+")
    print("; ".join([f"preset {name} on {device}{seeds}", *(f"{k} = {v!r}" for k, v in changed.items())]))
    if changes:
        print(f"results: {os.path.relpath(paths.results(place))}, as these are not the preset's own settings")
    return Session(preset, values, place)
