"""Priorities for entries that have been overwritten since they were drawn: dropped and counted."""

from __future__ import annotations

import numpy as np
import pytest
from buffer_kit import REFRESHING, add_some, assert_valid, differences, snapshot, tabular

from sibling_replay import Prioritized, ReplayBuffer, SiblingAverage, Strategy
from support.averaging import averaged

CAPACITY = 8


def filled(strategy: Strategy) -> ReplayBuffer:
    buffer = tabular(strategy, CAPACITY)
    add_some(buffer, CAPACITY)
    return buffer


def alone(strategy: Strategy) -> bool:
    """Whether the strategy refreshes the trained slots only."""
    return not getattr(strategy, "update_all_siblings", False)


@pytest.mark.parametrize("more", [1, 3, CAPACITY - 1, CAPACITY, CAPACITY + 1, 5 * CAPACITY + 3])
@pytest.mark.parametrize("strategy", REFRESHING.values(), ids=REFRESHING)
def test_overwritten_entries_keep_their_new_priority(strategy, more) -> None:
    buffer = filled(strategy)
    batch = buffer.sample(16)
    add_some(buffer, more, seed=1)
    before = buffer.masses
    fresh = {slot % CAPACITY for slot in range(more)}
    buffer.update_priorities(averaged(batch), np.full(16, 50.0))
    changed = set(np.flatnonzero(buffer.masses != before).tolist())
    assert not changed & fresh
    if alone(strategy):
        trained = batch.slots
        assert changed == set(trained.tolist()) - fresh
        assert buffer.dropped_updates == sum(slot in fresh for slot in trained.tolist())
    elif more >= CAPACITY:
        assert buffer.dropped_updates > 0
    if more >= CAPACITY:
        assert changed == set()
        assert buffer.max_priority == 1.0, "an entry that is gone cannot set the largest priority"
    assert_valid(buffer)


@pytest.mark.parametrize("strategy", REFRESHING.values(), ids=REFRESHING)
def test_all_stale_changes_only_the_count(strategy) -> None:
    """By exactly one turn of the ring, where the slot numbers alone look right, and by many."""
    for turns in (1, 2, 7):
        buffer = filled(strategy)
        batch = buffer.sample(4)
        add_some(buffer, turns * CAPACITY, seed=1)
        before = snapshot(buffer)
        buffer.update_priorities(averaged(batch), np.arange(4.0))
        assert differences(before, snapshot(buffer)) == ["counts"]
        first = buffer.dropped_updates
        assert first > 0
        buffer.update_priorities(averaged(batch), np.arange(4.0))
        assert buffer.dropped_updates == 2 * first


@pytest.mark.parametrize("strategy", REFRESHING.values(), ids=REFRESHING)
def test_a_fresh_batch_drops_nothing(strategy) -> None:
    buffer = filled(strategy)
    for _ in range(20):
        add_some(buffer, 3)
        buffer.update_priorities(averaged(buffer.sample(16)), np.ones(16))
    assert buffer.dropped_updates == 0


def test_the_count_is_of_updates_not_of_slots() -> None:
    buffer = tabular(Prioritized(), 1)
    add_some(buffer, 1)
    batch = buffer.sample(5)
    add_some(buffer, 1)
    buffer.update_priorities(averaged(batch), np.ones(5))
    assert buffer.dropped_updates == 5


def test_an_average_over_a_group_drops_the_siblings_that_left() -> None:
    """One group of eight; three leave and three strangers come: five updates stay, three drop."""
    buffer = tabular(SiblingAverage(alpha=1.0, update_all_siblings=True), CAPACITY)
    for _ in range(CAPACITY):
        buffer.add(0, 0, 0.0, 0, False, False)
    batch = buffer.sample(1)
    for _ in range(3):
        buffer.add(0, 0, 0.0, 0, False, False)  # into the same group, but never in the average
    buffer.update_priorities(averaged(batch), np.array([9.0]))
    np.testing.assert_allclose(buffer.masses, [1.0] * 3 + [9.0 + 1e-6] * 5)
    assert buffer.dropped_updates == 3


def test_a_group_whose_id_was_given_to_other_keys_is_not_refreshed() -> None:
    buffer = tabular(SiblingAverage(alpha=1.0, update_all_siblings=True), 4)
    for _ in range(4):
        buffer.add(0, 0, 0.0, 0, False, False)
    batch = buffer.sample(2)
    for _ in range(4):
        buffer.add(1, 1, 0.0, 0, False, False)
    buffer.add(2, 1, 0.0, 0, False, False)
    assert batch.groups[0] in buffer.groups, "the id is used again"
    buffer.update_priorities(averaged(batch), np.array([9.0, 9.0]))
    assert buffer.masses.tolist() == [1.0] * 4


ONE_SLOT_AN_ENTRY = {name: s for name, s in REFRESHING.items() if alone(s)}


@pytest.mark.parametrize("strategy", ONE_SLOT_AN_ENTRY.values(), ids=ONE_SLOT_AN_ENTRY)
def test_late_updates_against_a_naive_record(strategy) -> None:
    """Batches refreshed after 0 to 20 more additions, in any order: an entry's mass is that of its
    own last refresh, whichever entry sits in the slot now."""
    buffer = filled(strategy)
    rng = np.random.default_rng(3)
    born = dict(enumerate(range(CAPACITY)))  # slot -> number of its entry
    masses = dict.fromkeys(range(CAPACITY), 1.0)
    peak, added, dropped, waiting = 1.0, CAPACITY, 0, []
    for _ in range(300):
        waiting.append((buffer.sample(4), dict(born)))
        for _ in range(rng.integers(4)):
            add_some(buffer, 1, seed=added)
            born[added % CAPACITY] = added
            masses[added % CAPACITY] = peak**strategy.alpha
            added += 1
        if rng.random() < 0.8:
            batch, born_then = waiting.pop(rng.integers(len(waiting)))
            td = 3.0 * rng.random(4)
            buffer.update_priorities(averaged(batch), td)
            averages = isinstance(strategy, SiblingAverage)
            order = np.argsort(td, kind="stable") if averages else range(4)
            for b in order:
                slot = int(batch.slots[b])
                if born[slot] == born_then[slot]:
                    masses[slot] = (td[b] + strategy.epsilon) ** strategy.alpha
                    peak = max(peak, td[b] + strategy.epsilon)
                else:
                    dropped += 1
        waiting = waiting[-6:]
    expected = [masses[slot] for slot in range(CAPACITY)]
    np.testing.assert_allclose(buffer.masses, expected, rtol=1e-12)
    assert buffer.dropped_updates == dropped > 0
    assert buffer.max_priority == pytest.approx(peak)
    assert_valid(buffer)
