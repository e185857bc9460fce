"""Who is refreshed with what: the rules of the paper's appendix "Priority updates", one by one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from sibling_replay import Prioritized, SiblingAverage, SiblingModel, SiblingSample, Uniform
from support.averaging import averaged
from support.scenes import STRATEGIES, add_entries, new_buffer

ALPHA, EPSILON = 1.0, 1e-6


def filled(strategy, capacity=12, groups=3, **options):
    buffer = new_buffer(strategy(alpha=ALPHA, **options), capacity, seed=2)
    add_entries(buffer, np.arange(capacity) % groups, np.arange(capacity))
    return buffer


def last_of(slots, errors):
    return {int(s): e + EPSILON for s, e in zip(slots, errors, strict=True)}


def largest_of(slots, errors):
    out = {}
    for slot, error in zip(slots, errors, strict=True):
        out[int(slot)] = max(out.get(int(slot), 0.0), error + EPSILON)
    return out


def expect(buffer, refreshed):
    expected = np.ones(len(buffer))
    expected[list(refreshed)] = list(refreshed.values())
    np.testing.assert_allclose(buffer.masses, expected, rtol=1e-13)


ERRORS = np.random.default_rng(0).permutation(np.linspace(0.1, 0.9, 30))


def test_uniform_refreshes_nothing():
    buffer = filled(Uniform)
    buffer.update_priorities(averaged(buffer.sample(30)), ERRORS)
    expect(buffer, {})
    assert buffer.max_priority == 1.0


@pytest.mark.parametrize("strategy", [Prioritized, SiblingModel])
def test_anchor_is_refreshed_and_the_last_wins(strategy):
    buffer = filled(strategy)
    batch = buffer.sample(30)
    assert np.unique(batch.anchors).size < 30  # with duplicates
    buffer.update_priorities(averaged(batch), ERRORS)
    expect(buffer, last_of(batch.anchors, ERRORS))


def test_model_does_not_refresh_where_the_outcome_came_from():
    buffer = filled(SiblingModel)
    batch = buffer.sample(4)
    assert not np.array_equal(batch.anchors, batch.outcome_slots)
    buffer.update_priorities(averaged(batch), ERRORS[:4])
    expect(buffer, last_of(batch.anchors, ERRORS[:4]))


def test_sample_refreshes_the_trained_sibling():
    buffer = filled(SiblingSample)
    batch = buffer.sample(30)
    assert not np.array_equal(batch.anchors, batch.slots)
    buffer.update_priorities(averaged(batch), ERRORS)
    expect(buffer, last_of(batch.slots, ERRORS))


@pytest.mark.parametrize("most", [None, 2])
def test_average_refreshes_the_anchor_and_the_largest_wins(most):
    buffer = filled(SiblingAverage, max_siblings=most)
    batch = buffer.sample(30)
    buffer.update_priorities(averaged(batch), ERRORS)
    expect(buffer, largest_of(batch.anchors, ERRORS))
    assert largest_of(batch.anchors, ERRORS) != last_of(batch.anchors, ERRORS)


def test_average_refreshes_every_sibling_of_a_subset():
    buffer = filled(SiblingAverage, max_siblings=2, update_all_siblings=True)
    batch = buffer.sample(5)
    used = batch.outcomes.slots
    proposed = np.repeat(ERRORS[:5], np.diff(batch.outcomes.starts))
    buffer.update_priorities(averaged(batch), ERRORS[:5])
    expect(buffer, largest_of(used, proposed))
    # The anchor takes part in the draw but is not always drawn, and then it is left alone.
    assert not set(batch.anchors.tolist()) <= set(used.tolist())


def test_average_refreshes_every_sibling_of_the_group():
    """Though only one slot an outcome is listed, all members of the group were averaged."""
    buffer = new_buffer(SiblingAverage(alpha=ALPHA, update_all_siblings=True), 12, seed=2)
    add_entries(buffer, np.arange(12) % 3, np.zeros(12, dtype=int))
    batch = buffer.sample(2)
    assert batch.outcomes.size == 2
    buffer.update_priorities(averaged(batch), ERRORS[:2])
    members = [np.flatnonzero(buffer.groups == group) for group in batch.groups]
    proposed = np.repeat(ERRORS[:2], [len(m) for m in members])
    expect(buffer, largest_of(np.concatenate(members), proposed))


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("all_siblings", [False, True])
def test_an_average_that_was_never_taken_is_refused(most, all_siblings):
    """TD errors of the anchors' own outcomes: what a loop over `batch.reward` would hand back."""
    buffer = filled(SiblingAverage, max_siblings=most, update_all_siblings=all_siblings)
    before = buffer.masses
    batch = buffer.sample(30)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"batch\.outcomes.*pass them through `batch.average`"):
            buffer.update_priorities(batch, np.abs(batch.reward))
    assert np.array_equal(buffer.masses, before) and buffer.dropped_updates == 0
    batch.average(batch.outcomes.reward)
    buffer.update_priorities(batch, np.full(30, 3.0))
    assert set(buffer.masses[batch.anchors if most is None else batch.outcomes.slots]) != {1.0}


