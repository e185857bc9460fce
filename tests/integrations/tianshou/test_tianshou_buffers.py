"""Our buffers behind Tianshou's own calls: draws, weights, refreshes, saving, refusals."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from tianshou.data import (
    Batch,
    CachedReplayBuffer,
    PrioritizedReplayBufferManager,
    ReplayBuffer,
    ReplayBufferManager,
    VectorReplayBuffer,
)
from tianshou_kit import BETA, check, makers, single_buffer, strategies, transition

from sibling_replay import (
    Prioritized,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)
from sibling_replay.integrations.tianshou import SiblingReplayBuffer, SiblingVectorReplayBuffer
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support.host_draws import missing_host_message, refreshed, weights_of

DRAWS = 8_000


@makers
@strategies
def test_samples_follow_the_law(make, strategy):
    buffer = make(strategy)
    check(buffer)
    law = buffer.replay.sampler.probabilities().outcome
    assert law.max() > 3 * law[law > 0].min()
    draws = [buffer.sample(1)[1][0] for _ in range(DRAWS)]
    check_draws(draws, law)
    with pytest.raises(LawRejected):  # off by one slot
        check_draws((np.array(draws) + 1) % buffer.maxsize, law)


@makers
@strategies
def test_batches_and_weights(make, strategy):
    buffer = make(strategy)
    batch, indices = buffer.sample(16)
    assert np.array_equal(batch.act, buffer.act[indices])
    assert np.array_equal(batch.rew, buffer.rew[indices])
    expected = weights_of(buffer.replay.sampler, indices, BETA)
    np.testing.assert_allclose(batch.weight, expected, rtol=2e-6)
    buffer.set_beta(0.0)
    assert (buffer.sample(16)[0].weight == 1.0).all()


@makers
def test_the_drawn_slots_are_refreshed_and_the_last_duplicate_stays(make):
    buffer = make(SiblingSample(alpha=0.8))
    masses = buffer.replay.sampler.masses
    _, indices = buffer.sample(64)
    assert len(set(indices)) < 64
    errors = np.random.default_rng(2).standard_normal(64)
    buffer.update_weight(indices, errors)
    expected = refreshed(masses, indices, errors, 0.8)
    np.testing.assert_allclose(buffer.replay.sampler.masses, expected, rtol=1e-11)


@makers
def test_model_refreshes_the_anchor_not_the_slot_of_the_outcome(make):
    buffer = make(SiblingModel(alpha=0.8))
    masses = buffer.replay.sampler.masses
    _, indices = buffer.sample(16)
    anchors = buffer.replay._open.rows()[-16:, 3]
    groups = buffer.replay.sampler.groups
    assert (anchors != indices).any() and np.array_equal(groups[anchors], groups[indices])
    errors = np.linspace(-1.0, 2.0, 16)
    buffer.update_weight(indices, errors)
    expected = refreshed(masses, anchors, errors, 0.8)
    np.testing.assert_allclose(buffer.replay.sampler.masses, expected, rtol=1e-11)


def test_several_draws_may_await_their_errors():
    """Each is refreshed as drawn, and what was overwritten in between is dropped."""
    buffer = single_buffer(Prioritized(alpha=0.8))
    drawn = [buffer.sample(4)[1] for _ in range(3)]
    for _ in range(50):
        buffer.add(transition(1, 0))
    before = buffer.replay.sampler.dropped_updates
    for indices in drawn:
        buffer.update_weight(indices, np.ones(4))
    assert buffer.replay.sampler.dropped_updates == before + 12
    assert buffer.unmatched_updates == 0


def test_bad_errors_change_nothing():
    buffer = single_buffer(Prioritized())
    masses = buffer.replay.sampler.masses
    _, indices = buffer.sample(4)
    with pytest.raises(ValueError, match="TD error 1"):
        buffer.update_weight(indices, np.array([1.0, np.nan, 1.0, 1.0]))
    assert np.array_equal(masses, buffer.replay.sampler.masses)
    with pytest.raises(ValueError, match="beta"):
        buffer.set_beta(2.0)


@makers
def test_the_whole_buffer_is_tianshous(make):
    """Requests for all entries get all of them, in Tianshou's order and without weights."""
    buffer = make(SiblingSample())
    batch, indices = buffer.sample(0)
    assert sorted(indices) == buffer.replay.sampler.live_slots.tolist()
    assert "weight" not in batch
    assert len(buffer[:]) == len(buffer)


@makers
@pytest.mark.parametrize("size", [0, None])
def test_errors_of_the_whole_buffer_refresh_it(make, size):
    """`algorithm.update(sample_size=0 or None)` trains on everything and hands back its errors."""
    buffer = make(SiblingSample(alpha=0.8))
    masses = buffer.replay.sampler.masses
    _, indices = buffer.sample(size)
    errors = np.random.default_rng(0).exponential(size=len(indices))
    buffer.update_weight(indices, errors)
    expected = refreshed(masses, indices, errors, 0.8)
    np.testing.assert_allclose(buffer.replay.sampler.masses, expected, rtol=1e-11)
    assert buffer.unmatched_updates == 0


