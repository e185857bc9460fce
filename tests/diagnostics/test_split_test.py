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


@pytest.mark.parametrize("dims", [1, 4, 6])
@pytest.mark.parametrize("noise", NOISE)
def test_that_power_where_neither_dimension_nor_place_are_known(noise, dims):
    """The difference is in one of several dimensions, and halves do not meet where it begins.
    Groups tell each other which dimension matters."""
    groups, place, target = simulated(noise, 1.0, 4_000, dims)
    assert power(groups, halves(groups, place), target) >= 0.95


def test_a_group_alone_and_normal_noise_in_four_dimensions():
    """Nobody tells it which dimension matters: 93 percent, and a t test of the true means, which is
    the best there is for such noise, has no more."""
    groups, place, target = simulated("normal", 1.0, 1_000, 4)
    parts = zip(*(np.split(array, 1_000) for array in (groups, place, target)), strict=True)
    alone = [split_test(g, halves(g, x), y)[0] for g, x, y in parts]
    assert 0.91 <= (np.array(alone) <= LEVEL).mean() < 0.96
    upper = halves(groups, place).reshape(1_000, ENTRIES, 4)
    best = [
        min(scipy.stats.ttest_ind(y[up], y[~up]).pvalue for up in split.T)
        for y, split in zip(target.reshape(1_000, ENTRIES), upper, strict=True)
    ]
    assert abs((np.array(alone) <= LEVEL).mean() - (4 * np.array(best) <= LEVEL).mean()) < 0.01


def test_power_where_one_group_in_twenty_is_mixed():
    groups, place, target = simulated("normal", 0.0, 10_000, 4)
    mixed = groups % 20 == 0
    target = target + (mixed & (place[:, 0] > 0))
    p = split_test(groups, halves(groups, place), target)
    assert (p[::20] <= LEVEL).mean() >= 0.90
    assert (np.delete(p, np.arange(0, 10_000, 20)) <= LEVEL).mean() <= 0.015


@pytest.mark.parametrize("rare", [0.02, 0.05, 0.2])
def test_rare_rewards_at_skewed_places_are_no_false_positives(rare):
    """Halves at the mean are then a few entries and all others."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4_000), ENTRIES)
    place = rng.exponential(size=(groups.size, 4)) ** 4
    reward = np.where(rng.random(groups.size) < rare, 30.0, 0.0)
    p = split_test(groups, halves(groups, place), reward)
    assert (p <= LEVEL).mean() <= 0.015
    assert not heterogeneous(p).any()


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
def test_p_values_are_those_of_an_f_test_of_normal_scores(children):
    rng = np.random.default_rng(children)
    groups = rng.integers(5, size=600) * 10 - 7
    child = rng.integers(children, size=600) * 3
    value = rng.integers(8, size=600) + 0.6 * (child == 3)  # with ties
    p = split_test(groups, child, value)
    for place, group in enumerate(np.unique(groups)):
        own = groups == group
        ranks = scipy.stats.rankdata(value[own])
        scores = scipy.stats.norm.ppf(ranks / (own.sum() + 1))
        parts = [scores[child[own] == c] for c in np.unique(child)]
        assert p[place] == pytest.approx(scipy.stats.f_oneway(*parts).pvalue, rel=1e-9)


def test_what_cannot_be_tested_is_not_found():
    groups = np.repeat([0, 1, 2, 3, 4], [9, 12, 12, 14, 100])
    child = np.concatenate(
        [[0] * 5 + [1] * 4, [0, 1] * 6, [0, 1] * 6, [0, 1] * 6 + [2, 2], [0, 1] * 50]
    )
    rising = np.arange(12) + 100 * np.tile([0, 1], 6)
    rare = np.zeros(100)
    rare[1:6:2] = 30.0  # three, all in one half; four could tell
    value = np.concatenate([np.arange(9), [3] * 12, rising, rising, [999, -999], rare])
    p = split_test(groups, child, value)
    assert np.isnan(p[[0, 1, 4]]).all()  # a child of four; nothing differs; too little does
    assert p[2] < 0.001 and p[3] < 0.001  # a third child of two entries is left out
    np.testing.assert_array_equal(heterogeneous(p, 0.01), [False, False, True, True, False])
    value[groups == 4] = np.where(np.arange(100) == 99, 30.0, rare)
    assert 0.01 < split_test(groups, child, value)[4] < 0.1
    assert not heterogeneous([np.nan, np.nan]).any() and heterogeneous([]).size == 0
    with pytest.raises(ValueError, match="expected 147 rows"):
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
