"""Your own domains: readers of each by several methods, side by side, and the best of each on validation."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from helpers.data.load import load_domains
from helpers.engine import Plan
from helpers.errors import UserError
from helpers.papers import a2d, imm, shared
from helpers.papers.card import Notebook
from helpers.papers.shared import Models
from helpers.presets.schema import Preset
from helpers.reading import Reader
from helpers.results.records import Record

ENSEMBLE, DISTILLED, COMBINED, BEST = "Mix ensemble", "A2D", "IMM + A2D", "best on validation"
METHODS = {row: row for row in ("Single", "Mix", "FT", "BAM", "IMM")}
METHODS |= {"Ensemble": ENSEMBLE, "A2D": DISTILLED, "IMM+A2D": COMBINED}
FEWEST = 100  # questions to train or test on; with fewer, a score says little


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
    models, _ = yield from imm.train_methods(preset, preset.imm.rounds, methods)
    for seed in range(preset.seeds):
        (student,) = a2d.name_students(models.preset, "BERT", seed).values()
        trained = {ENSEMBLE: student.ensemble.members, DISTILLED: student}
        if COMBINED in methods:
            readers, label = models.by_row["IMM"][seed], f"{COMBINED}, seed {seed}"
            outputs = [
                replace(student.ensemble, label=f"outputs of {readers[name][0].label}", members=readers[name])
                for name in student.domains
            ]
            trained[COMBINED] = replace(student, label=label, ensemble=None, by_domain=tuple(outputs))
        for row in [row for row in methods if row in trained]:
            needs = models.needs["IMM", seed] if row == COMBINED else ()
            models.add(row, seed, dict.fromkeys(preset.data.domains, trained[row]), needs)
    yield [model for *_, members in models for model in members]
    return models


def table(models: Models) -> Plan:
    """Make the record's parts: F1 of every method's reader on each domain's test questions, and of those that are best.

    The payload names the best method of each domain on validation, averaged over seeds; the last row are its readers.
    """
    best = yield from choose_on_validation(models)
    chosen = {
        seed: {name: models.by_row[row][seed][name] for name, row in best.items()}
        for seed in range(models.preset.seeds)
    }
    models = replace(models, by_row=models.by_row | {BEST: chosen})
    parts = yield from shared.answer_table(models, lambda domain: {domain: f"test/{domain}"})
    claims = [shared.state_better(BEST, "Single", "beats", control=True)]
    facts = {"baselines": ["Single"], "claims": claims, "payload": {"best": best}, "settings": list_settings(models)}
    return {**parts, **facts, "notes": [*models.notes, *state_sizes(models.preset)]}


def list_settings(models: Models) -> dict:
    """List the settings of the methods by section."""
    return {"imm": models.preset.imm, "a2d": models.preset.a2d}


def side_by_side(preset: Preset, methods: str = "") -> Plan:
    """Train readers by the methods that a text names, and make the parts of their `table`."""
    models = yield from train_readers(preset, select_methods(methods))
    return (yield from table(models))


def side_by_side_equal(preset: Preset, methods: str = "") -> Plan:
    """Do the same with as many steps for every method, a control; nothing where ``other_seeds`` is 0."""
    if not preset.other_seeds:
        return {}
    return (yield from side_by_side(imm.with_equal_steps(preset), methods))


STEPS = "optimiser steps of all trainings of a method"


def cost(models: Models, table: Record) -> dict:
    """Make parts of a record: F1 of `table`'s methods against the steps that a seed of them takes, with teachers."""
    steps, scores = shared.tabulate_costs(models)["steps in all"], []
    for score in [score for score in table.scores if score.method in steps.index]:
        point = score.model_copy(update={"metric": STEPS, "value": float(steps[score.method])})
        scores += [score.model_copy(update={"metric": "F1"}), point]
    readers = {row: len(members) for row, _, _, members in models}
    passes = ", ".join(f"{row} {number}" for row, number in readers.items())
    notes = [f"readers that answer a question: {passes}", *table.notes]
    return {"scores": scores, "notes": notes, "settings": list_settings(models)}


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


def state_sizes(preset: Preset) -> list[str]:
    """State the training and test questions of each domain, and which domains have too few."""
    counts = {name: (len(domain.train), len(domain.test)) for name, domain in load_domains(preset.data).items()}
    listed = ", ".join(f"{name} {train:,} and {test:,}" for name, (train, test) in counts.items())
    few = ", ".join(name for name, numbers in counts.items() if min(numbers) < FEWEST)
    notes = [f"training and test questions: {listed}"]
    return [*notes, f"fewer than {FEWEST} questions to train or to test on: {few}"] if few else notes


def choose_readers(models: Models, best: dict[str, str]) -> dict[str, Reader]:
    """Return each domain's reader by its best method, of the seed with the best F1 on validation questions."""
    return {name: shared.choose_best(models, row)[name][1] for name, row in best.items()}


def keep(models: Models, record: Record, folder: str) -> None:
    """Copy the best reader of each domain into a subfolder of ``folder``, in Hugging Face format with a README.md."""
    best = record.payload["best"]
    readers = {name: (best[name], reader) for name, reader in choose_readers(models, best).items()}
    shared.keep_models(readers, folder, record, shared.USES["spans"])


NO_FILES = "the preset has no files; give yours with --preset lab -p data_dir FOLDER"

NOTEBOOK = Notebook(
    "19_your_domains",
    (side_by_side, side_by_side_equal),
    left_out=lambda preset: NO_FILES if preset.data.source == "mini" and not preset.other_seeds else "",
    takes=("methods",),
    keeps=lambda preset: preset.data.domains,
)
CARD = replace(imm.CARD, notebooks=(*imm.CARD.notebooks, NOTEBOOK))
