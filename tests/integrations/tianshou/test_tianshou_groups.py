"""What makes siblings in our buffers behind Tianshou's own calls: keys, maps, stacked frames."""

from __future__ import annotations

import numpy as np
import pytest
from tianshou.data import (
    Batch,
)
from tianshou_kit import single_buffer, strategies, transition, vector_buffer

from sibling_replay import (
    KeyMap,
    Prioritized,
    SiblingSample,
)
from sibling_replay.integrations.tianshou import SiblingReplayBuffer, SiblingVectorReplayBuffer


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


def test_observations_of_several_parts():
    """Equal parts are siblings; a key function is given the entry as Tianshou has it."""
    parts = transition(Batch(a=np.zeros(2), b=np.ones(1)), 0)
    exact = SiblingReplayBuffer(4, SiblingSample())
    for b in (1.0, 1.0, 2.0):
        exact.add(transition(Batch(a=np.array([0.0, -0.0]), b=np.array([b])), 0))
    exact.add(transition(Batch(a=np.zeros(2), b=np.ones(1)), 0))
    assert exact.replay.sampler.groups.tolist() == [0, 0, 1, 0]
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