def test_every_batch_must_be_averaged_even_of_groups_of_one():
    """Not only the first that has several outcomes an entry: the rule does not depend on luck."""
    buffer = new_buffer(SiblingAverage(), 4)
    add_entries(buffer, [0, 1, 2, 3], [0, 0, 0, 0])
    for _ in range(2):
        with pytest.raises(ValueError, match="no mean was taken"):
            buffer.update_priorities(buffer.sample(4), np.ones(4))
        batch = buffer.sample(4)
        assert np.array_equal(batch.average(batch.outcomes.reward), batch.reward)
        buffer.update_priorities(batch, np.ones(4))


def test_means_may_be_taken_without_average():
    """Of several numbers an outcome, say, or in another process."""
    for mean in (
        lambda batch: batch.outcomes.shares,
        lambda batch: batch.outcomes.starts,
        pickle.dumps,
    ):
        buffer = filled(SiblingAverage)
        batch = buffer.sample(30)
        mean(batch)
        buffer.update_priorities(batch, np.full(30, 8.0))
        assert np.allclose(buffer.masses[batch.anchors], (8.0 + EPSILON) ** ALPHA)


def test_only_averages_ask_for_average():
    for strategy in (Prioritized, SiblingSample, SiblingModel):
        buffer = filled(strategy)
        buffer.update_priorities(buffer.sample(30), ERRORS)
        assert len(set(buffer.masses)) > 3


def test_new_entries_get_the_largest_raw_priority_ever():
    """Raw, then to the power alpha once; it outlives the entry that had it."""
    buffer = new_buffer(Prioritized(alpha=0.5), 3)
    add_entries(buffer, [0, 1, 2], [0, 0, 0])
    assert np.array_equal(buffer.masses, np.ones(3))
    batch = buffer.sample(3)
    buffer.update_priorities(averaged(batch), np.array([16.0, 16.0, 16.0]))
    assert buffer.max_priority == 16.0 + EPSILON
    for _ in range(6):
        batch = buffer.sample(3)
        buffer.update_priorities(averaged(batch), np.full(3, 0.25))
        add_entries(buffer, [5], [5])
        newest = (int(buffer._memory.added) - 1) % 3
        assert buffer.masses[newest] == pytest.approx(np.sqrt(16.0 + EPSILON), rel=1e-13)


def test_the_largest_counts_even_when_a_later_duplicate_overwrites_it():
    buffer = new_buffer(Prioritized(alpha=1.0), 1)
    add_entries(buffer, [0], [0])
    buffer.update_priorities(averaged(buffer.sample(3)), np.array([1.0, 50.0, 2.0]))
    assert buffer.masses[0] == pytest.approx(2.0 + EPSILON, rel=1e-13)
    assert buffer.max_priority == 50.0 + EPSILON


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "uniform"])
def test_stale_updates_are_dropped_and_counted(name):
    """Everything drawn is overwritten: nothing changes but the count (pitfall 3)."""
    buffer = new_buffer(STRATEGIES[name](alpha=ALPHA), 4, seed=1)
    add_entries(buffer, [0, 1, 2, 3], [0, 0, 0, 0])
    batch = buffer.sample(6)
    add_entries(buffer, [4, 5, 6, 7], [0, 0, 0, 0])
    before, peak = buffer.masses, buffer.max_priority
    buffer.update_priorities(averaged(batch), np.full(6, 99.0))
    assert np.array_equal(buffer.masses, before)
    assert buffer.max_priority == peak
    # Of a whole group there is one update, however often it was drawn.
    expected = np.unique(batch.groups).size if name == "average-all" else 6
    assert buffer.dropped_updates == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_the_sign_of_an_error_makes_no_difference(strategy, dtype):
    """Priorities are made of sizes: with signed errors the same draws follow, to the last bit."""
    buffers = [new_buffer(strategy(), 24, seed=2) for _ in range(2)]
    rng = np.random.default_rng(3)
    for buffer in buffers:
        add_entries(buffer, np.arange(40) % 5, np.arange(40) % 7)
    for _ in range(30):
        sizes = rng.exponential(size=16).astype(dtype)
        signs = rng.choice([-1, 1], size=16).astype(dtype)
        batches = [averaged(buffer.sample(16)) for buffer in buffers]
        assert np.array_equal(batches[0].slots, batches[1].slots)
        assert np.array_equal(batches[0].weights, batches[1].weights)
        buffers[0].update_priorities(batches[0], sizes)
        buffers[1].update_priorities(batches[1], signs * sizes)
    assert np.array_equal(buffers[0].masses, buffers[1].masses)
    assert buffers[0].max_priority == buffers[1].max_priority
