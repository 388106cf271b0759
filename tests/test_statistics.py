"""Means, intervals and paired tests whose answers can be worked out by hand."""

import numpy as np
import pytest

from helpers.results import intervals
from helpers.results.intervals import compare, describe, estimate


def test_mean():
    assert estimate([np.array([[1], [2], [6]])]).mean == 3
    with pytest.raises(ValueError, match="one or more matrices"):
        estimate([])


def test_interval_over_seeds():
    def interval(values, **settings):
        found = estimate([np.array(values)[:, None]], **settings)
        return found.low, found.high

    # Two seeds: a resample's mean is 0, 50 or 100, with probability 1/4, 1/2 and 1/4.
    assert interval([0, 100]) == (0, 100)
    assert interval([0, 100], level=0.4) == (50, 50)
    assert interval([7, 7, 7]) == (7, 7)
    assert interval([7]) == (None, None)


def test_interval_over_seeds_and_examples():
    only_seeds_differ = np.array([[0, 0], [100, 100]])
    only_examples_differ = only_seeds_differ.T
    for matrix in (only_seeds_differ, only_examples_differ):
        found = estimate([matrix])
        assert (found.mean, found.low, found.high, found.over) == (50, 0, 100, "2 seeds and 2 examples")
        narrow = estimate([matrix], level=0.4)
        assert (narrow.low, narrow.high) == (50, 50)


def test_interval_over_examples_agrees_with_the_normal_one():
    half_right = np.array([[0.0, 100.0] * 200])
    found = estimate([half_right])
    # The standard error of 400 such examples is 50 / 20 = 2.5.
    assert found.high - found.low == pytest.approx(2 * 1.96 * 2.5, rel=0.1)
    assert found.over == "400 examples, one seed"


def test_average_resamples_examples_of_each_column_by_itself():
    # The mean of two columns is 0 in 1/16 of the resamples and 25 in 1/4: the first decile is 25, in one column 0.
    column = np.array([[0, 100]])
    assert (estimate([column], level=0.8).low, estimate([column], level=0.8).high) == (0, 100)
    assert (estimate([column, column], level=0.8).low, estimate([column, column], level=0.8).high) == (25, 75)


def test_average_resamples_seeds_of_all_columns_together():
    column = np.array([[0], [100]])
    found = estimate([column, column], level=0.8)
    assert (found.low, found.high) == (0, 100)


def test_columns_of_different_size_weigh_the_same():
    assert estimate([np.array([[0, 0, 0]]), np.array([[60]])]).mean == 30


def test_a_single_number_has_no_interval():
    found = estimate([np.array([[61.2]])])
    assert (found.mean, found.low, found.high, found.over) == (61.2, None, None, "one run")
    assert compare([np.array([[61.2]])], [np.array([[60.2]])]).probability is None


def test_comparison_is_paired_over_examples():
    theirs = np.random.default_rng(0).uniform(0, 99, size=(1, 50))
    found = compare([theirs + 1], [theirs])
    assert found.difference == pytest.approx(1)
    assert (found.low, found.high) == pytest.approx((1, 1))
    assert found.probability == 1
    assert compare([theirs], [theirs + 1]).probability == 0
    assert compare([theirs], [theirs]).probability == 0.5


def test_probability_over_examples():
    # Differences 3 and -1: their resampled mean is 3, 1 or -1 with probability 1/4, 1/2 and 1/4.
    found = compare([np.array([[3, 0]])], [np.array([[0, 1]])])
    assert found.difference == 1
    assert found.probability == pytest.approx(0.75, abs=0.03)
    assert found.over == "2 examples, one seed"


def test_probability_resamples_the_seeds_of_both_sides_by_themselves():
    # Paired seeds would give a difference of 0 every time.
    scores = np.array([[0], [100]])
    found = compare([scores], [scores])
    assert (found.low, found.high) == (-100, 100)


def test_only_the_same_examples_are_paired():
    with pytest.raises(ValueError, match=r"\[2\] and \[3\]"):
        compare([np.zeros((1, 2))], [np.zeros((1, 3))])
    with pytest.raises(ValueError, match="same seeds"):
        estimate([np.zeros((1, 2)), np.zeros((2, 2))])
    with pytest.raises(ValueError, match="none of them empty"):
        estimate([np.zeros((1, 0))])


def test_the_same_digits_every_time(monkeypatch):
    matrix = np.random.default_rng(1).uniform(size=(3, 40))
    first = estimate([matrix])
    assert estimate([matrix]) == first
    monkeypatch.setattr(intervals, "SEED", 1)
    assert estimate([matrix]) != first


def test_what_was_resampled_in_words():
    assert describe([np.zeros((3, 1))]) == "3 seeds"
    assert describe([np.zeros((3, 700)), np.zeros((3, 800))]) == "3 seeds and 1,500 examples"
