"""A2D: attention-guided answer distillation (Hu et al. 2018), section 3.

An ensemble of readers that differ in their initial weights is asked once about all training questions. Its mean
distributions of the answer's start and end, its mean attention and its most confusing answers are stored, and one
reader learns from them (Eq. 1). ``distillation`` is section 3.4, as a plan of trainings; the losses of its students are
in ``helpers.tasks.distilled``.
"""

from dataclasses import dataclass
from statistics import mean

import pandas as pd

from helpers.data import domains
from helpers.errors import UserError
from helpers.models.glove import glove_digest
from helpers.models.pretrained import vocabulary_fingerprint
from helpers.papers.reading import Row
from helpers.presets.papers import A2dSettings
from helpers.presets.schema import Preset
from helpers.tasks.distilled import DistilledReader, Kind, term_weights
from helpers.tasks.ensembles import EnsembleOutputs
from helpers.tasks.spans import budget, fit_settings
from helpers.training.engine import Plan

KINDS: tuple[Kind, ...] = ("RMR", "BERT")  # the paper's reader, and below it ours
STAGED, STAGED_WHOLE = "- Joint Training", "- Joint Training, full second stage"  # match the attention first
# The rows of Table 5 by the terms of Eq. 1 that they leave out; the last is ours.
ABLATIONS = {
    "A2D": (),
    "- Vanilla KD": ("KD",),
    "- ATT": ("ATT",),
    "- ANS": ("ANS",),
    STAGED: ("ATT",),
    STAGED_WHOLE: ("ATT",),
}
WEIGHTS = "temperature {0.temperature:g}, gamma {0.answer_weight:g}, delta {0.attention_weight:g}"  # in words
SMOOTHING = 0.1  # of labels (Szegedy et al. 2016, section 7)


class ChoiceError(UserError):
    """A parameter of a notebook with a value that means nothing."""


@dataclass
class Distilled:
    """One seed's ensemble, what it knows, and its students by row of Table 5."""

    members: list[DistilledReader]
    knowledge: EnsembleOutputs
    students: dict[str, DistilledReader]
    stages: list[DistilledReader]  # that a student started from


Runs = dict[tuple[Kind, int], Distilled]  # by kind of reader and seed
Rows = dict[Row, list[list[DistilledReader]]]  # readers that answer together; a row's score is the groups' mean


def distillation(preset: Preset, kind: Kind, seed: int, rows: tuple[str, ...]) -> Plan:
    """Section 3.4: train an ensemble, ask it about the training set, train students on what it says."""
    preset = preset_for(preset, kind)
    settings = preset.a2d
    numbers = range(1, settings.members + 1)
    # step 1
    members = [reader(preset, kind, seed + 100 * number, f"{kind}, member {number}") for number in numbers]
    # steps 2 and 3
    taught = taught_by(settings, members)
    whole, stages, staged = budget(preset), [], {}
    half = whole // 2
    if {STAGED, STAGED_WHOLE} & {*rows}:  # Romero et al. 2015: first the attention alone
        weight = {"ATT": settings.attention_weight or 1.0}
        first = reader(preset, kind, seed, f"{kind}, {STAGED}, first stage", steps=half, terms=weight, **taught)
        stages = [first]
        goes_on = {"start": first.key, "first_step": half}
        staged = {STAGED: {"steps": whole - half, **goes_on}, STAGED_WHOLE: {"steps": whole, **goes_on}}
    # step 4
    students = {
        row: reader(
            preset,
            kind,
            seed,
            f"{kind} + {row}",
            terms=weights_of_terms(settings, row),
            **staged.get(row, {}),
            **taught,
        )
        for row in rows
    }
    (knowledge,) = next(iter(students.values())).outputs()  # of all the same
    yield [*members, knowledge, *stages, *students.values()]
    return Distilled(members, knowledge, students, stages)


