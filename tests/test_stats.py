"""Intervals and verdicts on numbers that a person can check by hand, by tables of the t distribution, or by scipy."""

import json
from pathlib import Path

import numpy as np
import pytest
from record_files import record

from helpers import records
from helpers.records import Claim, Printed
from helpers.results import stats
from helpers.results.stats import (
    FAILED,
    LESS_THAN_HALF,
    REFUTED,
    SMALLER,
    SUPPORTED,
    SUPPORTED_SMALLER,
    UNDECIDED,
    UNTESTED,
)

T4 = 2.776445  # the t quantile of a 95 % interval with 4 degrees of freedom
PAIR = {"above": "A", "below": "B"}
GAPS = [3, 1, 2, 5, 2]  # a mean of 2.6 with an error of 0.678: p = 0.0186
A, B = [10, 11, 12, 13, 14], [1, 2, 3, 4, 6]  # apart by 9, 9, 9, 9 and 8
VERDICTS = json.loads((Path(__file__).parent / "golden/verdicts.json").read_text(encoding="utf-8"))


def rows(**values):
    """Scores in column x by row, one per seed."""
    return [(row, "x", seed, value) for row, of_row in values.items() for seed, value in enumerate(of_row)]


def judge(scores, *claims, **more):
    claims = [claim.model_dump() for claim in claims]
    return stats.judge(record("imm/table1", scores, claims=claims, **more))


def verdict(scores, *, paper=(), untaught=None, **parts):
    paper = [number.model_dump() for number in paper]
    (result,) = judge(scores, Claim(text="so", **parts), paper=paper, untaught=untaught)
    return result


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_of_all_records(name):
    preset, artefact = name.split("/", 1)
    stored = records.read_all(preset, artefact.partition("/")[0])
    (result,) = [stats.judge(record, stored) for record in stored if record.artefact == artefact]
    assert [[each.claim.text, each.outcome] for each in result] == VERDICTS[name]


def test_interval_over_seeds_is_students():
    result = stats.estimate(record("imm/table1", rows(A=[1, 2, 3, 4, 5])), [(1, "A", ["x"])])
    # A standard deviation of √2.5, so an error of √0.5.
    assert (result.mean, result.over) == (3, "5 seeds")
    assert [result.low, result.high] == pytest.approx([3 - T4 * 0.5**0.5, 3 + T4 * 0.5**0.5], abs=1e-5)


def test_a_difference_is_paired_and_averaged_by_seed():
    scores = [("A", c, s, 10 * s + v) for c, v in {"x": 3, "y": 5}.items() for s in range(3)]
    scores += [("B", c, s, 10 * s + 1) for c in "xy" for s in range(3)] + [("B", "x", 3, 99)]
    one = record("imm/table1", scores)
    result = stats.estimate(one, [(1, "A", ["x", "y"]), (-1, "B", ["x", "y"])])
    assert (result.values, result.low, result.high, result.over) == ((3, 3, 3), 3, 3, "3 seeds")  # seed 3 has no A
    assert stats.estimate(one, [(1, "A", ["z"])]) is None


def test_fewer_than_three_seeds_have_no_interval():
    for values in ([61.2], [61.2, 63.2]):
        result = stats.estimate(record("imm/table1", rows(A=values)), [(1, "A", ["x"])])
        assert result.values == tuple(values) and result.over == "" and np.isnan([result.low, result.high]).all()


def test_a_claim_is_supported_refuted_or_undecided():
    result = verdict(rows(A=A, B=B), **PAIR)
    # A mean of 8.8 with an error of 0.2.
    assert result.outcome == SUPPORTED and result.estimate.low == pytest.approx(8.8 - T4 * 0.2, abs=1e-5)
    assert verdict(rows(A=A, B=B), above="B", below="A").outcome == REFUTED
    # 2, 0, 1, 4 and -2: a mean of 1 with an error of 1, so t = 1 and p = 0.374 by tables.
    close = verdict(rows(A=[2, 0, 1, 4, -2], B=[0] * 5), **PAIR)
    assert close.outcome == UNDECIDED and close.p == pytest.approx(0.374, abs=5e-4)


