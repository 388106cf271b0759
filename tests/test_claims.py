"""Claims judged on numbers that a person can check: t tests, margins, shares, and several claims of one record."""

import runpy

import pytest

from helpers import paths
from helpers.results import claims, provenance, records
from helpers.results.claims import FAILS, HOLDS, OPEN, holm
from helpers.results.records import Claim

PAIR = {"above": "A", "below": "B"}
A, B = [10, 11, 12, 13, 14], [1, 2, 3, 4, 6]  # apart by 9, 9, 9, 9 and 8


def record(values, *said):
    scores = [
        records.Score(method=method, column=column, seed=seed, value=value)
        for (method, column), seeds in values.items()
        for seed, value in enumerate(seeds)
    ]
    run = provenance.run_info({}, 0.0, provenance.Code("0", False))
    paper = [records.Printed(method="A", column="x", value=3.0), records.Printed(method="B", column="x", value=1.0)]
    kind = {"artefact": "imm/table1", "preset": "smoke", "title": "t", "unit": "F1"}
    return records.Record(**kind, scores=scores, paper=paper, claims=list(said), run=run)


def judged(values, **said):
    (judgement,) = claims.judge(record(values, Claim(text="so", **said)))
    return judgement


def test_a_claim_holds_fails_or_stays_open():
    found = judged({("A", "x"): A, ("B", "x"): B}, **PAIR)
    # A mean of 8.8 with a standard error of 0.2, times 2.776, the t quantile of 4 degrees of freedom.
    assert found.outcome == HOLDS and found.sentence == (
        "so: +8.8 F1 (+8.2 to +9.4 over 5 seeds, P(> 0) > 0.99, p < 0.001); the paper +2."
    )
    other = judged({("A", "x"): A, ("B", "x"): B}, above="B", below="A")
    assert other.outcome == FAILS and other.sentence.startswith("It does not hold that so: −")
    # 2, 0, 1, 4 and -2: a mean of 1 with a standard error of 1, so t = 1 and p = 0.374 by tables.
    close = judged({("A", "x"): [2, 0, 1, 4, -2], ("B", "x"): [0] * 5}, **PAIR)
    assert close.outcome == OPEN and "P(> 0) = 0.81, p = 0.374)" in close.sentence
    assert close.sentence.startswith("Open whether so: ")
    assert close.short == "Open whether so: +1.0 F1 (−1.8 to +3.8); the paper +2."
    # 2.776 + 0.941, the t quantiles of 97.5 and 80 % with 4 degrees of freedom, times the error of 1
    chief = judged({("A", "x"): [2, 0, 1, 4, -2], ("B", "x"): [0] * 5}, **PAIR, primary=True)
    assert chief.short == "Open whether so: +1.0 F1 (−1.8 to +3.8; detectable 3.7); the paper +2."
    assert "p = 0.374, the primary claim; detectable 3.7)" in chief.sentence


def test_no_difference_is_a_difference_that_is_not_there():
    # 0.01, -0.01, 0.01, -0.01 and 0: a mean of 0 with an error of 0.0045, far within half of the last digit, 0.05
    nothing = judged({("A", "x"): [50.01, 49.99, 50.01, 49.99, 50], ("B", "x"): [50] * 5}, **PAIR)
    assert nothing.outcome == FAILS and nothing.sentence.startswith(
        "It does not hold that so: 0.0 F1 (0.0 to 0.0 over 5 seeds, less than 0.05, p < 0.001)"
    )
    equal = judged({("A", "x"): A, ("B", "x"): A}, **PAIR)
    assert equal.outcome == FAILS and equal.short == equal.sentence
    assert equal.short == "It does not hold that so: both score the same in every run; the paper +2."
    small = judged({("A", "x"): [50.1, 49.9, 50.1, 49.9, 50], ("B", "x"): [50] * 5}, **PAIR)  # within 0.12
    assert small.outcome == OPEN and "p = 1.000)" in small.sentence  # of both sides, as it does not lie within 0.05
    sure = judged({("A", "x"): [50.04] * 5, ("B", "x"): [50] * 5}, **PAIR)
    assert sure.outcome == HOLDS  # small, and certainly above


