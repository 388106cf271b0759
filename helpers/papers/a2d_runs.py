"""Train what A2D's tables and figures need: ensembles, what they know, and their students (section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from helpers import engine, paths, records
from helpers.data import domains
from helpers.engine import Plan, run_plans
from helpers.papers import a2d
from helpers.papers.a2d_tasks import Answers, Kind, Knowledge, Reader, question_sets, training_windows
from helpers.presets import Preset
from helpers.readers import budget, effective

KINDS: tuple[Kind, ...] = ("RMR", "BERT")  # the paper's reader, and below it ours
# The rows of Table 5 by the terms of Eq. 1 that they leave out; "- Joint Training" matches the attention first.
ABLATIONS = {"A2D": (), "- Vanilla KD": ("KD",), "- ATT": ("ATT",), "- ANS": ("ANS",), "- Joint Training": ("ATT",)}
STAGED = "- Joint Training"


@dataclass
class Distilled:
    """One seed's ensemble, what it knows, and its students by row of Table 5."""

    members: list[Reader]
    knowledge: Knowledge
    students: dict[str, Reader]


def distillation(preset: Preset, kind: Kind, seed: int, rows: tuple[str, ...]) -> Plan:
    """Section 3.4: train an ensemble, ask it about the training set, train students on what it says."""
    members = [reader(preset, kind, seed + 100 * m, f"{kind}, member {m + 1}") for m in range(preset.a2d.members)]
    yield members  # step 1
    settings, where = preset.a2d, {"folder": paths.models(preset.name)}
    known = Knowledge(
        preset=preset,
        label=f"what the ensemble of {kind} knows, seed {seed}",
        members=[member.infra.uid() for member in members],
        temperature=settings.temperature,
        top_k=settings.top_k,
        infra=where,
    )
    yield [known]  # steps 2 and 3
    taught = {"teacher": known.infra.uid(), "temperature": settings.temperature}
    half = budget(preset) // 2
    start = ""
    if STAGED in rows:  # Romero et al. 2015: first the attention alone
        weight = {"ATT": settings.attention_weight}
        first = reader(preset, kind, seed, f"{kind}, {STAGED}, first stage", steps=half, terms=weight, **taught)
        yield [first]
        start = first.infra.uid()
    students = {}
    for row in rows:
        terms = {k: v for k, v in a2d.weights_of_terms(settings).items() if k not in ABLATIONS[row]}
        staged = {"steps": budget(preset) - half, "start": start} if row == STAGED else {}
        students[row] = reader(preset, kind, seed, f"{kind} + {row}", terms=terms, **staged, **taught)
    yield students.values()  # step 4
    return Distilled(members, known, students)


def reader(preset: Preset, kind: Kind, seed: int, label: str, steps: int = 0, **parts) -> Reader:
    """A reader with the whole budget, unless told otherwise."""
    settings = effective(preset, sorted(preset.data.domains))
    if kind == "RMR":
        settings = settings | {"mnemonic": preset.mnemonic.model_dump()}
    return Reader(
        preset=preset,
        label=f"{label}, seed {seed}",
        kind=kind,
        seed=seed,
        steps=steps or budget(preset),
        settings=settings,
        infra={"folder": paths.models(preset.name)},
        **parts,
    )


Runs = dict[tuple[Kind, int], Distilled]  # by reader and seed


def distil(preset: Preset, rows: tuple[str, ...] = ("A2D",), kinds: tuple[Kind, ...] = KINDS) -> Runs:
    """Train all that the rows need, for every seed, if it is not there."""
    plans = {(k, seed): distillation(preset, k, seed, rows) for k in kinds for seed in range(preset.seeds)}
    return {key: outcome.value for key, outcome in run_plans(plans, preset.engine).items()}
