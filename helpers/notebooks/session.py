"""What every notebook does first and last: check its parameters and fix the seeds; save its results."""

import ast
import os
import re
import time
from collections.abc import Container
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pandas as pd
import torch
from accelerate.utils import set_seed

from helpers import papers, paths
from helpers.data.sections import draws
from helpers.files import fingerprint
from helpers.notebooks.parameters import check, parameters_of, preset_for
from helpers.papers.card import Notebook
from helpers.papers.rows import trainings_of
from helpers.presets.schema import Limit, Preset
from helpers.results import figures, provenance, records
from helpers.training import engine
from helpers.training.cached import CachedTraining

OF_THIS_MACHINE = ("data_dir", "data.folder", "encoder", "glove", "mnemonic.glove")
LONGEST = 60  # characters of a folder's name that say what differs
INJECTED = "# Parameters"  # how papermill's own cell begins


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
        settings = self.preset.model_dump(mode="json", exclude={"limits": True, "engine": {"address"}, **downloads})
        given = {name: value for name, value in self.parameters.items() if name not in OF_THIS_MACHINE}
        seeds = sorted({score.seed for score in parts.get("scores", [])})
        if "draws" not in parts:  # a record that is made of others brings its own
            parts["draws"] = draws(self.preset, papers.examples_of(artefact), seeds)
        record = records.Record(
            artefact=f"{artefact}_{variant}" if variant else artefact,
            preset=self.place or self.preset.name,
            limits=list(self.preset.limits),
            run=provenance.run_info(_public({**given, "preset": settings}), self.started, self.code, training_seconds),
            **{"paper": records.printed(artefact)} | papers.artefact(artefact) | parts,
        )
        record = _with_first_cost(record)
        records.write(record)
        figures.save(record, record.preset)
        return record


def _with_first_cost(record: records.Record) -> records.Record:
    """A record with the seconds that it took first, where its scores are what they were: then all was there already."""
    try:
        before = records.read(paths.record(record.preset, record.artefact))
    except records.RecordError:  # there is none, or none that can be read
        return record
    if (before.scores, before.payload, before.draws) != (record.scores, record.payload, record.draws):
        return record
    seconds = max(before.run.seconds, record.run.seconds)
    return record.model_copy(update={"run": record.run.model_copy(update={"seconds": seconds})})


def _public(value: Any) -> Any:
    """Settings without what only this machine has."""
    if isinstance(value, dict):
        return {key: _public(inner) for key, inner in value.items()}
    return paths.public_name(value) if isinstance(value, str) else value


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
        usual = attrgetter(key)(own) if key else known[name].default
        said += [re.sub(r"[^\w.=-]+", "-", f"{name}={value}").strip("-")] if value != usual else []
    text = ",".join(said)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}-{fingerprint(text)[:6]}"
    return f"{own.name}+{text}" if text else own.name


def replayed(card: Notebook, preset: Preset) -> list[engine.Outcome]:
    """Every plan of one notebook, as far as it is done."""
    plans = card.plans(preset) if card.plans and not card.left_out(preset) else {}
    return [engine.replay(plan) for plan in plans.values()]


def needed_by(card: Notebook, preset: Preset) -> dict[str, CachedTraining]:
    """The trainings of one notebook, as far as they are known, by cache key."""
    return trainings_of(task for outcome in replayed(card, preset) for task in outcome.tasks)


def limits(parameters: dict[str, object], *notebooks: str, sections: Container[str] = (), **overrides: object) -> str:
    """What the preset that parameters ask for is limited to because there is no GPU: a short table, with a line above
    it, of what matters to ``notebooks``, or else stands in ``sections``; empty where nothing is."""
    shown: dict[Limit, None] = {}  # a dict, as it keeps the order
    for notebook in notebooks or ("",):
        preset = preset_for(parameters, notebook, **overrides)
        shown |= dict.fromkeys(limit for limit in preset.limits if notebook or limit.key.partition(".")[0] in sections)
    if not shown:
        return ""
    table = pd.DataFrame(limit.in_words() for limit in shown)
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
