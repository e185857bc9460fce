"""Statistics across seeds: short fractions, published intervals, and laws of the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sibling_replay.artefacts import statistics


def test_mean_se():
    assert statistics.mean_se([1, 2, 3, 4, 5]) == (3.0, math.sqrt(2.5 / 5))
    mean, se = statistics.mean_se([7.0])
    assert mean == 7.0 and math.isnan(se)
    with pytest.raises(ValueError):
        statistics.mean_se([])


def test_distance_in_combined_standard_errors():
    assert statistics.distance(10.0, 3.0, 0.0, 4.0) == 2.0
    assert statistics.distance(0.0, 3.0, 10.0, 4.0) == -2.0
    assert statistics.distance(1.974, 0.0005, 1.97, 0.0, rounding=0.005) == 0.0
    assert statistics.distance(11.0, 3.0, 0.0, 4.0, rounding=1.0) == 2.0
    assert statistics.distance(2.0, 0.0, 2.0, 0.0) == 0.0
    assert statistics.distance(1.0, 0.0, 2.0, 0.0) == -math.inf


def test_paired_interval_uses_the_papers_critical_value():
    # t_{9, 1 - 0.05 / 96}: published diff 21.36 +- 5.71 in FrozenLake has interval [-5.75, 48.48]
    difference = np.arange(10.0)
    mean, low, high = statistics.paired_interval(difference, 48)
    se = statistics.mean_se(difference)[1]
    assert mean == 4.5
    assert (high - mean) / se == pytest.approx((48.48 - 21.36) / 5.71, rel=2e-3)
    assert mean - low == pytest.approx(high - mean)


def test_a_single_comparison_is_the_plain_paired_t_interval():
    difference = np.random.default_rng(0).normal(size=5)
    found = statistics.paired_interval(difference)
    expected = stats.ttest_1samp(difference, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(expected.low) and found.high == pytest.approx(expected.high)
    # published: Asterix SAMPLE - PER is 16.11 +- 0.78 over 5 seeds with interval [13.93, 18.28]
    assert statistics.critical_value(5) * 0.78 == pytest.approx((18.28 - 13.93) / 2, abs=0.02)
    assert math.isnan(statistics.critical_value(1))


def test_interquartile_mean_cuts_a_quarter_at_each_end():
    assert statistics.interquartile_mean([1000, 1, 2, 3, 4, 5, 6, -1000]) == 3.5
    estimate = statistics.iqm([1000, 1, 2, 3, 4, 5, 6, -1000], np.random.default_rng(0))
    assert estimate.value == 3.5 and estimate.low < 3.5 < estimate.high
    constant = statistics.iqm(np.ones((4, 3)), np.random.default_rng(0))
    assert constant == (1.0, 1.0, 1.0)


def test_probability_of_improvement_counts_ties_half():
    rng = np.random.default_rng(0)
    assert statistics.probability_of_improvement([1, 2], [0, 2], rng).value == 0.625
    assert statistics.probability_of_improvement([5, 6], [1, 2], rng) == (1.0, 1.0, 1.0)
    # averaged over tasks: certain in one, impossible in the other
    two = np.array([[5.0, 0.0], [6.0, 1.0]])
    assert statistics.probability_of_improvement(two, two[:, ::-1], rng).value == 0.5


def test_the_bootstrap_is_stratified_by_task():
    """Tasks that differ a lot, runs that do not: drawing runs within tasks leaves no spread."""
    scores = np.tile([0.0, 10.0, 20.0, 1000.0], (6, 1))
    estimate = statistics.iqm(scores, np.random.default_rng(0))
    assert estimate.low == estimate.value == estimate.high == 15.0


@pytest.mark.long
def test_the_bootstrap_interval_covers_as_often_as_it_says():
    """Of the mean of the middle half of normal scores; 400 data sets, 30 runs each. The share that
    covers 0 is binomial around 0.95 less what percentile intervals lose at n = 30 (about 0.02)."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        estimate = statistics.iqm(rng.normal(size=30), rng)
        covered += estimate.low <= 0.0 <= estimate.high
    assert 0.90 < covered / 400 < 0.98


def test_the_same_generator_gives_the_same_interval():
    scores = np.random.default_rng(2).normal(size=(10, 3))
    first, again = (statistics.iqm(scores, np.random.default_rng(7)) for _ in range(2))
    assert first == again != statistics.iqm(scores, np.random.default_rng(8))


@pytest.mark.parametrize("scores", [[], np.zeros((2, 2, 2)), np.zeros((0, 3))])
def test_scores_must_be_runs_by_tasks(scores):
    with pytest.raises(ValueError, match="runs, tasks"):
        statistics.iqm(scores, np.random.default_rng(0))
    with pytest.raises(ValueError, match="tasks"):
        statistics.probability_of_improvement(
            np.zeros((2, 3)), np.zeros((2, 2)), np.random.default_rng(0)
        )
