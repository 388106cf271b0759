"""Means, differences and claims with t intervals over seeds.

Functions read one metric of a record (``Record.by_metric``). A row is a method, or a method at a position of a curve.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from helpers.records import Cell, Claim, Record

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
NO_NUMBER = "no number in the paper"
SUPPORTED_SMALLER = "supported, smaller than reported"
SMALLER = "not supported, smaller than reported"
LESS_THAN_HALF = "not supported, less than half of what is reported"
FAILED = "against a baseline that failed"
UNTESTED, OUTDATED = "not tested", "outdated"
AVERAGE = "AVE."
VERDICT_SEEDS = 5  # fewer seeds decide nothing
INTERVAL_SEEDS = 3  # fewer seeds have no interval
ALPHA, POWER = 0.05, 0.8  # of a wrong verdict; of finding the paper's difference
SAMPLES = 2000  # of passages, for an interval
ROUNDING = 1e-5  # of a difference of means of stored scores, which have six decimals
Term = tuple[float, str, Sequence[str]]  # weight, row, and the columns that the row is averaged over


class Estimate(NamedTuple):
    """A mean over seeds with its 95 % interval, which is nan where there is none."""

    values: tuple[float, ...]  # one per seed
    mean: float
    low: float
    high: float
    over: str  # what the interval is over, such as "10 seeds"; empty where there is none

    @property
    def half(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


class Verdict(NamedTuple):
    """The outcome of a claim's test."""

    claim: Claim
    outcome: str
    estimate: Estimate  # of the difference in the record, or of the share in percent
    p: float | None  # of the test against 0, corrected; None where nothing could be tested
    p_size: float | None  # the same of the test against the paper's difference or half of it, where that decided
    printed: float | None  # the paper's own difference or share; None where it prints no number
    is_repeated: bool  # whether another claim of the paper, which counts, is about the same difference


class TestOutcome(NamedTuple):
    """The outcome of a claim's tests by themselves."""

    record: Record
    claim: Claim
    estimate: Estimate
    printed: float | None  # the paper's own difference, or its share in percent
    p: float  # of the test that decides between supported and refuted
    decision: str
    p_smaller: float | None = None  # of that against the paper's difference; None where there is none to compare with
    p_half: float | None = None  # of that against half of it


def estimate(record: Record, terms: Sequence[Term]) -> Estimate | None:
    """Estimate a weighted sum of row averages over the seeds that have all of them; None where there is no such seed.

    Methods share data and order in a seed, so a difference is computed per seed.
    """
    scores: dict[int, dict[tuple[str, str], float]] = {seed: {} for seed in record.seeds}
    for score in record.scores:
        scores[score.seed][score.row, score.column] = score.value
    values = [value for of_seed in scores.values() if (value := add_up(terms, of_seed)) is not None]
    if not values:
        return None
    mean, half, over = np.mean(values), np.nan, ""
    if len(values) >= INTERVAL_SEEDS:
        half, over = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values), f"{len(values)} seeds"
    return Estimate(tuple(values), float(mean), float(mean - half), float(mean + half), over)


def add_up(terms: Sequence[Term], values: Mapping[tuple[str, str], float]) -> float | None:
    """Return the weighted sum of row averages of values by row and column; None where one is missing."""
    if any((row, column) not in values for _, row, columns in terms for column in columns):
        return None
    return float(sum(weight * np.mean([values[row, column] for column in columns]) for weight, row, columns in terms))


def terms_of(claim: Claim, columns: Sequence[str], times: float = 1.0) -> list[Term]:
    """Return the terms of a claim's difference beyond ``times`` that of ``than``.

    ``columns`` stand for those that the claim does not name.
    """
    columns = claim.columns or columns
    terms = [(1.0, claim.above, columns), (-1.0, claim.below, columns)]
    for weight, row in zip((-times, times), claim.than, strict=False):
        terms.append((weight, row, claim.than_columns or columns))
    return terms


def estimate_claim(record: Record, claim: Claim) -> Estimate | None:
    """Estimate the difference or the share that a claim is about; None where its rows have no seed in common."""
    if not claim.share:
        return estimate(record, terms_of(claim, record.columns))
    gain, beyond = (estimate(record, terms_of(claim, record.columns, times)) for times in (0.0, 1.0))
    return gain and estimate_share(np.array(gain.values), np.subtract(gain.values, beyond.values))


