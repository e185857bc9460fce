"""The statistical test itself: what it must accept, reject, and refuse to judge."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay.testing.chi_square import (
    SIGNIFICANCE,
    LawRejected,
    TooLittleData,
    check_counts,
    check_draws,
)

LAW = np.array([0.5, 0.25, 0.125, 0.125])


def test_accepts_exact_counts():
    assert check_counts((LAW * 8000).astype(int), LAW) == 1.0


def test_agrees_with_scipy_where_nothing_is_pooled():
    from scipy.stats import chisquare

    counts = np.array([4050, 1990, 960, 1000])
    assert check_counts(counts, LAW) == pytest.approx(chisquare(counts, LAW * 8000).pvalue)


def test_rejects_counts_of_another_law():
    with pytest.raises(LawRejected, match="cell"):
        check_counts(np.array([2000, 2000, 2000, 2000]), LAW)


def test_refuses_to_pass_without_data():
    with pytest.raises(TooLittleData):
        check_counts(np.zeros(4, dtype=int), LAW)
    with pytest.raises(TooLittleData):
        check_draws(np.array([], dtype=np.int64), LAW)


def test_refuses_data_that_could_not_reject_anything():
    with pytest.raises(TooLittleData):
        check_counts(np.array([1, 1, 0, 0]), LAW)


def test_rejects_a_single_draw_of_probability_zero():
    law = np.array([0.5, 0.5, 0.0])
    assert check_counts(np.array([5000, 5000, 0]), law) == 1.0
    with pytest.raises(LawRejected, match="probability 0"):
        check_counts(np.array([5000, 4999, 1]), law)


def test_a_law_without_choice():
    assert check_counts(np.array([0, 7]), np.array([0.0, 1.0])) == 1.0
    with pytest.raises(LawRejected):
        check_counts(np.array([1, 7]), np.array([0.0, 1.0]))


def test_rejects_draws_outside_the_cells():
    with pytest.raises(LawRejected):
        check_draws(np.array([0, 1, 4]), LAW)
    with pytest.raises(LawRejected):
        check_draws(np.array([0, 1, -1]), LAW)


def test_refuses_what_is_no_law():
    with pytest.raises(AssertionError):
        check_counts(np.array([1, 1, 1, 1]), LAW * 2)
    with pytest.raises(AssertionError):
        check_counts(np.array([1, 1, 1]), LAW)


def test_rare_cells_are_pooled_not_dropped():
    """A hundred cells of expectation 1 each: too rare one by one, plain together."""
    law = np.concatenate([[0.9], np.full(100, 0.001)])
    right = np.concatenate([[900], np.ones(100, dtype=int)])
    wrong = np.concatenate([[1000], np.zeros(100, dtype=int)])
    check_counts(right, law)
    with pytest.raises(LawRejected):
        check_counts(wrong, law)


def test_false_alarms_come_at_the_named_rate():
    """Of many correct samples, few are rejected: the level is a level."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(20))
    rejected = 0
    for _ in range(3000):
        try:
            check_counts(rng.multinomial(500, law), law)
        except LawRejected:
            rejected += 1
    assert rejected <= 5  # expected 3000 * 1e-4 = 0.3; more than 5 has chance 1e-6
    assert SIGNIFICANCE == 1e-4