def test_a_verdict_needs_five_seeds_of_both_rows():
    assert verdict(rows(A=A[:4], B=B[:4]), **PAIR)[1:2] == (UNDECIDED,)
    uneven = verdict(rows(A=A, B=B[:4]), **PAIR)
    assert (uneven.outcome, uneven.p, uneven.estimate.over) == (UNDECIDED, None, "4 seeds")
    with pytest.raises(ValueError, match="imm/table1: 'so': its rows share no seed"):
        verdict([("A", "x", 0, 1), ("B", "x", 1, 1)], **PAIR)


def test_no_difference_refutes_and_a_sure_small_one_supports():
    # 0.01, -0.01, 0.01, -0.01 and 0: an error of 0.0045, far within half of the last digit, 0.05.
    assert verdict(rows(A=[50.01, 49.99, 50.01, 49.99, 50], B=[50] * 5), **PAIR).outcome == REFUTED
    assert verdict(rows(A=A, B=A), **PAIR).outcome == REFUTED
    assert verdict(rows(A=[50.1, 49.9, 50.1, 49.9, 50], B=[50] * 5), **PAIR).outcome == UNDECIDED
    assert verdict(rows(A=[50.04] * 5, B=[50] * 5), **PAIR).outcome == SUPPORTED


def test_a_difference_is_compared_with_what_the_paper_prints():
    def outcome(gaps, printed, **parts):
        paper = [Printed(method="A", column="x", value=printed), Printed(method="B", column="x", value=0.0)]
        return verdict(rows(A=gaps, B=[0] * 5), **PAIR, paper=paper, **parts).outcome

    # A mean of 2.6 with an error of 0.678: the interval is 0.717 to 4.483.
    assert outcome(GAPS, 4.4) == SUPPORTED and outcome(GAPS, 4.5) == SUPPORTED_SMALLER
    # 2, 0, 1, 4 and -2: a mean of 1 with an error of 1, so up to 3.776.
    small = [2, 0, 1, 4, -2]
    assert outcome(small, 3.7) == UNDECIDED and outcome(small, 3.8) == outcome(small, 7.5) == SMALLER
    assert outcome(small, 7.6) == LESS_THAN_HALF and outcome(small, 7.6, printed_for="after 3 rounds") == UNDECIDED
    assert outcome([0] * 5, 0.1) == LESS_THAN_HALF and outcome([-gap for gap in GAPS], 1.0) == REFUTED
    assert outcome(small, 7.6, within=0.1) == UNDECIDED and outcome(small, -0.5) == UNDECIDED
    assert outcome(small[:4], 100.0) == UNDECIDED


def test_comparisons_with_the_paper_are_a_family_of_their_own():
    # Each row is above C by 2, 0, 1, 4, -2 in some order, and by 5 in the paper: t = -4 and p = 0.016, × 3 = 0.048.
    small = [2, 0, 1, 4, -2]
    scores = rows(**{row: np.roll(small, shift) for shift, row in enumerate("ABDE")}, C=[0] * 5)
    paper = [{"method": row, "column": "x", "value": 5.0 * (row != "C")} for row in "ABCDE"]
    claims = [Claim(text=row, above=row, below="C") for row in "ABDE"]
    assert {each.outcome for each in judge(scores, *claims[:3], paper=paper)} == {SMALLER}
    assert {each.outcome for each in judge(scores, *claims, paper=paper)} == {UNDECIDED}


