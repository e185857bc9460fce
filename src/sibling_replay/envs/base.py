"""What the small tabular environments share: draw from a table, and refuse bad parameters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.toy_text.utils import categorical_sample
from numpy.typing import NDArray

Outcome = tuple[float, int, float, bool]  # probability, next state, reward, terminated


class ListedOutcome(NamedTuple):
    """An outcome of a state and action in a `TabularModel`."""

    probability: float
    next_state: int
    reward: float
    terminated: bool
    success: bool


class TableEnv(gym.Env[Any, Any], ABC):
    """An environment that is its table, as Gymnasium's toy-text ones are.

    A subclass sets the two spaces, `P[state][action]` (a list of outcomes) and
    `initial_state_distrib`. `reset` and `step` consume one uniform of `np_random` each and invert
    the cumulative probabilities in the listed order, so a compiled loop that holds the same table
    and generator walks the same trajectory.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it an instance attribute)

    P: dict[int, dict[int, list[Outcome]]]
    initial_state_distrib: NDArray[np.float64]  # [S]
    s: int

    @abstractmethod
    def is_success(self, state: int, action: int, next_state: int) -> bool:
        """Whether this transition makes its episode a success."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.s = int(categorical_sample(self.initial_state_distrib, self.np_random))
        return self.s, {"prob": 1.0}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise gym.error.InvalidAction(f"{action!r} is not in {self.action_space}")
        outcomes = self.P[self.s][int(action)]
        chosen = categorical_sample([outcome[0] for outcome in outcomes], self.np_random)
        probability, self.s, reward, terminated = outcomes[chosen]
        return self.s, reward, terminated, False, {"prob": probability}


class RewardLayer(gym.Wrapper[Any, Any, Any, Any], ABC):
    """A wrapper that changes rewards alone, and can say what it makes of a table."""

    @abstractmethod
    def of_outcomes(self, outcomes: list[ListedOutcome]) -> list[ListedOutcome]:
        """The outcomes of a state and action as this wrapper shows them."""


def check_whole(name: str, value: int, least: int) -> int:
    """`value` as an int, or a ValueError that names the parameter."""
    if value != int(value) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def check_probability(name: str, value: float) -> float:
    """`value` as a float, or a ValueError that names the parameter."""
    if not 0.0 <= value <= 1.0:  # also refuses NaN
        raise ValueError(f"{name} must be a probability in [0, 1], got {value!r}")
    return float(value)


def check_finite(name: str, value: float) -> float:
    """`value` as a float, or a ValueError that names the parameter."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)
