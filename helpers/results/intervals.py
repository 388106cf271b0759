"""Means, bootstrap intervals and paired tests, over seeds and over examples.

The scores of one table cell are a matrix, seeds × examples; where only a total was stored it has one column. An
average over several columns of a table (domains, tasks) is a list of such matrices with the same seeds. Every draw
comes from a generator with a fixed seed, so that a table redraws to the same digit. Intervals are percentiles of the
bootstrap: with three seeds they are, if anything, too narrow.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DRAWS = 1000
LEVEL = 0.95
SEED = 0
Matrices = Sequence[np.ndarray]


class Estimate(NamedTuple):
    """A mean and its interval. ``low`` and ``high`` are None for a single number; ``over`` says what was resampled."""

    mean: float
    low: float | None
    high: float | None
    over: str


class Comparison(NamedTuple):
    """A minus B. ``probability`` is P(A > B): the share of resamples in which A's mean is higher, ties counted half."""

    difference: float
    low: float | None
    high: float | None
    probability: float | None
    over: str

    @property
    def is_gain(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.low is not None and self.low > 0


def estimate(matrices: Matrices, level: float = LEVEL) -> Estimate:
    """The mean over the columns of a table, each a seeds × examples matrix, with its interval.

    Seeds are resampled together in all columns, because a seed's models belong together; examples in each column by
    itself. With one seed only the examples are resampled, and ``over`` says so.
    """
    matrices = _checked(matrices)
    mean, over = round(_mean(matrices), 6), describe(matrices)
    if over == "one run":
        return Estimate(mean, None, None, over)
    return Estimate(mean, *_percentiles(_resamples(matrices, stream=1), level), over)


def compare(ours: Matrices, theirs: Matrices) -> Comparison:
    """How far ``ours`` lies above ``theirs``, paired over the same examples and averaged over seeds.

    Both are lists of seeds × examples matrices, column by column over the same examples. A resample takes the same
    examples for both, and seeds for each by itself: two trainings with the same seed are still two trainings.
    """
    ours, theirs = _checked(ours), _checked(theirs)
    sizes = [[matrix.shape[1] for matrix in side] for side in (ours, theirs)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"only the same examples can be paired, but there are {sizes[0]} and {sizes[1]} a column")
    difference = _mean(ours) - _mean(theirs)
    over = describe(min(ours, theirs, key=lambda side: side[0].shape[0]))
    if over == "one run":
        return Comparison(difference, None, None, None, over)
    gaps = _resamples(ours, stream=1) - _resamples(theirs, stream=2)
    gaps[np.abs(gaps) < 1e-9] = 0.0  # equal means can differ in their last bit
    probability = float(np.mean(gaps > 0) + 0.5 * np.mean(gaps == 0))
    return Comparison(difference, *_percentiles(gaps), probability, over)


def describe(matrices: Matrices) -> str:
    """What a resampling of these matrices is over, in words."""
    seeds = matrices[0].shape[0]
    examples = sum(matrix.shape[1] for matrix in matrices)
    if examples > len(matrices):
        return f"{seeds} seeds and {examples:,} examples" if seeds > 1 else f"{examples:,} examples, one seed"
    return f"{seeds} seeds" if seeds > 1 else "one run"


def _mean(matrices: Matrices) -> float:
    return float(np.mean([matrix.mean() for matrix in matrices]))


def _resamples(matrices: Matrices, stream: int) -> np.ndarray:
    """Means of resampled seeds, of their own ``stream``, and examples, the same in all streams; float64 (DRAWS,)."""
    seeds, examples = np.random.default_rng([SEED, stream]), np.random.default_rng([SEED, 0])
    runs = matrices[0].shape[0]
    weights = seeds.multinomial(runs, np.full(runs, 1 / runs), size=DRAWS) / runs  # draws × seeds
    total = np.zeros(DRAWS)
    for matrix in matrices:
        picks = examples.integers(matrix.shape[1], size=(DRAWS, matrix.shape[1]), dtype=np.int32)
        total += np.take_along_axis(weights @ matrix, picks, axis=1).mean(axis=1)
    return total / len(matrices)


def _percentiles(resamples: np.ndarray, level: float = LEVEL) -> list[float]:
    # Rounded, so that another machine's order of summation draws the same picture.
    return np.quantile(resamples, [(1 - level) / 2, (1 + level) / 2]).round(6).tolist()


def _checked(matrices: Matrices) -> list[np.ndarray]:
    matrices = [np.asarray(matrix, dtype=np.float64) for matrix in matrices]
    if not matrices or any(matrix.ndim != 2 or matrix.size == 0 for matrix in matrices):
        raise ValueError("statistics need one or more matrices, seeds × examples, none of them empty")
    if len({matrix.shape[0] for matrix in matrices}) > 1:
        raise ValueError("all columns of an average need the same seeds")
    return matrices
