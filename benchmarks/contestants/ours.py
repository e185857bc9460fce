"""sibling-replay: `ReplayBuffer` with the plain prioritized strategy and with sibling sampling.

A batch opens its columns when they are first asked for, and the peers' batches come open, so
`sample` asks for every field, the weights and the slots: the same arrays for everybody.
"""

from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
import numpy as np
from workload import ALPHA, BETA, SEED, SPREAD, STREAM, TD_BATCHES, Workload

from sibling_replay import Batch, Prioritized, ReplayBuffer, SiblingSample


class Spaces(gym.Env):
    """An environment of which only the spaces are used: `for_env` reads the schema from them."""

    def __init__(self, payload: str, n_states: int = 64, n_actions: int = 6) -> None:
        images = gym.spaces.Box(0, 1, (10, 10, 6), np.bool_)
        self.observation_space = images if payload == "minatar" else gym.spaces.Discrete(n_states)
        self.action_space = gym.spaces.Discrete(n_actions)


class Contestant:
    strategy: ClassVar[type]

    def __init__(self, capacity: int, batch_size: int, payload: str) -> None:
        self.work = Workload(capacity, payload)
        self.batch_size = batch_size
        self.buffer = ReplayBuffer.for_env(
            Spaces(payload), capacity=capacity, strategy=self.strategy(alpha=ALPHA), seed=SEED
        )
        self.stream = self.work.stream()
        self.td = self.work.td_errors(batch_size)
        self.updates = 0

    def fill(self) -> None:
        for _, columns in self.work.chunks():
            truncated = np.zeros_like(columns["done"])
            self.buffer.extend(*columns.values(), truncated)
        for td in self.work.spread():
            self.buffer.update_priorities(self.buffer.sample(SPREAD, beta=BETA), td)

    def add(self, i: int) -> None:
        obs, action, reward, next_obs, done = self.stream[i % STREAM]
        self.buffer.add(obs, action, reward, next_obs, done, False)

    def sample(self) -> Batch:
        self.last = batch = self.buffer.sample(self.batch_size, beta=BETA)
        _ = (
            batch.obs,
            batch.action,
            batch.reward,
            batch.next_obs,
            batch.terminated,
            batch.truncated,
            batch.weights,
            batch.slots,
        )
        return batch

    def update(self) -> None:
        self.updates += 1
        self.buffer.update_priorities(self.last, self.td[self.updates % TD_BATCHES])


class Per(Contestant):
    strategy = Prioritized


class Sample(Contestant):
    strategy = SiblingSample
