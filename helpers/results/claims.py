"""What a record shows, in sentences: none is written by hand, each is computed from the raw scores.

A paper's claims are judged, at 5 % a table's primary one, and at 5 % all its others together; so are all controls.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from helpers.results import comparisons, intervals, tables
from helpers.results.intervals import Estimate
from helpers.results.records import Claim, Record

HOLDS, FAILS, OPEN = "holds", "does not hold", "is open"
SENTENCES = {HOLDS: "{}", FAILS: "It does not hold that {}", OPEN: "Open whether {}"}
SEEDS = 5  # fewer runs show nothing that another seed may not undo
RISK = 0.05  # of a wrong decision
PRIMARY, OTHER, CONTROL = FAMILIES = "primary claim", "claim", "control"


class Judgement(NamedTuple):
    """A claim's outcome (``HOLDS``, ``FAILS`` or ``OPEN``), the difference it rests on, that of the paper, where it
    prints one, all in a sentence, and its gist in a shorter one."""

    outcome: str
    estimate: Estimate
    printed: float | None
    sentence: str
    short: str


class Test(NamedTuple):
    """A claim's difference, the p value of the test that could decide it (None: there is none), and what it would
    decide. ``share`` is that of a gain in words."""

    estimate: Estimate
    p: float | None
    decides: str
    share: str = ""


def facts(record: Record) -> list[str]:
    """What a record without claims shows: sizes of a profile, nearest domains of a matrix, answers of a case; of others
    nothing."""
    if record.kind == "profile":
        sizes = {name: counts.get("train", 0) for name, counts in record.payload["sizes"].items()}
        listed = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        return [f"{len(sizes)} domains with {sum(sizes.values()):,} questions to train on: {listed}."]
    if record.kind == "matrix":
        others = [score for score in record.scores if score.method != score.column]
        nearest = {score.method: score for score in sorted(others, key=lambda score: score.value)}
        order = dict.fromkeys(score.method for score in others)
        pairs = [f"{row}: {nearest[row].column} ({nearest[row].value:.2f})" for row in order]
        return [f"Nearest to {', to '.join(pairs)}."]
    if record.kind == "case":
        answers = [f"{name} distillation “{of['answer']}”" for name, of in record.payload["readers"].items()]
        return [f"The reader answers {', '.join(answers)}."]
    return []


def judge(record: Record) -> list[Judgement]:
    """All claims of a record. One holds where its difference is certainly above zero (or certainly within its margin),
    fails where it certainly is not, and is not decided otherwise, or where its rows share fewer than ``SEEDS`` seeds.
    Raises ValueError where rows do not compare."""
    record = comparisons.by_metric(record)[0] if record.claims else record
    tests = [_test(record, claim) for claim in record.claims]
    decided = [test.p if test.estimate.seeds >= SEEDS else None for test in tests]
    families = {word: [n for n, claim in enumerate(record.claims) if _family(claim) == word] for word in FAMILIES}
    # What cannot be tested counts as a claim of the table all the same.
    p_values = [holm([1.0 if decided[n] is None else decided[n] for n in family]) for family in families.values()]
    corrected = dict(zip(chain(*families.values()), chain(*p_values), strict=True))
    made = []
    for number, (claim, test) in enumerate(zip(record.claims, tests, strict=True)):
        p = None if decided[number] is None else corrected[number]
        outcome = OPEN if p is None or p >= RISK else test.decides
        family = _family(claim)
        size = len(families[family])
        says = f", corrected for {size} {family}s" if size > 1 else "" if family == OTHER else f", the {family}"
        printed, paper = _printed(record, claim)
        sentences = _sentences(record, claim, test, outcome, p, says, paper)
        made.append(Judgement(outcome, test.estimate, printed, *sentences))
    return made


def _family(claim: Claim) -> str:
    """Which claims of a record it is corrected together with."""
    return PRIMARY if claim.primary else CONTROL if claim.control else OTHER


def _of_a_share(claim: Claim) -> bool:
    """Whether it says that a share of a gain is kept."""
    return bool(claim.than) and claim.times != 1


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for their number, so that all together err as often as one (Holm 1979)."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=lambda n: p_values[n])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        corrected[number] = largest
    return corrected


def _test(record: Record, claim: Claim) -> Test:
    (ours, theirs), share, is_gain = comparisons.claimed(record, claim), "", True
    estimate = intervals.compare(ours, [claim.times * matrix for matrix in theirs])
    if _of_a_share(claim):  # of a gain, so there has to be one
        known = intervals.share(ours, theirs)
        is_gain, share = known is not None, "" if known is None else f"; a share of {tables.share(known)}"
    if estimate.error is None or not is_gain:
        return Test(estimate, None, OPEN, share)
    return Test(estimate, *_p_value(estimate, claim.within, _nothing(record)), share)


def _nothing(record: Record) -> float:
    """Half of the last digit shown."""
    return 0.5 * 10 ** -tables.decimals(record)


def _p_value(estimate: Estimate, within: float | None, nothing: float) -> tuple[float, str]:
    """The p value of a claim's test, and what that decides: a t test of both sides, or, for a margin, two of one side
    each (both ends have to be within it). Where the opposite is decided more surely, that of the test which does: what
    is certainly within ``nothing``, so that it is printed as 0, is no difference, and a margin may be exceeded."""
    limit = within or nothing
    over, under = estimate.above(limit), 1 - estimate.above(-limit)  # of being no more, no less
    inside = max(over, under)
    if within is None:
        above = estimate.above()
        apart = 2 * min(above, 1 - above)
        return (inside, FAILS) if inside < min(apart, RISK) else (apart, HOLDS if estimate.mean > 0 else FAILS)
    beyond = 2 * min(1 - over, 1 - under)
    return (beyond, FAILS) if beyond < min(inside, RISK) else (inside, HOLDS)


def _printed(record: Record, claim: Claim) -> tuple[float | None, str]:
    """The paper's own difference, where it prints one, and how a sentence ends with it."""
    difference, other = comparisons.paper_difference(record, claim.above, claim.below, claim.columns), 0.0
    if claim.than:
        other = comparisons.paper_difference(record, *claim.than, claim.than_columns or claim.columns)
    if difference is None or other is None:
        return None, ""
    value = difference - claim.times * other
    said = tables.signed(value, tables.printed_decimals(record))
    if _of_a_share(claim) and other > 0:
        said = f"{tables.number(100 * difference / other, 0)} %"
    return value, f"; the paper {said}{claim.printed_for and f' {claim.printed_for}'}"