def estimate_share(parts: np.ndarray, wholes: np.ndarray) -> Estimate:
    """Estimate the mean part as a percentage of the mean whole, with Fieller's interval (1954).

    Both have a value per seed. There is no interval where the whole is not certainly above 0.
    """
    number, part, whole = len(parts), parts.mean(), wholes.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        values, share, low, high, over = 100 * parts / wholes, 100 * part / whole, np.nan, np.nan, ""
    if number >= INTERVAL_SEEDS:
        (of_part, of_both), (_, of_whole) = stats.t.ppf(0.975, number - 1) ** 2 * np.cov(parts, wholes) / number
        if whole > 0 and (scale := whole**2 - of_whole) > 0:
            middle = (part * whole - of_both) / scale
            half = np.sqrt(middle**2 - (part**2 - of_part) / scale)
            low, high, over = 100 * (middle - half), 100 * (middle + half), f"{number} seeds"
    return Estimate(tuple(values.tolist()), float(share), float(low), float(high), over)


def count_needed(verdict: Verdict) -> int:
    """Count the seeds with which a paired t test finds the paper's difference with a probability of `POWER`.

    The spread is that of our seeds, and the t distribution is taken as normal. 0 where the paper prints no difference
    to compare with, or where our seeds suffice.
    """
    values, printed = verdict.estimate.values, verdict.printed or 0.0
    if printed <= 0 or verdict.claim.share or verdict.claim.printed_for or len(values) < INTERVAL_SEEDS:
        return 0
    quantiles = stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)
    number = int(np.ceil((quantiles * np.std(values, ddof=1) / printed) ** 2))
    return number if number > len(values) else 0


def passage_interval(differences: Sequence[np.ndarray], passages: Sequence[Sequence]) -> tuple[float, float]:
    """Compute the 95 % bootstrap interval, over passages, of a difference on fixed test questions.

    It is a sum over columns of means over questions. ``differences`` has an array per column, a value per question with
    seeds averaged, and ``passages`` names each question's passage. Columns may share passages: each sample draws them
    once for all. nan where there is one passage alone.
    """
    _, joined = np.unique(np.concatenate(passages), return_inverse=True)
    numbers = np.split(joined, np.cumsum([len(names) for names in passages])[:-1])
    if not (most := joined.max(initial=0)):
        return np.nan, np.nan
    drawn = np.random.default_rng(0).multinomial(most + 1, np.full(most + 1, 1 / (most + 1)), SAMPLES)
    means = np.zeros(SAMPLES)
    with np.errstate(invalid="ignore"):  # a sample may lack all passages of a column
        for values, of_column in zip(differences, numbers, strict=True):
            totals, sizes = np.bincount(of_column, values, most + 1), np.bincount(of_column, minlength=most + 1)
            means += drawn @ totals / (drawn @ sizes)
    low, high = np.nanpercentile(means, [2.5, 97.5])
    return float(low), float(high)


def interval_over_passages(
    claim: Claim, by_cell: Mapping[Cell, np.ndarray], passages: Mapping[str, Sequence]
) -> tuple[float, float] | None:
    """Compute the `passage_interval` of a claim's difference; None where there is none, as for a share.

    ``by_cell`` has the score of every question by row, column and seed, ``passages`` their passages by column.
    """
    weights: dict[str, dict[str, float]] = {}
    for weight, row, columns in terms_of(claim, list(passages)):
        for column in columns:
            of_column = weights.setdefault(column, {})
            of_column[row] = of_column.get(row, 0.0) + weight / len(columns)
    rows = {row for of_column in weights.values() for row in of_column}
    seeds = set.intersection(*({seed for row, _, seed in by_cell if row == one} for one in rows))
    cells = [(row, column, seed) for column in weights for row in weights[column] for seed in seeds]
    if claim.share or not seeds or any(cell not in by_cell for cell in cells):
        return None
    differences = [
        np.mean([sum(w * by_cell[row, column, seed] for row, w in weights[column].items()) for seed in seeds], axis=0)
        for column in weights
    ]
    interval = passage_interval(differences, [passages[column] for column in weights])
    return None if np.isnan(interval).any() else interval


def judge(record: Record, stored: Iterable[Record] = ()) -> list[Verdict]:
    """Test all claims of a record at 5 %, together with its paper's other records that are ``stored``.

    Raises ValueError where the rows of a claim share no seed.
    """
    others = [other for other in stored if other.paper_key == record.paper_key and other.artefact != record.artefact]
    return judge_all([record, *others])[0]


