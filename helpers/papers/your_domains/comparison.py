"""The methods side by side, and the choice among them."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from helpers.errors import UserError
from helpers.papers import shared
from helpers.papers.a2d import algorithm as a2d_algorithm
from helpers.papers.a2d.ensemble import EnsembleTargets
from helpers.papers.imm import algorithm as imm_algorithm
from helpers.papers.model_folders import choose_best
from helpers.papers.shared import Members, Models
from helpers.presets.schema import Preset
from helpers.task import Plan
from helpers.training import Training

ENSEMBLE, DISTILLED, COMBINED, BEST = "Mix ensemble", "A2D", "IMM + A2D", "best on validation"
METHODS = {row: row for row in ("Single", "Mix", "FT", "BAM", "IMM")}
METHODS |= {"Ensemble": ENSEMBLE, "A2D": DISTILLED, "IMM+A2D": COMBINED}


def select_methods(names: str) -> list[str]:
    """Return the rows of the methods that a text names by words of `METHODS`; all where it is empty. Raises UserError.

    Single is always among them, and IMM where its readers teach A2D.
    """
    words = names.split()
    if unknown := set(words) - set(METHODS):
        raise UserError(f"methods: {min(unknown)!r}; expected some of {', '.join(METHODS)}, separated by spaces")
    chosen = {"Single", *(words or METHODS)} | ({"IMM"} if "IMM+A2D" in words else set())
    return [row for word, row in METHODS.items() if word in chosen]


def train_readers(preset: Preset, methods: Sequence[str]) -> Plan:
    """Train readers of every domain by some methods, with every seed. Returns their `Models`.

    "IMM + A2D", which no paper has, is one reader of all domains. On each it is taught by that domain's reader of IMM,
    with A2D's losses.
    """
    preset = preset.changed("a2d", students=1)  # of an ensemble
    models, _ = yield from imm_algorithm.train_methods(preset, preset.imm.rounds, methods)
    for seed in range(preset.seeds):
        (student,) = a2d_algorithm.student_trainings(models.preset, "BERT", seed).values()
        trained = {ENSEMBLE: a2d_algorithm.members_of(student), DISTILLED: student}
        if COMBINED in methods:
            trained[COMBINED] = combine(student, models.by_row["IMM"][seed], f"{COMBINED}, seed {seed}")
        for row in [row for row in methods if row in trained]:
            needs = models.needs["IMM", seed] if row == COMBINED else ()
            models.add(row, seed, dict.fromkeys(preset.data.domains, trained[row]), needs)
    yield [model for *_, members in models for model in members]
    return models


def combine(student: Training, readers: dict[str, Members], label: str) -> Training:
    """Return A2D's student with each domain's reader of IMM as its teacher there."""
    outputs = [
        a2d_algorithm.ensemble_outputs(student.preset, f"outputs of {readers[name][0].label}", readers[name], [name])
        for name in student.data.names
    ]
    return replace(student, label=label, teacher=EnsembleTargets(tuple(outputs)))


def choose_on_validation(models: Models) -> Plan:
    """Return the method of each domain whose reader has the best F1 on its validation questions, over seeds.

    An ensemble is not chosen: it is not one reader.
    """
    cells = {
        (row, domain, seed): (members, f"valid/{domain}") for row, domain, seed, members in models if len(members) == 1
    }
    f1 = shared.average_f1(models.preset, (yield from shared.answer_sets(models.preset, cells)))
    rows, seeds = dict.fromkeys(row for row, *_ in cells), range(models.preset.seeds)
    return {
        name: max(rows, key=lambda row: mean(f1[row, name, seed] for seed in seeds))
        for name in models.preset.data.domains
    }


def choose_readers(models: Models, best: dict[str, str]) -> dict[str, Training]:
    """Return each domain's reader by its best method, of the seed with the best F1 on validation questions."""
    return {name: choose_best(models, row)[name][1] for name, row in best.items()}
