"""`batch_of`: entries that the caller chose, as a batch."""

from __future__ import annotations

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingAverage
from support.scenes import STRATEGIES, churned_buffer, new_buffer


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_holds_the_chosen_entries(name):
    buffer = churned_buffer(STRATEGIES[name]())
    stored = buffer.transitions()
    slots = np.random.default_rng(0).integers(0, len(buffer), 200)
    slots[:2] = 0, len(buffer) - 1
    for _ in range(3):  # memory of dropped batches is used again
        buffer.sample(slots.size)
    batch = buffer.batch_of(slots)
    for found in (batch.slots, batch.anchors, batch.outcome_slots):
        assert np.array_equal(found, slots)
    for field in ("obs", "action", "reward", "next_obs", "terminated", "truncated"):
        assert np.array_equal(getattr(batch, field), stored[field][slots])
    assert np.array_equal(batch.groups, buffer.groups[slots])
    assert (batch.weights == 1.0).all() and batch.outcomes is batch


def test_every_slot_is_found_at_any_size():
    """Slots are looked up by division, which must be exact for each of them."""
    for size in (1, 2, 3, 7, 49, 1000, 99_991):
        buffer = new_buffer(Prioritized(), size)
        zeros, flags = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=bool)
        buffer.extend(zeros, zeros, zeros.astype(np.float32), np.arange(size), flags, flags)
        assert np.array_equal(buffer.batch_of(np.arange(size)).next_obs, np.arange(size))


def test_it_draws_nothing_and_can_refresh():
    buffer = churned_buffer(Prioritized(alpha=1.0))
    before = buffer.state_dict()["header"]["uniforms"]
    batch = buffer.batch_of([3, 5])
    assert buffer.state_dict()["header"]["uniforms"] == before
    expected = buffer.masses
    expected[[3, 5]] = 2.0 + 1e-6, 7.0 + 1e-6
    buffer.update_priorities(batch, [2.0, 7.0])
    np.testing.assert_allclose(buffer.masses, expected, rtol=1e-12)


def test_a_subset_average_refreshes_the_chosen_ones():
    """No siblings were drawn, so there are none to refresh beside them."""
    strategy = SiblingAverage(alpha=1.0, max_siblings=2, update_all_siblings=True)
    buffer = churned_buffer(strategy)
    expected = buffer.masses
    expected[[3, 5]] = 7.0 + 1e-6, 2.0 + 1e-6
    buffer.update_priorities(buffer.batch_of([3, 5, 3]), [2.0, 2.0, 7.0])
    np.testing.assert_allclose(buffer.masses, expected, rtol=1e-12)


@pytest.mark.parametrize("slots", [[-1], [53], [0.5], [[0]], [], [True], "0", None, [[1], [1, 2]]])
def test_what_are_no_slots_is_refused(slots):
    buffer = churned_buffer(Prioritized())
    with pytest.raises(ValueError, match="slots must be"):
        buffer.batch_of(slots)


def test_an_empty_buffer_has_no_slots():
    with pytest.raises(ValueError, match="slots must be"):
        new_buffer(Prioritized(), 4).batch_of([0])
