"""The methods side by side, and the choice among them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import NamedTuple

from helpers.data.load import fingerprint_examples
from helpers.errors import UserError
from helpers.papers import shared
from helpers.papers.a2d import algorithm as a2d_algorithm
from helpers.papers.a2d.ensemble import EnsembleTargets
from helpers.papers.imm import algorithm as imm_algorithm
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

    ``readers`` takes the preset of a seed, the seed and `Models`, and returns the method's reader, or ensemble, of each
    domain. The models have the rows of IMM's Table 1, among them those that the method ``needs``. A row of that table
    has none.
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
    """Return the words of `METHODS` that a text names, or all of them for "all". Raises UserError.

    Single is always among them, and what another method needs.
    """
    words = names.split()
    if unknown := set(words) - set(METHODS) - {"all"}:
        expected = f"all, or some of {', '.join(METHODS)}, separated by spaces"
        raise UserError(f"methods: {min(unknown)!r}; expected {expected}")
    chosen = {"Single", *(METHODS if "all" in words else words)}
    chosen |= {need for word in chosen for need in METHODS[word].needs}
    return [word for word in METHODS if word in chosen]


def train_readers(preset: Preset) -> Plan:
    """Train readers of every domain by the preset's `METHODS`, with every seed. Returns their `Models`.

    With a teacher its student is one more. The answers of files without any are those of the teacher.
    """
    notes = teachers.state_answers(preset)
    preset = yield from teachers.answered_by_teachers(preset.changed("a2d", students=1))  # a student per ensemble
    chosen = [METHODS[word] for word in select_methods(preset.methods)] + [TAUGHT] * bool(preset.teacher)
    others = [method for method in chosen if method.readers]
    started = yield {seed: shared.start_from_general(preset, seed) for seed in preset.seed_numbers}
    started = {seed: preset.for_seed(seed) for seed, preset in started.items()}
    at_once = add_readers(Models(preset), started, [method for method in others if not method.needs])
    rows = imm_algorithm.train_methods(preset, preset.imm.max_rounds, [m.row for m in chosen if not m.readers])
    models, _ = (yield {"rows": rows, "others": train_all(at_once)})["rows"]
    models.notes += notes
    return (yield from train_all(add_readers(models, started, others)))


def add_readers(models: Models, started: Mapping[int, Preset], methods: Sequence[Method]) -> Models:
    """Add the readers of some `METHODS` to models, with the preset of each seed, and return these."""
    for seed, preset in started.items():
        for method in methods:
            needs = [training for row in method.needs for training in models.needs[row, seed]]
            models.add(method.row, seed, method.readers(preset, seed, models), needs)
    return models


def train_all(models: Models) -> Plan:
    """Train models, and return them."""
    yield [model for *_, members in models for model in members]
    return models


def choose_on_validation(models: Models) -> Plan:
    """Return for each domain the method with the best F1 on its validation questions over seeds, and its best seed.

    An ensemble is not chosen: it is not one reader. Where each seed draws its own validation questions, some are harder
    than others, so the seed is chosen by how far its reader is above the mean of all methods.
    """
    preset, seeds = models.preset, models.preset.seed_numbers
    cells = {
        (row, domain, seed): (members, f"valid/{domain}") for row, domain, seed, members in models if len(members) == 1
    }
    f1 = shared.average_f1(preset, (yield from shared.answer_sets(preset, cells)))
    rows, chosen = dict.fromkeys(row for row, *_ in cells), {}
    for name in preset.data.domains:
        row = max(rows, key=lambda row: mean(f1[row, name, seed] for seed in seeds))
        draws = {fingerprint_examples(preset.for_seed(seed).data, name, "valid") for seed in seeds}
        levels = {seed: mean(f1[other, name, seed] for other in rows) if len(draws) > 1 else 0.0 for seed in seeds}
        chosen[name] = row, max(seeds, key=lambda seed: f1[row, name, seed] - levels[seed])
    return chosen


def choose_readers(models: Models, payload: Mapping[str, dict]) -> dict[str, Training]:
    """Return each domain's reader by the choice in a record's payload, of the first seed where models lack that one."""
    chosen = {}
    for name, row in payload["best"].items():
        seeds = models.by_row[row]
        chosen[name] = seeds.get(payload["seeds"][name], seeds[min(seeds)])[name][0]
    return chosen
