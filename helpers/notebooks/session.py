"""What every notebook does first and last: check its parameters and fix the seeds; save its results."""

import ast
import os
import re
import time
from collections.abc import Container
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pandas as pd
import torch
from accelerate.utils import set_seed

from helpers import papers, paths
from helpers.data import draws
from helpers.files import fingerprint
from helpers.papers.rows import trainings_of
from helpers.presets.load import keys, load
from helpers.presets.schema import Limit, Preset
from helpers.results import figures, provenance, records
from helpers.training import engine
from helpers.training.cached import CachedTraining

OF_THIS_MACHINE = ("data_dir", "data.folder", "encoder", "glove", "mnemonic.glove")
LONGEST = 60  # characters of a folder's name that say what differs
INJECTED = "# Parameters"  # how papermill's own cell begins


class ParameterError(ValueError):
    """A parameter that a notebook does not know, or of the wrong type."""


class Parameter(NamedTuple):
    """A notebook's parameter: its type as annotated, its default, and the comment beside it."""

    type: str
    default: object
    help: str


@dataclass
class Session:
    """One run of one notebook or command: the preset in force and the parameters as given."""

    preset: Preset
    parameters: dict[str, object]
    place: str = ""  # of its results, where it is not the preset's
    started: float = field(default_factory=time.perf_counter)
    code: provenance.Code = field(default_factory=provenance.code)

    def save(
        self, artefact: str, *, variant: str = "", training_seconds: float | None = None, **parts
    ) -> records.Record:
        """Write the record of ``artefact`` and its figure, and return the record. Title, unit and kind are the paper's
        card's, unless ``parts`` have others. A ``variant`` of an artefact has a record of its own."""
        downloads = {section: {"downloads"} for section in ("data", *papers.BESIDE)}
        settings = self.preset.model_dump(mode="json", exclude={"limits": True, **downloads})
        given = {name: value for name, value in self.parameters.items() if name not in OF_THIS_MACHINE}
        seeds = sorted({score.seed for score in parts.get("scores", [])})
        record = records.Record(
            artefact=f"{artefact}_{variant}" if variant else artefact,
            preset=self.place or self.preset.name,
            limits=list(self.preset.limits),
            draws=draws.names(self.preset, papers.examples_of(artefact), seeds),
            run=provenance.run_info(_public({**given, "preset": settings}), self.started, self.code, training_seconds),
            **{"paper": records.printed(artefact)} | papers.artefact(artefact) | parts,
        )
        record = _with_first_cost(record)
        records.write(record)
        figures.save(record, record.preset)
        return record


def _with_first_cost(record: records.Record) -> records.Record:
    """A record with the seconds that it took first, where it says what it said before: then all was there already."""
    try:
        before = records.read(paths.record(record.preset, record.artefact))
    except records.RecordError:  # there is none, or none that can be read
        return record
    if before.model_dump(exclude={"run"}) != record.model_dump(exclude={"run"}):
        return record
    seconds = max(before.run.seconds, record.run.seconds)
    return record.model_copy(update={"run": record.run.model_copy(update={"seconds": seconds})})


def _public(value: Any) -> Any:
    """Settings without what only this machine has."""
    if isinstance(value, dict):
        return {key: _public(inner) for key, inner in value.items()}
    return paths.public_name(value) if isinstance(value, str) else value


def parameters_of(notebook: Path) -> dict[str, Parameter]:
    """The parameters of a notebook, read from the source of its cell tagged ``parameters``."""
    cells = nbformat.read(notebook, as_version=4).cells
    tagged = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise ParameterError(f"{notebook.name} has {len(tagged)} cells tagged 'parameters'; it needs one")
    lines, parameters = tagged[0].splitlines(), {}
    for node in ast.parse(tagged[0]).body:
        line = lines[node.lineno - 1]
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            raise ParameterError(f"{notebook.name}: write 'name: type = literal  # comment', not {line!r}")
        comment = line.partition("#")[2].strip()
        parameters[node.target.id] = Parameter(ast.unparse(node.annotation), ast.literal_eval(node.value), comment)
    return parameters


def check(values: dict[str, object], known: dict[str, Parameter], notebook: str) -> dict[str, object]:
    """``values`` in the declared types (a whole number may stand for a float, a number for a text, None for what the
    preset says). Raises ParameterError."""
    checked = {}
    for name, value in values.items():
        if name not in known:
            raise ParameterError(
                f"{notebook} has no parameter {name!r}; it has {', '.join(known)}; any other setting is a key of a "
                "preset: give the path of your copy of one by --preset"
            )
        if known[name].type == "float" and type(value) is int:
            value = float(value)
        if known[name].type == "str" and type(value) in (int, float):
            value = str(value)
        if type(value).__name__ != known[name].type and not (value is None and known[name].default is None):
            raise ParameterError(f"{notebook}: {name} has to be {known[name].type}, not {value!r}")
        checked[name] = value
    return checked


def preset_for(parameters: dict[str, object], notebook: str = "", **overrides: object) -> Preset:
    """The preset that parameters ask for, with what it has for the notebook's paper and for the notebook alone, those
    of its limits that matter to them, and ``overrides`` by key. A parameter may be a key of the preset too; one that
    is None leaves the preset's. Raises ParameterError, PresetError."""
    known = {key: key for key in keys()} | papers.parameters()
    asked = {known[name]: value for name, value in parameters.items() if name in known and value is not None}
    paper, _ = papers.card_of(notebook)
    topics = [paper.key, notebook.partition("_")[2]] if paper else []
    preset = load(str(parameters["preset"]), *topics, **{**asked, **overrides})
    limits = tuple(limit for limit in preset.limits if not paper or papers.concerns(limit.key, notebook))
    return preset.model_copy(update={"limits": limits})


