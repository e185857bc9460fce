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
from tianshou_kit import transition

from sibling_replay import (
    KeyMap,
    Prioritized,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Uniform,
)
from sibling_replay.integrations.tianshou import SiblingReplayBuffer, SiblingVectorReplayBuffer
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support.host_draws import HOST_STRATEGIES, missing_host_message, refreshed, weights_of

DRAWS = 8_000
BETA = 0.7


def vector_buffer(strategy, steps: int = 160, **options) -> SiblingVectorReplayBuffer:
    """Three rings of 20, unequally full and written in turns, after many refreshes."""
    buffer = SiblingVectorReplayBuffer(60, 3, strategy, beta=BETA, random_seed=1, **options)
    rng = np.random.default_rng(0)
    for step in range(steps):
        ids = [0, 1] if step > 8 else [0, 1, 2]  # the third ring stays partly empty
        count = len(ids)
        obs = rng.geometric(0.4, count).astype(np.float32)[:, None] * np.ones((1, 2), np.float32)
        buffer.add(
            Batch(
                obs=obs,
                act=rng.integers(0, 2, count),
                rew=rng.standard_normal(count),
                terminated=rng.random(count) < 0.1,
                truncated=np.zeros(count, dtype=bool),
                obs_next=obs + 1,
                info=[{}] * count,
            ),
            buffer_ids=ids,
        )
        _, indices = buffer.sample(8)
        buffer.update_weight(indices, np.exp(rng.standard_normal(8)) * rng.choice([-1, 1], 8))
    return buffer


def single_buffer(strategy, steps: int = 160, **options) -> SiblingReplayBuffer:
    buffer = SiblingReplayBuffer(50, strategy, beta=BETA, random_seed=1, **options)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        buffer.add(transition(int(rng.geometric(0.4)), int(rng.integers(2)), rng.normal()))
        _, indices = buffer.sample(8)
        buffer.update_weight(indices, np.exp(rng.standard_normal(8)))
    return buffer


MAKERS = {"single": single_buffer, "vector": vector_buffer}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
strategies = pytest.mark.parametrize("strategy", HOST_STRATEGIES.values(), ids=HOST_STRATEGIES)


def check(buffer) -> None:
    ok, why = buffer.replay.sampler.check_valid()
    assert ok, why
    assert np.array_equal(
        np.sort(ReplayBuffer.sample_indices(buffer, 0))
        if isinstance(buffer, SiblingReplayBuffer)
        else np.sort(VectorReplayBuffer.sample_indices(buffer, 0)),
        buffer.replay.sampler.live_slots,
    )


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


