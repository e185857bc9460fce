"""The public face: environments, what goes in and what comes out."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import gymnasium as gym
import numpy as np
import pytest
import torch
from buffer_kit import (
    GROUPED,
    REFRESHING,
    STRATEGIES,
    add_some,
    assert_valid,
    churned,
    columns,
    differences,
    snapshot,
    tabular,
)

from sibling_replay import (
    Batch,
    Outcomes,
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingSample,
    Uniform,
)
from support.averaging import averaged


class BoolImages(gym.Env):
    """MinAtar's spaces and random frames: what a game looks like from here."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, 1, (10, 10, 6), np.bool_)
        self.action_space = gym.spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._frame(), {}

    def step(self, action):
        done = bool(self.np_random.random() < 0.1)
        return self._frame(), float(self.np_random.integers(2)), done, False, {}

    def _frame(self):
        return self.np_random.random((10, 10, 6)) < 0.1


ENVIRONMENTS = {
    "FrozenLake": lambda: gym.make("FrozenLake-v1"),
    "CartPole": lambda: gym.make("CartPole-v1"),
    "bool images": BoolImages,
}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_loop_stores_what_happened(make, strategy) -> None:
    """Every column of every drawn row is what the environment said for that slot."""
    env = make()
    env.action_space.seed(0)
    capacity, steps = 50, 120
    buffer = ReplayBuffer.for_env(env, capacity, strategy, seed=0)
    written = {}
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    for step in range(steps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, action, reward, next_obs, terminated, truncated)
        written[step % capacity] = (obs, action, reward, next_obs, terminated, truncated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        batch = buffer.sample(8, beta=0.5)
        buffer.update_priorities(averaged(batch), rng.random(8))
    env.close()
    assert len(buffer) == capacity
    assert_valid(buffer)
    batch = buffer.sample(64)
    assert len(batch) == batch.size == 64
    space = env.observation_space
    assert batch.obs.shape == (64, *(space.shape or ()))
    assert batch.obs.dtype == (space.dtype if space.shape else np.int64)
    for b in range(64):
        obs, action, *_ = written[batch.slots[b]]
        *_, reward, next_obs, terminated, truncated = written[batch.outcome_slots[b]]
        np.testing.assert_array_equal(batch.obs[b], obs)
        np.testing.assert_array_equal(batch.next_obs[b], next_obs)
        assert batch.action[b] == action
        assert batch.reward[b] == np.float32(reward)
        assert batch.terminated[b] == terminated
        assert batch.truncated[b] == truncated
    assert (batch.weights > 0).all()
    assert batch.weights.dtype == np.float32


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_vector_environments_go_through_extend(strategy) -> None:
    envs = gym.make_vec("CartPole-v1", num_envs=5, vectorization_mode="sync")
    envs.action_space.seed(3)
    buffer = ReplayBuffer.for_env(envs, 33, strategy, seed=0)
    written = {}
    obs, _ = envs.reset(seed=1)
    for step in range(30):
        action = envs.action_space.sample()
        next_obs, reward, terminated, truncated, _ = envs.step(action)
        buffer.extend(obs, action, reward, next_obs, terminated, truncated)
        for i in range(5):
            written[(5 * step + i) % 33] = obs[i], next_obs[i], reward[i]
        obs = next_obs
    envs.close()
    assert_valid(buffer)
    batch = buffer.sample(100)
    for b in range(100):
        np.testing.assert_array_equal(batch.obs[b], written[batch.slots[b]][0])
        np.testing.assert_array_equal(batch.next_obs[b], written[batch.outcome_slots[b]][1])


@pytest.mark.parametrize("capacity", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_extend_is_repeated_add(strategy, capacity) -> None:
    """Bit for bit, in chunks shorter and longer than the buffer, priorities changing between."""
    one, many = tabular(strategy, capacity), tabular(strategy, capacity)
    rng = np.random.default_rng(5)
    for chunk in (1, 2, 7, 30, 3):
        obs, action, next_obs = (rng.integers(3, size=chunk) for _ in range(3))
        reward = rng.integers(2, size=chunk).astype(np.float32)
        ends = rng.random((2, chunk)) < 0.3
        many.extend(obs, action, reward, next_obs, *ends)
        for i in range(chunk):
            one.add(int(obs[i]), action[i], reward[i], next_obs[i], bool(ends[0, i]), ends[1, i])
        assert differences(snapshot(one), snapshot(many)) == []
        td = rng.random(6)
        for buffer in (one, many):
            buffer.update_priorities(averaged(buffer.sample(6)), td)
    assert differences(snapshot(one), snapshot(many)) == []
    assert_valid(many)
    assert len(many) == capacity
    assert many.generations.tolist() == [(43 - slot + capacity - 1) // capacity for slot in
                                         range(capacity)]  # fmt: skip


def test_extend_by_nothing_changes_nothing() -> None:
    buffer = tabular(SiblingSample())
    none = np.zeros(0, np.int64)
    buffer.extend(none, none, np.zeros(0), none, np.zeros(0, bool), np.zeros(0, bool))
    assert len(buffer) == 0
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_batch_may_be_larger_than_the_buffer(strategy) -> None:
    buffer = tabular(strategy, capacity=3)
    add_some(buffer, 2)
    batch = buffer.sample(1000, beta=1.0)
    assert set(batch.slots.tolist()) == {0, 1}
    buffer.update_priorities(averaged(batch), np.linspace(0, 1, 1000))
    assert_valid(buffer)


TD_FORMS = {
    "list": lambda td: td.tolist(),
    "tuple": lambda td: tuple(td.tolist()),
    "float32": lambda td: td.astype(np.float32),
    "float16": lambda td: td.astype(np.float16),
    "strided": lambda td: np.repeat(td, 2)[::2],
    "reversed": lambda td: td[::-1].copy()[::-1],
    "torch float32": lambda td: torch.tensor(td, dtype=torch.float32),
    "torch float64": lambda td: torch.tensor(td),
    "torch detached": lambda td: torch.tensor(td, requires_grad=True).detach(),
    "torch view": lambda td: torch.tensor(td).unsqueeze(1).expand(8, 3)[:, 1],
}


@pytest.mark.parametrize("form", TD_FORMS.values(), ids=TD_FORMS)
@pytest.mark.parametrize("strategy", REFRESHING.values(), ids=REFRESHING)
def test_td_errors_in_any_form_give_the_same_priorities(strategy, form) -> None:
    td = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])  # exact in half precision
    expected, actual = churned(strategy), churned(strategy)
    expected.update_priorities(averaged(expected.sample(8)), td)
    actual.update_priorities(averaged(actual.sample(8)), form(td))
    assert differences(snapshot(expected), snapshot(actual)) == []


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64, np.float64])
def test_td_errors_may_be_read_only_and_are_never_written(dtype) -> None:
    buffer = churned(Prioritized())
    td = np.arange(8).astype(dtype)
    td.flags.writeable = False
    buffer.update_priorities(averaged(buffer.sample(8)), td)
    assert td.tolist() == list(range(8))
    assert buffer.max_priority == 7 + 1e-6


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_kept_batch_is_never_written_again(strategy) -> None:
    """Records are used again, so any array a caller still holds must keep its record."""
    buffer = churned(strategy)
    kept = [buffer.sample(8) for _ in range(5)]
    frozen = [columns(batch) for batch in kept]
    slices = [buffer.sample(8).obs[2:4] for _ in range(5)]
    tensors = [torch.from_numpy(buffer.sample(8).reward) for _ in range(5)]
    weights = [buffer.sample(8).weights for _ in range(5)]
    buffers = [memoryview(buffer.sample(8).next_obs) for _ in range(5)]
    blocks = [buffer.sample(8).block for _ in range(5)]
    everything = (slices, tensors, weights, buffers, blocks)
    copies = [[array.tobytes() for array in map(np.asarray, held)] for held in everything]
    for _ in range(20):
        add_some(buffer, 3, seed=9)
        buffer.update_priorities(averaged(buffer.sample(8)), np.ones(8))
    assert [columns(batch) for batch in kept] == frozen
    for held, before in zip(everything, copies, strict=True):
        assert [array.tobytes() for array in map(np.asarray, held)] == before


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_copies_of_a_buffer_are_buffers_of_their_own(strategy) -> None:
    """The kernels find arrays by address: a copy must not work on the original's."""
    buffer = churned(strategy)
    before = snapshot(buffer)
    for other in (copy.deepcopy(buffer), copy.copy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert differences(before, snapshot(other)) == []
        batch = other.sample(8)
        add_some(other, 5, seed=3)
        other.update_priorities(averaged(batch), np.arange(8.0))
        assert_valid(other)
        assert differences(before, snapshot(buffer)) == []
        with pytest.raises(ValueError, match="not drawn from this buffer"):
            buffer.update_priorities(averaged(batch), np.ones(8))


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_batch_can_be_copied_and_sent(strategy) -> None:
    buffer, twin = churned(strategy), churned(strategy)
    batch, expected = buffer.sample(8), twin.sample(8)
    sent = pickle.loads(pickle.dumps(batch))
    assert columns(sent) == columns(batch)
    assert len(pickle.dumps(batch)) < 6000, "the buffer went with the batch"
    with pytest.raises(ValueError, match="not drawn from this buffer"):
        buffer.update_priorities(averaged(sent), np.ones(8))
    copied = copy.deepcopy(batch)
    assert columns(copied) == columns(batch)
    buffer.update_priorities(averaged(copied), np.arange(8.0))
    twin.update_priorities(averaged(expected), np.arange(8.0))
    assert differences(snapshot(buffer), snapshot(twin)) == []


def test_a_buffer_is_freed_when_it_is_dropped() -> None:
    """Gigabytes must not wait for the cycle collector."""
    gc.disable()
    try:
        buffer = churned(SiblingAverage())
        batch = buffer.sample(8)
        freed = weakref.ref(buffer._memory)
        del buffer
        assert freed() is None
        assert batch.obs.shape == (8,)
    finally:
        gc.enable()


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_targets_are_averaged_over_outcomes(strategy) -> None:
    """The mean over the outcomes of an entry, the same for arrays, lists and tensors; where an
    entry has one outcome, the target itself."""
    buffer = churned(strategy)
    batch = buffer.sample(8)
    outcomes = batch.outcomes
    targets = np.asarray(outcomes.reward + 0.5 * outcomes.next_obs, dtype=np.float64)
    assert targets.shape == (len(outcomes),)
    mean = batch.average(targets)
    if isinstance(outcomes, Batch):
        np.testing.assert_array_equal(mean, targets)
        return
    assert isinstance(outcomes, Outcomes)
    for b in range(8):
        mine = slice(outcomes.starts[b], outcomes.starts[b + 1])
        assert outcomes.shares[mine].sum() == pytest.approx(1.0)
        assert (buffer.groups[outcomes.slots[mine]] == batch.groups[b]).all()
        assert mean[b] == pytest.approx((outcomes.shares[mine] * targets[mine]).sum())
    np.testing.assert_allclose(batch.average(targets.tolist()), mean)
    tensor = torch.tensor(targets, dtype=torch.float32, requires_grad=True)
    averaged = batch.average(tensor)
    np.testing.assert_allclose(averaged.detach().numpy(), mean, rtol=1e-6)
    averaged.sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), outcomes.shares, rtol=1e-6)
    ones = torch.ones(len(outcomes))
    for kind in (torch.int64, torch.bool):  # shares are no whole numbers
        np.testing.assert_allclose(batch.average(ones.to(kind)).numpy(), np.ones(8), rtol=1e-6)
    for wrong in (np.ones(len(outcomes) + 1), targets[:, None], tensor[:, None]):
        with pytest.raises(ValueError, match="numbers in one dimension, got shape"):
            batch.average(wrong)