def judge_all(paper: Sequence[Record]) -> list[list[Verdict]]:
    """Test the claims of a paper's records by families: all headlines, a table's other claims, and its controls.

    A difference that several claims are about is tested once, in the family of the first (`find_first`). All of them
    get that p value. Holm's correction is within each family, apart for the tests against 0, against the paper's
    difference and against half of it. A claim whose baseline `has_failed` is not supported. Claims that
    `name_obstacle` names are in no family. Raises ValueError where a claim's rows share no seed.
    """
    outcomes = [[decide(record, claim) for claim in record.claims] for record in paper]
    tested = iter(judge_tested([test for tests in outcomes for test in tests if not name_obstacle(test)]))
    left = iter(leave_untested([test for tests in outcomes for test in tests if name_obstacle(test)]))
    return [[next(left if name_obstacle(test) else tested) for test in tests] for tests in outcomes]


def name_obstacle(test: TestOutcome) -> str:
    """Name what keeps a claim from a test, outdated rows, its scores or a regime that is unfit for it, or ""."""
    claim = test.claim
    if not {claim.above, claim.below, *claim.than}.isdisjoint(test.record.outdated_rows):
        return OUTDATED
    return UNTESTED if claim.untested or (test.record.untested and not claim.control) else ""


def leave_untested(tests: Sequence[TestOutcome]) -> list[Verdict]:
    """Return the estimates of claims without verdicts on them."""
    first = find_first(tests)
    return [
        Verdict(test.claim, name_obstacle(test), test.estimate, None, None, test.printed, first[number] != number)
        for number, test in enumerate(tests)
    ]


def judge_tested(tests: Sequence[TestOutcome]) -> list[Verdict]:
    """Do what `judge_all` does for claims that are all tested."""
    first = find_first(tests)
    # Two tables may print other numbers for one difference of ours.
    like = {number: at if tests[at].printed == tests[number].printed else number for number, at in first.items()}
    corrected = correct(tests, first, "p")
    smaller, half = correct(tests, like, "p_smaller"), correct(tests, like, "p_half")
    verdicts = []
    for number, test in enumerate(tests):
        p = corrected[first[number]]
        outcome, p_size = test.decision if p < ALPHA else UNDECIDED, None
        if smaller.get(like[number], 1.0) < ALPHA and outcome != REFUTED:
            p_size = smaller[like[number]]
            if outcome == SUPPORTED:
                outcome = SUPPORTED_SMALLER
            elif half[like[number]] < ALPHA:
                outcome, p_size = LESS_THAN_HALF, half[like[number]]
            else:
                outcome = SMALLER
        if outcome in (SUPPORTED, SUPPORTED_SMALLER) and has_failed(test.record, test.claim):
            outcome = FAILED
        tested = None if test.decision == UNDECIDED else p
        is_repeated = first[number] != number
        verdicts.append(Verdict(test.claim, outcome, test.estimate, tested, p_size, test.printed, is_repeated))
    return verdicts


def has_failed(record: Record, claim: Claim) -> bool:
    """Return whether a claim's baseline, a taught reader or an ensemble, is certainly below one without a teacher."""
    first = record.by_metric()[0]
    columns = claim.columns or first.columns
    gap = record.untaught and estimate(first, [(1, claim.below, columns), (-1, record.untaught, columns)])
    return bool(gap and gap.high < 0)


def correct(tests: Sequence[TestOutcome], first: Mapping[int, int], name: str) -> dict[int, float]:
    """Correct the p values called ``name`` within each family, by number of the test; repeated ones do not count."""
    families: dict[tuple[str, bool, bool], list[int]] = {}
    for number, test in enumerate(tests):
        if first[number] == number and getattr(test, name) is not None:
            table = "" if test.claim.primary else test.record.artefact
            families.setdefault((table, test.claim.primary, test.claim.control), []).append(number)
    corrected: dict[int, float] = {}
    for numbers in families.values():
        corrected |= zip(numbers, holm([getattr(tests[number], name) for number in numbers]), strict=True)
    return corrected


def find_first(tests: Sequence[TestOutcome]) -> dict[int, int]:
    """Find the first test of each test's difference, which may be the test itself. Returns its number by number.

    Headlines come first, controls last, and claims of one kind in the order of their tables' names.
    """
    kinds = [(not claim.primary, claim.control, record.artefact) for record, claim, *_ in tests]
    first: dict[int, int] = {}
    for number in sorted(range(len(tests)), key=kinds.__getitem__):
        same = [earlier for earlier in first.values() if are_same(tests[earlier], tests[number])]
        first[number] = same[0] if same else number
    return first


def are_same(one: TestOutcome, other: TestOutcome) -> bool:
    """Return whether two tests are of one difference: equal with every seed, to the rounding of stored scores.

    Few seeds may agree by chance. A difference of 0 with every seed is so by design, and tells nothing of another.
    """
    values, others = one.estimate.values, other.estimate.values
    if len(values) < VERDICT_SEEDS or len(values) != len(others) or one.claim.within != other.claim.within:
        return False
    return bool(np.any(values) and np.allclose(values, others, rtol=0, atol=ROUNDING))


