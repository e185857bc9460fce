"""The reward tail that the paper adds in training, for any Gymnasium environment."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from .base import check_finite
from .plain import plain, restored


class MeanPreservingTail(gym.Wrapper[Any, Any, Any, Any]):
    """The paper's mp-tail: each positive reward r becomes r - M with probability p, and
    r + p M / (1 - p) otherwise, which leaves its mean.

    of_every_reward: not of positive ones alone, for environments whose rewards are costs.

    The wrapper's randomness is its own, a child of the reset's seed: the game below goes the same
    way with and without it.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        probability: float = 0.02,
        magnitude: float = 30.0,
        of_every_reward: bool = False,
    ) -> None:
        super().__init__(env)
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability must be in [0, 1), got {probability!r}")
        self.probability = probability
        self.of_every_reward = of_every_reward
        self.loss = check_finite("magnitude", magnitude)
        self.gain = probability * self.loss / (1.0 - probability)
        self._generator = np.random.Generator(np.random.PCG64())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            entropy = np.random.SeedSequence(seed, spawn_key=(0,))
            self._generator = np.random.Generator(np.random.PCG64(entropy))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, self.perturbed(float(reward)), terminated, truncated, info

    def perturbed(self, reward: float) -> float:
        """What training sees instead of a reward of the game."""
        if reward <= 0.0 and not self.of_every_reward:
            return reward
        if self._generator.random() < self.probability:
            return reward - self.loss
        return reward + self.gain

    def state_dict(self) -> dict[str, Any]:
        """The wrapper's part of a checkpoint, as plain data."""
        return {"generator": plain(self._generator.bit_generator.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._generator.bit_generator.state = restored(state["generator"])