def test_a_verdict_needs_five_seeds_of_both_rows():
    assert judged({("A", "x"): A[:4], ("B", "x"): B[:4]}, **PAIR).outcome == OPEN
    uneven = judged({("A", "x"): A, ("B", "x"): B[:4]}, **PAIR)
    assert uneven.outcome == OPEN and "over 4 seeds" in uneven.sentence and "p = " not in uneven.sentence
    assert "one run, so without an interval" in judged({("A", "x"): [9], ("B", "x"): [1]}, **PAIR).sentence


def test_a_claim_may_be_about_two_differences():
    # A gains exactly 1 more over B on y than on x with every seed, though seeds differ by far more than that.
    values = {
        ("A", "x"): [5, 16, 9, 7, 1],
        ("B", "x"): [4, 5, 9, 0, 3],
        ("A", "y"): [8, 9, 6, 9, 2],
        ("B", "y"): [6, -3, 5, 1, 3],
    }
    more = {**PAIR, "columns": ["y"], "than": ["A", "B"], "than_columns": ["x"]}
    found = judged(values, **more)
    assert found.outcome == HOLDS and (found.estimate.low, found.estimate.high) == (1, 1)
    with pytest.raises(ValueError, match="is about 'C', but no score is of that row"):
        judged(values, **(more | {"above": "C"}))
    with pytest.raises(ValueError, match="needs the same seeds and as many columns on both sides"):
        judged(values, **(more | {"columns": ["x", "y"]}))


def test_a_claim_may_be_about_a_multiple_of_another_difference():
    # A - B is 6, 6, 7, 6 and 6, and B - C 2, 2, 3, 2 and 2: more than twice by 2, 2, 1, 2 and 2, a mean of 1.8.
    values = {("A", "x"): [10, 10, 12, 10, 10], ("B", "x"): [4, 4, 5, 4, 4], ("C", "x"): [2] * 5}
    found = judged(values, **PAIR, than=["B", "C"], times=2.0)
    assert found.outcome == HOLDS and found.estimate.mean == 1.8
    assert judged(values, **PAIR, than=["B", "C"], times=4.0).estimate.mean == pytest.approx(-2.6)
    # the paper prints A 3 and B 1: 2 of 2, or more by 2 - (1 - 3)
    assert judged(values, **PAIR, than=["A", "B"], times=2.0).sentence.endswith("; the paper 100 %.")
    assert judged(values, **PAIR, than=["B", "A"]).sentence.endswith("; the paper +4.")
    assert judged(values, **PAIR, than=["B", "A"], times=2.0).sentence.endswith("; the paper +6.")  # no gain to share
    assert judged(values, **PAIR, printed_for="after 3 rounds").sentence.endswith("; the paper +2 after 3 rounds.")


def test_a_share_of_a_gain_comes_with_its_interval_where_there_is_a_gain():
    said = {"above": "student", "below": "one", "than": ["E", "one"], "times": 0.8}
    # The ensemble loses 5 and the student 2, which is more than 80 % of the former: nothing is kept.
    values = {("one", "x"): [70] * 5, ("E", "x"): [65] * 5, ("student", "x"): [68] * 5}
    assert judged(values, **said).outcome == OPEN and "share" not in judged(values, **said).sentence
    gains = values | {("E", "x"): [78, 80, 82, 80, 80], ("student", "x"): [79, 79, 81, 80, 81]}
    found = judged(gains, **said)
    # Gains of 9, 9, 11, 10 and 11 out of 8, 10, 12, 10 and 10; tests/test_statistics.py works the interval out.
    assert found.outcome == HOLDS and found.sentence.endswith("); a share of 100 % (89 to 114).")


def test_a_margin_has_to_hold_the_whole_interval_and_can_fail():
    def within(gaps, margin):
        return judged({("A", "x"): gaps, ("B", "x"): [0] * 5}, **PAIR, within=margin)

    gaps = [-1, 0, 0, 0, 1]  # a standard error of 0.316; its 90 % interval is 2.132 times that, 0.674
    assert within(gaps, 0.68).outcome == HOLDS and within(gaps, 0.67).outcome == OPEN
    far = [4, 5, 5, 5, 6]
    assert within(far, 1.0).outcome == FAILS and within([-gap for gap in far], 1.0).outcome == FAILS
    assert within(far, 5.2).outcome == OPEN


def test_p_values_are_corrected_for_their_number():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # Holm 1979: x 3, x 2 and no less than before
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []


