"""Maps that a host's buffer has fitted to its own entries: what groups and draws must be then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sibling_replay.grouping import FittableMap
from sibling_replay.integrations.host_replay import HostReplay
from sibling_replay.testing.chi_square import LawRejected, check_draws

DRAWS_AN_ENTRY = 25


def fitted_map(replay: HostReplay) -> FittableMap:
    """The map in use, which must be fitted."""
    key = replay._keys.key
    assert isinstance(key, FittableMap) and key.fitted
    return key


def naive_groups(replay: HostReplay, obs: Any, actions: Any) -> list[list[int]]:
    """The live slots, by the map's keys one at a time and by action."""
    key = fitted_map(replay)
    members: dict[object, list[int]] = {}
    for slot, one, action in zip(
        replay.sampler.live_slots.tolist(), obs, np.asarray(actions).tolist(), strict=True
    ):
        members.setdefault((np.asarray(key(one)).tobytes(), action), []).append(slot)
    return sorted(members.values())


def check_groups(replay: HostReplay, obs: Any, actions: Any) -> None:
    """Groups are the map's, of the host's own observations and actions in the live slots; and they
    are neither single entries nor everything."""
    ok, why = replay.sampler.check_valid()
    assert ok, why
    found: dict[int, list[int]] = {}
    for slot in replay.sampler.live_slots.tolist():
        found.setdefault(int(replay.sampler.groups[slot]), []).append(slot)
    assert sorted(found.values()) == naive_groups(replay, obs, actions)
    support = replay.support()
    assert support.entries == len(replay.sampler) and support.groups == len(found) > 4
    assert 0.003 < support.groups_per_entry < 0.2


def check_sibling_sample(
    replay: HostReplay, obs: Any, actions: Any, draw: Callable[[int], np.ndarray]
) -> None:
    """The law of SiblingSample, said naively, and a host's own draws of so many slots."""
    law, masses = np.zeros(replay.sampler.capacity), replay.sampler.masses
    for members in naive_groups(replay, obs, actions):
        law[members] = masses[members].sum() / masses.sum() / len(members)
    np.testing.assert_allclose(replay.sampler.probabilities().outcome, law, rtol=1e-9)
    slots = np.concatenate(
        [draw(1_000) for _ in range(DRAWS_AN_ENTRY * len(replay.sampler) // 1_000)]
    )
    check_draws(slots, law)
    alone = masses / masses.sum()  # prioritized replay, as if no groups had formed
    with pytest.raises(LawRejected):
        check_draws(slots, alone)


def check_chosen(replay: HostReplay) -> None:
    """What `Auto()`, given as it is, has made of some more than 2,000 entries of CartPole."""
    support, (choice,) = replay.support(), replay.key_choices
    assert 2_000 <= choice.entries <= 2_100 and support.reason == choice.reason
    assert support.key.endswith("chosen by Auto(noise=0.02)")
    assert 0.003 <= support.groups_per_entry <= 0.03 and support.singletons < 0.02
    assert choice.groups_per_entry <= 0.02


def check_same(one: HostReplay, other: HostReplay) -> None:
    """Bit for bit the same map, choices, groups and law."""
    assert one._keys.key.digest == other._keys.key.digest
    assert one._keys.fitting.due == other._keys.fitting.due
    assert one.key_choices == other.key_choices
    assert one.support() == other.support()
    assert np.array_equal(one.sampler.groups, other.sampler.groups)
    assert np.array_equal(
        one.sampler.probabilities().outcome, other.sampler.probabilities().outcome
    )