def place(parameters: dict[str, object], notebook: str) -> str:
    """The folder of a notebook's results: the preset's, with what its ``parameters`` change of the preset behind a "+",
    such as "mini+seeds=1", so that they are not taken for the preset's own. Folders of data are no such change, nor is
    the encoder where data are files: whoever runs the preset has to give them."""
    own, keys_of = preset_for({"preset": parameters["preset"]}, notebook), papers.parameters()
    known, (_, card) = parameters_of(paths.NOTEBOOKS / f"{notebook}.ipynb"), papers.card_of(notebook)
    said = []
    for name, value in parameters.items():
        key = keys_of.get(name, "")
        given = key.endswith(".folder") or (name in OF_THIS_MACHINE and own.data.source != "mini")
        if value is None or name in ("preset", "results", *card.parts) or given:
            continue
        usual = reduce(getattr, key.split("."), own) if key else known[name].default
        said += [re.sub(r"[^\w.=-]+", "-", f"{name}={value}").strip("-")] if value != usual else []
    text = ",".join(said)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}-{fingerprint(text)[:6]}"
    return f"{own.name}+{text}" if text else own.name


def of_the_preset(parameters: dict[str, object]) -> dict[str, object]:
    """``parameters`` by their keys in the preset: given by the names that notebooks have for them, with their section,
    or without where only one section has such a key, those of other examples than [data] left aside. A number may stand
    for a text. Raises ParameterError."""
    kinds = keys()
    sections: dict[str, list[str]] = {}
    for key in kinds:
        sections.setdefault(key.rpartition(".")[2], []).append(key)
    others = {
        name: [k for k in several if k.partition(".")[0] not in papers.BESIDE] for name, several in sections.items()
    }
    known = {name: several[0] for name, several in others.items() if len(several) == 1} | papers.parameters()
    known |= {key: key for key in kinds} | {"preset": "preset"}
    if unknown := sorted(set(parameters) - set(known)):
        near = sections.get(unknown[0]) or get_close_matches(unknown[0], known, 3) or list(papers.parameters())
        raise ParameterError(f"no parameter {unknown[0]!r} here; give a key of the preset, such as {', '.join(near)}")
    named = {known[name]: value for name, value in parameters.items()}
    return {key: str(v) if kinds.get(key) is str and type(v) in (int, float) else v for key, v in named.items()}


def trainings(parameters: dict[str, object]) -> dict[str, dict[str, CachedTraining]]:
    """By notebook and cache key all trainings that are known to be needed with these parameters of the preset: those
    that depend on the outcome of others are known once these are done."""
    needed = {}
    for card in (card for paper in papers.ALL for card in paper.notebooks):
        preset = preset_for(parameters, card.name)
        plans = card.plans(preset) if card.plans and not card.left_out(preset) else {}
        if of_notebook := trainings_of(task for plan in plans.values() for task in engine.replay(plan).tasks):
            needed[card.name] = of_notebook
    return needed


def limits(parameters: dict[str, object], *notebooks: str, sections: Container[str] = (), **overrides: object) -> str:
    """What the preset that parameters ask for is limited to because there is no GPU: a short table, with a line above
    it, of what matters to ``notebooks``, or else stands in ``sections``; empty where nothing is."""
    shown: dict[Limit, None] = {}  # a dict, as it keeps the order
    for notebook in notebooks or ("",):
        preset = preset_for(parameters, notebook, **overrides)
        shown |= dict.fromkeys(limit for limit in preset.limits if notebook or limit.key.partition(".")[0] in sections)
    if not shown:
        return ""
    rows = [
        (limit.key, f"{limit.value:g}", f"{limit.instead_of:g}" if limit.instead_of else "all", limit.why)
        for limit in shown
    ]
    table = pd.DataFrame(rows, columns=["setting", "value", "instead of", "why"])
    name = parameters["preset"]
    head = f"no GPU, hence these limits of preset {name}; ask for a value, or use a copy of it, to have another:"
    return f"{head}\n{table.to_string(index=False)}\n"


def start(notebook: str, namespace: dict[str, object]) -> Session:
    """Check a notebook's parameters, seed everything and print what is in force.

    ``namespace`` is the notebook's ``globals()``. papermill injects unknown and mistyped parameters without a
    word, so they are looked for here. Raises ParameterError, or PresetError for the preset itself.
    """
    known = parameters_of(paths.NOTEBOOKS / f"{notebook}.ipynb")
    for source in namespace.get("In", []):
        if source.startswith(INJECTED):
            names = [node.targets[0].id for node in ast.parse(source).body if isinstance(node, ast.Assign)]
            check({name: namespace[name] for name in names}, known, notebook)
    values = check({name: namespace[name] for name in known}, known, notebook)
    namespace.update(values)
    preset = preset_for(values, notebook)
    set_seed(0)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    changed = {name: value for name, value in values.items() if name != "preset" and value != known[name].default}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    seeds = f"{preset.seeds} seed{'s' if preset.seeds > 1 else ''}"
    print("; ".join([f"preset {preset.name} on {device}, {seeds}", *(f"{k} = {v!r}" for k, v in changed.items())]))
    print(limits(values, notebook), end="")
    if (folder := place(values, notebook)) != preset.name:
        print(f"these are not the preset's own settings, so results lie in {os.path.relpath(paths.results(folder))}")
    return Session(preset, values, folder)
