"""Tianshou's own parts put together: a DQN on the paper's bandit with any buffer; small buffers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

import sibling_replay.envs  # noqa: F401  registers the bandit
from sibling_replay.integrations.tianshou import SiblingReplayBuffer, SiblingVectorReplayBuffer
from support.host_draws import HOST_STRATEGIES

ENVS = 4
BETA = 0.7


def make_env() -> gym.Env:
    return gym.wrappers.FlattenObservation(gym.make("sibling_replay/OutlierBandit-v0"))


def make_dqn(seed: int, **options) -> DQN:
    """One weight an action: what is learnt is the value itself."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  Tianshou explores with it
    env = make_env()
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=env.observation_space.shape, action_shape=2),
        action_space=env.action_space,
        eps_training=1.0,  # both arms are tried equally often; what is compared is learning
    )
    return DQN(policy=policy, optim=AdamOptimizerFactory(lr=0.02), gamma=0.99, **options)


def train(algorithm: DQN, buffer, seed: int, steps: int) -> np.ndarray:
    """Tianshou's own trainer, an update of 32 every second environment step. Returns the action
    values before each collection of 20 steps: [steps / 20, 2]."""
    envs = DummyVectorEnv([make_env for _ in range(ENVS)])
    envs.seed(seed)
    values: list[np.ndarray] = []

    def note(epoch: int, env_step: int) -> None:
        values.append(action_values(algorithm))

    run_training(algorithm, envs, buffer, steps // 2, epochs=2, batch=32, training_fn=note)
    return np.array(values)


def run_training(
    algorithm: Any,
    envs: DummyVectorEnv,
    buffer: Any,
    steps: int,
    *,
    epochs: int = 1,
    collected: int = 20,
    updates_a_step: float = 0.5,
    batch: int = 16,
    **options: Any,
) -> None:
    """Tianshou's own trainer over a buffer. steps: of an epoch; collected: before each round of
    updates."""
    algorithm.run_training(
        OffPolicyTrainerParams(
            max_epochs=epochs,
            epoch_num_steps=steps,
            training_collector=Collector(algorithm, envs, buffer, exploration_noise=True),
            collection_step_num_env_steps=collected,
            update_step_num_gradient_steps_per_sample=updates_a_step,
            batch_size=batch,
            show_progress=False,
            verbose=False,
            **options,
        )
    )


def action_values(algorithm: DQN) -> np.ndarray:
    with torch.no_grad():
        obs = np.ones((1, 1), dtype=np.float32)
        return algorithm.policy.model(obs)[0].numpy()[0].copy()


def transition(obs, act: int, rew: float = 0.0, obs_next=None, terminated: bool = False) -> Batch:
    return Batch(
        obs=obs,
        act=act,
        rew=rew,
        obs_next=obs if obs_next is None else obs_next,
        terminated=terminated,
        truncated=False,
        info={},
    )


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
