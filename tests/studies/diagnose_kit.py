"""A real buffer of a short PER training on OutlierBandit, and the same content in other formats."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import polars as pl

import sibling_replay.envs  # noqa: F401  (registers the environments)
from sibling_replay import Field, Prioritized, ReplayBuffer, SiblingSample, Strategy

ENV = "sibling_replay/OutlierBandit-v0"
FIELDS = {
    "obs": Field(np.dtype(np.float32), (2,)),
    "action": Field(np.dtype(np.int64)),
    "reward": Field(np.dtype(np.float32)),
    "next_obs": Field(np.dtype(np.float32), (2,)),
    "terminated": Field(np.dtype(np.bool_)),
    "truncated": Field(np.dtype(np.bool_)),
}


def trained_buffer(
    strategy: Strategy | None = None, steps: int = 6_000, capacity: int = 4_000, **options
) -> ReplayBuffer:
    """A table of two values learns with PER from random play."""
    env = gym.make(ENV)
    buffer = ReplayBuffer.for_env(
        env, capacity, strategy or Prioritized(alpha=0.6), seed=0, **options
    )
    rng = np.random.default_rng(0)
    values = np.zeros(2)
    obs, _ = env.reset(seed=0)
    for step in range(steps):
        action = int(rng.integers(2))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs, action, float(reward), next_obs, terminated, truncated)
        obs, _ = env.reset()
        if step >= 500:
            batch = buffer.sample(32, beta=0.4)
            errors = batch.reward - values[batch.action]
            np.add.at(values, batch.action, 0.01 * batch.weights * errors)
            buffer.update_priorities(batch, errors)
    return buffer


def columns_of(buffer: ReplayBuffer, alpha: float = 0.6) -> dict[str, np.ndarray]:
    """The content of a buffer as the columns that `diagnose` documents."""
    return {**buffer.transitions(), "priority": buffer.masses ** (1 / alpha)}


def small_columns(entries: int = 60) -> dict[str, np.ndarray]:
    """A valid file to spoil."""
    rng = np.random.default_rng(0)
    return {
        "obs": rng.integers(3, size=(entries, 2)).astype(np.float32),
        "action": rng.integers(2, size=entries),
        "reward": rng.choice([0.0, 10.0], size=entries, p=[0.8, 0.2]),
        "next_obs": rng.integers(3, size=(entries, 2)).astype(np.float32),
        "terminated": rng.random(entries) < 0.2,
        "truncated": np.zeros(entries, dtype=bool),
        "priority": rng.uniform(0.1, 5.0, size=entries),
    }


def write_parquet(path, columns) -> None:
    """Arrays of several axes as nested lists."""
    pl.DataFrame(
        {
            name: pl.Series(name, v.tolist()) if np.ndim(v) > 1 else pl.Series(name, v)
            for name, v in columns.items()
        }
    ).write_parquet(path)


def played_buffer(
    env_id: str, key: object, steps: int = 3_000, strategy: Strategy | None = None
) -> ReplayBuffer:
    """Random play, with 30 added to one reward in fifty, drawn and refreshed by reward."""
    env = gym.make(env_id)
    buffer = ReplayBuffer.for_env(env, steps, strategy or SiblingSample(), key=key, seed=0)
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    for step in range(steps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        reward = float(reward) + 30.0 * (rng.random() < 0.02)
        buffer.add(obs, action, reward, next_obs, terminated, truncated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        if step % 4 == 0 and step >= 100:
            batch = buffer.sample(32)
            buffer.update_priorities(batch, batch.reward)
    return buffer
