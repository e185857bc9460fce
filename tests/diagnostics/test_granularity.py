"""What a grouping keeps, explains and mixes, against counts by hand and the law of granularity."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import (
    Field,
    Prioritized,
    ReplayBuffer,
    SiblingModel,
    SiblingSample,
)
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


def buffer_of(strategy, reward, groups, priority) -> ReplayBuffer:
    """A buffer with these groups and priorities."""
    fields = {
        "obs": Field(np.int64), "action": Field(np.int64), "reward": Field(np.float32),
        "next_obs": Field(np.int64), "terminated": Field(np.bool_), "truncated": Field(np.bool_),
    }  # fmt: skip
    count = len(reward)
    grouped = strategy.needs.groups
    buffer = ReplayBuffer(fields, count, strategy, key="given" if grouped else None, seed=0)
    same, ends = np.zeros(count, int), np.zeros(count, bool)
    buffer.extend(same, same, reward, same, ends, ends, **({"group": groups} if grouped else {}))
    batch = buffer.batch_of(np.arange(count))
    buffer.update_priorities(batch, priority)
    return buffer


@pytest.mark.parametrize("strategy", [SiblingSample(), SiblingModel()], ids=lambda s: s.name)
def test_one_group_draws_uniformly_and_single_entries_as_per(strategy):
    """The two ends of the law of granularity, in the buffer's own law."""
    rng = np.random.default_rng(0)
    reward, priority = rng.normal(size=3_000), rng.exponential(size=3_000)
    one = buffer_of(strategy, reward, np.zeros(3_000, int), priority).probabilities()
    np.testing.assert_allclose(one.outcome, 1 / 3_000, rtol=1e-12, atol=0)
    alone = buffer_of(strategy, reward, np.arange(3_000), priority).probabilities()
    per = buffer_of(Prioritized(), reward, None, priority).probabilities().trained
    assert per.max() / per.min() > 100
    np.testing.assert_allclose(alone.outcome, per, rtol=1e-12, atol=0)
    if isinstance(strategy, SiblingSample):
        assert np.array_equal(one.trained, one.outcome)
        assert np.array_equal(alone.trained, alone.outcome)


ENTRIES, REPLICATES = 10_000, 200


def ratios(groups_wanted: int, ragged: bool) -> np.ndarray:
    """[replicates, 3] G, R of PER and R of SAMPLE, of buffers in which all siblings have one
    outcome law: 30 with probability 0.02, else 1."""
    found = []
    for seed in range(REPLICATES):
        rng = np.random.default_rng([groups_wanted, seed])
        reward = np.where(rng.random(ENTRIES) < 0.02, 30.0, 1.0)
        place = rng.random(ENTRIES) ** (3.0 if ragged else 1.0)
        groups = np.unique((groups_wanted * place).astype(int), return_inverse=True)[1]
        rare = reward > 1
        laws = (
            buffer_of(strategy, reward, groups, reward).probabilities().trained
            for strategy in (Prioritized(), SiblingSample())
        )
        found.append((groups.max() + 1, *(law[rare].sum() / rare.mean() for law in laws)))
    return np.array(found)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("groups", [200, 1_000, 10_000, 50_000])
def test_the_law_of_granularity(groups, ragged):
    """R = 1 + (R of PER - 1) G/N within 3 standard errors, whatever the sizes of the groups."""
    count, per, sample = ratios(groups, ragged).T
    assert per.min() > 4 and 0.01 < count.mean() / ENTRIES < 0.95
    away = sample - (1 + (per - 1) * count / ENTRIES)
    error = away.std(ddof=1) / np.sqrt(REPLICATES)
    assert abs(away.mean()) <= 3 * error
    assert error < 0.03 * (sample.mean() - 1)  # and that says something


def test_of_few_groups_it_is_one_less():
    """G/N stands for (G - 1) / (N - 1), which is exact in the mean, and 0 for one group."""
    count, per, sample = ratios(5, False).T
    error = (sample / per).std(ddof=1) / np.sqrt(REPLICATES)
    assert (count == 5).all()
    exact, law = (1 + (per - 1) * share for share in (4 / (ENTRIES - 1), 5 / ENTRIES))
    assert abs((sample - exact).mean()) <= 3 * error * per.mean()
    assert abs((sample - law).mean()) < 2e-4 * per.mean()


def test_measured_is_what_the_buffer_would_draw():
    rng = np.random.default_rng(0)
    reward = np.where(rng.random(2_000) < 0.02, 30.0, 1.0)
    groups = rng.integers(100, size=2_000)
    buffer = buffer_of(SiblingSample(), reward, groups, reward)
    found = granularity(groups, entries_of(reward, buffer.masses, rng.random(2_000)))
    rare = reward > 1
    drawn = buffer.probabilities().trained[rare].sum() / rare.mean()
    assert found.measured_ratio == pytest.approx(drawn, rel=1e-12)


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
