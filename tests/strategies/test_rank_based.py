"""Rank-based prioritized replay: compiled, beside the same rule in NumPy and in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from test_examples import example

from sibling_replay import RankBased, ReplayBuffer, SlotSampler
from sibling_replay.testing.chi_square import check_draws
from support.scenes import add_entries, draw_many, new_buffer


def test_the_compiled_and_the_numpy_strategy_are_one() -> None:
    buffers = [
        new_buffer(kind(every=7, alpha=0.7), 40, seed=3, key=None)
        for kind in (RankBased, example("rank_based"))
    ]
    rng = np.random.default_rng(0)
    for turn in range(150):
        count = int(rng.integers(1, 4))
        for buffer in buffers:
            add_entries(buffer, np.arange(count), np.arange(count) + turn)
        batches = [buffer.sample(16, 0.5) for buffer in buffers]
        np.testing.assert_array_equal(batches[0].slots, batches[1].slots)
        np.testing.assert_allclose(batches[0].weights, batches[1].weights, rtol=1e-6)
        if turn % 3 == 0:  # late
            for buffer in buffers:
                add_entries(buffer, np.arange(5), np.arange(5))
        errors = np.round(rng.normal(size=16), 1)  # with ties
        for buffer, batch in zip(buffers, batches, strict=True):
            buffer.update_priorities(batch, errors)
        np.testing.assert_allclose(buffers[0].masses, buffers[1].masses, rtol=1e-12)
        assert buffers[0].dropped_updates == buffers[1].dropped_updates
    assert buffers[0].dropped_updates > 20
    assert buffers[0].check_valid() == buffers[1].check_valid() == (True, "")


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
