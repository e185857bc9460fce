"""The split test against scipy's and by simulation: its false positives, its power, its rate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from sibling_replay.diagnostics import halves, heterogeneous, positions_of, split_test

ENTRIES = 100  # of a group
LEVEL = 0.01


def tail(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """The noise of our studies, of mean 0: 30 at one step in fifty; and a little of any size."""
    p, size = 0.02, 30.0
    rare = rng.random(shape) < p
    return np.where(rare, (1 - p) * size, -p * size) + rng.normal(scale=0.1, size=shape)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


NOISE = {"tail": (tail, 30.0 * np.sqrt(0.02 * 0.98)), "normal": (normal, 1.0)}


def simulated(noise: str, difference: float, count: int, dims: int = 1, seed: int = 0):
    """Groups of 100 entries at random places of a cube. Targets of the upper half in the first
    dimension are higher by so many standard deviations of the noise."""
    rng = np.random.default_rng(seed)
    make, deviation = NOISE[noise]
    place = rng.uniform(-1, 1, size=(count, ENTRIES, dims))
    target = make(rng, (count, ENTRIES)) + difference * deviation * (place[..., 0] > 0)
    groups = np.repeat(np.arange(count), ENTRIES)
    return groups, place.reshape(-1, dims), target.ravel()


@pytest.mark.parametrize("dims", [1, 4])
@pytest.mark.parametrize("noise", NOISE)
def test_at_most_1_5_percent_false_positives_at_the_1_percent_level(noise, dims):
    groups, place, target = simulated(noise, 0.0, 10_000, dims)
    p = split_test(groups, halves(groups, place), target)
    assert p.shape == (10_000,)
    assert 0.005 < (p <= LEVEL).mean() <= 0.015  # and the level is used


def power(groups, children, target) -> float:
    return float((split_test(groups, children, target) <= LEVEL).mean())


@pytest.mark.parametrize("noise", NOISE)
def test_at_least_95_percent_power_for_one_standard_deviation_at_100_entries(noise):
    """Between children that are given, as by a finer key."""
    groups, place, target = simulated(noise, 1.0, 4_000)
    assert power(groups, place > 0, target) >= 0.95


@pytest.mark.parametrize(("noise", "dims", "least"), [("tail", 4, 0.99), ("normal", 1, 0.95),
                                                      ("normal", 4, 0.90)])  # fmt: skip
def test_looking_in_several_directions_costs_a_little_power(noise, dims, least):
    """Where neither the dimension nor the place of the difference is known."""
    groups, place, target = simulated(noise, 1.0, 4_000, dims)
    assert power(groups, halves(groups, place), target) >= least


def test_a_test_of_means_is_blinded_by_the_tail():
    groups, place, target = simulated("tail", 0.3, 500)
    upper = (place > 0).reshape(-1, ENTRIES)
    assert power(groups, place > 0, target) >= 0.95
    rows = zip(target.reshape(-1, ENTRIES), upper, strict=True)
    p = [scipy.stats.ttest_ind(y[up], y[~up], equal_var=False).pvalue for y, up in rows]
    assert (np.array(p) <= LEVEL).mean() < 0.5


def test_the_false_discovery_rate_is_kept():
    same = simulated("normal", 0.0, 1_800)
    other = simulated("normal", 1.5, 200, seed=1)
    groups = np.concatenate([same[0], other[0] + 1_800])
    place, target = (np.concatenate([a, b]) for a, b in zip(same[1:], other[1:], strict=True))
    found = heterogeneous(split_test(groups, halves(groups, place), target))
    assert found[1_800:].mean() > 0.95
    assert found[:1_800].sum() <= 0.03 * found.sum()
    uncorrected = split_test(groups, halves(groups, place), target) <= LEVEL
    assert uncorrected[:1_800].sum() > 2 * found[:1_800].sum() + 5


@pytest.mark.parametrize("children", [2, 3, 4, 7])
def test_p_values_are_those_of_scipy(children):
    rng = np.random.default_rng(children)
    groups = rng.integers(5, size=600) * 10 - 7
    child = rng.integers(children, size=600) * 3
    value = rng.integers(8, size=600) + 0.6 * (child == 3)  # with ties
    p = split_test(groups, child, value)
    for place, group in enumerate(np.unique(groups)):
        parts = [value[(groups == group) & (child == c)] for c in np.unique(child)]
        assert p[place] == pytest.approx(scipy.stats.kruskal(*parts).pvalue, rel=1e-9)


def test_what_cannot_be_tested_is_not_found():
    groups = np.repeat([0, 1, 2, 3], [9, 10, 10, 12])
    child = np.concatenate([[0] * 5 + [1] * 4, [0, 1] * 5, [0, 1] * 5, [0, 1] * 5 + [2, 2]])
    value = np.concatenate([np.arange(9), [3] * 10, [0, 1] * 5, [0, 1] * 5 + [9, -9]])
    p = split_test(groups, child, value)
    assert np.isnan(p[0]) and p[1] == 1.0  # a child of four; nothing differs
    assert p[2] == p[3] < 0.01  # a third child of two entries is left out
    np.testing.assert_array_equal(heterogeneous(p, 0.01), [False, False, True, True])
    assert not heterogeneous([np.nan, np.nan]).any() and heterogeneous([]).size == 0
    with pytest.raises(ValueError, match="expected 41 rows"):
        split_test(groups, child[1:], value)


def test_the_least_of_several_p_values_counts_as_often_as_there_are():
    rng = np.random.default_rng(0)
    groups, value = np.zeros(200, int), rng.normal(size=200)
    child = rng.integers(2, size=(200, 3))
    child[:, 2] = 0  # which splits nothing, and so is no test
    alone = [split_test(groups, child[:, s], value)[0] for s in range(2)]
    assert split_test(groups, child, value)[0] == pytest.approx(min(1.0, 2 * min(alone)))
    both = split_test(groups, child[:, 0], np.stack([value, -value], axis=1))[0]
    assert both == pytest.approx(min(1.0, 2 * alone[0]))


def test_positions_of_wide_observations_are_their_principal_directions():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=3_000)
    obs = (hidden[:, None] * rng.choice([-1, 1], 40) + rng.normal(size=(3_000, 40))).reshape(
        3_000, 5, 8
    )
    found = positions_of(obs)
    assert found.shape == (3_000, 6)
    assert max(abs(np.corrcoef(hidden, column)[0, 1]) for column in found.T) > 0.95
    narrow, action = obs[:, 0, :2], obs[:, 1, :1]
    np.testing.assert_array_equal(positions_of(narrow, np.zeros(3_000, int)), narrow)
    np.testing.assert_array_equal(positions_of(narrow, action)[:, 2:], action)
    assert not halves(np.arange(3_000), narrow).any()  # single entries are not split
