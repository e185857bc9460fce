"""What a grouping keeps, explains and mixes, against counts by hand and the law of granularity."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay.diagnostics import Entries, granularity, rare_outcome


def entries_of(reward, mass, place, ends=None) -> Entries:
    reward, mass = np.asarray(reward, float), np.asarray(mass, float)
    return Entries(
        masses=mass,
        rewards=reward,
        ends=np.zeros(len(mass), bool) if ends is None else ends,
        tested=reward[:, None],
        positions=np.asarray(place, float).reshape(len(mass), -1),
        rare=rare_outcome(reward, mass),
    )


def test_the_rare_outcome_is_the_rewards_far_from_the_median():
    reward = np.ones(100)
    reward[[3, 50]] = 31.0
    mass = np.where(reward > 1, 5.0, 1.0)
    rare = rare_outcome(reward, mass)
    assert rare.by == "reward" and np.flatnonzero(rare.entries).tolist() == [3, 50]
    assert rare.share == 0.02 and rare.ratio == pytest.approx(10 / 108 / 0.02)
    reward[7] = -500.0  # two rare values: both, as they are 3 percent
    assert np.flatnonzero(rare_outcome(reward, mass).entries).tolist() == [3, 7, 50]
    reward[10:13] = 31.0  # 6 percent: the farther one alone
    assert np.flatnonzero(rare_outcome(reward, mass).entries).tolist() == [7]


def test_without_rare_rewards_it_is_the_largest_masses():
    mass = np.arange(1.0, 101.0)
    rare = rare_outcome(np.ones(100), mass)
    assert rare.by == "mass" and np.flatnonzero(rare.entries).tolist() == [98, 99]
    assert rare.ratio == pytest.approx(199 / 5_050 / 0.02)
    assert rare_outcome(np.ones(3), np.ones(3)).ratio == pytest.approx(1.0)


def test_a_grouping_counted_by_hand():
    groups = np.repeat([0, 1, 2], [100, 19, 1])
    reward = np.zeros(120)
    reward[[0, 1, 119]] = 10.0
    mass = np.where(reward > 0, 4.0, 1.0)
    found = granularity(groups, entries_of(reward, mass, np.zeros(120)))
    assert found.groups == 3 and found.groups_per_entry == 3 / 120
    assert found.median_bucket == 19
    assert found.in_tens == pytest.approx(119 / 120)
    assert found.in_hundreds == pytest.approx(100 / 120)
    ratio = 12 / 129 / (3 / 120)
    assert found.predicted_ratio == pytest.approx(1 + (ratio - 1) * 3 / 120)
    drawn = 106 / 129 * 2 / 100 + 4 / 129  # of the rare ones by SAMPLE
    assert found.measured_ratio == pytest.approx(drawn / (3 / 120))
    assert found.heterogeneous_draws == 0.0


def test_the_two_ends_are_uniform_replay_and_per():
    rng = np.random.default_rng(0)
    reward = np.where(rng.random(500) < 0.03, 30.0, 0.0)
    entries = entries_of(reward, 1 + reward * rng.random(500), rng.random(500))
    one = granularity(np.zeros(500, int), entries)
    assert one.measured_ratio == pytest.approx(1.0)
    assert one.explained_priority == pytest.approx(0.0, abs=1e-9)
    alone = granularity(np.arange(500), entries)
    assert alone.measured_ratio == pytest.approx(entries.rare.ratio, rel=1e-12)
    assert alone.predicted_ratio == pytest.approx(entries.rare.ratio, rel=1e-12)


def test_measured_is_predicted_where_siblings_share_an_outcome_law():
    rng = np.random.default_rng(0)
    count, size = 20_000, 10
    reward = np.where(rng.random(count * size) < 0.02, 30.0, 0.0)
    entries = entries_of(reward, 1 + reward, rng.random(count * size))
    found = granularity(np.repeat(np.arange(count), size), entries)
    assert entries.rare.ratio > 10
    assert found.measured_ratio == pytest.approx(found.predicted_ratio, rel=0.1)


def test_groups_that_mix_states_are_found_and_counted_by_their_draws():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 200)
    place = rng.uniform(-1, 1, size=(4_000, 2))
    mixed = groups < 5
    reward = rng.normal(size=4_000) + 1.0 * (mixed & (place[:, 1] > 0))
    mass = np.where(mixed, 3.0, 1.0)
    found = granularity(groups, entries_of(reward, mass, place))
    assert found.heterogeneous_draws == pytest.approx(5 * 3 / (5 * 3 + 15))
    assert found.explained_priority > 0.99 and 0.0 < found.explained_reward < 0.1
    assert found.explained_end == 0.0
    finer = 2 * groups + (place[:, 1] > 0)
    assert granularity(finer, entries_of(reward, mass, place)).heterogeneous_draws == 0.0
