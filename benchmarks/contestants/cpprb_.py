"""cpprb: `PrioritizedReplayBuffer` over plain NumPy arrays, C++ segment trees."""

from __future__ import annotations

import numpy as np
from cpprb import PrioritizedReplayBuffer
from workload import ALPHA, BETA, SPREAD, STREAM, TD_BATCHES, Workload


class Contestant:
    def __init__(self, capacity: int, batch_size: int, payload: str) -> None:
        self.work = Workload(capacity, payload)
        self.batch_size = batch_size
        obs = {"shape": self.work.obs_shape or 1, "dtype": self.work.obs_dtype}
        fields = {
            "obs": obs,
            "action": {"dtype": np.int64},
            "reward": {"dtype": np.float32},
            "next_obs": obs,
            "done": {"dtype": np.bool_},
        }
        self.buffer = PrioritizedReplayBuffer(capacity, fields, alpha=ALPHA)
        self.stream = self.work.stream()
        self.td = self.work.td_errors(batch_size)
        self.updates = 0

    def fill(self) -> None:
        for _, columns in self.work.chunks():
            self.buffer.add(**columns)
        for td in self.work.spread():
            self.buffer.update_priorities(self.buffer.sample(SPREAD, BETA)["indexes"], td)

    def add(self, i: int) -> None:
        obs, action, reward, next_obs, done = self.stream[i % STREAM]
        self.buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, done=done)

    def sample(self) -> dict:
        self.last = self.buffer.sample(self.batch_size, BETA)
        return self.last

    def update(self) -> None:
        self.updates += 1
        self.buffer.update_priorities(self.last["indexes"], self.td[self.updates % TD_BATCHES])
