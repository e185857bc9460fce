"""Tianshou: `PrioritizedReplayBuffer`, Numba segment tree under a Python `Batch`."""

from __future__ import annotations

import numpy as np
from tianshou.data import Batch, PrioritizedReplayBuffer
from workload import ALPHA, BETA, SPREAD, STREAM, TD_BATCHES, Workload


class Contestant:
    def __init__(self, capacity: int, batch_size: int, payload: str) -> None:
        self.work = Workload(capacity, payload)
        self.batch_size = batch_size
        self.buffer = PrioritizedReplayBuffer(capacity, alpha=ALPHA, beta=BETA)
        self.stream = self.work.stream()
        self.td = self.work.td_errors(batch_size)
        self.updates = 0

    def fill(self) -> None:
        """One add lays the storage out; the rest goes in in bulk, which `add` does not offer."""
        buffer, capacity = self.buffer, self.work.capacity
        self.add(0)
        for slots, columns in self.work.chunks():
            done = columns["done"]
            buffer._meta[slots] = Batch(
                obs=columns["obs"],
                act=columns["action"],
                rew=columns["reward"].astype(float),
                terminated=done,
                truncated=np.zeros_like(done),
                done=done,
                obs_next=columns["next_obs"],
            )
        buffer._size, buffer._insertion_idx = capacity, 0
        buffer.init_weight(np.arange(capacity))
        for td in self.work.spread():
            buffer.update_weight(buffer.sample_indices(SPREAD), td)

    def add(self, i: int) -> None:
        obs, action, reward, next_obs, done = self.stream[i % STREAM]
        self.buffer.add(
            Batch(
                obs=obs,
                act=action,
                rew=reward,
                terminated=done,
                truncated=False,
                obs_next=next_obs,
            )
        )

    def sample(self) -> tuple:
        self.last = self.buffer.sample(self.batch_size)  # Batch with .weight, indices
        return self.last

    def update(self) -> None:
        self.updates += 1
        self.buffer.update_weight(self.last[1], self.td[self.updates % TD_BATCHES])
