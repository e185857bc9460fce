"""The noise-free twin of an environment with a table: every action pays its mean.

Q* depends on rewards through their means alone, so a twin has the same transitions, the same best
actions and the same values. Whatever a way to replay does worse than in the twin is due to the
noise of rewards.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from .base import ListedOutcome, RewardLayer
from .tables import TabularModel


def mean_rewards(model: TabularModel) -> TabularModel:
    """The table in which every outcome of a state and action pays the mean of all.

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/OutlierBandit-v0"))
        >>> mean_rewards(table).reward[0, 1].tolist()
        [1.0, 1.0]
    """
    return model.with_outcomes(_of_outcomes)


def _of_outcomes(outcomes: list[ListedOutcome]) -> list[ListedOutcome]:
    mean = sum(outcome.probability * outcome.reward for outcome in outcomes)
    return [outcome._replace(reward=mean) for outcome in outcomes]


class MeanRewards(RewardLayer, RecordConstructorArgs):
    """An environment with a table that pays means, and walks as it did.

    Examples:
        >>> env = MeanRewards(gym.make("sibling_replay/OutlierBandit-v0"))
        >>> obs, _ = env.reset(seed=0)
        >>> float(env.step(1)[1])  # the risky arm pays its mean
        1.0
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self._rewards = mean_rewards(TabularModel.from_env(env)).reward[:, :, 0]  # [S, A]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        state = int(self.unwrapped.s)  # type: ignore[attr-defined]  # of every table environment
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, float(self._rewards[state, action]), terminated, truncated, info

    def of_outcomes(self, outcomes: list[ListedOutcome]) -> list[ListedOutcome]:
        return _of_outcomes(outcomes)
