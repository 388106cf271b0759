"""What each headline of a preset's stored records can see, for some numbers of seeds (docs/statistics.md).

    python benchmarks/power.py study 5 10 20

prints for each headline the standard deviation of its difference over seeds, and for each number of seeds the
difference that a t test at 5 % finds with a probability of 80 %.
"""

import sys

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from helpers import records
from helpers.results.stats import ALPHA, POWER, VERDICT_SEEDS, judge


def smallest_difference(deviation: float, seeds: int) -> float:
    """Compute the difference that a two-sided paired t test over ``seeds`` finds with a probability of `POWER`."""
    critical = stats.t.ppf(1 - ALPHA / 2, seeds - 1)
    return deviation * brentq(lambda d: stats.nct.sf(critical, seeds - 1, d * np.sqrt(seeds)) - POWER, 0.01, 10)


def main(preset: str, *seeds: str) -> None:
    """Print a row of a Markdown table for each headline."""
    print(f"| headline | unit | deviation | {' | '.join(f'{number} seeds' for number in seeds)} |")
    print("|---" * (3 + len(seeds)) + "|")
    stored = records.read_all(preset)
    for record in stored:
        for verdict in judge(record, stored):
            values = verdict.estimate.values
            if (
                verdict.claim.primary
                and not verdict.claim.share
                and not verdict.is_repeated
                and len(values) >= VERDICT_SEEDS
            ):
                unit, deviation = record.by_metric()[0].unit, float(np.std(values, ddof=1))
                differences = " | ".join(f"{smallest_difference(deviation, int(number)):.1f}" for number in seeds)
                print(f"| {record.label}: {verdict.claim.text} | {unit} | {deviation:.1f} | {differences} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