def test_errors_of_no_batch_are_dropped_and_counted():
    buffer = single_buffer(Prioritized())
    masses = buffer.replay.sampler.masses
    with pytest.warns(UserWarning, match="2 TD errors were dropped.*Tianshou sampled"):
        buffer.update_weight(np.array([0, 1]), np.ones(2))
    buffer.update_weight(np.array([0, 1]), np.ones(2))
    assert buffer.unmatched_updates == 4 and np.array_equal(masses, buffer.replay.sampler.masses)


@makers
def test_an_empty_buffer_says_so(make):
    buffer = make(SiblingSample(), steps=0)
    with pytest.raises(ValueError, match="empty buffer: collect"):
        buffer.sample(4)
    assert buffer.sample_indices(0).size == 0


@makers
def test_reset_forgets_everything(make):
    buffer = make(SiblingSample())
    buffer.reset()
    assert len(buffer) == 0 and len(buffer.replay.sampler) == 0
    assert buffer.sample_indices(-1).size == 0


def test_data_moved_from_another_buffer_is_drawn():
    source = ReplayBuffer(10)
    for i in range(7):
        source.add(transition(i % 2, 0))
    buffer = SiblingReplayBuffer(5, SiblingSample())
    assert len(buffer.update(source)) == 7
    check(buffer)
    assert len(set(buffer.replay.sampler.groups.tolist())) == 2


@makers
@strategies
def test_a_loaded_buffer_goes_on_where_it_was(make, strategy, tmp_path):
    """Through pickle and through Tianshou's HDF5 files: same draws, same weights, same masses."""
    buffer = make(strategy)
    path = str(tmp_path / "buffer.hdf5")
    buffer.save_hdf5(path)
    loaded = [pickle.loads(pickle.dumps(buffer)), type(buffer).load_hdf5(path)]
    for twin in loaded:
        original = copy.deepcopy(buffer)
        assert type(twin) is type(buffer) and len(twin) == len(buffer)
        for step in range(5):
            ours, theirs = twin.sample(8), original.sample(8)
            assert np.array_equal(ours[1], theirs[1])
            assert np.array_equal(ours[0].weight, theirs[0].weight)
            for each, indices in ((twin, ours[1]), (original, theirs[1])):
                each.update_weight(indices, np.full(8, step + 1.0))
                new = (
                    transition(np.ones(2, np.float32), 0) if each.obs.ndim > 1 else transition(1, 0)
                )
                if isinstance(each, SiblingVectorReplayBuffer):
                    each.add(Batch.stack([new]), buffer_ids=[2])
                else:
                    each.add(new)
            assert np.array_equal(twin.replay.sampler.masses, original.replay.sampler.masses)
        check(twin)


def test_a_manager_of_our_buffers_is_refused():
    """It would draw slot 0 of each, without weights."""
    buffers = [SiblingReplayBuffer(4, SiblingSample()) for _ in range(2)]
    for manager in (ReplayBufferManager, PrioritizedReplayBufferManager):
        with pytest.raises(TypeError, match="SiblingVectorReplayBuffer"):
            manager(buffers)
    with pytest.raises(TypeError, match="SiblingVectorReplayBuffer"):
        CachedReplayBuffer(buffers[0], 2, 4)
    uniform = ReplayBufferManager([SiblingReplayBuffer(4, Uniform()) for _ in range(2)])
    uniform.add(Batch.stack([transition(1, 0)] * 2))
    assert set(uniform.sample_indices(64)) == {0, 4}


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        (SiblingAverage(), {}, "Tianshou computes each target itself"),
        (SiblingModel(), {"key": lambda obs, act: 0}, "SiblingModel with a key function"),
        (SiblingSample(), {"sample_avail": True, "stack_num": 4}, "sample_avail"),
        (SiblingSample(), {"beta": -1.0}, "beta"),
    ],
)
def test_what_cannot_be_expressed_is_refused(strategy, options, message):
    with pytest.raises(ValueError, match=message):
        SiblingReplayBuffer(8, strategy, **options)


@pytest.mark.parametrize("kind", ["single", "vector"])
def test_uniform_draws_what_the_stock_buffer_draws(kind):
    if kind == "single":
        ours, stock = (
            SiblingReplayBuffer(9, Uniform(), random_seed=3),
            ReplayBuffer(9, random_seed=3),
        )
    else:
        ours = SiblingVectorReplayBuffer(9, 1, Uniform(), random_seed=3)
        stock = VectorReplayBuffer(9, 1, random_seed=3)
    for buffer in (ours, stock):
        for i in range(14):
            entry = transition(i, 0)
            buffer.add(entry if kind == "single" else Batch.stack([entry]))
    for _ in range(10):
        mine, theirs = ours.sample(16), stock.sample(16)
        assert np.array_equal(mine[1], theirs[1]) and "weight" not in mine[0]
        ours.update_weight(mine[1], np.ones(16))


def test_a_missing_host_names_the_extra():
    assert "sibling-replay[tianshou]" in missing_host_message("tianshou", "tianshou")