def test_a_claim_about_two_differences():
    # A gains exactly 1 more over B on y than on x with every seed, though seeds differ by far more than that.
    values = {"x": {"A": [5, 16, 9, 7, 1], "B": [4, 5, 9, 0, 3]}, "y": {"A": [8, 9, 6, 9, 2], "B": [6, -3, 5, 1, 3]}}
    scores = [(m, c, s, v) for c, of in values.items() for m, numbers in of.items() for s, v in enumerate(numbers)]
    result = verdict(scores, **PAIR, columns=["y"], than=["A", "B"], than_columns=["x"])
    assert result.outcome == SUPPORTED and result.estimate.values == (1,) * 5


def test_the_seeds_that_the_papers_difference_needs_are_counted_where_ours_are_fewer():
    # Gaps of 2, 0, 1, 4 and -2 have a standard deviation of 5^0.5. Quantiles: 1.960 + 0.842 = 2.802, squared 7.849.
    gaps = rows(A=[2, 0, 1, 4, -2], B=[0] * 5)

    def needed(printed, **parts):
        return stats.count_needed(verdict(gaps, **PAIR, printed=printed, **parts))

    assert needed(1.0) == 40 and needed(0.5) == 157  # 39.2 and 157.0
    assert needed(2.9) == 0  # 4.7, and we have 5
    assert needed(None) == needed(-1.0) == needed(1.0, printed_for="on Dev") == 0
    assert stats.count_needed(verdict(rows(A=[2, 0], B=[0, 0]), **PAIR, printed=1.0)) == 0  # too few for a spread


SHARE = {"above": "student", "below": "one", "than": ["E", "one"], "share": True}


def test_a_share_has_fiellers_interval_and_is_compared_with_the_papers():
    # Gains of 3, 1, 2, 5 and 2, of 10 each: 26 %, with an interval of 0.717 to 4.483, of 10.
    gains = rows(one=[70] * 5, E=[80] * 5, student=np.add(GAPS, 70))
    result = verdict(gains, **SHARE)
    assert result.estimate[1:] == (
        pytest.approx(26),
        pytest.approx(7.17, abs=0.01),
        pytest.approx(44.83, abs=0.01),
        "5 seeds",
    )

    def outcome(printed, **parts):
        return verdict(gains, **SHARE, printed=printed, **parts).outcome

    # Supported above half of what is reported: 7.17 is.
    assert outcome(14) == SUPPORTED and outcome(15) == outcome(44) == UNDECIDED
    assert outcome(45) == outcome(89) == SMALLER and outcome(90) == LESS_THAN_HALF
    sure = rows(one=[70] * 5, E=[80] * 5, student=[75, 75.1, 74.9, 75, 75])
    assert verdict(sure, **SHARE, printed=80).outcome == SUPPORTED_SMALLER
    paper = [Printed(method=m, column="x", value=v) for m, v in (("one", 60.0), ("E", 64.0), ("student", 63.0))]
    assert verdict(gains, **SHARE, paper=paper).printed == 75


def test_the_ends_of_a_shares_interval_are_what_a_t_test_excludes():
    parts, wholes = np.array(GAPS, float), np.array([8.0, 10, 12, 9, 11])
    for end in stats.estimate_share(parts, wholes)[2:4]:
        beyond = parts - end / 100 * wholes
        assert abs(np.mean(beyond)) / (np.std(beyond, ddof=1) / 5**0.5) == pytest.approx(T4)


def test_a_share_of_a_gain_needs_a_gain():
    # The ensemble loses 5 and the student 2: nothing is kept.
    lost = verdict(rows(one=[70] * 5, E=[65] * 5, student=[68] * 5), **SHARE, printed=20)
    assert lost.outcome == UNDECIDED and lost.p is None and np.isnan(lost.estimate.low)
    unsure = rows(one=[70] * 5, E=np.add([2, 0, 1, 4, -2], 70), student=[71] * 5)  # a gain of 1 with an error of 1
    assert verdict(unsure, **SHARE, printed=900).outcome == UNDECIDED


