"""Greedy episodes played side by side."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sibling_replay.training.evaluation import LONGEST_EVALUATION, greedy_returns


class Countdown(gym.Env[Any, Any]):
    """Ends after as many steps as the first observation says; pays one a step."""

    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.left = self.steps
        return np.array([self.left], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return np.array([self.left], np.float32), 1.0, self.left == 0, False, {}


def test_each_is_played_to_its_own_end() -> None:
    sizes = []

    def greedy_all(obs: np.ndarray) -> np.ndarray:
        sizes.append(len(obs))
        return np.zeros(len(obs), np.int64)

    envs = [Countdown(steps) for steps in (1, 4, 2)]
    assert greedy_returns(greedy_all, envs, [0, 1, 2]).tolist() == [1.0, 4.0, 2.0]
    assert sizes == [3, 2, 1, 1], "those that have ended are asked no more"


def test_an_episode_without_end_is_given_up() -> None:
    def greedy_all(obs: np.ndarray) -> np.ndarray:
        return np.zeros(len(obs), np.int64)

    found = greedy_returns(greedy_all, [Countdown(3), Countdown(10**9)], [0, 1])
    assert found.tolist() == [3.0, float(LONGEST_EVALUATION)]