def decide(record: Record, claim: Claim) -> TestOutcome:
    """Test a claim by itself.

    A claim that cannot be tested counts in its family all the same, with a p value of 1: where its rows share fewer
    than ``VERDICT_SEEDS`` seeds, or where it is about a share of a gain that is not certain. A share is supported above
    half of the paper's, as anything is a share. Raises ValueError where its rows share no seed.
    """
    first = record.by_metric()[0]
    printed = printed_difference(first, claim)
    if (difference := estimate_claim(first, claim)) is None:
        raise ValueError(f"{record.artefact}: {claim.text!r}: its rows share no seed; score them with the same")
    is_testable = len(difference.values) >= VERDICT_SEEDS and not (claim.share and not difference.over)
    is_compared = bool(printed and printed > 0 and not claim.within and not claim.printed_for)
    if not is_testable:
        return TestOutcome(record, claim, difference, printed, 1.0, UNDECIDED, *[1.0, 1.0] * is_compared)
    if claim.share:
        shares = [(printed or 0) / 100, (printed or 0) / 200]
        beyond = [estimate(first, terms_of(claim, first.columns, share)).values for share in shares]
        below = [p_below(values, 0) for values in beyond] if is_compared else []
        return TestOutcome(record, claim, difference, printed, p_below(np.negative(beyond[1]), 0), SUPPORTED, *below)
    # Where the paper prints a difference, one of ours that is certainly next to none is less than half of it.
    negligible = 0.0 if is_compared else 0.5 * 10 ** -decimals(first)
    p, decision = p_value(difference.values, claim, negligible)
    below = [p_below(difference.values, limit) for limit in (printed, printed / 2)] if is_compared else []
    return TestOutcome(record, claim, difference, printed, p, decision, *below)


def p_below(values: Sequence[float], limit: float) -> float:
    """Return the p value of a two-sided t test against ``limit``; 1 where the mean is not below it."""
    if np.mean(values) >= limit:
        return 1.0
    return 0.0 if np.ptp(values) < 1e-9 else float(stats.ttest_1samp(values, limit).pvalue)


def p_value(values: Sequence[float], claim: Claim, negligible: float) -> tuple[float, str]:
    """Return the p value of the test that decides a claim about differences, and what it decides.

    The test is a two-sided t test, or two one-sided tests for a difference of at most ``within``. A difference that is
    certainly smaller than ``negligible`` counts as none and refutes the claim.
    """
    limit, mean = claim.within or negligible, np.mean(values)
    if np.ptp(values) < 1e-9:  # no variance
        p_differs, p_within, p_outside = float(abs(mean) < 1e-9), float(abs(mean) >= limit), float(abs(mean) <= limit)
    else:
        below = stats.ttest_1samp(values, limit, alternative="less").pvalue
        above = stats.ttest_1samp(values, -limit, alternative="greater").pvalue
        p_differs, p_within = stats.ttest_1samp(values, 0).pvalue, max(below, above)
        p_outside = 2 * min(1 - below, 1 - above)
    if claim.within:
        return (p_outside, REFUTED) if p_outside < min(p_within, ALPHA) else (p_within, SUPPORTED)
    return (p_within, REFUTED) if p_within < min(p_differs, ALPHA) else (p_differs, SUPPORTED if mean > 0 else REFUTED)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values for their number, so that all together err as often as one (Holm 1979)."""
    order, corrected = np.argsort(p_values, kind="stable"), np.empty(len(p_values))
    scaled = np.array(p_values)[order] * np.arange(len(p_values), 0, -1)
    corrected[order] = np.minimum(1, np.maximum.accumulate(scaled))
    return corrected.tolist()


def printed_difference(record: Record, claim: Claim) -> float | None:
    """Return the paper's own difference or share for a claim; None where it does not print all that goes into it."""
    values = {(number.row, number.column): number.value for number in record.paper}
    if claim.printed is not None or not values:
        return claim.printed
    columns = list(dict.fromkeys(column for _, column in values))
    columns = [AVERAGE] if AVERAGE in columns else columns
    gain, beyond = (add_up(terms_of(claim, columns, times), values) for times in (0.0, 1.0))
    if gain is None or not claim.share:
        return beyond and round(beyond, 6)
    return 100 * gain / (gain - beyond)


def decimals(record: Record) -> int:
    """Return how many decimals to show: one for percentages, three for shares, none for counts and thousands."""
    largest = max((abs(score.value) for score in record.scores), default=0)
    return 0 if record.unit == "examples" or largest >= 1000 else 1 if largest > 1 else 3
