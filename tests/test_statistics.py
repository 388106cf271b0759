"""Means, intervals and tests whose answers can be worked out by hand."""

import numpy as np
import pytest
from conftest import benchmark

from helpers.results.intervals import compare, describe, estimate, share

T4 = 2.776445  # the t quantile of a 95 % interval with 4 degrees of freedom


def test_mean():
    assert estimate([np.array([[1], [2], [6]])]).mean == 3
    with pytest.raises(ValueError, match="one or more matrices"):
        estimate([])


def test_interval_over_seeds_is_students():
    found = estimate([np.array([[1], [2], [3], [4], [5]])])
    # A standard deviation of √2.5, so an error of √0.5.
    assert (found.mean, found.freedom, found.over) == (3, 4, "5 seeds") and found.error == pytest.approx(0.5**0.5)
    assert found.high - 3 == pytest.approx(T4 * 0.5**0.5, abs=1e-5) and 3 - found.low == pytest.approx(found.high - 3)
    assert found.bounds(0.9)[1] - 3 == pytest.approx(2.131847 * 0.5**0.5, abs=1e-5)
    assert found.detectable == pytest.approx((T4 + 0.940965) * 0.5**0.5, abs=1e-5)
    same = estimate([np.array([[7], [7], [7]])])
    assert (same.low, same.high, same.above(), same.above(7), same.above(8)) == (7, 7, 1.0, 0.5, 0.0)


def test_seeds_and_examples_vary():
    only_seeds_differ = np.array([[0, 0], [100, 100]])
    for matrix in (only_seeds_differ, only_seeds_differ.T):
        found = estimate([matrix])
        # Two numbers 100 apart: a variance of 5000, half of it that of their mean; one degree of freedom.
        assert (found.mean, found.error, found.freedom) == (50, 50, 1) and found.over == "2 seeds and 2 examples"
    both = estimate([np.array([[0, 100], [100, 200]])])
    assert both.error == pytest.approx(5000**0.5) and both.freedom == pytest.approx(2)  # two such variances


def test_what_one_seed_and_one_example_do_beyond_both_counts_once():
    # Seeds' means 20 and 100, examples' 30 and 90, and 10 more or less in each cell: variances of 1600, 900 and 100.
    found = estimate([np.array([[0, 40], [60, 140]])])
    assert found.error == pytest.approx((1600 + 900 - 100) ** 0.5)
    assert found.freedom == pytest.approx(2400**2 / (1600**2 + 900**2 + 100**2))


def test_a_variance_is_no_less_than_that_by_seeds_or_by_examples():
    # Seeds' means alike, examples' 80 apart, and 30 more or less in each cell: variances of 0, 1600 and 900.
    found = estimate([np.array([[10, 30], [-50, 90]]), np.array([[0, 0], [0, 0]])])
    assert (found.error, found.freedom) == (pytest.approx((1600 / 4) ** 0.5), 1)


def test_interval_over_examples_agrees_with_the_normal_one():
    found = estimate([np.array([[0.0, 100.0] * 200])])
    # The standard error of 400 such examples is 50 / 20 = 2.5.
    assert found.high - found.low == pytest.approx(2 * 1.96 * 2.5, rel=0.01)
    assert found.over == "400 examples, one seed"


def test_examples_vary_in_each_column_by_itself():
    column = np.array([[0, 100]])
    assert estimate([column]).error == 50
    assert estimate([column, column]).error == pytest.approx(50 / 2**0.5) and estimate([column, column]).freedom == 2


def test_seeds_vary_in_all_columns_together():
    column = np.array([[0], [100]])
    assert estimate([column, column]) == estimate([column])


def test_columns_of_different_size_weigh_the_same():
    assert estimate([np.array([[0, 0, 0]]), np.array([[60]])]).mean == 30


def test_a_single_number_has_no_interval():
    found = estimate([np.array([[61.2]])])
    assert (found.mean, found.low, found.high, found.above(), found.over) == (61.2, None, None, None, "one run")
    assert compare([np.array([[61.2]])], [np.array([[60.2]])]).error is None


def test_a_comparison_is_paired_over_seeds_and_examples():
    theirs = np.random.default_rng(0).uniform(0, 99, size=(3, 50))
    found = compare([theirs + 1], [theirs])
    assert (found.mean, found.low, found.high, found.above()) == (1, 1, 1, 1.0)
    assert compare([theirs], [theirs + 1]).above() == 0 and compare([theirs], [theirs]).above() == 0.5


def test_probability_is_that_of_a_one_sided_t_test():
    # 2, 0, 1, 4 and -2: a mean of 1 with an error of 1. P(t < 1) is 0.813 with 4 degrees of freedom.
    found = compare([np.array([[2], [0], [1], [4], [-2]])], [np.zeros((5, 1))])
    assert found.error == 1 and found.above() == pytest.approx(0.813, abs=5e-4) and found.above(1) == 0.5


def test_a_share_has_fiellers_interval():
    part, whole = np.array([[9], [9], [11], [10], [11]]), np.array([[8], [10], [12], [10], [10]])
    middle, low, high = share([part], [whole])
    assert middle == 1
    # Fieller: (10 - 10 s)² = t² (0.2 - 2 · 0.2 s + 0.4 s²), with variances of the means 0.2, 0.4 and covariance 0.2.
    t2 = T4**2
    roots = np.roots([100 - 0.4 * t2, -200 + 0.4 * t2, 100 - 0.2 * t2])
    assert [low, high] == pytest.approx(sorted(roots), abs=1e-5) and low < 1 < high
    assert share([whole], [whole]) == (1, 1, 1)
    assert share([part], [whole - 10]) is None  # no gain
    assert share([part[:1]], [whole[:1]]) is None


def test_only_the_same_seeds_and_examples_are_paired():
    with pytest.raises(ValueError, match=r"\[\(1, 2\)\] and \[\(1, 3\)\]"):
        compare([np.zeros((1, 2))], [np.zeros((1, 3))])
    with pytest.raises(ValueError, match="same seeds"):
        estimate([np.zeros((1, 2)), np.zeros((2, 2))])
    with pytest.raises(ValueError, match="none of them empty"):
        estimate([np.zeros((1, 0))])


def test_what_a_mean_varies_over_in_words():
    assert describe([np.zeros((3, 1))]) == "3 seeds"
    assert describe([np.zeros((3, 700)), np.zeros((3, 800))]) == "3 seeds and 1,500 examples"


@pytest.mark.parametrize("own", [True, False])
def test_intervals_err_as_often_as_they_say(own):
    """Of 400 tables; docs/statistics.md has the result of more."""
    t, bootstrap = benchmark("decisions").wrong("difference", 5, own, 400)
    assert 3 <= t <= 7.5 and bootstrap > t
