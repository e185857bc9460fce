"""Small SB3 buffers and models for the tests of the adapter."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import sibling_replay.envs  # noqa: F401  (registers them)
from sibling_replay.integrations.sb3 import SiblingDQN, SiblingReplayBuffer
from support.scenes import heavy_tailed, set_priorities

N_ENVS, POSITIONS = 3, 9
BANDIT = "sibling_replay/OutlierBandit-v0"
SMALL = dict(
    buffer_size=200, learning_starts=20, train_freq=1, target_update_interval=50, seed=5,
    device="cpu", policy_kwargs={"net_arch": [16]},
)  # fmt: skip


def step_of(rng, serial, n_envs=N_ENVS):
    """A step of n_envs as SB3 hands it to `add`; the reward is the entry's own number."""
    done = rng.random(n_envs) < 0.5
    return (
        rng.integers(0, 2, n_envs),
        rng.integers(0, 3, n_envs),
        rng.integers(0, 2, n_envs),
        np.arange(serial, serial + n_envs, dtype=np.float32),
        done,
        [{"TimeLimit.truncated": bool(end and rng.random() < 0.5)} for end in done],
    )


def filled_buffer(strategy, n_envs=N_ENVS, seed=0, steps=14, **options) -> SiblingReplayBuffer:
    """Few groups with many members each, very different masses, and some entries overwritten."""
    rng = np.random.default_rng([seed, 3])
    buffer = SiblingReplayBuffer(
        POSITIONS * n_envs, spaces.Discrete(3), spaces.Discrete(2), device="cpu", n_envs=n_envs,
        strategy=strategy, seed=seed, **options,
    )  # fmt: skip
    for step in range(steps):
        buffer.add(*step_of(rng, step * n_envs, n_envs))
    set_priorities(buffer.storage, heavy_tailed(rng, len(buffer.storage), spread=1.0))
    return buffer


def small_model(strategy, env="FrozenLake-v1", **options) -> SiblingDQN:
    env = gym.make(env) if isinstance(env, str) else env
    return SiblingDQN("MlpPolicy", env, strategy=strategy, **{**SMALL, **options})


def parameters(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.policy.parameters()])
