"""The table of all methods, their costs, and the readers to keep."""

from dataclasses import replace

from helpers.data.load import load_domains
from helpers.papers import model_folders, shared
from helpers.papers.imm import algorithm as imm_algorithm
from helpers.papers.shared import Models
from helpers.papers.your_domains import teaching
from helpers.papers.your_domains.comparison import (
    BEST,
    choose_on_validation,
    choose_readers,
    select_methods,
    train_readers,
)
from helpers.presets.schema import Preset
from helpers.records import Record
from helpers.task import Plan

FEWEST = 100  # questions to train or test on; with fewer, a score says little


def table(models: Models) -> Plan:
    """Make the record's parts: F1 of every method's reader on each domain's test questions, and of those that are best.

    The payload names the best method of each domain on validation, averaged over seeds; the last row are its readers.
    """
    best = yield from choose_on_validation(models)
    chosen = {
        seed: {name: models.by_row[row][seed][name] for name, row in best.items()}
        for seed in models.preset.seed_numbers
    }
    models = replace(models, by_row=models.by_row | {BEST: chosen})
    parts = yield from shared.answer_table(models, lambda domain: {domain: f"test/{domain}"})
    claims = [shared.state_better(BEST, "Single", "beats", control=True)]
    facts = {"baselines": ["Single"], "claims": claims, "payload": {"best": best}, "settings": list_settings(models)}
    return {**parts, **facts, "notes": [*models.notes, *state_sizes(models.preset)]}


def list_settings(models: Models) -> dict:
    """List the settings of the methods by section."""
    return {"imm": models.preset.imm, "a2d": models.preset.a2d, "data": models.preset.data}


def side_by_side(preset: Preset, methods: str = "") -> Plan:
    """Train readers by the methods that a text names, and make the parts of their `table`.

    What the table of a teacher needs is done too.
    """
    models = yield from train_readers(preset, select_methods(methods))
    if preset.teacher:
        yield from teaching.score(models.preset)
    return (yield from table(models))


def side_by_side_equal(preset: Preset, methods: str = "") -> Plan:
    """Do the same with as many steps for every method, a control; nothing where there is none."""
    equal = imm_algorithm.with_equal_steps(preset)
    return (yield from table((yield from train_readers(equal, select_methods(methods))))) if equal else {}


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


def state_sizes(preset: Preset) -> list[str]:
    """State the training and test questions of each domain, and which domains have too few."""
    counts = {name: (len(domain.train), len(domain.test)) for name, domain in load_domains(preset.data).items()}
    listed = ", ".join(f"{name} {train:,} and {test:,}" for name, (train, test) in counts.items())
    few = ", ".join(name for name, numbers in counts.items() if min(numbers) < FEWEST)
    notes = [f"training and test questions: {listed}"]
    return [*notes, f"fewer than {FEWEST} questions to train or to test on: {few}"] if few else notes


def keep_best_readers(models: Models, record: Record, folder: str) -> None:
    """Copy the best reader of each domain into a subfolder of ``folder``, in Hugging Face format with a README.md."""
    best = record.payload["best"]
    readers = {name: (best[name], reader) for name, reader in choose_readers(models, best).items()}
    model_folders.keep_models(readers, folder, record, model_folders.USES["spans"])
