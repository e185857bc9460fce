"""Rank-based prioritized replay, beside its rule in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sibling_replay import RankBased, ReplayBuffer, SlotSampler
from sibling_replay.testing.chi_square import check_draws
from support.saboteurs import RankedBySweepsAlone
from support.scenes import add_entries, draw_many, new_buffer


def test_masses_of_a_naive_twin() -> None:
    """Ranked anew every seven refreshes; in between, what is refreshed gets its rank among the
    errors ranked last, and newcomers the first."""
    buffer = new_buffer(RankBased(every=7, alpha=0.7), 40, seed=3, key=None)
    rng = np.random.default_rng(0)
    errors, masses, ranked = np.full(40, np.inf), np.zeros(40), np.zeros(0)
    live = added = refreshes = 0

    def add(count: int) -> None:
        nonlocal live, added
        add_entries(buffer, np.arange(count), np.arange(count) + added)
        slots = (added + np.arange(count)) % 40
        errors[slots], masses[slots] = np.inf, 1.0
        added, live = added + count, min(live + count, 40)

    for turn in range(150):
        add(int(rng.integers(1, 4)))
        batch, drawn_at = buffer.sample(16, 0.5), added
        slots = batch.slots.copy()
        if turn % 3 == 0:
            add(5)  # the refresh comes late
        given = np.round(rng.normal(size=16), 1)  # with ties
        buffer.update_priorities(batch, given)
        written_over = {place % 40 for place in range(drawn_at, added)}
        for slot, error in zip(slots, np.abs(given), strict=True):
            if slot not in written_over:
                errors[slot] = error
                masses[slot] = (1.0 + np.count_nonzero(ranked > error)) ** -0.7
        refreshes += 1
        if refreshes % 7 == 0:
            order = np.argsort(-errors[:live], kind="stable")
            masses[order] = np.arange(1.0, live + 1) ** -0.7
            ranked = errors[order]
        np.testing.assert_allclose(buffer.masses, masses[:live], rtol=1e-12)
    assert buffer.dropped_updates > 20
    assert buffer.check_valid() == (True, "")


@pytest.mark.parametrize(("kind", "held"), [(RankBased, False), (RankedBySweepsAlone, True)])
def test_newcomers_do_not_hold_the_buffer_for_long(kind: Any, held: bool) -> None:
    """Once replayed, a newcomer is one of many again, however seldom all are ranked: half of the
    draws go to the newer half. With ranks from sweeps alone nearly all do."""
    buffer = new_buffer(kind(every=1_000, alpha=0.7), 2_000, seed=0, key=None)
    add_entries(buffer, np.arange(2_000) % 3, np.arange(2_000))
    rng = np.random.default_rng(0)
    for step in range(2_500):
        if step >= 1_500:
            add_entries(buffer, [step % 3], [step])
        batch = buffer.sample(32)
        buffer.update_priorities(batch, rng.normal(size=32))
    newest = buffer.probabilities().trained[:1_000]  # the ring wrapped around at 2,000
    assert newest.sum() > 0.95 if held else newest.sum() < 0.6


def test_masses_are_powers_of_ranks() -> None:
    buffer = new_buffer(RankBased(every=1, alpha=0.7), 30, seed=4)
    add_entries(buffer, np.arange(20) % 3, np.arange(20))
    errors: dict[int, float] = {}
    rng = np.random.default_rng(1)
    for _ in range(60):
        batch = buffer.sample(8)
        given = rng.normal(size=8)
        errors.update(zip(batch.slots.tolist(), np.abs(given).tolist(), strict=True))
        buffer.update_priorities(batch, given)
        ranked = sorted(range(20), key=lambda slot: (-errors.get(slot, np.inf), slot))
        expected = np.empty(20)
        expected[ranked] = np.arange(1.0, 21.0) ** -0.7
        np.testing.assert_allclose(buffer.masses, expected, rtol=1e-12)
    law = buffer.probabilities()
    np.testing.assert_allclose(law.trained, expected / expected.sum(), rtol=1e-12)
    check_draws(draw_many(buffer, 20_000, 1).trained, law.trained)
    add_entries(buffer, [1], [1])
    assert buffer.masses[20] == 1.0  # a newcomer ranks first


def test_invalid_errors_and_empty_slots_change_nothing() -> None:
    sampler = SlotSampler(50, RankBased(every=2), seed=1)
    sampler.put(np.arange(0, 50, 2))
    batch = sampler.sample(8)
    before = {name: array.tobytes() for name, array in sampler._memory.arrays().items()}
    with pytest.raises(ValueError, match="must be finite"):
        sampler.update_priorities(batch, np.full(8, np.nan))
    with pytest.raises(ValueError, match="slot 1 holds no entry"):
        sampler.update_slots([1], [1.0], sampler.clock)
    after = {name: array.tobytes() for name, array in sampler._memory.arrays().items()}
    assert before == after
    for _ in range(4):
        sampler.update_slots(batch.slots, np.arange(8.0) - 4, sampler.clock)
    assert len(np.unique(sampler.masses[sampler.live_slots])) == 25
    assert sampler.check_valid() == (True, "")


def test_save_and_go_on(tmp_path) -> None:
    buffer = new_buffer(RankBased(every=3, normalize="buffer"), 30, seed=4)
    add_entries(buffer, np.arange(44) % 3, np.arange(44))
    buffer.update_priorities(buffer.sample(8), np.arange(8.0))
    buffer.save(tmp_path / "state")
    twin = ReplayBuffer.load(tmp_path / "state")
    assert twin.strategy == buffer.strategy
    for _ in range(10):
        for each in (buffer, twin):
            batch = each.sample(8)
            each.update_priorities(batch, batch.reward * 1.0)
        np.testing.assert_array_equal(buffer.masses, twin.masses)
    assert buffer.state_dict()["header"] == twin.state_dict()["header"]


@pytest.mark.parametrize("every", [0, -1, True, 1.5])
def test_options(every) -> None:
    with pytest.raises((ValueError, TypeError)):
        RankBased(every=every)
    with pytest.raises(ValueError, match="newcomers rank first"):
        RankBased(initial="median")
