"""Means and differences with their intervals, over seeds and over examples.

The scores of one table cell are a matrix, seeds × examples; where every seed has test examples of its own, or only a
total was stored, it has one column. An average over several columns of a table (domains, tasks) is a list of such
matrices with the same seeds. What two methods are apart is the mean of such matrices too: of their differences, seed by
seed and example by example, since methods share data and order in a seed.

Intervals are those of a random sample of seeds, and of examples where the seeds share them: t quantiles, with the
variance of both (random effects, crossed) and Satterthwaite's degrees of freedom. ``benchmarks/decisions.py`` simulates
how often they err.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

LEVEL = 0.95
POWER = 0.8
NOTHING = 1e-18  # a variance of rounding alone
Matrices = Sequence[np.ndarray]
Part = tuple[float, int]  # of a variance: its value and its degrees of freedom


class Estimate(NamedTuple):
    """A mean, or a difference of means, with its standard error and its degrees of freedom, both None for a single
    number; ``over`` says what it varies over, in words, and ``seeds`` is the number of these."""

    mean: float
    error: float | None
    freedom: float | None
    over: str
    seeds: int

    def bounds(self, level: float = LEVEL) -> tuple[float, float] | None:
        """Its interval; None for a single number."""
        if self.error is None:
            return None
        half = self.error and float(stats.t.ppf((1 + level) / 2, self.freedom)) * self.error
        # Rounded, so that another machine's order of summation draws the same picture.
        return round(self.mean - half, 6), round(self.mean + half, 6)

    @property
    def low(self) -> float | None:
        """The lower end of its 95 % interval."""
        return self.bounds() and self.bounds()[0]

    @property
    def high(self) -> float | None:
        """The upper end of its 95 % interval."""
        return self.bounds() and self.bounds()[1]

    @property
    def detectable(self) -> float | None:
        """The smallest true value that a t test at 5 % tells from zero with the probability ``POWER``, were this
        estimate's error that of all such; None for a single number."""
        return self.error and float(self.error * stats.t.ppf([(1 + LEVEL) / 2, POWER], self.freedom).sum())

    def above(self, limit: float = 0.0) -> float | None:
        """How probable it is, as far as these runs tell, that the true value lies above ``limit``: one minus the p
        value of a one-sided t test. None for a single number."""
        if self.error is None:
            return None
        if self.error == 0:
            return (1 + float(np.sign(self.mean - limit))) / 2
        return float(stats.t.cdf((self.mean - limit) / self.error, self.freedom))


def estimate(matrices: Matrices) -> Estimate:
    """The mean over the columns of a table, each a seeds × examples matrix. Raises ValueError for other shapes.

    Seeds go together in all columns, because a seed's models belong together; examples in each column by itself. With
    one seed the examples alone vary, and ``over`` says so.
    """
    matrices = _checked(matrices)
    mean = round(float(np.mean([matrix.mean() for matrix in matrices])), 6)
    seeds, examples, both = variances(matrices)
    over = describe(matrices), matrices[0].shape[0]
    if not (parts := [*seeds, *examples, *both]):
        return Estimate(mean, None, None, *over)
    # What one seed and one example do beyond both is in both of their variances, so it comes off once; what is left is
    # no less than either.
    by_seeds, by_examples, by_both = (sum(value for value, _ in part) for part in (seeds, examples, both))
    variance = max(by_seeds + by_examples - by_both, by_seeds, by_examples)
    if variance < NOTHING:
        return Estimate(mean, 0.0, math.inf, *over)
    freedom = variance**2 / sum(value**2 / own for value, own in parts)
    return Estimate(mean, math.sqrt(variance), max(freedom, min(own for _, own in parts)), *over)


def compare(ours: Matrices, theirs: Matrices) -> Estimate:
    """How far ``ours`` lies above ``theirs``: lists of matrices of the same seeds and the same examples. Raises
    ValueError where they are not."""
    shapes = [[np.shape(matrix) for matrix in side] for side in (ours, theirs)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"only the same seeds and examples can be paired, but there are {shapes[0]} and {shapes[1]}")
    return estimate([np.asarray(mine) - np.asarray(other) for mine, other in zip(ours, theirs, strict=True)])


def share(part: Matrices, whole: Matrices, level: float = LEVEL) -> tuple[float, float, float] | None:
    """Which share of the gain ``whole`` the gain ``part`` is, with Fieller's interval; both are lists of matrices of
    differences of the same seeds and examples. None where the gain is not certain to be one."""
    gain = estimate(whole)
    bounds = gain.bounds(level)
    if bounds is None or bounds[0] <= 0:
        return None

    def excess(share: float) -> float:
        """By how much the interval of part − share · whole misses 0; below 0 where it has it inside."""
        low, high = compare(part, [share * matrix for matrix in whole]).bounds(level)
        return max(low, -high)

    middle = estimate(part).mean / gain.mean
    ends = []
    for sign in (-1, 1):
        step = 1.0
        while excess(middle + sign * step) < 0:
            step *= 2
        ends.append(optimize.brentq(excess, middle, middle + sign * step, xtol=1e-9) if excess(middle) < 0 else middle)
    return round(middle, 6), round(ends[0], 6), round(ends[1], 6)


def describe(matrices: Matrices) -> str:
    """What a mean of these matrices varies over, in words."""
    seeds = matrices[0].shape[0]
    examples = sum(matrix.shape[1] for matrix in matrices)
    if examples > len(matrices):
        return f"{seeds} seeds and {examples:,} examples" if seeds > 1 else f"{examples:,} examples, one seed"
    return f"{seeds} seeds" if seeds > 1 else "one run"


def variances(matrices: Matrices) -> tuple[list[Part], list[Part], list[Part]]:
    """The variance of the mean by seeds, by the examples of each column, and by both together there, each with its
    degrees of freedom; none where there is one seed or one example."""
    runs, columns, by_seeds, by_examples, by_both = matrices[0].shape[0], len(matrices), [], [], []
    if runs > 1:
        seeds = np.mean([matrix.mean(axis=1) for matrix in matrices], axis=0)
        by_seeds.append((float(seeds.var(ddof=1)) / runs, runs - 1))
    for matrix in (matrix for matrix in matrices if matrix.shape[1] > 1):
        size, examples = matrix.shape[1], matrix.mean(axis=0)
        scale = size * columns**2
        by_examples.append((float(examples.var(ddof=1)) / scale, size - 1))
        if runs > 1:
            both = matrix - matrix.mean(axis=1, keepdims=True) - examples + matrix.mean()
            freedom = (runs - 1) * (size - 1)
            by_both.append((float((both**2).sum()) / freedom / (runs * scale), freedom))
    return by_seeds, by_examples, by_both


def _checked(matrices: Matrices) -> list[np.ndarray]:
    matrices = [np.asarray(matrix, dtype=np.float64) for matrix in matrices]
    if not matrices or any(matrix.ndim != 2 or matrix.size == 0 for matrix in matrices):
        raise ValueError("statistics need one or more matrices, seeds × examples, none of them empty")
    if len({matrix.shape[0] for matrix in matrices}) > 1:
        raise ValueError("all columns of an average need the same seeds")
    return matrices
