"""What hosts with a storage of their own make siblings of."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from sibling_replay import SiblingSample, StateError
from sibling_replay.integrations.host_replay import HostReplay

OBS = np.array([[0.1], [0.2], [0.8], [0.9], [0.1], [0.9]], dtype=np.float32)
ACTIONS = np.array([0, 0, 1, 1, 1, 0])


def rounded(obs: Any, action: Any) -> Any:
    return np.round(obs)


def rounded_with_action(obs: Any, action: Any) -> Any:
    return np.array([np.round(obs[0]), action])


def filled(key: Any = None) -> HostReplay:
    replay = HostReplay("a host", 8, SiblingSample(), key, seed=0)
    replay.put(np.arange(6), OBS, ACTIONS)
    return replay


@pytest.mark.parametrize("key", [rounded, rounded_with_action])
def test_siblings_share_their_action(key) -> None:
    replay = filled(key)
    assert replay.sampler.groups.tolist() == [0, 0, 1, 1, 2, 3, -1, -1]
    slots, weights = replay.draw(64, 0.4)
    expected = filled(rounded_with_action).draw(64, 0.4)
    assert np.array_equal(slots, expected[0]) and np.array_equal(weights, expected[1])


def test_states_of_groups_without_the_action_are_refused() -> None:
    """Only the host has the actions, so its groups cannot be made anew."""
    replay = filled(rounded)
    state = replay.state_dict()
    state["header"]["version"] = 3
    with pytest.raises(StateError, match=r"before actions .* start with an empty"):
        replay.load_state_dict(state)
    assert replay.sampler.groups.tolist() == [0, 0, 1, 1, 2, 3, -1, -1]
    exact = filled()
    state = exact.state_dict()
    state["header"]["version"] = 3
    other = HostReplay("a host", 8, SiblingSample(), seed=1)
    other.load_state_dict(state)
    assert np.array_equal(other.draw(16, 0.4)[0], exact.draw(16, 0.4)[0])


def test_keys_of_another_form_than_the_stored_ones_are_refused() -> None:
    """As of a pickle from before actions were added: nothing is put."""
    replay = pickle.loads(pickle.dumps(filled(rounded)))
    replay._key = lambda obs, action: [1, 2]
    with pytest.raises(ValueError, match=r"keys of 24 bytes with their action, but .* have 12"):
        replay.put(np.array([0]), OBS[:1], ACTIONS[:1])
    assert replay.sampler.groups.tolist() == [0, 0, 1, 1, 2, 3, -1, -1]


def test_nothing_written_is_nothing_known() -> None:
    replay = HostReplay("a host", 10, SiblingSample(), None, 0)
    replay.put(np.arange(0), np.zeros((0, 2)), np.zeros(0, np.int64))
    replay.put(np.arange(3), np.zeros((3, 2)), np.zeros(3, np.int64))
    assert replay.sampler is not None and len(np.unique(replay.sampler.groups[:3])) == 1


def test_a_host_whose_draws_have_no_siblings_is_warned() -> None:
    replay = HostReplay("a host", 2_000, SiblingSample(), None, 0)
    replay.put(np.arange(2_000), np.arange(2_000.0)[:, None], np.zeros(2_000, np.int64))
    with pytest.warns(UserWarning, match=r"0\.0% of the last .* draws looked at have siblings"):
        for _ in range(400):
            replay.draw(32, 0.4)
