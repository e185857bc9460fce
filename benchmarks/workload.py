"""What every contestant stores and is told, transitions and TD errors, from one seed.

Two payloads, the issue's: "tabular" (an integer state) and "minatar" (10x10x6 booleans).
Observations come from a finite pool, so that groups of equal (observation, action) have the tens of
members that make grouping cost something: 64 states x 4 actions, or capacity/50 images x 2 actions
in use.

NumPy only: this file is imported in every peer's environment.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SEED = 20261116
STREAM = 4096  # transitions prepared for single adds; a power of two, add(i) takes i mod STREAM
TD_BATCHES = 64  # prepared arrays of |td|, used in turn
CHUNK = 50_000  # entries per bulk add while filling
SPREAD = 8192  # entries per priority update while filling
ALPHA, BETA = 0.6, 0.4

Columns = dict[str, np.ndarray]  # obs [N, ...], action [N], reward [N], next_obs [N, ...], done [N]


class Workload:
    """A reproducible source of transitions for one (capacity, payload)."""

    def __init__(self, capacity: int, payload: str) -> None:
        self.capacity = capacity
        self.payload = payload
        self._rng = np.random.default_rng(SEED)
        if payload == "tabular":
            self.n_actions = 4
            self.pool = np.arange(64)
        elif payload == "minatar":
            self.n_actions = 2
            shape = (max(64, capacity // 50), 10, 10, 6)
            self.pool = self._rng.random(shape, dtype=np.float32) < 0.1
        else:
            raise ValueError(f"unknown payload {payload!r}")

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return self.pool.shape[1:]

    @property
    def obs_dtype(self) -> np.dtype:
        return self.pool.dtype

    def columns(self, n: int) -> Columns:
        """`n` fresh transitions as arrays, for the bulk fill."""
        rng, pool = self._rng, self.pool
        return {
            "obs": pool[rng.integers(len(pool), size=n)],
            "action": rng.integers(self.n_actions, size=n),
            "reward": rng.random(n, dtype=np.float32),
            "next_obs": pool[rng.integers(len(pool), size=n)],
            "done": rng.random(n) < 0.05,
        }

    def chunks(self) -> Iterator[tuple[slice, Columns]]:
        """Exactly `capacity` transitions in bulk pieces, each with the slots it would fill."""
        for start in range(0, self.capacity, CHUNK):
            stop = min(start + CHUNK, self.capacity)
            yield slice(start, stop), self.columns(stop - start)

    def stream(self) -> list[tuple]:
        """STREAM transitions as an environment hands them out: Python scalars, array images."""
        columns = self.columns(STREAM)
        scalars = [columns[name].tolist() for name in ("action", "reward", "done")]
        images = self.payload == "minatar"
        obs, next_obs = (
            list(column) if images else column.tolist()
            for column in (columns["obs"], columns["next_obs"])
        )
        return list(zip(obs, scalars[0], scalars[1], next_obs, scalars[2], strict=True))

    def td_errors(self, batch_size: int) -> list[np.ndarray]:
        """TD_BATCHES arrays f32[batch_size] of |td|, heavy-tailed as TD errors are."""
        draws = self._rng.exponential(size=(TD_BATCHES, batch_size)) ** 2
        return list(draws.astype(np.float32))

    def spread(self) -> Iterator[np.ndarray]:
        """Arrays f32[SPREAD] of |td|, about one value for every entry of a full buffer."""
        for _ in range(-(-self.capacity // SPREAD)):
            yield (self._rng.exponential(size=SPREAD) ** 2).astype(np.float32)
