"""The buffer as SB3 uses it: time limits, spaces, refreshes, files, bad input."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_kit import N_ENVS, filled_buffer, step_of
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sibling_replay import Needs, Prioritized, SiblingAverage, SiblingModel, SiblingSample, Uniform
from sibling_replay.integrations.sb3 import SiblingReplayBuffer
from support.scenes import STRATEGIES


def twin_buffers(space, n_envs=2, **options):
    """The stock buffer and ours, given the same steps."""
    actions = spaces.Discrete(3)
    stock = ReplayBuffer(12, space, actions, device="cpu", n_envs=n_envs, **options)
    ours = SiblingReplayBuffer(
        12, space, actions, device="cpu", n_envs=n_envs, strategy=Uniform(), **options
    )
    space.seed(3)
    rng = np.random.default_rng(3)
    for step in range(9):
        _, _, action, reward, done, infos = step_of(rng, step * n_envs, n_envs)
        obs, next_obs = (np.stack([space.sample() for _ in range(n_envs)]) for _ in range(2))
        for buffer in (stock, ours):
            buffer.add(obs, next_obs, action, reward, done, infos)
    return stock, ours


SPACES = {
    "discrete": spaces.Discrete(5),
    "box": spaces.Box(-1, 1, (4,), np.float32),
    "image": spaces.Box(0, 255, (3, 6, 6), np.uint8),
    "binary": spaces.MultiBinary(6),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
}


@pytest.mark.parametrize("timeouts", [True, False], ids=["bootstrapped", "ends"])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("space", SPACES)
def test_uniform_samples_are_the_stock_buffers(space, n_envs, timeouts):
    """Same seed, same tensors, for every observation space and either reading of time limits."""
    stock, ours = twin_buffers(SPACES[space], n_envs, handle_timeout_termination=timeouts)
    for _ in range(3):
        state = np.random.get_state()
        expected = stock.sample(10)
        np.random.set_state(state)
        found = ours.sample(10)
        for name in ("observations", "actions", "next_observations", "dones", "rewards"):
            left, right = getattr(expected, name), getattr(found, name)
            assert left.dtype == right.dtype and left.equal(right), name


def test_time_limits_are_recorded_and_by_default_no_end():
    done = np.array([True, True, False])
    infos = [{"TimeLimit.truncated": True}, {}, {}]
    zeros = np.zeros(3, dtype=np.int64)
    for handled, expected in ((True, [0, 1, 0]), (False, [1, 1, 0])):
        buffer = filled_buffer(SiblingSample(), steps=1, handle_timeout_termination=handled)
        buffer.reset()
        buffer.add(zeros, zeros, zeros, zeros.astype(np.float32), done, infos)
        stored = buffer.storage.transitions()
        assert stored["terminated"].tolist() == [False, True, False]
        assert stored["truncated"].tolist() == [True, False, False]
        samples = buffer.sample(50)
        dones = samples.dones.numpy()[:, 0]
        assert np.array_equal(dones, np.array(expected)[samples.batch.outcome_slots])
        assert set(dones) == set(expected)


def test_normalised_environments_give_normalised_samples():
    env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    env.reset()
    for _ in range(20):
        env.step([1])
    space = env.observation_space
    buffer = SiblingReplayBuffer(8, space, env.action_space, device="cpu", strategy=Prioritized())
    obs = np.full((1, 4), 0.5, dtype=np.float32)
    buffer.add(obs, 2 * obs, np.array([1]), np.array([3.0]), np.array([False]), [{}])
    samples = buffer.sample(2, env=env)
    assert np.allclose(samples.observations.numpy(), env.normalize_obs(obs))
    assert np.allclose(samples.next_observations.numpy(), env.normalize_obs(2 * obs))
    assert np.allclose(samples.rewards.numpy(), env.normalize_reward(np.array([3.0])))
    assert samples.rewards.dtype == th.float32
    assert not np.allclose(samples.observations.numpy(), obs)


# ---------------------------------------------------------------------- refresh


def test_who_is_refreshed():
    """SAMPLE the sibling, PER and MODEL the anchor, AVG the anchor or all; |td| + epsilon."""
    errors = np.linspace(0.5, 3.0, 12).astype(np.float32)
    for strategy, of in (
        (Prioritized(alpha=1.0), lambda batch: batch.anchors),
        (SiblingSample(alpha=1.0), lambda batch: batch.outcome_slots),
        (SiblingModel(alpha=1.0), lambda batch: batch.anchors),
        (SiblingAverage(alpha=1.0), lambda batch: batch.anchors),
    ):
        buffer = filled_buffer(strategy)
        expected = buffer.storage.masses
        samples = buffer.sample(12)
        samples.batch.average(samples.rewards.numpy()[:, 0])  # as a learner does
        signed = th.tensor(errors * np.where(np.arange(12) % 2, 1, -1))
        buffer.update_priorities(samples, signed.float().reshape(-1, 1))
        for slot, error in zip(of(samples.batch), errors, strict=True):  # rising: last is largest
            expected[slot] = float(error) + 1e-6
        np.testing.assert_allclose(buffer.storage.masses, expected, rtol=1e-12)


def test_uniform_refreshes_nothing():
    buffer = filled_buffer(Uniform())
    before = buffer.storage.masses
    buffer.update_priorities(buffer.sample(4), th.ones(4, 1))
    assert np.array_equal(buffer.storage.masses, before)


def test_updates_for_overwritten_entries_are_dropped():
    buffer = filled_buffer(Prioritized(alpha=1.0))
    samples = buffer.sample(20)
    rng = np.random.default_rng(0)
    for step in range(buffer.buffer_size):
        buffer.add(*step_of(rng, 1000 + step * N_ENVS))
    before = buffer.storage.masses
    buffer.update_priorities(samples, th.full((20,), 50.0))
    assert np.array_equal(buffer.storage.masses, before)
    assert buffer.storage.dropped_updates == 20


# ------------------------------------------------------------------------ files


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_pickled_buffer_continues_bit_for_bit(name):
    buffer = filled_buffer(STRATEGIES[name]())
    twin = pickle.loads(pickle.dumps(buffer))
    rng, twin_rng = (np.random.default_rng(4) for _ in range(2))
    for step in range(30):
        buffer.add(*step_of(rng, 500 + step))
        twin.add(*step_of(twin_rng, 500 + step))
        state = np.random.get_state()
        ours = buffer.sample(8)
        np.random.set_state(state)
        theirs = twin.sample(8)
        for left, right in zip(ours, theirs, strict=True):
            assert not isinstance(left, th.Tensor) or left.equal(right)
        for samples in (ours, theirs):
            samples.batch.average(samples.rewards.numpy()[:, 0])  # as a learner does
        errors = th.tensor(rng.random(8))
        assert th.equal(errors, th.tensor(twin_rng.random(8)))
        buffer.update_priorities(ours, errors)
        twin.update_priorities(theirs, errors)
    assert np.array_equal(buffer.storage.masses, twin.storage.masses)
    assert (buffer.pos, buffer.full) == (twin.pos, twin.full)


def test_reset_empties():
    buffer = filled_buffer(SiblingSample())
    buffer.reset()
    assert (buffer.size(), len(buffer.storage), buffer.full) == (0, 0, False)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)


def test_the_seed_decides_the_draws():
    def draws(seed):
        return filled_buffer(SiblingSample(), seed=seed).sample(50).batch.slots.copy()

    assert np.array_equal(draws(1), draws(1))
    assert not np.array_equal(draws(1), draws(2))


# -------------------------------------------------------------------- bad input


def test_what_cannot_be_stored_is_refused():
    box, actions = spaces.Box(0, 1, (2,)), spaces.Discrete(2)
    with pytest.raises(NotImplementedError, match="Tuple"):  # SB3 itself takes Dict alone
        SiblingReplayBuffer(10, spaces.Tuple((box,)), actions)
    with pytest.raises(ValueError, match="optimize_memory_usage"):
        SiblingReplayBuffer(10, box, actions, optimize_memory_usage=True)
    with pytest.raises(TypeError, match="strategy"):
        SiblingReplayBuffer(10, box, actions, strategy="PER")


@pytest.mark.parametrize("n_envs", [1, N_ENVS])
def test_a_bad_step_changes_nothing(n_envs):
    buffer = filled_buffer(SiblingSample(), n_envs)
    before, pos = pickle.dumps(buffer.storage.state_dict()), buffer.pos
    step = list(step_of(np.random.default_rng(0), 0, n_envs))
    step[3] = step[3].copy()
    step[3][-1] = np.nan
    with pytest.raises(ValueError, match="reward"):
        buffer.add(*step)
    with pytest.raises(ValueError, match="reshape"):
        buffer.add(np.zeros(7), *step_of(np.random.default_rng(0), 0, n_envs)[1:])
    assert pickle.dumps(buffer.storage.state_dict()) == before and buffer.pos == pos


def test_bad_td_errors_change_nothing():
    buffer = filled_buffer(Prioritized())
    samples, before = buffer.sample(3), buffer.storage.masses
    for bad, match in ((th.tensor([1.0, th.nan, 1.0]), "slot"), (th.ones(4), "expected 3")):
        with pytest.raises(ValueError, match=match):
            buffer.update_priorities(samples, bad)
    with pytest.raises(ValueError, match="beta"):
        buffer.beta = 1.5
        buffer.sample(3)
    assert np.array_equal(buffer.storage.masses, before)


def test_what_sb3_cannot_give_is_refused() -> None:
    """A shift of targets, or more than TD errors: they would be lost in silence."""

    class Shifting(SiblingSample):
        needs = Needs(groups=True, shifts=True)

    class Asking(SiblingSample):
        needs = Needs(groups=True, signals=("target",))

    space = spaces.Box(-1, 1, (2,))
    for strategy, message in ((Shifting(), "adds something to targets"), (Asking(), "target as")):
        with pytest.raises(ValueError, match=message):
            SiblingReplayBuffer(50, space, spaces.Discrete(2), strategy=strategy)
