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
from operator import attrgetter
from typing import Any, NamedTuple

import torch

from helpers import engine, papers, paths
from helpers.data.folders import with_every_domain
from helpers.data.load import draws, state_overlaps
from helpers.errors import UserError
from helpers.files import fingerprint
from helpers.presets.load import keys, load
from helpers.presets.schema import Preset
from helpers.reading import label_notes
from helpers.results import figures, records

MACHINE = ("data_dir", "mnli_dir", "reviews_dir", "tasks_dir", "encoder", "glove", "keep")  # of this machine alone
SECTIONS = ("mnli", "reviews", "tasks")  # whose keys have the section's name in parameters
LONGEST = 60  # characters of a folder's name that say what differs
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
    Raises PresetError.
    """
    paper, _ = papers.card_of(notebook)
    topics = [paper.key, notebook.partition("_")[2]] if paper else []
    named = {key_of(name, paper): value for name, value in parameters.items() if name != "preset" and value is not None}
    preset = load(str(parameters["preset"]), *topics, **{key: value for key, value in named.items() if key})
    sections = [section for section in ("data", *SECTIONS) if parameters.get(f"{section}_dir")]
    changes: dict[str, object] = {section: with_every_domain(getattr(preset, section)) for section in sections}
    if "general" not in named and changes.get("data", preset.data).domains != preset.data.domains:
        changes["general"] = ""  # a file of the preset's own corpora
    return preset.model_copy(update=changes)


def place_of(notebook: str, parameters: dict[str, object]) -> str:
    """Name the folder of a notebook's results: the preset's, with what its parameters change behind a "+".

    So "mini+seeds=1" is not taken for the preset's own results. A folder with the preset's own domains does not count
    as a change, nor then does the encoder: a run needs both. Raises ParameterError and PresetError.
    """
    shipped, paper = preset_for(notebook, {"preset": parameters["preset"]}), papers.card_of(notebook)[0]
    values, changes = check(parameters, notebook), []
    actual = preset_for(notebook, parameters)
    replaced = [name for name in ("data", *SECTIONS) if getattr(actual, name).named != getattr(shipped, name).named]
    for name, value in values.items():
        key = key_of(name, paper)
        if key.endswith(".folder"):
            is_ignored = key.partition(".")[0] not in replaced
        else:
            is_ignored = name in MACHINE and (not key or (shipped.data.source != "mini" and not replaced))
        default = attrgetter(key)(shipped) if key else parameters_of(notebook)[name].default
        if name not in ("preset", "results") and not is_ignored and value not in (None, default):
            changes.append(re.sub(r"[^\w.=-]+", "-", f"{name}={paths.public_name(str(value))}").strip("-"))
    text = ",".join(changes)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}-{fingerprint(text)[:6]}"
    return f"{shipped.name}+{text}" if text else shipped.name


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

        Title, unit and kind are the card's unless ``parts`` have others.
        """
        card = papers.artefact(artefact)
        (paper,) = (paper for paper in papers.ALL if paper.key == artefact.partition("/")[0])
        settings = self.preset.model_dump(mode="json", exclude={"engine": {"address"}})
        parameters = {name: value for name, value in self.parameters.items() if name not in MACHINE}
        seeds = sorted({score.seed for score in parts.get("scores", [])})
        facts = {"title": card.title, "kind": card.kind, "unit": card.unit, "average": card.average}
        facts |= {"draws": draws(self.preset, paper.examples, seeds), "paper": papers.printed(artefact)}
        if parts.get("unit", card.unit) == "F1" and "data" in paper.examples:
            preset = self.preset.drawn(min(seeds, default=0))
            more = [*label_notes(preset), *state_overlaps(preset.data)]
            parts["notes"] = list(dict.fromkeys([*parts.get("notes", []), *more]))
        run = records.run_info(_public({**parameters, "preset": settings}), self.started, self.code, training_seconds)
        record = records.Record(artefact=artefact, preset=self.place, run=run, **facts | parts)
        records.write(record)
        figures.save(record, records.read_all(self.place, record.paper_key))
        return record


def _public(value: Any) -> Any:
    """Return settings without what only this machine has."""
    if isinstance(value, dict):
        return {key: _public(inner) for key, inner in value.items() if key != "downloads"}
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
    preset, place = preset_for(notebook, values), place_of(notebook, values)
    namespace.update(values)
    torch.manual_seed(0)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    changed = {name: value for name, value in values.items() if name != "preset" and value != declared[name].default}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    seeds = f", {preset.seeds} seed{'s' if preset.seeds > 1 else ''}" * ("seeds" in declared)
    print("; ".join([f"preset {preset.name} on {device}{seeds}", *(f"{k} = {v!r}" for k, v in changed.items())]))
    if place != preset.name:
        print(f"results: {os.path.relpath(paths.results(place))}, as these are not the preset's own settings")
    return Session(preset, values, place)
