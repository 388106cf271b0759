"""Which differences a number of seeds can decide, from the variances that a preset's records have.

    python benchmarks/power.py --preset mini

For the primary claim of each record, or the first where none is: how far its difference scatters from seed to seed,
where every seed draws examples of its own, and the smallest true difference that a t test at 5 % finds in four of five
cases. Records whose seeds share their examples tell both parts of that, what seeds do and what examples do.
"""

import argparse
import math
from collections.abc import Sequence

import numpy as np

from helpers import papers
from helpers.results import comparisons, intervals, records, tables
from helpers.results.claims import judge
from helpers.results.intervals import Estimate
from helpers.results.records import Claim, Record


def scatter(record: Record, claim: Claim) -> float | None:
    """The standard deviation of a claim's difference over seeds that have examples of their own, in the record's unit;
    None with one seed."""
    ours, theirs = comparisons.claimed(comparisons.by_metric(record)[0], claim)
    gaps = [a - claim.times * b for a, b in zip(ours, theirs, strict=True)]
    parts = intervals.variances(gaps)
    by_seeds, by_examples, by_both = (sum(v for v, _ in part) for part in parts)
    return float(np.sqrt(len(gaps[0]) * by_seeds + max(0.0, by_examples - by_both))) if parts[0] else None


def smallest(deviation: float, seeds: int) -> float:
    """The true difference that so many seeds decide with the probability ``intervals.POWER``."""
    return Estimate(0.0, deviation / math.sqrt(seeds), seeds - 1, "", seeds).detectable


def table(preset: str, seeds: Sequence[int] = (5, 10, 20)) -> list[str]:
    """The lines of the table of a preset's records, in Markdown."""
    head = ["table or figure", "claim", "unit", "scatter", *(f"{n} seeds" for n in seeds), "here", "in the paper"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for record in records.read_all(preset, papers.ALL):
        judged = [*zip(record.claims, judge(record), strict=True)]
        for claim, judgement in [both for both in judged if both[0].primary] or judged[:1]:
            if (deviation := scatter(record, claim)) is None:
                continue
            values = [deviation, *(smallest(deviation, n) for n in seeds)]
            found = [tables.number(value, 1) if value >= 0.05 else tables.NONE for value in values]
            paper = tables.NONE if judgement.printed is None else tables.signed(judgement.printed)
            here = tables.signed(judgement.estimate.mean)
            row = [record.label, claim.text, tables.points(record.unit), *found, here, paper]
            lines.append(f"| {' | '.join(row)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 10, 20])
    given = parser.parse_args()
    print(*table(given.preset, given.seeds), sep="\n")


if __name__ == "__main__":
    main()
