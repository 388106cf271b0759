"""Train what IMM's tables and figures need, and count what that costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from helpers.data.domains import load_domains
from helpers.papers.imm import algorithm
from helpers.papers.imm.algorithm import Readers
from helpers.papers.imm.trainings import Reader
from helpers.presets.schema import Preset
from helpers.training.engine import Outcome, replay, run_plans

Rows = dict[str, dict[int, Readers]]  # the final readers, by row and seed
Histories = dict[int, list[Readers]]  # IMM's theta^(0) ... theta^(K), by seed


@dataclass
class Trained:
    """The final readers of each row, and every reader that the row needs were it trained by itself, by seed."""

    rows: Rows
    needs: dict[str, dict[int, list[Reader]]]

    @property
    def seconds(self) -> float:
        """Seconds that all trainings took, now or in an earlier run, each counted once."""
        needed = [one for seeds in self.needs.values() for readers in seeds.values() for one in readers]
        return sum(reader.fit()["seconds"] for reader in by_key(needed).values())


def methods(preset: Preset) -> Trained:
    """Train all that Tables 1 and 2 need, if it is not there."""
    done = run_plans(algorithm.plans(preset, preset.imm.rounds), preset.engine)
    return _methods(preset, done)


def curve(preset: Preset) -> tuple[Histories, Trained]:
    """Train all that Figure 3 needs: IMM up to the largest K, and the other methods."""
    done = run_plans(algorithm.plans(preset, preset.imm.curve), preset.engine)
    return {seed: done["IMM", seed].value for seed in range(preset.seeds)}, _methods(preset, done)


def ablations(preset: Preset) -> Trained:
    """Train all that Table 3 needs."""
    done = run_plans(algorithm.ablation_plans(preset), preset.engine)
    trained = Trained({name: {} for name in algorithm.VARIANTS}, {name: {} for name in algorithm.VARIANTS})
    for (name, seed), outcome in done.items():
        trained.rows[name][seed] = outcome.value[-1]
        trained.needs[name][seed] = readers_of(outcome.tasks)
    return trained


def _methods(preset: Preset, done: dict[tuple[str, int], Outcome]) -> Trained:
    trained = Trained({name: {} for name in algorithm.METHODS}, {name: {} for name in algorithm.METHODS})
    for seed in range(preset.seeds):
        known = by_key(done["baselines", seed].tasks)
        for method, readers in done["baselines", seed].value.items():
            trained.rows[method][seed] = readers
            trained.needs[method][seed] = list(ancestry(readers, known).values())
        trained.rows["IMM"][seed] = done["IMM", seed].value[-1]
        trained.needs["IMM"][seed] = readers_of(done["IMM", seed].tasks)
    return trained


def ancestry(readers: Readers, known: dict[str, Reader]) -> dict[str, Reader]:
    """The readers and all that they start from or learn from, by key."""
    found, waiting = {}, list(readers.values())
    while waiting:
        reader = waiting.pop()
        if reader.infra.uid() not in found:
            found[reader.infra.uid()] = reader
            parents = [*reader.teachers.values(), *([reader.start] if reader.start else [])]
            waiting += [known[key] for key in parents]
    return found


def budget(trained: Trained) -> pd.DataFrame:
    """What each row costs: optimiser steps in the history of one tested reader, from the pretrained encoder on, and
    trainings and steps of all readers that the row needs, teachers and rejected ones too, for one seed."""
    rows = {}
    for row, seeds in trained.needs.items():
        known = by_key(seeds[0])
        histories = [history(reader, known) for reader in trained.rows[row][0].values()]
        rows[row] = {
            "stages of a reader": " + ".join(f"{one.steps:,}" for one in reversed(max(histories, key=len))),
            "steps of a reader": max(sum(one.steps for one in stages) for stages in histories),
            "trainings": len(known),
            "steps in all": sum(one.steps for one in known.values()),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def notes(trained: Trained, rounds: int) -> list[str]:
    """What one has to know about how the rows were made: budget, questions, and what there being no GPU changed."""
    preset, table = preset_of(trained.rows), budget(trained)
    least, most = table["steps of a reader"].min(), table["steps of a reader"].max()
    steps = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    sizes = ", ".join(f"{name} {len(domain.train):,}" for name, domain in load_domains(preset.data).items())
    trainings = ", ".join(f"{row} {number}" for row, number in table["trainings"].items())
    return [
        f"every reader has {steps} steps of {preset.training.batch_size} windows behind it "
        f"({preset.training.epochs:g} epochs over all domains)",
        f"trainings for one seed of a row by itself: {trainings}",
        f"training questions: {sizes}",
        f"IMM with at most {rounds} round{'s' if rounds > 1 else ''}",
        *preset.without_gpu(),
    ]


def kept(histories: Histories) -> pd.DataFrame:
    """By seed, how many domains kept each round's new reader."""
    rows = {
        f"seed {seed}": {
            f"round {k + 1}": sum(new[i] is not old[i] for i in new)
            for k, (old, new) in enumerate(itertools.pairwise(history))
        }
        for seed, history in histories.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").astype("Int64").astype(object).fillna("stopped")


def history(reader: Reader, known: dict[str, Reader]) -> list[Reader]:
    """A reader and those it started from, last first."""
    stages = [reader]
    while stages[-1].start in known:
        stages.append(known[stages[-1].start])
    return stages


def notebooks(preset: Preset) -> dict[str, list[list[Reader]]]:
    """For each notebook, row by row or point by point, the readers that it would train if nothing were shared, as far
    as they are known before all is trained."""
    rows, points, varied = [], [], []
    for (kind, _), plan in algorithm.plans(preset, preset.imm.rounds).items():
        value, tasks = replay(plan)
        known = by_key(tasks)
        if kind == "baselines" and value is not None:
            rows += [list(ancestry(readers, known).values()) for readers in value.values()]
        else:
            rows.append(list(known.values()))
    for seed in range(preset.seeds):
        readers = readers_of(replay(algorithm.algorithm1(preset, seed, preset.imm, preset.imm.curve)).tasks)
        domains = len(preset.data.domains)
        points += [readers[: domains * (1 + 2 * k)] for k in range(preset.imm.curve + 1)]
    for plan in algorithm.ablation_plans(preset).values():
        varied.append(readers_of(replay(plan).tasks))
    return {
        "02_imm_main": rows,
        "03_imm_iterations": points + rows,
        "04_imm_ablations": varied,
        "05_imm_adversarial": rows,
    }


def readers_of(tasks: list) -> list[Reader]:
    """The distinct readers among tasks."""
    return list(by_key(tasks).values())


def by_key(tasks: list) -> dict[str, Reader]:
    """The readers among tasks, by cache key."""
    return {task.infra.uid(): task for task in tasks if isinstance(task, Reader)}


def each(rows: Rows) -> Iterator[tuple[str, int, str, Reader]]:
    """Row, seed, domain and reader."""
    for row, seeds in rows.items():
        for seed, readers in seeds.items():
            for domain, reader in readers.items():
                yield row, seed, domain, reader


def preset_of(rows: Rows) -> Preset:
    """The preset that readers were trained with."""
    return next(each(rows))[3].preset
