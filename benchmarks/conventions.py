"""What it costs readers of one miniature domain that another's answers hold more, or less (`data.conventions`).

    python benchmarks/conventions.py --seeds 5

Exact match and F1 of readers of a domain on test questions of their own and of the others, where domains disagree about
what an answer holds and where they do not, over seeds. F1 forgives most of a title too many, exact match does not.
"""

import argparse

import numpy as np

from helpers.papers.imm import algorithm
from helpers.papers.rows import Trained, scores_of
from helpers.presets.load import load
from helpers.presets.schema import Preset
from helpers.results import intervals, tables
from helpers.tasks.answering import answering, ask
from helpers.training.engine import run_plans

ROW = "Single"
METRICS = {"em": "exact match", "f1": "F1"}


def by_seed(preset: Preset) -> dict[str, np.ndarray]:
    """By metric, what every seed's readers score (seeds × 2): on their own questions, and on those of other domains."""
    plans = {seed: algorithm.baselines(preset.drawn(seed), seed, [ROW]) for seed in range(preset.seeds)}
    trained, names = Trained.done(preset, run_plans(plans, preset.engine)), preset.data.domains
    readers = {(i, seed): reader for _, seed, i, reader in trained.models()}
    sets = [f"test/{j}" for j in names]
    asked = {key: answering(reader.preset, [reader], sets) for key, reader in readers.items()}
    values = {metric: np.zeros((preset.seeds, 2)) for metric in METRICS}
    for (i, seed), answers in ask(preset, asked).items():
        for j, name in zip(names, sets, strict=True):
            scores = scores_of(readers[i, seed].preset.data, name, [answers[name]])
            for metric, sums in values.items():
                sums[seed, int(i != j)] += getattr(scores, metric).mean()
    cells = len(names), len(names) * (len(names) - 1)
    return {metric: sums / cells for metric, sums in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="study")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    preset = load(given.preset, "imm", seeds=given.seeds)
    disagree, agree = (by_seed(preset.changed("data", conventions=conventions)) for conventions in (True, False))
    for metric, name in METRICS.items():
        lost = []
        for how, scores in {"disagree": disagree, "agree": agree}.items():
            own, others = scores[metric].T
            lost.append(own - others)
            print(f"{name}, domains {how}: own questions {own.mean():.1f}, others {others.mean():.1f}")
        gaps = [(lost[0] - lost[1])[:, None]]  # a seed a line, without examples
        print(f"{name}, more lost on others where they disagree: {tables.difference(intervals.estimate(gaps))}")


if __name__ == "__main__":
    main()