@pytest.mark.parametrize("strategy", GROUPED.values(), ids=GROUPED)
def test_group_columns_describe_the_anchor(strategy) -> None:
    buffer = churned(strategy)
    batch = buffer.sample(50)
    groups = buffer.groups
    np.testing.assert_array_equal(batch.groups, groups[batch.anchors])
    np.testing.assert_array_equal(batch.groups, groups[batch.slots])
    np.testing.assert_array_equal(batch.groups, groups[batch.outcome_slots])
    np.testing.assert_array_equal(batch.group_sizes, np.bincount(groups)[batch.groups])


def test_a_buffer_without_groups_says_so() -> None:
    buffer = churned(Prioritized())
    assert (buffer.groups == -1).all()
    batch = buffer.sample(4)
    assert (batch.groups == -1).all() and (batch.group_sizes == 1).all()


def test_seeds() -> None:
    def drawn(seed):
        return columns(churned(SiblingSample(), seed=0).__class__ and _filled(seed).sample(32))

    def _filled(seed):
        buffer = tabular(SiblingSample(), seed=seed)
        add_some(buffer, 16)
        return buffer

    assert drawn(3) == drawn(3) == drawn(np.random.default_rng(3))
    assert drawn(3) == drawn(np.random.SeedSequence(3))
    assert drawn(3) != drawn(4)
    for bad, error in [(-1, ValueError), ("x", TypeError), (1.5, TypeError)]:
        with pytest.raises(error):
            tabular(Uniform(), seed=bad)