def taught_by(settings: A2dSettings, members: list[DistilledReader]) -> dict:
    """The parts of a student that learns what readers know together, or one by itself."""
    keys = [member.key for member in members]
    return {"members": keys, "temperature": settings.temperature, "top_k": settings.top_k}


def longer(preset: Preset, kind: Kind, seed: int) -> Plan:
    """Ours, to tell distillation from a stronger signal and from longer training: the ensemble's first member, A2D, the
    same with that member as the only teacher, and a reader with smoothed labels, by line and multiple of the budget.
    All but the first start from the student's weights and read in its order."""
    distilled = yield from distillation(preset, kind, seed, ("A2D",))
    preset, (member, *_), student = preset_for(preset, kind), distilled.members, distilled.students["A2D"]
    together, alone = (taught_by(preset.a2d, readers) for readers in (distilled.members, [member]))
    lines = {
        kind: {"seed": member.seed},
        f"{kind} + A2D": {"seed": seed, "terms": student.terms, **together},
        f"{kind} + one teacher": {"seed": seed, "terms": student.terms, **alone},
        f"{kind}, smoothed labels": {"seed": seed, "smoothing": SMOOTHING},
    }
    whole = budget(preset)
    readers = {
        (line, times): reader(
            preset, kind, label=f"{line}, {times:g} times the steps", steps=max(1, round(times * whole)), **parts
        )
        for line, parts in lines.items()
        for times in sorted({*preset.a2d.lengths})
    }
    said = {known.key: known for student in readers.values() for known in student.outputs()}
    yield [*said.values(), *readers.values()]
    return readers


def weights_of_terms(settings: A2dSettings, row: str = "A2D") -> dict[str, float]:
    """The weights of the terms of Eq. 1 that a row of Table 5 has."""
    weights = term_weights(settings.temperature, settings.answer_weight, settings.attention_weight)
    return {name: weight for name, weight in weights.items() if name not in ABLATIONS[row]}


def reader(preset: Preset, kind: Kind, seed: int, label: str, steps: int = 0, **parts) -> DistilledReader:
    """A reader with the whole budget, unless told otherwise. ``preset`` is that of its kind."""
    names = sorted(preset.data.domains)
    settings = fit_settings(preset, names)
    if kind == "RMR":  # reads no more of the encoder than its vocabulary
        own = preset.mnemonic.model() | {"glove": glove_digest(preset.mnemonic.glove)}
        settings |= {"encoder": vocabulary_fingerprint(preset.encoder), "mnemonic": own}
    label += f", {names[0]}" if len(names) == 1 else ""
    return DistilledReader(
        preset=preset,
        label=f"{label}, seed {seed}",
        domains=names,
        kind=kind,
        attention=True,
        seed=seed,
        steps=steps or budget(preset),
        settings=settings,
        **parts,
    )


def preset_for(preset: Preset, kind: Kind) -> Preset:
    """The preset by which readers of a kind are trained: RMR has settings of its own and no weight decay."""
    if kind == "BERT":
        return preset
    return preset.changed("training", **preset.mnemonic.training()).model_copy(update={"random_layers": 0})


def plans(
    preset: Preset, readers: str = " ".join(KINDS), rows: tuple[str, ...] = ("A2D",)
) -> dict[tuple[Kind, int], Plan]:
    """A distillation for every kind of reader ("RMR", "BERT" or "RMR BERT") and seed. Raises ChoiceError for another
    kind."""
    seeds, kinds = range(preset.seeds), trained(preset, readers)
    return {(kind, seed): distillation(preset.drawn(seed), kind, seed, rows) for kind in kinds for seed in seeds}


def trained(preset: Preset, readers: str) -> list[Kind]:
    """The kinds of readers that are asked for. A preset without RMR has BERT in its place. Raises ChoiceError."""
    kinds = readers.split()
    if not kinds or set(kinds) - set(KINDS):
        raise ChoiceError(f"readers is {readers!r}; write {' or '.join(KINDS)}, or several with a space between")
    return list(dict.fromkeys(kind if preset.a2d.rmr else "BERT" for kind in kinds))


