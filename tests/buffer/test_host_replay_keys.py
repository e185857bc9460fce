"""What hosts with a storage of their own make siblings of."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from sibling_replay import KeyMap, SiblingModel, SiblingSample, StateError
from sibling_replay.grouping.key_map import PerRow
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
    replay._keys.key = PerRow(lambda obs, action: [1, 2])
    with pytest.raises(ValueError, match=r"expected 12 bytes an entry, got 24.*an empty buffer"):
        replay.put(np.array([0]), OBS[:1], ACTIONS[:1])
    assert replay.sampler.groups.tolist() == [0, 0, 1, 1, 2, 3, -1, -1]


class Rounded(KeyMap):
    def __init__(self) -> None:
        self.calls: list[int] = []

    def keys(self, obs: Any, action: Any) -> Any:
        self.calls.append(len(action))
        return np.round(obs[:, 0]).astype(np.int64)


def test_a_key_map_is_called_once_for_all_that_is_written() -> None:
    key = Rounded()
    replay = filled(key)
    assert key.calls == [6] and not replay.exact
    assert replay.sampler.groups.tolist() == [0, 0, 1, 1, 2, 3, -1, -1]
    expected = filled(rounded).draw(64, 0.4)
    assert all(np.array_equal(*pair) for pair in zip(replay.draw(64, 0.4), expected, strict=True))
    replay.forget_changed(np.array([0, 1]), OBS[2:4], ACTIONS[:2])
    assert key.calls == [6, 2] and replay.sampler.live_slots.tolist() == [2, 3, 4, 5]
    twin = HostReplay("a host", 8, SiblingSample(), Rounded(), seed=1)
    twin.load_state_dict(replay.state_dict())
    for each in (replay, twin, pickle.loads(pickle.dumps(replay))):
        each.put(np.array([0]), OBS[3:4], ACTIONS[3:4])
        assert each.sampler.groups[0] == each.sampler.groups[3]
    replay._keys.key.keys = lambda obs, action: obs  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="keys of 1 entries must be whole numbers"):
        replay.put(np.array([0]), OBS[:1], ACTIONS[:1])


def test_keys_are_spelt_as_in_a_buffer() -> None:
    exact = HostReplay("a host", 8, SiblingSample(), "exact", seed=0)
    exact.put(np.arange(6), OBS, ACTIONS)
    assert exact.exact and np.array_equal(exact.draw(32, 0.4)[0], filled().draw(32, 0.4)[0])
    with pytest.raises(ValueError, match=r'a host hands no groups.*key="given".*key\(obs, action'):
        HostReplay("a host", 8, SiblingSample(), "given")
    with pytest.raises(ValueError, match='key must be "exact"'):
        HostReplay("a host", 8, SiblingSample(), 7)
    for key in (Rounded(), rounded):
        with pytest.raises(ValueError, match="SiblingModel with a key function or map"):
            HostReplay("a host", 8, SiblingModel(), key)


def test_an_empty_state_of_an_older_version_is_an_empty_buffer() -> None:
    """It had no sampler before the first entry, and no header in its state."""
    replay = filled(rounded)
    rows = HostReplay("a host", 8, SiblingSample()).state_dict()["open_draws"]
    replay.load_state_dict({"header": {}, "open_draws": rows})
    assert len(replay.sampler) == 0
    with pytest.raises(ValueError, match="cannot sample from an empty buffer"):
        replay.draw(1, 0.4)
    replay.put(np.arange(6), OBS, ACTIONS)
    assert np.array_equal(replay.draw(64, 0.4)[0], filled(rounded).draw(64, 0.4)[0])
    unpickled = HostReplay.__new__(HostReplay)
    unpickled.__setstate__({**filled(rounded).__getstate__(), "sampler": None})
    unpickled.put(np.arange(6), OBS, ACTIONS)
    assert np.array_equal(unpickled.draw(64, 0.4)[0], filled(rounded).draw(64, 0.4)[0])


def test_nothing_written_is_nothing_known() -> None:
    replay = HostReplay("a host", 10, SiblingSample(), None, 0)
    replay.put(np.arange(0), np.zeros((0, 2)), np.zeros(0, np.int64))
    replay.put(np.arange(3), np.zeros((3, 2)), np.zeros(3, np.int64))
    assert len(np.unique(replay.sampler.groups[:3])) == 1


def test_a_host_whose_draws_have_no_siblings_is_warned() -> None:
    replay = HostReplay("a host", 2_000, SiblingSample(), None, 0)
    replay.put(np.arange(2_000), np.arange(2_000.0)[:, None], np.zeros(2_000, np.int64))
    with pytest.warns(UserWarning, match=r"0\.0% of the last .* draws looked at have siblings"):
        for _ in range(400):
            replay.draw(32, 0.4)
