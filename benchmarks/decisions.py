"""How often intervals decide wrongly: equal methods, whose difference is 0, and how many of the intervals leave 0 out.

    python benchmarks/decisions.py

Tables are drawn as the project's are: a method is trained once a seed, and each of its models answers questions that
are more or less difficult; methods, seeds, questions and their joint chance have spreads like those of the records.
Seeds have test questions of their own (`own_draws`, in the miniature world) or share them. What is promised is 5 %.
Beside `helpers.results.intervals` stands what resampling with replacement decides (percentiles of the bootstrap over
seeds and questions), which leaves too much out where seeds are few. A method's own mean is wrong where its interval
leaves out the mean of very many seeds and questions.
"""

import argparse

import numpy as np

from helpers.results import intervals

SEEDS = (2, 3, 5, 10, 20)
SIGNS = {"mean": (1,), "difference": (1, -1), "difference of differences": (1, -1, -1, 1)}
DOMAINS, QUESTIONS = 3, 100
LEVEL, DIFFICULTY = 0.5, 1.5  # of a question, in logits: mean and spread
OF_SEED, OF_PAIR = 0.3, 0.5  # spread over the seeds of a method, and over its questions
DRAWS = 300  # of the bootstrap


def right(random: np.random.Generator, seeds: int, methods: int, own: bool) -> np.ndarray:
    """100 where a method's model answers rightly, else 0: methods × domains × seeds × questions."""
    shape = methods, DOMAINS, seeds, QUESTIONS
    difficulty = random.normal(LEVEL, DIFFICULTY, (1, DOMAINS, seeds if own else 1, QUESTIONS))
    level = random.normal(0, OF_SEED, (methods, 1, seeds, 1)) + random.normal(0, OF_SEED, (1, 1, seeds, 1))
    taste = random.normal(0, OF_PAIR, (methods, DOMAINS, seeds if own else 1, QUESTIONS))
    return 100.0 * (random.random(shape) < 1 / (1 + np.exp(-(difficulty + level + taste))))


def bootstrap(matrices: list[np.ndarray], random: np.random.Generator) -> tuple[float, float]:
    """Percentiles of means of resampled seeds and questions."""
    seeds = matrices[0].shape[0]
    weights = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=DRAWS) / seeds
    means = np.zeros(DRAWS)
    for matrix in matrices:
        picks = random.multinomial(matrix.shape[1], np.full(matrix.shape[1], 1 / matrix.shape[1]), size=DRAWS)
        means += ((weights @ matrix) * picks).sum(1) / matrix.shape[1] / len(matrices)
    return tuple(np.quantile(means, [0.025, 0.975]))


def wrong(kind: str, seeds: int, own: bool, tables: int) -> tuple[float, float]:
    """The share of ``tables`` that intervals decide wrongly, and that the bootstrap does, in percent."""
    signs = SIGNS[kind]
    random = np.random.default_rng([seeds, own, len(signs)])
    truth = right(np.random.default_rng(0), 2000, 1, True).mean() if kind == "mean" else 0.0
    missed = np.zeros(2)
    for _ in range(tables):
        answers = right(random, seeds, len(signs), own)
        matrices = list(np.tensordot(signs, answers, axes=1))
        if own:  # every seed's questions are others, so its mean is all that it says
            matrices = [matrix.mean(axis=1, keepdims=True) for matrix in matrices]
        ends = intervals.estimate(matrices).bounds(), bootstrap(matrices, random)
        missed += [not low <= truth <= high for low, high in ends]
    return tuple(100 * missed / tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=4000, help="simulated for each line")
    given = parser.parse_args()
    print(f"| {given.tables:,} tables each | test questions | seeds | t intervals | bootstrap |\n|---|---|---|---|---|")
    for own in (True, False):
        for kind in SIGNS:
            for seeds in SEEDS:
                t, resampled = wrong(kind, seeds, own, given.tables)
                words = "of each seed" if own else "shared"
                print(f"| {kind} | {words} | {seeds} | {t:.1f} % | {resampled:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
