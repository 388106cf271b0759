"""Train what A2D's tables and figures need: ensembles, what they know, and their students (section 3.4)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from statistics import mean

import pandas as pd

from helpers import paths
from helpers.data import domains
from helpers.models.words import glove_digest
from helpers.papers.a2d import algorithm
from helpers.papers.a2d.trainings import Kind, Knowledge, Reader, preset_for, training_windows, vocabulary
from helpers.presets.papers import A2dSettings
from helpers.presets.schema import Preset
from helpers.tasks.spans import budget, effective
from helpers.training.engine import Plan, replay, run_plans

KINDS: tuple[Kind, ...] = ("RMR", "BERT")  # the paper's reader, and below it ours
# The rows of Table 5 by the terms of Eq. 1 that they leave out; "- Joint Training" matches the attention first.
ABLATIONS = {"A2D": (), "- Vanilla KD": ("KD",), "- ATT": ("ATT",), "- ANS": ("ANS",), "- Joint Training": ("ATT",)}
STAGED = "- Joint Training"


class ChoiceError(ValueError):
    """A parameter of a notebook with a value that means nothing."""


@dataclass
class Distilled:
    """One seed's ensemble, what it knows, and its students by row of Table 5."""

    members: list[Reader]
    knowledge: Knowledge
    students: dict[str, Reader]
    stages: list[Reader]  # that a student started from


def distillation(preset: Preset, kind: Kind, seed: int, rows: tuple[str, ...]) -> Plan:
    """Section 3.4: train an ensemble, ask it about the training set, train students on what it says."""
    preset = preset_for(preset, kind)
    numbers = range(1, preset.a2d.members + 1)
    members = [reader(preset, kind, seed + 100 * m, f"{kind}, member {m}") for m in numbers]
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
    half, stages, start = budget(preset) // 2, [], ""
    if STAGED in rows:  # Romero et al. 2015: first the attention alone
        weight = {"ATT": settings.attention_weight or 1.0}
        first = reader(preset, kind, seed, f"{kind}, {STAGED}, first stage", steps=half, terms=weight, **taught)
        yield (stages := [first])
        start = first.infra.uid()
    students = {}
    for row in rows:
        terms = {k: v for k, v in algorithm.weights_of_terms(settings).items() if v and k not in ABLATIONS[row]}
        staged = {"steps": budget(preset) - half, "start": start, "first_step": half} if row == STAGED else {}
        students[row] = reader(preset, kind, seed, f"{kind} + {row}", terms=terms, **staged, **taught)
    yield students.values()  # step 4
    return Distilled(members, known, students, stages)


def reader(preset: Preset, kind: Kind, seed: int, label: str, steps: int = 0, **parts) -> Reader:
    """A reader with the whole budget, unless told otherwise. ``preset`` is that of its kind."""
    domains = sorted(preset.data.domains)
    settings = effective(preset, domains)
    if kind == "RMR":  # reads no more of the encoder than its vocabulary
        own = preset.mnemonic.model() | {"glove": glove_digest(preset.mnemonic.glove)}
        settings |= {"encoder": vocabulary(preset), "mnemonic": own}
    label += f", {domains[0]}" if len(domains) == 1 else ""
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


def distil(preset: Preset, readers: str = " ".join(KINDS), rows: tuple[str, ...] = ("A2D",)) -> Runs:
    """Train all that the rows need, for every seed and kind of reader ("RMR", "BERT" or "RMR BERT"), if it is not
    there. Raises ChoiceError for another kind."""
    kinds = tuple(readers.split())
    if not kinds or set(kinds) - set(KINDS):
        raise ChoiceError(f"readers is {readers!r}; write {' or '.join(KINDS)}, or several with a space between")
    outcomes = run_plans(_plans(preset, rows, kinds), preset.engine)
    return {key: outcome.value for key, outcome in outcomes.items()}


def tuned(preset: Preset, kind: Kind, temperatures: str) -> dict[tuple[str, int], list[list[Reader]]]:
    """Students of the same ensembles with each of the temperatures ("1 2 3 5") and the preset's other weights, and
    with all of the paper's (section 4.2): by row and seed. Raises ChoiceError for what is no temperature."""
    plans = {
        (name, seed): distillation(one, kind, seed, ("A2D",))
        for name, one in weights_tried(preset, temperatures).items()
        for seed in range(preset.seeds)
    }
    outcomes = run_plans(plans, preset.engine)
    return {key: [[outcome.value.students["A2D"]]] for key, outcome in outcomes.items()}