def test_a_baseline_below_the_untaught_student_has_failed():
    # A is above B by 8.8; U, without a teacher, is above B by 3, 1, 2, 5 and 2, or by 2, 0, 1, 4 and -2.
    certain, unsure = (rows(A=A, B=B, U=np.add(B, gaps)) for gaps in (GAPS, [2, 0, 1, 4, -2]))

    def outcome(scores, **parts):
        (result,) = judge(scores, Claim(text="so", **PAIR), untaught="U", **parts)
        return result.outcome

    assert outcome(certain) == FAILED and outcome(unsure) == SUPPORTED
    paper = [{"method": "A", "column": "x", "value": 50.0}, {"method": "B", "column": "x", "value": 1.0}]
    assert outcome(certain, paper=paper) == FAILED and outcome(unsure, paper=paper) == SUPPORTED_SMALLER
    assert verdict(certain, above="U", below="A", untaught="U").outcome == REFUTED
    assert verdict(certain, above="A", below="U", untaught="U").outcome == SUPPORTED


def test_claims_that_a_regime_cannot_test_have_no_verdict_and_are_in_no_family():
    scores = rows(A=np.add(GAPS, 50), B=[50] * 5)
    claims, reason = [Claim(text="so", **PAIR).model_dump()], "readers learn nothing"
    tested, other = (record(f"imm/table{number}", scores, claims=claims) for number in (1, 2))
    alone, beside = stats.judge(tested), stats.judge(tested, [other.model_copy(update={"untested": reason})])
    assert [each.outcome for each in alone] == [SUPPORTED] and alone == beside
    (left,) = stats.judge(other.model_copy(update={"untested": reason}), [tested])
    assert (left.outcome, left.p, left.is_repeated) == (UNTESTED, None, False)
    both = [each.model_copy(update={"untested": reason}) for each in (tested, other)]
    assert [verdict.is_repeated for verdicts in stats.judge_all(both) for verdict in verdicts] == [False, True]
    assert left.estimate.mean == pytest.approx(alone[0].estimate.mean)


def test_a_margin_has_to_hold_the_whole_interval_and_can_be_refuted():
    def within(gaps, margin):
        return verdict(rows(A=gaps, B=[0] * 5), **PAIR, within=margin).outcome

    gaps = [-1, 0, 0, 0, 1]  # an error of 0.316; the 90 % interval is 2.132 times that, 0.674
    assert within(gaps, 0.68) == SUPPORTED and within(gaps, 0.67) == UNDECIDED
    far = [4, 5, 5, 5, 6]
    assert within(far, 1.0) == within([-gap for gap in far], 1.0) == REFUTED and within(far, 5.2) == UNDECIDED
    assert within([1] * 5, 2.0) == SUPPORTED and within([3] * 5, 2.0) == REFUTED


def test_headline_other_claims_and_controls_are_families():
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # × 3, × 2 and no less than before
    assert stats.holm([0.5, 0.9]) == [1.0, 1.0]
    # Each row is above C by 3, 1, 2, 5, 2 in some order: 2.6 with an error of 0.678, so t = 3.83 and p = 0.019.
    scores = rows(**{row: np.roll(GAPS, shift) for shift, row in enumerate("ABDE")}, C=[0] * 5)
    claims = [Claim(text=row, above=row, below="C", primary=row == "A") for row in "ABDE"]
    headline, *others = judge(scores, *claims)
    assert headline.outcome == SUPPORTED and headline.p == pytest.approx(0.0186, abs=1e-4)
    assert {other.outcome for other in others} == {UNDECIDED}
    assert [other.p for other in others] == pytest.approx([3 * headline.p] * 3)
    controls = [claim.model_copy(update={"control": claim.above in "DE"}) for claim in claims]
    assert [each.p for each in judge(scores, *controls)] == pytest.approx(np.multiply(headline.p, [1, 1, 2, 2]))
    # A claim that cannot be tested counts among the others.
    scores = rows(A=GAPS, B=GAPS[:4], C=[0] * 5)
    tested, untested = judge(scores, *(Claim(text=row, above=row, below="C") for row in "AB"))
    assert untested.p is None and tested.p == pytest.approx(2 * 0.0186, abs=2e-4)


