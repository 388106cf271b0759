"""What a record shows, in sentences: none is written by hand, each is computed from the raw scores.

A paper's claims are judged; where it has none, every row is held against the baselines.
"""

from typing import NamedTuple

from helpers.results import comparisons, tables
from helpers.results.intervals import Comparison
from helpers.results.records import Claim, Record

HOLDS, FAILS, OPEN = "holds", "does not hold", "is not decided"
SEEDS = 3  # fewer runs show nothing that another seed may not undo


class Judgement(NamedTuple):
    """A claim's outcome (``HOLDS``, ``FAILS`` or ``OPEN``), the difference it rests on, and both in a sentence."""

    outcome: str
    comparison: Comparison
    sentence: str


def verdict(record: Record) -> list[str]:
    """What a record shows: sizes of a profile, nearest domains of a matrix, or whether the paper's claims hold, or else
    every row against every baseline in the first metric, on average where that means something."""
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
    sentences = [judge(record, claim).sentence for claim in record.claims]
    if not sentences and record.baselines:
        record = comparisons.by_metric(record)[0]
        for baseline in (row for row in record.baselines if row in comparisons.rows(record)):
            table = comparisons.differences(record, baseline)
            for column in table.columns[-1:] if record.average else table.columns:
                sentences += [_against(record, baseline, column, *cell) for cell in table[column].dropna().items()]
    if (record.claims or record.baselines) and (number := len(comparisons.seeds(record))) < SEEDS:
        sentences.append(f"{number} seed{'s' if number > 1 else ''}: fewer than the {SEEDS} that a claim needs.")
    return sentences


def judge(record: Record, claim: Claim) -> Judgement:
    """A claim holds where the whole interval of the difference lies above zero, fails where it lies below, and is
    not decided otherwise, or where one of its rows has fewer than ``SEEDS`` seeds. Raises ValueError where its rows do
    not compare."""
    record = comparisons.by_metric(record)[0]
    columns = claim.columns or comparisons.columns(record)
    if claim.than:
        found = comparisons.excess(record, claim, columns)
    else:
        found = comparisons.compare(record, claim.above, claim.below, columns)
    if found is None:
        raise ValueError(f"{record.artefact}: {claim.text!r} needs the same seeds and as many columns on both sides")
    fewest = min(len(comparisons.seeds(record, row)) for row in (claim.above, claim.below, *claim.than))
    is_open = fewest < SEEDS or found.low is None or found.low <= 0 <= found.high
    if claim.than and claim.times != 1 and not is_open:  # a share of a gain, so there has to be one
        gain = comparisons.compare(record, *claim.than, claim.than_columns or columns)
        is_open = gain is None or not gain.is_gain
    outcome = OPEN if is_open else HOLDS if found.is_gain else FAILS

    digits = tables.decimals(record)
    evidence = f"{found.over}, so without an interval" if found.low is None else tables.evidence(found, "P", digits)
    text = f"{tables.signed(found.difference, digits)} {record.unit} ({evidence})"
    printed = comparisons.paper_difference(record, claim.above, claim.below, claim.columns)
    if claim.than and printed is not None:
        gain = comparisons.paper_difference(record, *claim.than, claim.than_columns or claim.columns)
        printed = None if gain is None else printed - claim.times * gain
    text += "" if printed is None else f"; in the paper {tables.signed(printed, 2)}"
    return Judgement(outcome, found, f"{claim.text}: {outcome}. Difference {text}.")


def _against(record: Record, baseline: str, column: str, row: str, comparison: Comparison) -> str:
    digits = tables.decimals(record)
    size = f"{abs(comparison.difference):.{digits}f}"
    if float(size) == 0:
        place = "level with"
    else:
        place = f"{size} {record.unit} {'above' if comparison.difference > 0 else 'below'}"
    text = f"{row} is {place} {baseline} {'on average' if column == comparisons.AVERAGE else f'on {column}'}"
    if comparison.low is None:
        text += " (one run each, so without an interval)"
    else:
        text += f" ({tables.evidence(comparison, f'P({row} > {baseline})', digits)})"
        if comparison.low <= 0 <= comparison.high:
            text += "; the interval includes zero, so this does not tell them apart"
    printed = comparisons.paper_difference(record, row, baseline, [] if record.average else [column])
    return f"{text}." + ("" if printed is None else f" In the paper the difference is {tables.signed(printed, 2)}.")