def weights_tried(preset: Preset, temperatures: str) -> dict[str, Preset]:
    """The presets that ``tuned`` tries, by what a table calls them; without ``preset`` itself."""
    paper = A2dSettings().model_dump(include={"temperature", "answer_weight", "attention_weight"})
    try:
        changes = [*({"temperature": float(one)} for one in temperatures.split()), paper]
        tried = [A2dSettings(**preset.a2d.model_dump() | change) for change in changes]
    except ValueError:
        raise ChoiceError(f"temperatures is {temperatures!r}; write numbers above 0 with a space between") from None
    name = "tau {0.temperature:g}, gamma {0.answer_weight:g}, delta {0.attention_weight:g}"
    return {name.format(one): preset.model_copy(update={"a2d": one}) for one in tried if one != preset.a2d}


def narrative(preset: Preset) -> Preset:
    """The preset for Table 3: free answers about summaries, for which another ensemble and student are trained."""
    return preset.model_copy(update={"data": domains.narrative(preset.data)})


def row_name(kind: Kind, student: str) -> str:
    """What a student's row is called; the paper's rows of Table 5 bear no reader's name."""
    return f"{kind} + A2D" if student == "A2D" else student if kind == "RMR" else f"{kind}, {student}"


def kinds_of(runs: Runs) -> list[Kind]:
    """The kinds of readers that were distilled."""
    return list(dict.fromkeys(kind for kind, _ in runs))


def seconds(runs: Runs) -> float:
    """Seconds that all these trainings took, now or in an earlier run."""
    trained = [one for run in runs.values() for one in (*run.members, *run.stages, *run.students.values())]
    return sum(reader.fit()["seconds"] for reader in trained)


def stored(preset: Preset) -> pd.DataFrame:
    """What an ensemble's outputs on the training questions will take on the disk, and what is free there."""
    windows = training_windows(preset)
    folder = paths.models(preset.name)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"outputs of one ensemble": algorithm.knowledge_bytes(windows), "free": shutil.disk_usage(folder).free}
    table = {name: f"{size / 1e6:,.1f} MB" for name, size in sizes.items()}
    return pd.DataFrame([{"windows": f"{len(windows):,}", **table}], index=[", ".join(preset.data.domains)])


def knowledge(runs: Runs) -> pd.DataFrame:
    """What the ensembles know: training windows, and in how many they have a confusing answer."""
    rows = {
        f"{kind}, seed {seed}": {
            "members": len(run.members),
            "windows": run.knowledge.fit()["windows"],
            "with a confusing answer": run.knowledge.fit()["confused"],
            "best validation F1 of the members, on average": round(mean(one.fit()["best"] for one in run.members), 1),
            "of the student": round(run.students["A2D"].fit()["best"], 1),
        }
        for (kind, seed), run in runs.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def notes(preset: Preset, runs: Runs) -> list[str]:
    """What one has to know about how the rows were made."""
    sizes = ", ".join(f"{name} {len(one.train):,}" for name, one in domains.load_domains(preset.data).items())
    settings, steps = preset.a2d, []
    for kind in kinds_of(runs):
        own = preset_for(preset, kind)
        training = own.training
        steps.append(
            f"every {kind} reader, member or student, has {budget(own):,} steps of {training.batch_size} windows "
            f"({training.epochs:g} epochs)"
        )
        steps += ["no GloVe: RMR learns all its word vectors"] if kind == "RMR" and not preset.mnemonic.glove else []
    return [
        *steps,
        f"ensembles of {settings.members}; a reader's own row is the mean over its ensemble's members",
        f"temperature {settings.temperature:g}, gamma {settings.answer_weight:g}, delta {settings.attention_weight:g}",
        f"training questions: {sizes}",
        *preset.without_gpu(),
    ]


def notebooks(preset: Preset, stories: Preset) -> dict[str, list[list[Reader]]]:
    """For each notebook, row by row, the readers that it would train if nothing were shared, as far as they are known
    before all is trained; ``stories`` is the preset of Table 3."""
    tried = [row for one in weights_tried(preset, "").values() for row in _alone(one, ("A2D",), ("RMR",))]
    found = {
        "06_a2d_main": _alone(preset, ("A2D",), KINDS),
        "07_a2d_ablation": _alone(preset, tuple(ABLATIONS), ("RMR",)) + tried,
        "08_a2d_attention": _alone(preset, ("A2D",), ("RMR",)),
    }
    if stories.data.narrative:
        found["09_a2d_narrativeqa"] = _alone(narrative(stories), ("A2D",), ("RMR",))
    return found


def _alone(preset: Preset, rows: tuple[str, ...], kinds: tuple[Kind, ...]) -> list[list[Reader]]:
    found = []
    for plan in _plans(preset, rows, kinds).values():
        value, tasks = replay(plan)
        members = [task for task in tasks if isinstance(task, Reader) and not task.teacher]
        found.append(members)
        for name, student in value.students.items() if value else ():
            found.append([*members, *(value.stages if name == STAGED else ()), student])
    return found


def _plans(preset: Preset, rows: tuple[str, ...], kinds: tuple[Kind, ...]) -> dict[tuple[Kind, int], Plan]:
    return {(kind, seed): distillation(preset, kind, seed, rows) for kind in kinds for seed in range(preset.seeds)}