def gaps(table, *values, primary=True, start=0.0):
    """A record whose rows A, B, ... are above Z by some values per seed, which its claims are about; the first is its
    headline where ``primary``. All scores are ``start`` higher."""
    named = dict(zip("ABCD", values, strict=False))
    scores = rows(**{row: np.add(of_row, start) for row, of_row in named.items()}, Z=[start] * len(values[0]))
    claims = [Claim(text=row, above=row, below="Z", primary=primary and row == "A") for row in named]
    return record(f"imm/{table}", scores, claims=[claim.model_dump() for claim in claims])


def test_the_headlines_of_a_paper_are_tested_together():
    one, other, third = gaps("table1", GAPS), gaps("table2", GAPS[::-1]), gaps("table3", np.roll(GAPS, 1))
    others = gaps("table4", np.roll(GAPS, 2), primary=False)
    (alone,), (together,) = stats.judge(one), stats.judge(one, [one, other, third, others])
    assert (alone.outcome, together.outcome) == (SUPPORTED, UNDECIDED) and together.p == pytest.approx(3 * alone.p)
    assert stats.judge(others, [one, other]) == stats.judge(others)


def test_a_difference_that_two_tables_share_is_corrected_for_once():
    # Tables 1 and 2 have one headline, though from other scores; Table 3 has another of the same p value, 0.0186.
    shared, again, other = gaps("table1", GAPS), gaps("table2", GAPS, start=50.0), gaps("table3", GAPS[::-1])
    judged = stats.judge_all([other, again, shared])  # in any order
    assert [verdict.p for (verdict,) in judged] == pytest.approx([2 * 0.0186] * 3, abs=2e-4)
    assert [verdict.is_repeated for (verdict,) in judged] == [False, True, False]
    assert stats.judge(shared, [again, other]) == judged[2] and stats.judge(again, [shared, other]) == judged[1]


def test_a_claim_that_is_another_tables_headline_has_its_verdict():
    headlines = [gaps(f"figure{shift}", np.roll(GAPS, shift)) for shift in (1, 2, 3)]
    table = gaps("table1", np.roll(GAPS, 1), GAPS, primary=False)
    shared, alone = stats.judge(table, headlines)
    assert (shared.p, shared.is_repeated) == (pytest.approx(3 * 0.0186, abs=3e-4), True)  # one of three headlines
    assert (alone.p, alone.is_repeated) == (pytest.approx(0.0186, abs=1e-4), False)  # the table's only other claim


def test_a_difference_that_was_trained_twice_is_two():
    first, second = gaps("table1", GAPS), gaps("table2", np.add(GAPS, [0, 0, 0, 0, 0.001]))
    assert [verdict.is_repeated for (verdict,) in stats.judge_all([first, second])] == [False, False]
    # Scores are stored with six decimals, which is no second training, on either side of any rounding.
    exact, stored = gaps("table1", np.add(GAPS, 0.0005)), gaps("table2", np.add(GAPS, 0.000501))
    assert [verdict.is_repeated for (verdict,) in stats.judge_all([exact, stored])] == [False, True]
    few = [gaps(table, GAPS[:4]) for table in ("table1", "table2")]  # which agree by chance
    assert [verdict.is_repeated for (verdict,) in stats.judge_all(few)] == [False, False]


def test_differences_of_zero_count_each_and_cost_nothing():
    zeros = [gaps(table, [0] * 5) for table in ("table1", "table2")]
    (one,), (two,), (other,) = stats.judge_all([*zeros, gaps("table3", GAPS)])
    assert (one.outcome, one.is_repeated) == (two.outcome, two.is_repeated) == (REFUTED, False)
    assert (one.p, two.p, other.p) == (0, 0, pytest.approx(0.0186, abs=1e-4))