def _sentences(
    record: Record, claim: Claim, test: Test, outcome: str, p: float | None, says: str, paper: str
) -> tuple[str, str]:
    digits, found, text = tables.decimals(record), test.estimate, SENTENCES[outcome].format(claim.text)
    amount, beside = tables.signed(found.mean, digits), ""
    if _of_a_share(claim):
        amount, beside = tables.number(abs(found.mean), digits), f" {'more' if found.mean > 0 else 'less'} than that"
    said = f"{text}: {amount} {tables.points(record.unit)}{beside}"
    if found.mean == found.error == 0 and not claim.than:
        return (f"{text}: both score the same in every run{paper}.",) * 2
    if found.error is None:
        return f"{said} ({found.over}, so without an interval){test.share}{paper}.", f"{said}{paper}."
    nothing = _nothing(record)
    alike = outcome == FAILS and claim.within is None and -nothing < found.low and found.high < nothing
    evidence = f"{tables.interval(found, digits)}, less than {nothing:g}" if alike else tables.evidence(found, digits)
    if p is not None:
        evidence += f", p {f'= {p:.3f}' if p >= 0.001 else '< 0.001'}{says}"
    bounds = tables.bounds(found, digits)
    if outcome == OPEN and claim.primary and p is not None:
        seen = f"; detectable {tables.number(found.detectable, digits)}"
        evidence, bounds = evidence + seen, bounds + seen
    return f"{said} ({evidence}){test.share}{paper}.", f"{said} ({bounds}){paper}."
