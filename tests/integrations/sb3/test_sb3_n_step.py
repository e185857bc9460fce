"""n-step returns in SB3: its own NStepReplayBuffer's targets, and its own runs, under Uniform."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch as th
from algorithms_kit import ALGORITHMS, SMALL, env_of, learnt, model_of, stock_of
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize

from sibling_replay import Prioritized, SiblingSample, Uniform
from sibling_replay.integrations.sb3 import SiblingReplayBuffer, export
from sibling_replay.microscope.transitions import Reading, read_transitions

OBS, ACTIONS = spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(3)


def filled(kind, n_steps, n_envs, steps, handle_timeouts=True, **options):
    """A buffer of steps with ends of both kinds."""
    rng = np.random.default_rng(7)
    buffer = kind(
        20 * n_envs, OBS, ACTIONS, device="cpu", n_envs=n_envs, n_steps=n_steps, gamma=0.9,
        handle_timeout_termination=handle_timeouts, **options,
    )  # fmt: skip
    for _ in range(steps):
        done = rng.random(n_envs) < 0.2
        buffer.add(
            rng.normal(size=(n_envs, 2)).astype(np.float32),
            rng.normal(size=(n_envs, 2)).astype(np.float32),
            rng.integers(0, 3, (n_envs, 1)),
            rng.normal(size=n_envs).astype(np.float32),
            done,
            [{"TimeLimit.truncated": bool(end and rng.random() < 0.5)} for end in done],
        )
    return buffer


@pytest.mark.parametrize("handle_timeouts", [True, False])
@pytest.mark.parametrize("steps", [5, 20, 33])  # filling, full, over the seam
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("n_steps", [2, 3, 5])
def test_samples_are_those_of_sb3_bit_for_bit(n_steps, n_envs, steps, handle_timeouts):
    stock = filled(NStepReplayBuffer, n_steps, n_envs, steps, handle_timeouts)
    ours = filled(SiblingReplayBuffer, n_steps, n_envs, steps, handle_timeouts, strategy=Uniform())
    found = []
    for buffer in (stock, ours):
        np.random.seed(2)
        found.append(buffer.sample(200))
    for name in stock.sample(1)._fields:
        theirs, mine = (getattr(each, name) for each in found)
        assert theirs.shape == mine.shape and th.equal(theirs.float(), mine.float()), name
    assert len(np.unique(found[1].discounts.numpy())) > 1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_uniform_is_the_stock_run_of_n_steps(name):
    """Parameters after 300 updates, and no warning that n_steps is ignored."""
    found = []
    for n_envs in (1, 3):
        options = dict(n_steps=3, gamma=0.95)
        steps = SMALL["learning_starts"] + 300 * n_envs
        stock = stock_of(name, env_of(name, n_envs), **options)
        assert type(stock.replay_buffer) is NStepReplayBuffer
        stock.learn(steps)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours = model_of(name, Uniform(), env_of(name, n_envs), **options).learn(steps)
        assert np.array_equal(learnt(stock), learnt(ours)) and ours._n_updates >= 300
        assert ours.n_steps == 3
        found.append(learnt(ours))
    single = model_of(name, Uniform(), gamma=0.95).learn(SMALL["learning_starts"] + 300)
    assert not np.array_equal(learnt(single), found[0])  # steps make a difference


@pytest.mark.parametrize("name", ALGORITHMS)
def test_siblings_learn_from_n_steps(name, tmp_path):
    """Weighted, saved with the steps that are still open, and loaded with the same steps only."""
    model = model_of(name, SiblingSample(), env_of(name, 2), n_steps=3, gamma=0.9).learn(160)
    storage = model.replay_buffer.storage
    discounts = storage.transitions()["discount"]
    assert discounts.min() == np.float32(0.9) ** 3 and np.isfinite(learnt(model)).all()
    assert np.unique(storage.masses).size > 20
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    twin = type(model).load(tmp_path / "model", env=env_of(name, 2), device="cpu")
    assert twin.n_steps == 3
    twin.load_replay_buffer(tmp_path / "buffer")
    twin.set_logger(model.logger)
    for each in (model, twin):
        th.manual_seed(1)
        each.train(5, batch_size=16)
    assert np.array_equal(learnt(model), learnt(twin))
    other = model_of(name, SiblingSample(), env_of(name, 2), n_steps=2, gamma=0.9)
    with pytest.raises(ValueError, match="n_steps of the buffer saved there is 3, here it is 2"):
        other.load_replay_buffer(tmp_path / "buffer")


def test_gamma_is_the_buffers_concern_only_with_several_steps(tmp_path):
    """A buffer of single steps serves models of any gamma, as before there were several."""
    model_of("SiblingDQN", SiblingSample()).learn(30).save_replay_buffer(tmp_path / "buffer")
    other = model_of("SiblingDQN", SiblingSample(), gamma=0.5)
    other.load_replay_buffer(tmp_path / "buffer")
    assert len(other.replay_buffer.storage) == 30
    model_of("SiblingDQN", SiblingSample(), n_steps=2).save_replay_buffer(tmp_path / "two")
    with pytest.raises(
        ValueError, match=r"gamma of the buffer saved there is 0\.99, here it is 0\.5"
    ):
        model_of("SiblingDQN", SiblingSample(), n_steps=2, gamma=0.5).load_replay_buffer(
            tmp_path / "two"
        )


def test_targets_of_double_dqn_are_discounted_by_the_steps_there_were():
    model = model_of(
        "SiblingDQN", Prioritized(), n_steps=4, gamma=0.8, double_q=True, learning_starts=100
    )
    model.learn(100)
    samples = model.replay_buffer.sample(64)
    targets = model._targets(samples)
    value = model.next_values(samples.next_observations).detach()
    powers = np.float32([0.8, 0.8**2, 0.8**3, 0.8**4])
    assert set(samples.discounts.numpy().ravel().round(5)) <= set(powers.round(5))
    expected = samples.rewards + (1 - samples.dones) * samples.discounts * value
    assert th.allclose(targets, expected) and samples.discounts.unique().numel() > 1


def test_rewards_of_n_steps_under_vec_normalize():
    """As SB3's: each reward scaled, then summed; a sum has the bound of its steps."""
    env = VecNormalize(env_of("SiblingSAC", 1), clip_reward=1e9)
    env.ret_rms.var = np.array(7.0)
    stock, ours = (
        filled(NStepReplayBuffer, 3, 1, 33),
        filled(SiblingReplayBuffer, 3, 1, 33, strategy=Uniform()),
    )
    env.norm_obs = False
    found = []
    for buffer in (stock, ours):
        np.random.seed(2)
        found.append(buffer.sample(100, env).rewards.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    env.clip_reward = 0.1
    clipped = ours.sample(200, env)
    steps = np.log(clipped.discounts.numpy()) / np.log(0.9)
    bound = 0.1 * (1 - 0.9**steps) / 0.1
    assert (np.abs(clipped.rewards.numpy()) <= bound + 1e-6).all()
    assert np.abs(clipped.rewards.numpy()).max() > 0.2


def test_a_second_run_does_not_continue_the_first_episode():
    """SB3 resets the environments when `learn` is called again."""
    model = model_of("SiblingDQN", Uniform(), "CartPole-v1", n_steps=5, learning_starts=1_000)
    model.learn(3)
    model.learn(3)
    found = model.replay_buffer.storage.transitions()["discount"]
    powers = 0.99 ** np.float32([3, 2, 1])
    np.testing.assert_allclose(found, [*powers, *powers], rtol=1e-6)


def test_an_exported_model_has_n_step_targets(tmp_path):
    model = model_of("SiblingDQN", SiblingSample(), n_steps=3, gamma=0.9).learn(120)
    export(model, tmp_path / "lake.npz")
    assert read_transitions(tmp_path / "lake.npz", Reading()).targets.size == 120
    with np.load(tmp_path / "lake.npz") as file:
        alive = np.where(file["terminated"], 0.0, 1.0)
        expected = file["reward"] + file["discount"] * alive * file["q_next"]
        np.testing.assert_allclose(file["target"], expected, rtol=1e-6)
        assert np.unique(file["discount"]).size > 1


def test_a_loaded_buffer_continues_no_episode(tmp_path):
    """Not even where the environment is not reset in between: it has gone on since."""
    model = model_of("SiblingDQN", SiblingSample(), n_steps=3, gamma=0.9).learn(33)
    model.save_replay_buffer(tmp_path / "buffer")
    saved = model.replay_buffer.storage.transitions()
    model.learn(5, reset_num_timesteps=False)
    model.load_replay_buffer(tmp_path / "buffer")
    model.learn(20, reset_num_timesteps=False)
    found = model.replay_buffer.storage.transitions()
    for name in ("reward", "next_obs", "discount", "terminated"):
        np.testing.assert_array_equal(found[name][:33], saved[name], name)


def test_a_buffer_with_another_reading_of_time_limits_is_refused(tmp_path):
    cut = {"handle_timeout_termination": False}
    model_of("SiblingDQN", SiblingSample(), replay_buffer_kwargs=cut).save_replay_buffer(
        tmp_path / "buffer"
    )
    with pytest.raises(ValueError, match="handle_timeout_termination of the buffer saved there"):
        model_of("SiblingDQN", SiblingSample()).load_replay_buffer(tmp_path / "buffer")
