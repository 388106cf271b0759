"""The methods side by side, and the choice among them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean
from typing import NamedTuple

from helpers.errors import UserError
from helpers.papers import shared
from helpers.papers.a2d import algorithm as a2d_algorithm
from helpers.papers.a2d.ensemble import EnsembleTargets
from helpers.papers.imm import algorithm as imm_algorithm
from helpers.papers.model_folders import choose_best
from helpers.papers.shared import Members, Models
from helpers.papers.your_domains import teachers, teaching
from helpers.presets.schema import Preset
from helpers.task import Plan
from helpers.training import Training

BEST = "best on validation"


def mix_ensemble(preset: Preset, seed: int, models: Models) -> dict[str, Members]:
    """Return the ensemble from which A2D's reader is distilled."""
    (student,) = a2d_algorithm.student_trainings(preset, "BERT", seed).values()
    return dict.fromkeys(preset.data.domains, a2d_algorithm.members_of(student))


def distilled(preset: Preset, seed: int, models: Models) -> dict[str, Training]:
    """Return the reader of all domains that is distilled from the ensemble."""
    (student,) = a2d_algorithm.student_trainings(preset, "BERT", seed).values()
    return dict.fromkeys(preset.data.domains, student)


def combined(preset: Preset, seed: int, models: Models) -> dict[str, Training]:
    """Return A2D's reader of all domains with each domain's reader of IMM as its teacher there; no paper has it."""
    (student,) = a2d_algorithm.student_trainings(preset, "BERT", seed).values()
    readers = models.by_row["IMM"][seed]
    outputs = [
        a2d_algorithm.ensemble_outputs(student.preset, f"outputs of {readers[name][0].label}", readers[name], [name])
        for name in student.data.names
    ]
    teacher = EnsembleTargets(tuple(outputs))
    return dict.fromkeys(preset.data.domains, replace(student, label=f"IMM + A2D, seed {seed}", teacher=teacher))


class Method(NamedTuple):
    """A method by its row in the table.

    ``readers`` takes preset, seed and `Models`, and returns the method's reader, or ensemble, of each domain. The
    models have the rows of IMM's Table 1, among them those that the method ``needs``. A row of that table has none.
    """

    row: str
    readers: Callable[[Preset, int, Models], dict[str, Training | Members]] | None = None
    needs: tuple[str, ...] = ()


METHODS = {row: Method(row) for row in ("Single", "Mix", "FT", "BAM", "IMM")}  # by the word that chooses it
TAUGHT = Method(teaching.TAUGHT, teaching.taught)  # where there is a teacher
METHODS |= {
    "Ensemble": Method("Mix ensemble", mix_ensemble),
    "A2D": Method("A2D", distilled),
    "IMM+A2D": Method("IMM + A2D", combined, needs=("IMM",)),
}


def select_methods(names: str) -> list[str]:
    """Return the words of `METHODS` that a text names; all where it is empty. Raises UserError.

    Single is always among them, and what another method needs.
    """
    words = names.split()
    if unknown := set(words) - set(METHODS):
        raise UserError(f"methods: {min(unknown)!r}; expected some of {', '.join(METHODS)}, separated by spaces")
    chosen = {"Single", *(words or METHODS)}
    chosen |= {need for word in chosen for need in METHODS[word].needs}
    return [word for word in METHODS if word in chosen]


def train_readers(preset: Preset, methods: Sequence[str]) -> Plan:
    """Train readers of every domain by some `METHODS`, with every seed. Returns their `Models`.

    With a teacher its student is one more. The answers of files without any are those of the teacher.
    """
    notes = teachers.state_answers(preset)
    preset = yield from teachers.answered_by_teachers(preset.changed("a2d", students=1))  # a student per ensemble
    chosen = [METHODS[word] for word in methods] + [TAUGHT] * bool(preset.teacher)
    rows = [method.row for method in chosen if not method.readers]
    models, _ = yield from imm_algorithm.train_methods(preset, preset.imm.max_rounds, rows)
    models.notes += notes
    for seed in preset.seed_numbers:
        for method in [method for method in chosen if method.readers]:
            needs = [training for row in method.needs for training in models.needs[row, seed]]
            models.add(method.row, seed, method.readers(models.preset, seed, models), needs)
    yield [model for *_, members in models for model in members]
    return models


def choose_on_validation(models: Models) -> Plan:
    """Return the method of each domain whose reader has the best F1 on its validation questions, over seeds.

    An ensemble is not chosen: it is not one reader.
    """
    cells = {
        (row, domain, seed): (members, f"valid/{domain}") for row, domain, seed, members in models if len(members) == 1
    }
    f1 = shared.average_f1(models.preset, (yield from shared.answer_sets(models.preset, cells)))
    rows, seeds = dict.fromkeys(row for row, *_ in cells), models.preset.seed_numbers
    return {
        name: max(rows, key=lambda row: mean(f1[row, name, seed] for seed in seeds))
        for name in models.preset.data.domains
    }


def choose_readers(models: Models, best: dict[str, str]) -> dict[str, Training]:
    """Return each domain's reader by its best method, of the seed with the best F1 on validation questions."""
    return {name: choose_best(models, row)[name][1] for name, row in best.items()}
