"""IMM's Table 3, and what is ours below it: plans of trainings, and records."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np

from helpers.papers.imm import tables
from helpers.papers.imm.algorithm import CONTROLS, NOT_TAUGHT, VARIANTS, algorithm1
from helpers.papers.imm.trainings import other_seeds
from helpers.papers.reading import tested
from helpers.papers.rows import Trained
from helpers.presets.schema import Preset
from helpers.results.records import Claim, Score
from helpers.training.engine import Plan, run_plans

GAINED, LEAD = "F1 gained by the divergence", "F1 of the teachers above the reader without it"
FIRST = "teachers of round 0"  # in one round, those of row IMM
COUPLED = "both axes are differences to the same readers, so chance in their scores alone would tilt the points upwards"
LATER = ("IMM", NOT_TAUGHT, FIRST)  # the rows that stand again after all rounds


def plans(preset: Preset) -> dict[tuple[str, int], Plan]:
    """What Table 3 needs, by (row, seed)."""
    return _switched(preset, rows(preset), preset.imm.ablation_rounds, preset.seeds)


def rows(preset: Preset) -> dict[str, dict]:
    """The rows of Table 3 by what they switch."""
    controls = CONTROLS if preset.imm.controls else {}
    return VARIANTS | {row: known for row, known in controls.items() if row != FIRST or preset.imm.ablation_rounds > 1}


def later_plans(preset: Preset) -> dict[tuple[str, int], Plan]:
    """What the rows ``LATER`` need with as many rounds as Table 1 has, by (row, seed); nothing without controls, or
    where that is one."""
    known = VARIANTS | CONTROLS
    seeds = other_seeds(preset) if preset.imm.controls and preset.imm.rounds > 1 else 0
    return _switched(preset, {row: known[row] for row in LATER}, preset.imm.rounds, seeds)


def _switched(preset: Preset, switches: dict[str, dict], rounds: int, seeds: int) -> dict[tuple[str, int], Plan]:
    """Every row switches something of the preset's IMM with Eqs. 5 and 9."""
    paper = preset.imm.model_copy(update={"kd_space": "gold"})
    return {
        (name, seed): algorithm1(preset.drawn(seed), seed, paper.model_copy(update=changes), rounds)
        for name, changes in switches.items()
        for seed in range(seeds)
    }


def ablations(preset: Preset) -> Trained:
    """Train all that Table 3 needs."""
    return _trained(preset, plans(preset), preset.imm.ablation_rounds)


def later_rounds(preset: Preset) -> Trained:
    """Train the rows of Table 3 that stand again after all rounds (`LATER`)."""
    return _trained(preset, later_plans(preset), preset.imm.rounds)


def _trained(preset: Preset, plans: dict[tuple[str, int], Plan], rounds: int) -> Trained:
    trained = Trained.of(preset, dict.fromkeys(row for row, _ in plans), rounds=rounds)
    for (row, seed), outcome in run_plans(plans, preset.engine).items():
        tables.add_imm(trained, row, seed, outcome)
    return trained


def new_readers(trained: Trained) -> dict:
    """Table 3 of the last round's new readers, kept or not. The paper says nothing of them."""
    new = {row: {seed: trained.histories[row, seed].new[-1] for seed in seeds} for row, seeds in trained.rows.items()}
    return {**tables.table(replace(trained, rows=new)), "claims": []}


def later(trained: Trained) -> dict:
    """Table 3 of `later_rounds`: whether teachers of the latest round are worth more than those of round 0, or none."""
    after = f" after {trained.rounds} rounds"
    untaught = tables.beats(trained, NOT_TAUGHT, after, control=True)
    first = Claim(text=f"IMM beats itself with {FIRST}{after}", above="IMM", below=FIRST, control=True)
    return {**tables.table(trained), "claims": [untaught, first]}


def acceptance(trained: Trained) -> dict:
    """In how many domains each round's new reader was kept (Algorithm 1, lines 9 to 11); where no domain improves,
    there is no further round."""
    values = [
        Score(method=row, column=f"round {k + 1}", seed=seed, value=sum(new[i] is not old[i] for i in new))
        for (row, seed), rounds in trained.histories.items()
        for k, (old, new) in enumerate(itertools.pairwise(rounds.theta))
    ]
    runs = len(trained.histories)
    there = Counter(score.column for score in values)
    ended = ", ".join(f"{column}: {runs - number} of {runs}" for column, number in there.items() if number < runs)
    return {
        "scores": values,
        "unit": f"domains of {len(trained.preset.data.domains)}",
        "notes": [f"a run ends where no domain improves, and is not in later means; ended before {ended}"]
        * bool(ended),
    }


def leads(trained: Trained) -> dict:
    """What the divergence of Eqs. 5 and 9 gains in the rows of Table 3 that have all of it and learn from all domains,
    and how much better its teachers are than the reader without any, who does so too: of the last new readers, kept or
    not. The paper says nothing of it. Both are differences to the same reader, so an error in its score moves both."""
    readers, levels, untaught = {}, {}, []
    for (row, seed), rounds in trained.histories.items():
        readers |= {((row, seed), i): reader for i, reader in rounds.new[-1].items()}
        for i, of_domain in rounds.teachers[-1].items():
            readers |= {((row, seed, n), i): teacher for n, teacher in enumerate(of_domain)}
    f1, values = tested(trained.preset, readers), []
    for (row, seed), rounds in trained.histories.items():
        alike = "-KD" not in row and "sources" not in CONTROLS.get(row, {})
        for i, of_domain in rounds.teachers[-1].items() if alike else ():
            without = f1[(NOT_TAUGHT, seed), i]
            taught = float(np.mean([f1[(row, seed, n), i] for n in range(len(of_domain))]))
            levels.setdefault(row, []).append(taught)
            untaught.append(without)
            both = {GAINED: f1[(row, seed), i] - without, LEAD: taught - without}
            values += [Score(method=row, column=i, seed=seed, value=v, metric=name) for name, v in both.items()]
    said = f"F1 without the divergence {np.mean(untaught):.1f}; of the teachers of each row: {_averages(levels)}"
    return {"scores": values, "notes": [*tables.notes(trained), said, COUPLED]}


def _averages(levels: dict[str, list[float]]) -> str:
    """The mean of every row, in words; rows that have the same stand together."""
    alike: dict[str, list[str]] = {}
    for row, values in levels.items():
        alike.setdefault(f"{np.mean(values):.1f}", []).append(row)
    return ", ".join(f"{mean} ({'; '.join(names)})" for mean, names in alike.items())
