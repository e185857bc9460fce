"""The paper's closed forms against enumeration, minimisation and its printed numbers."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import huber

from sibling_replay.diagnostics import (
    average_variance,
    huber_minimiser,
    prioritized_target_shift,
    take_census,
    target_shift,
)

TARGETS = np.array([0.0, 0.0, 3.0, -7.0, 100.0])


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_variance_of_an_average_by_enumeration(k: int) -> None:
    subsets = [np.mean(chosen) for chosen in combinations(TARGETS, k)]
    assert average_variance(TARGETS, k) == pytest.approx(np.var(subsets), abs=1e-9)
    draws = [np.mean(chosen) for chosen in product(TARGETS, repeat=k)]
    assert average_variance(TARGETS, k, replacement=True) == pytest.approx(np.var(draws))


def test_limits_of_the_variance() -> None:
    assert average_variance(TARGETS, 1) == TARGETS.var()  # SAMPLE
    assert average_variance(TARGETS, TARGETS.size) == 0.0  # the whole group
    assert average_variance([5.0], 1) == 0.0  # a singleton
    values = [average_variance(TARGETS, k) for k in range(1, 6)]
    assert values == sorted(values, reverse=True)
    for k, message in ((0, "average 0 of 5"), (6, "average 6 of 5")):
        with pytest.raises(ValueError, match=message):
            average_variance(TARGETS, k)
    with pytest.raises(ValueError, match="one target per sibling"):
        average_variance([], 1)


def test_huber_fits_one_ninety_ninth_where_the_mean_is_one() -> None:
    assert huber_minimiser([100.0, 0.0], [0.01, 0.99], 1.0) == pytest.approx(1 / 99, rel=1e-12)
    # a threshold above the range is squared loss: the mean
    assert huber_minimiser([100.0, 0.0], [0.01, 0.99], 1e6) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_huber_against_numerical_minimisation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, p = rng.normal(size=7) * 10, rng.dirichlet(np.ones(7))
    threshold = float(rng.exponential() * 5 + 0.1)
    found = minimize_scalar(lambda q: p @ huber(threshold, q - values), bounds=(-50, 50))
    assert huber_minimiser(values, p, threshold) == pytest.approx(found.x, abs=1e-4)


def test_huber_on_a_flat_stretch_takes_its_middle_and_checks_its_input() -> None:
    assert huber_minimiser([0.0, 10.0], [0.5, 0.5], 1.0) == pytest.approx(5.0)
    with pytest.raises(ValueError, match="summing to 1"):
        huber_minimiser([0.0, 1.0], [0.5, 0.6], 1.0)
    with pytest.raises(ValueError, match="threshold"):
        huber_minimiser([0.0], [1.0], 0.0)


def test_the_endless_buffer_is_the_limit_of_finite_ones() -> None:
    targets, p, value, alpha = np.array([2.0, -30.0, 5.0]), np.array([0.7, 0.1, 0.2]), 1.0, 0.6
    counts = (1000 * p).astype(int)
    outcomes = np.repeat([0, 1, 2], counts)
    masses = (np.abs(targets - value) + 1e-6) ** alpha
    census = take_census(np.zeros(1000, int), outcomes, masses[outcomes], 0.0)
    assert prioritized_target_shift(targets, p, value, alpha) == pytest.approx(
        target_shift(census, targets)[0]
    )
    assert prioritized_target_shift(targets, p, value, 0.0) == pytest.approx(0.0, abs=1e-12)
