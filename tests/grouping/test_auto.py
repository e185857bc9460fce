"""Auto: what it takes, why, and the numbers it goes by."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from sibling_replay import KeyMap
from sibling_replay.grouping import (
    Auto,
    Downscale,
    Exact,
    Grid,
    KMeans,
    SimHash,
    choose,
    map_from_state,
    support,
)
from sibling_replay.grouping.support import explained, group_numbers, support_of_groups


def entries(count: int, dims: int, actions: int = 2, seed: int = 0) -> tuple[Any, Any, Any]:
    """Observations, actions, and priorities that follow the first dimension."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count, dims)).astype(np.float32)
    return obs, rng.integers(actions, size=count), np.exp(obs[:, 0] + 0.1 * rng.random(count))


def test_observations_that_repeat_are_taken_as_they_are() -> None:
    obs = np.random.default_rng(0).integers(16, size=2_000)
    key = Auto().fit(obs, obs % 2)
    assert isinstance(key.chosen, Exact) and key.is_exact
    assert key.choice.groups_per_entry == 16 / 2_000 and key.choice.entries == 2_000
    assert "equal observations repeat: G/N 0.0080 is at most 0.05" in key.choice.reason
    apart = np.arange(2_000.0) % 101  # G/N 0.0505
    assert not Auto().fit(apart).is_exact and Auto().fit(np.arange(2_000.0) % 100).is_exact


def test_numbered_states_are_alike_only_if_equal() -> None:
    """State 17 is no more like 18 than like 400, however seldom each comes."""
    state = np.random.default_rng(0).integers(500, size=2_000)
    key = Auto().fit(state, state % 6)
    assert key.is_exact and key.choice.groups_per_entry > 0.2
    assert key.choice.reason.startswith("states are numbers, alike only if equal: G/N 0.2")
    assert Auto().fit((state, state // 2), state % 6).is_exact
    real = np.random.default_rng(1).normal(size=(2_000, 1))
    assert not Auto().fit(state, real).is_exact  # actions still have to be binned


@pytest.mark.parametrize("count", [2_000, 16_000])
@pytest.mark.parametrize("dims", [1, 4, 12])
def test_the_finest_under_the_noise_is_taken(dims, count) -> None:
    obs, action, priority = entries(count, dims)
    key = Auto().fit(obs, action, priority)
    found = support(key, obs, action)
    assert found.groups_per_entry == key.choice.groups_per_entry <= 0.02
    assert found.groups_per_entry > 0.002
    assert f"the finest {type(key.chosen).__name__} with G/N at most 0.02" in key.choice.reason
    if isinstance(key.chosen, SimHash):
        finer = SimHash(key.chosen.bits + 1).fit(obs)
    elif isinstance(key.chosen, KMeans):
        finer = KMeans(2 * key.chosen.k).fit(obs)
    else:
        assert isinstance(key.chosen, Grid)
        finer = Grid(2 * key.chosen.bins).fit(obs)
    assert support(finer, obs, action).groups_per_entry > 0.02
    coarse = Auto(noise=0.005).fit(obs, action, priority)
    assert coarse.choice.groups_per_entry <= 0.005
    assert coarse.choice.digest == coarse.chosen.digest != key.chosen.digest


def test_of_maps_under_the_noise_the_one_that_explains_priorities_is_taken() -> None:
    obs, action, priority = entries(3_000, 3)
    blind = Grid(16, dims=(1,)).fit(obs)  # sees nothing of what priorities depend on
    seeing = Grid(4, dims=(0,)).fit(obs)
    ladders = {"blind": [blind], "seeing": [seeing]}
    taken, why = choose(ladders, obs, action, priority)
    assert taken is seeing and why.explained > 0.7
    assert "explains 0." in why.reason and "dims=(1,)" in why.reason
    assert choose(ladders, obs, action, None)[0] is blind  # without priorities the first
    assert choose(ladders, obs, action, np.ones(3_000))[0] is blind
    assert choose(ladders, obs, action, -1.0 / priority)[0] is seeing  # ranks alone count
    fine = Grid(512, dims=(0,)).fit(obs)  # would explain more, but keeps too much noise
    taken, _ = choose({"fine": [seeing, fine], "blind": [blind]}, obs, action, priority)
    assert taken is seeing


def test_many_actions_leave_the_action_alone_and_it_says_so() -> None:
    obs, _, _ = entries(2_000, 3)
    key = Auto().fit(obs, np.arange(2_000) % 100)
    assert len(np.unique(key.keys(obs))) == 1
    assert "G/N above 0.02 at their coarsest" in key.choice.reason
    assert "entries with equal action, G/N 0.0500" in key.choice.reason


def test_images_are_made_small_if_they_are_large() -> None:
    rng = np.random.default_rng(0)
    small = rng.random((2_000, 10, 10, 4)) < 0.1
    assert isinstance(Auto().fit(small).chosen, (KMeans, SimHash))
    large = rng.integers(256, size=(600, 40, 30, 2), dtype=np.uint8)
    key = Auto().fit(large)
    assert isinstance(key.chosen, Downscale) and key.choice.groups_per_entry <= 0.02


def test_continuous_actions_are_grouped_too() -> None:
    obs, _, priority = entries(4_000, 3)
    action = np.random.default_rng(1).normal(size=(4_000, 2)).astype(np.float32)
    key = Auto().fit(obs, action, priority)
    assert 0.001 < key.choice.groups_per_entry <= 0.02
    assert not np.array_equal(key.keys(obs, action), key.keys(obs, action[::-1]))


def test_a_choice_is_recorded_logged_and_saved(caplog) -> None:
    obs, action, priority = entries(2_000, 4)
    with caplog.at_level(logging.INFO, logger="sibling_replay"):
        key = Auto().fit(obs, action, priority)
    assert key.choice.reason in caplog.text and key.choice.key in caplog.text
    again = map_from_state(*key.state())
    assert again.choice == key.choice and again.digest == key.digest
    assert again.chosen.digest == key.chosen.digest == key.choice.digest
    assert Auto().fit(obs, action, priority).digest == key.digest
    assert repr(key) == "Auto(noise=0.02)"


def test_support_counts_groups_of_key_and_action() -> None:
    found = support_of_groups([7, 7, 7, 2, 9, 9])
    assert (found.entries, found.groups, found.groups_per_entry) == (6, 3, 0.5)
    assert found.median_bucket == 2.0 and found.singletons == 1 / 6 and found.in_hundreds == 0.0
    assert support_of_groups(np.repeat([0, 1], [100, 300])).in_hundreds == 1.0
    assert np.isnan(support_of_groups([]).groups_per_entry)
    assert "6 entries in 3 groups (G/N 0.5000): median 2 entries, 16.7% alone" in str(found)

    class Halves(KeyMap):
        def keys(self, obs: Any, action: Any) -> Any:
            return np.stack([obs // 2, obs // 4], axis=1)

    obs, action = np.arange(8), np.array([0, 0, 0, 1, 0, 0, 0, 0])
    assert support(Halves(), obs, action).groups == 5
    assert group_numbers(obs // 2, action.astype(float)).max() == 3  # real ones are in the key


def test_explained_is_adjusted_for_chance() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=2_000)
    random = [explained(rng.integers(400, size=2_000), values) for _ in range(40)]
    assert abs(np.mean(random)) < 4 * np.std(random) / np.sqrt(40)  # unadjusted it would be 0.2
    halves = (values > np.median(values)).astype(np.int64)
    assert explained(halves, values) == pytest.approx(0.75, abs=0.001)  # of uniform ranks
    assert explained(np.arange(2_000), values) == 0.0 == explained(halves, np.ones(2_000))