def test_the_primary_claim_is_judged_by_itself_and_the_others_together():
    # Each row is above C by 2, 0, 1, 4, 1: a mean of 1.6 with an error of 0.678, so t = 2.36 and p = 0.078;
    # or, one higher, 2.6: t = 3.83 and p = 0.019, which is enough for one claim, and not for three.
    values = {(row, "x"): [3, 1, 2, 5, 2] for row in "ABDE"} | {("C", "x"): [0] * 5}
    said = [Claim(text=f"{row} beats C", above=row, below="C", primary=row == "A") for row in "ABDE"]
    primary, *others = claims.judge(record(values, *said))
    assert primary.outcome == HOLDS and "p = 0.019, the primary claim)" in primary.sentence
    assert {judgement.outcome for judgement in others} == {OPEN}
    assert all("p = 0.056, corrected for 3 claims)" in judgement.sentence for judgement in others)
    controls = [claim.model_copy(update={"control": claim.above in "DE"}) for claim in said]
    _, other, *ours = claims.judge(record(values, *controls))
    assert other.outcome == HOLDS and "p = 0.019)" in other.sentence
    assert all("p = 0.037, corrected for 2 controls)" in judgement.sentence for judgement in ours)
    _, other = claims.judge(record(values, *said[:2]))
    assert other.outcome == HOLDS and "p = 0.019)" in other.sentence
    _, other = claims.judge(record(values, said[0], controls[2]))
    assert "p = 0.019, the control)" in other.sentence
    for headlines in ([said[0], said[0]], [said[0].model_copy(update={"control": True})]):
        with pytest.raises(ValueError, match="claims has several primary ones, or one of ours"):
            record(values, *headlines)


def test_a_claim_that_cannot_be_tested_counts_among_the_others():
    values = {(row, "x"): [3, 1, 2, 5, 2] for row in "AB"} | {("C", "x"): [0] * 5}
    said = [
        Claim(text="A", above="A", below="C"),
        Claim(text="share", above="B", below="C", than=["C", "A"], times=0.8),
    ]
    first, share = claims.judge(record(values, *said))  # C gains nothing over A, so there is no share of it
    assert "p = 0.037, corrected for 2 claims)" in first.sentence and first.outcome == HOLDS
    assert share.outcome == OPEN and "p = " not in share.sentence


def test_a_claim_on_a_record_of_several_metrics_is_about_the_first():
    claim = Claim(text="A beats B", **PAIR)
    f1 = record({("A", "x"): A, ("B", "x"): B}, claim)
    em = record({("A", "x"): B, ("B", "x"): [60] * 5, ("A", "y"): [0] * 5, ("B", "y"): [9] * 5}, claim)

    def of(metric, rows):
        return [row.model_copy(update={"metric": metric}) for row in rows]

    # the paper: 3 - 1 in F1, as above, and 7 - 9 in EM
    printed = [records.Printed(method=m, column="x", value=v, metric="EM") for m, v in (("A", 7.0), ("B", 9.0))]
    scores, paper = of("F1", f1.scores) + of("EM", em.scores), printed + of("F1", f1.paper)
    both = f1.model_copy(update={"scores": scores, "paper": paper})
    (found,) = claims.judge(both)
    # column y, which has no F1, is left alone
    assert found.outcome == HOLDS and found.estimate.mean == 8.8
    assert found.sentence.startswith("A beats B: +8.8 F1 (")
    assert found.sentence.endswith("; the paper +2.")
    (other,) = claims.judge(
        both.model_copy(update={"scores": scores[::-1], "claims": [Claim(text="A beats B", **PAIR, columns=["x"])]})
    )
    assert other.outcome == FAILS and "−56.8 EM" in other.sentence and "the paper −2" in other.sentence
    than = Claim(text="more", **PAIR, than=["B", "A"], than_columns=["x"])
    (more,) = claims.judge(both.model_copy(update={"claims": [than]}))
    assert more.estimate.mean == 17.6  # 8.8 - (-8.8), of F1 alone


def test_the_power_table_has_what_scatters_by_nothing_and_nothing_of_one_seed():
    scatter = runpy.run_path(str(paths.ROOT / "benchmarks/power.py"))["scatter"]
    claim = Claim(text="so", **PAIR)
    # Differences of 9, 9, 9, 9 and 8: a variance of 0.2.
    assert scatter(record({("A", "x"): A, ("B", "x"): B}), claim) == pytest.approx(0.2**0.5)
    assert scatter(record({("A", "x"): A, ("B", "x"): A}), claim) == 0.0
    assert scatter(record({("A", "x"): [1], ("B", "x"): [2]}), claim) is None