@strategies
def test_siblings_are_equal_observations_and_actions_across_the_rings(strategy):
    if not strategy.needs.groups:
        strategy = SiblingSample(alpha=0.8)
    buffer = vector_buffer(strategy)
    live, groups = buffer.replay.sampler.live_slots, buffer.replay.sampler.groups
    keys = [(*buffer.obs[slot], buffer.act[slot]) for slot in live]
    for i, mine in enumerate(keys):
        for j, theirs in enumerate(keys):
            assert (mine == theirs) == (groups[live[i]] == groups[live[j]])
    rings = [set(groups[live[live // 20 == ring]]) for ring in range(3)]
    assert rings[0] & rings[1]


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


def test_key_functions_define_siblings():
    buffer = single_buffer(SiblingSample(), key=lambda obs, act: int(obs) // 2)
    live, groups = buffer.replay.sampler.live_slots, buffer.replay.sampler.groups
    keys = {i: (int(buffer.obs[i]) // 2, int(buffer.act[i])) for i in live}  # and the action
    for i in live:
        for j in live:
            assert (keys[i] == keys[j]) == (groups[i] == groups[j])


class Halves(KeyMap):
    """A map of a whole batch; notes the shapes it is given."""

    def __init__(self):
        self.seen = []

    def keys(self, obs, action):
        self.seen.append((type(obs), obs.shape, type(action), action.shape, action.dtype))
        return obs.astype(np.int64) // 2


def test_a_key_map_defines_siblings_by_one_call_a_write():
    key = Halves()
    buffer = SiblingVectorReplayBuffer(8, 2, SiblingSample(), key=key)
    buffer.add(Batch.stack([transition(2, 0), transition(3, 0)]))
    buffer.add(Batch.stack([transition(3, 1), transition(4, 0)]))
    assert [seen[:4] for seen in key.seen] == [(np.ndarray, (2,), np.ndarray, (2,))] * 2
    groups = buffer.replay.sampler.groups
    assert groups[[0, 4, 1, 5]].tolist() == [0, 0, 1, 2]


def test_observations_of_several_parts_need_a_key():
    parts = transition(Batch(a=np.zeros(2), b=np.ones(1)), 0)
    with pytest.raises(TypeError, match="key function"):
        SiblingReplayBuffer(4, SiblingSample()).add(parts)
    keyed = SiblingReplayBuffer(4, SiblingSample(), key=lambda obs, act: int(obs.b[0]))
    keyed.add(parts)
    assert keyed.sample(2)[1].tolist() == [0, 0]
    plain = SiblingReplayBuffer(4, Prioritized())
    plain.add(parts)
    assert plain.sample(2)[1].tolist() == [0, 0]


def test_stacked_frames_are_the_key_as_tianshou_reads_them():
    """Frames 1, 2, 1, 2: equal last frames, but the first has nothing before it."""
    buffer = SiblingReplayBuffer(8, SiblingSample(), stack_num=2)
    for frame in (1, 2, 1, 2):
        buffer.add(transition(frame, 0))
    groups = buffer.replay.sampler.groups[:4]
    assert groups[0] != groups[2] and groups[1] == groups[3]
    assert buffer.sample(3)[0].obs.shape == (3, 2)


@pytest.mark.parametrize("rings", [1, 2])
def test_stacks_cut_by_the_ring_are_not_drawn(rings):
    """Whatever is drawn still reads the stack that it was grouped by."""
    size, stack = 12, 4
    if rings == 1:
        buffer = SiblingReplayBuffer(size, SiblingSample(), stack_num=stack)
    else:
        buffer = SiblingVectorReplayBuffer(rings * size, rings, SiblingSample(), stack_num=stack)
    rng, most_cut = np.random.default_rng(0), 0
    for step in range(60):
        new = [
            transition(int(rng.integers(2)), 0, terminated=bool(rng.random() < 0.1))
            for _ in range(rings)
        ]
        buffer.add(new[0] if rings == 1 else Batch.stack(new))
        live = buffer.replay.sampler.live_slots
        cut = len(buffer) - len(live)
        assert cut == 0 if step < size else cut <= rings * (stack - 1)
        most_cut = max(most_cut, cut)
        stacks, groups = buffer.get(live, "obs"), buffer.replay.sampler.groups[live]
        for i in range(len(live)):
            for j in range(i):
                assert (stacks[i] == stacks[j]).all() == (groups[i] == groups[j])
        _, indices = buffer.sample(8)
        assert np.isin(indices, live).all()
        buffer.update_weight(indices, rng.random(8))
    everything = buffer.sample_indices(0)
    buffer.update_weight(everything, np.full(len(everything), 5.0))
    assert buffer.unmatched_updates == cut  # they are read, but hold no priority
    assert most_cut == rings * (stack - 1)
    ok, why = buffer.replay.sampler.check_valid()
    assert ok, why


def test_a_key_function_gets_one_observation_and_one_action():
    """As `ReplayBuffer` hands them over: a NumPy scalar of a discrete action, else arrays."""
    seen = []

    def key(obs, act):
        seen.append((obs, act))
        return 0

    for act in (1, np.ones(2, np.float32)):
        buffer = SiblingVectorReplayBuffer(8, 2, SiblingSample(), key=key)
        buffer.add(Batch.stack([transition(np.zeros(3, np.float32), act)] * 2))
    (obs, scalar), (_, vector) = seen[0], seen[2]
    assert type(obs) is np.ndarray and obs.shape == (3,)
    assert isinstance(scalar, np.integer) and scalar == 1
    assert type(vector) is np.ndarray and vector.shape == (2,)


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