def test_wrong_verdicts_are_as_rare_as_promised():
    random, claim = np.random.default_rng(0), Claim(text="so", **PAIR)
    tests = [stats.p_value(random.normal(0, 1, 5), claim, 1e-9)[0] for _ in range(2000)]
    assert 0.04 < np.mean(np.array(tests) < stats.ALPHA) < 0.06


def test_the_papers_own_difference():
    paper = [Printed(method=m, column=c, value=v) for m, c, v in (("A", "x", 3.0), ("B", "x", 1.0), ("A", "y", 4.0))]
    assert verdict(rows(A=A, B=B), **PAIR, columns=["x"], paper=paper).printed == 2
    assert verdict(rows(A=A, B=B), **PAIR, paper=paper).printed is None  # it prints no B in y
    assert verdict(rows(A=A, B=B), **PAIR, columns=["x"], than=["B", "A"], paper=paper).printed == 4
    assert verdict(rows(A=A, B=B), **PAIR, printed=0.25, paper=paper).printed == 0.25  # the claim's own
    average = [Printed(method=m, column="AVE.", value=v) for m, v in (("A", 9.5), ("B", 7.0))]
    assert verdict(rows(A=A, B=B), **PAIR, paper=[*paper, *average]).printed == 2.5
    assert verdict(rows(A=A, B=B), **PAIR).printed is None


def test_an_interval_over_passages_by_hand():
    # Two passages: a sample has both halves of the time, with a mean of 0.5, and one alone else.
    assert stats.passage_interval([np.array([0.0, 1.0])], [["a", "b"]]) == (0, 1)
    assert stats.passage_interval([np.full(4, 2.5)], [list("abcd")]) == (2.5, 2.5)
    assert np.isnan(stats.passage_interval([np.array([0.0, 1.0])], [["a", "a"]])).all()  # of one passage
    # 400 passages with a standard deviation of 1, so an error of 1/20; four questions of each are no more passages.
    values = np.tile([-1.0, 1.0], 200)
    for repeats in (1, 4):
        ends = stats.passage_interval([np.repeat(values, repeats)], [np.repeat(np.arange(400), repeats)])
        assert ends == pytest.approx((-0.098, 0.098), abs=0.01)
    # Columns that share passages: what they have in common cancels.
    assert stats.passage_interval([values, 3 - values], [range(400), range(400)]) == (3, 3)
    low, high = stats.passage_interval([values, 3 - values], [range(400), range(400, 800)])
    assert (low, high) == pytest.approx((3 - 0.139, 3 + 0.139), abs=0.02)  # √2 times as wide


def test_a_claims_interval_over_passages_averages_its_seeds_and_columns():
    f1 = {("A", "x", 0): [10, 30], ("A", "x", 1): [30, 10], ("B", "x", 0): [0, 0], ("B", "x", 1): [10, 10]}
    f1 |= {(row, "y", seed): [value, value] for row, value in (("A", 50), ("B", 40)) for seed in (0, 1)}
    f1 = {cell: np.array(values, float) for cell, values in f1.items()} | {("C", "x", 0): np.zeros(2)}
    passages = {"x": ["a", "b"], "y": ["c", "d"]}

    def interval(**parts):
        return stats.interval_over_passages(Claim(text="so", **parts), f1, passages)

    assert interval(**PAIR, columns=["x"]) == (15, 15)  # 20 of each question, less 5
    assert interval(**PAIR) == (12.5, 12.5)
    assert interval(**PAIR, columns=["x"], than=["A", "B"], than_columns=["y"]) == (5, 5)
    assert interval(above="A", below="C") is None and interval(**PAIR, than=["A", "B"], share=True) is None


def test_decimals():
    for unit, value, digits in (("F1", 61, 1), ("s", 0.5, 3), ("MB", 1234, 0), ("examples", 5, 0)):
        assert stats.decimals(record("imm/table1", rows(A=[value]), unit=unit)) == digits