def all_plans(preset: Preset, readers: str) -> dict[tuple, Plan]:
    """What Table 5, our curves and section 4.2 need."""
    kind, *_ = trained(preset, readers)
    return plans(preset, readers, tuple(ABLATIONS)) | longer_plans(preset, kind) | weight_plans(preset, kind)


def longer_plans(preset: Preset, kind: Kind) -> dict[tuple[str, int], Plan]:
    """``longer`` for every seed; none where ``a2d.lengths`` is empty."""
    seeds = range(preset.seeds if preset.a2d.lengths else 0)
    return {("longer", seed): longer(preset.drawn(seed), kind, seed) for seed in seeds}


def weight_plans(preset: Preset, kind: Kind, temperatures: str = "") -> dict[tuple[str, int], Plan]:
    """Students of the same ensembles with each of the temperatures ("1 2 3 5") and the preset's other weights, and
    with all of the paper's (section 4.2): by row and seed. Raises ChoiceError for what is no temperature."""
    return {
        (name, seed): distillation(tried.drawn(seed), kind, seed, ("A2D",))
        for name, tried in weights_tried(preset, temperatures).items()
        for seed in range(preset.seeds)
    }


def weights_tried(preset: Preset, temperatures: str) -> dict[str, Preset]:
    """The presets of ``weight_plans``, by what a table calls them; without ``preset`` itself."""
    paper = A2dSettings().model_dump(include={"temperature", "answer_weight", "attention_weight"})
    try:
        changes = [*({"temperature": float(text)} for text in temperatures.split()), paper]
        tried = [A2dSettings(**preset.a2d.model_dump() | change) for change in changes]
    except ValueError:
        raise ChoiceError(f"temperatures is {temperatures!r}; write numbers above 0 with a space between") from None
    name = "tau {0.temperature:g}, gamma {0.answer_weight:g}, delta {0.attention_weight:g}"
    return {name.format(one): preset.model_copy(update={"a2d": one}) for one in tried if one != preset.a2d}


def narrative(preset: Preset) -> Preset:
    """The preset for Table 3: free answers about summaries, for which another ensemble and student are trained."""
    return preset.model_copy(update={"data": domains.narrative(preset.data)})


def rows_of(runs: Runs) -> Rows:
    """Each table row's readers by seed: every member by itself (the row's score is their mean), the ensemble, and the
    students."""
    rows: Rows = {}
    for (kind, seed), distilled in runs.items():
        rows[kind, seed] = [[member] for member in distilled.members]
        rows[f"{kind} (E)", seed] = [distilled.members]
        rows |= {(row_name(kind, name), seed): [[student]] for name, student in distilled.students.items()}
    return rows


def row_name(kind: Kind, student: str) -> str:
    """What a student's row is called; the paper's rows of Table 5 bear no reader's name."""
    return f"{kind} + A2D" if student == "A2D" else student if kind == "RMR" else f"{kind}, {student}"


def kinds_of(runs: Runs) -> list[Kind]:
    """The kinds of readers that were distilled."""
    return list(dict.fromkeys(kind for kind, _ in runs))


def knowledge(runs: Runs) -> pd.DataFrame:
    """What the ensembles know: training windows, and in how many they have a confusing answer."""
    table = {}
    for (kind, seed), distilled in runs.items():
        known = distilled.knowledge.result()
        best = mean(member.result()["best"] for member in distilled.members)
        table[f"{kind}, seed {seed}"] = {
            "members": len(distilled.members),
            "windows": known["windows"],
            "with a confusing answer": known["confused"],
            "best validation F1 of the members, on average": round(best, 1),
            "of the student": round(distilled.students["A2D"].result()["best"], 1),
        }
    return pd.DataFrame.from_dict(table, orient="index")
