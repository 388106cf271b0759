"""What it costs readers of one miniature domain that another's answers hold more, or less (`data.conventions`).

    python benchmarks/conventions.py --seeds 5

F1 of readers of a domain on test questions of their own and of the others, where domains disagree about what an answer
holds and where they do not, over seeds.
"""

import argparse

import numpy as np

from helpers.papers.imm import algorithm
from helpers.papers.reading import tested
from helpers.papers.rows import Trained
from helpers.presets.load import load
from helpers.presets.schema import Preset
from helpers.results import intervals, tables
from helpers.training.engine import run_plans

ROW = "Single"


def f1_by_seed(preset: Preset) -> tuple[np.ndarray, np.ndarray]:
    """F1 of every seed's readers on their own questions, and on those of the other domains."""
    plans = {seed: algorithm.baselines(preset.drawn(seed), seed, [ROW]) for seed in range(preset.seeds)}
    trained = Trained.done(preset, run_plans(plans, preset.engine))
    names = preset.data.domains
    readers = {((i, seed), j): made[i] for seed, made in trained.rows[ROW].items() for i in names for j in names}
    f1 = tested(preset, readers)
    means = [
        [np.mean([value for ((i, of), j), value in f1.items() if of == seed and (i == j) == own]) for own in (1, 0)]
        for seed in plans
    ]
    own, others = np.array(means).T
    return own, others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="study")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    preset, losses = load(given.preset, "imm", seeds=given.seeds), []
    for conventions, name in {True: "domains disagree", False: "domains agree"}.items():
        own, others = f1_by_seed(preset.changed("data", conventions=conventions))
        losses.append(own - others)
        print(f"{name}: own questions {own.mean():.1f} F1, others {others.mean():.1f}, {losses[-1].mean():.1f} lost")
    gaps = [(losses[0] - losses[1])[:, None]]  # a seed a line, without examples
    print(f"lost by conventions: {tables.difference(intervals.estimate(gaps))} F1")


if __name__ == "__main__":
    main()
