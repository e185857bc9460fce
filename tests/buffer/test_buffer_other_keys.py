"""States and keys of one's own code: a key that did not group the entries is refused."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from sibling_replay import KeyMap, ReplayBuffer, SiblingSample
from sibling_replay.checkpoint import StateError


class States(gym.Env):
    observation_space = spaces.Discrete(12, start=10)
    action_space = spaces.Discrete(1)


class Cells(KeyMap):
    """Not fitted, and without a digest."""

    def __init__(self, width: int) -> None:
        self.width = width

    def keys(self, obs, action):
        return obs // self.width


def by_four(obs, action):
    return int(obs) // 4


def buffer(key, **options) -> ReplayBuffer:
    return ReplayBuffer.for_env(States(), 24, SiblingSample(), key=key, seed=0, **options)


def filled(key, **options) -> ReplayBuffer:
    made = buffer(key, **options)
    for obs in range(10, 22):
        made.add(obs, 0, 1.0, obs, False, False)
    return made


@pytest.mark.parametrize(
    ("key", "other"), [(by_four, lambda obs, action: int(obs) // 2), (Cells(4), Cells(2))]
)
def test_a_state_grouped_by_another_key_is_refused(key, other, tmp_path) -> None:
    """New entries would join groups of old ones that are not their siblings."""
    first = filled(key)
    first.save(tmp_path / "saved.npz")
    second = buffer(other)
    with pytest.raises(StateError, match=r"it was stored with .*`rekey` it after that"):
        second.load_state_dict(first.state_dict())
    assert len(second) == 0
    with pytest.raises(StateError, match="it was stored with"):
        ReplayBuffer.load(tmp_path / "saved.npz", key=other)
    loaded = ReplayBuffer.load(tmp_path / "saved.npz", key=key)
    assert np.array_equal(loaded.groups, first.groups)
    loaded.rekey(other)
    assert np.array_equal(loaded.groups, filled(other).groups)


def test_the_same_key_is_not() -> None:
    for key in (by_four, Cells(4)):
        empty = buffer(key)
        empty.load_state_dict(buffer(key).state_dict())
        for made in (filled(key), filled(key, n_steps=3, gamma=0.9)):
            for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
                assert np.array_equal(twin.groups, made.groups)


def test_a_key_of_states_that_begin_elsewhere_is_tried_with_one_that_there_is() -> None:
    table = {obs: obs // 4 for obs in range(10, 22)}
    assert filled(lambda obs, action: table[int(obs)]).support().groups == 4


def test_a_key_that_changes_its_kind_is_named() -> None:
    wrong = buffer(lambda obs, action: 0 if obs == 10 else 0.5)
    with pytest.raises(TypeError, match="the key by PerRow"):
        wrong.add(11, 0, 1.0, 11, False, False)
