"""What every notebook does first and last: check its parameters and fix the seeds; save its results."""

from __future__ import annotations

import ast
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import numpy as np
import torch

from helpers import paths
from helpers.presets.load import load
from helpers.presets.schema import Preset
from helpers.results import figures, provenance, records

INJECTED = "# Parameters"  # how papermill's own cell begins
# Parameters of notebooks that stand for a key of the preset; an empty or zero value leaves the preset's.
PRESET_KEYS = {
    "seeds": "seeds",
    "data_dir": "data.folder",
    "encoder": "encoder",
    "train_size": "data.train_size",
    "test_size": "data.test_size",
    "rounds": "imm.rounds",
    "ablation_rounds": "imm.ablation_rounds",
    "curve": "imm.curve",
    "kd_space": "imm.kd_space",
    "similarity": "imm.similarity",
    "annealing": "imm.annealing",
    "multi_domain_start": "imm.multi_domain_start",
    "members": "a2d.members",
    "temperature": "a2d.temperature",
    "answer_weight": "a2d.answer_weight",
    "attention_weight": "a2d.attention_weight",
    "glove": "mnemonic.glove",
}

PAPERS = ("corpora", "imm", "a2d", "hrkd", "mtdnn_kd", "mtdnn")
MAY_BE_ZERO = ("answer_weight", "attention_weight")  # a value below zero leaves the preset's


class ParameterError(ValueError):
    """A parameter that a notebook does not know, or of the wrong type."""


@dataclass(frozen=True)
class Parameter:
    """A notebook's parameter: its type as annotated, its default, and the comment beside it."""

    type: str
    default: object
    help: str


@dataclass
class Session:
    """One run of one notebook: the preset in force and the parameters as given."""

    notebook: str
    preset: Preset
    parameters: dict[str, object]
    started: float = field(default_factory=time.perf_counter)
    code: provenance.Code = field(default_factory=provenance.code)

    def save(
        self,
        artefact: str,
        *,
        title: str,
        unit: str,
        scores: list[records.Score],
        training_seconds: float | None = None,
        **parts,
    ) -> records.Record:
        """Write the record of ``artefact`` and its figure, and return the record."""
        effective = {**self.parameters, "preset": self.preset.model_dump(mode="json", exclude={"cpu"})}
        effective["preset"]["data"]["folder"] = Path(self.preset.data.folder).name
        effective["preset"]["encoder"] = public_name(self.preset.encoder)
        effective["preset"]["mnemonic"]["glove"] = public_name(self.preset.mnemonic.glove)
        effective = {key: value for key, value in effective.items() if key not in ("data_dir", "encoder", "glove")}
        record = records.Record(
            artefact=artefact,
            preset=self.preset.name,
            title=title,
            unit=unit,
            scores=scores,
            paper=records.printed(artefact),
            run=provenance.run_info(effective, self.started, self.code, training_seconds=training_seconds),
            **parts,
        )
        records.write(record)
        figures.save(record, record.preset)
        return record


def public_name(folder: str) -> str:
    """A path without the parts that only this machine has."""
    path = Path(folder)
    return path.name if path.is_absolute() or ".." in path.parts else folder


def parameters_of(notebook: Path) -> dict[str, Parameter]:
    """The parameters of a notebook, read from the source of its cell tagged ``parameters``."""
    cells = nbformat.read(notebook, as_version=4).cells
    tagged = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise ParameterError(f"{notebook.name} has {len(tagged)} cells tagged 'parameters'; it needs one")
    lines = tagged[0].splitlines()
    found = {}
    for node in ast.parse(tagged[0]).body:
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            raise ParameterError(
                f"{notebook.name}: write 'name: type = literal  # comment', not {lines[node.lineno - 1]!r}"
            )
        comment = lines[node.lineno - 1].partition("#")[2].strip()
        found[node.target.id] = Parameter(ast.unparse(node.annotation), ast.literal_eval(node.value), comment)
    return found


def check(values: dict[str, object], known: dict[str, Parameter], notebook: str) -> dict[str, object]:
    """``values`` in the declared types (a whole number may stand for a float, a number for a text). Raises
    ParameterError."""
    checked = {}
    for name, value in values.items():
        if name not in known:
            raise ParameterError(f"{notebook} has no parameter {name!r}; it has {', '.join(known)}")
        if known[name].type == "float" and type(value) is int:
            value = float(value)
        if known[name].type == "str" and type(value) in (int, float):
            value = str(value)
        if type(value).__name__ != known[name].type:
            raise ParameterError(f"{notebook}: {name} has to be {known[name].type}, not {value!r}")
        checked[name] = value
    return checked


def of_a_preset(parameters: dict[str, object]) -> dict[str, object]:
    """``parameters``, if all of them are settings of a preset. Raises ParameterError."""
    if unknown := sorted(set(parameters) - {"preset", *PRESET_KEYS}):
        raise ParameterError(f"no parameter {unknown[0]!r} here; there are {', '.join(PRESET_KEYS)}")
    return parameters


def topics_of(notebook: str) -> list[str]:
    """What a preset may have settings for: of 02_imm_main its paper, imm, and then itself, imm_main."""
    name = notebook.partition("_")[2]
    return [*sorted((paper for paper in PAPERS if f"{name}_".startswith(f"{paper}_")), key=len)[-1:], name]


def load_preset(parameters: dict[str, object], *topics: str, **overrides: object) -> Preset:
    """The preset that a notebook's parameters ask for, with what it has for these topics alone and ``overrides``."""
    asked = {
        key: parameters[name]
        for name, key in PRESET_KEYS.items()
        if name in parameters and (parameters[name] >= 0 if name in MAY_BE_ZERO else parameters[name])
    }
    return load(str(parameters["preset"]), *topics, **{**asked, **overrides})


def start(notebook: str, namespace: dict[str, object]) -> Session:
    """Check a notebook's parameters, seed everything and print what is in force.

    ``namespace`` is the notebook's ``globals()``. papermill injects unknown and mistyped parameters without a
    word, so they are looked for here. Raises ParameterError, or PresetError for the preset itself.
    """
    known = parameters_of(paths.NOTEBOOKS / f"{notebook}.ipynb")
    injected = [source for source in namespace.get("In", []) if source.startswith(INJECTED)]
    for source in injected:
        names = {node.targets[0].id: None for node in ast.parse(source).body if isinstance(node, ast.Assign)}
        check({name: namespace[name] for name in names}, known, notebook)
    values = check({name: namespace[name] for name in known}, known, notebook)
    namespace.update(values)
    preset = load_preset(values, *topics_of(notebook))
    seed_everything(0)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    changed = {name: value for name, value in values.items() if name != "preset" and value != known[name].default}
    given = ", ".join(f"{name} = {value!r}" for name, value in changed.items())
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(
        f"preset {preset.name} on {device}, {preset.seeds} seed{'s' if preset.seeds > 1 else ''}"
        + (given and f"; {given}")
    )
    if preset.cpu and not torch.cuda.is_available():
        print("no GPU, hence: " + ", ".join(f"{key} = {value}" for key, value in preset.cpu.items()))
    return Session(notebook, preset, values)


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch. Trainings seed themselves again, each from its own seed."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
