"""The paper's environments, registered with Gymnasium when this package is imported."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from .frozen_lake import DeepHoleFrozenLakeEnv
from .minatar import GAMES, MinAtarEnv
from .outlier_bandit import OutlierBanditEnv
from .reward_tail import MeanPreservingTail
from .tables import NO_TIME_LIMIT, TabularModel, inverse_cdf
from .two_chains import TwoChainsEnv

__all__ = [
    "GAMES",
    "NO_TIME_LIMIT",
    "DeepHoleFrozenLakeEnv",
    "MeanPreservingTail",
    "MinAtarEnv",
    "OutlierBanditEnv",
    "TabularModel",
    "TwoChainsEnv",
    "inverse_cdf",
    "register_envs",
]

_FROZEN_LAKE = f"{__name__}.frozen_lake:DeepHoleFrozenLakeEnv"

_SPECS: dict[str, dict[str, Any]] = {
    "sibling_replay/OutlierBandit-v0": {
        "entry_point": f"{__name__}.outlier_bandit:OutlierBanditEnv",
    },
    "sibling_replay/TwoChains-v0": {
        "entry_point": f"{__name__}.two_chains:TwoChainsEnv",
        "max_episode_steps": 20,
    },
    "sibling_replay/FrozenLakeH100-v0": {
        "entry_point": _FROZEN_LAKE,
        "kwargs": {"goal_reward": 100.0, "hole_reward": -300.0},
        "max_episode_steps": 200,
    },
    "sibling_replay/FrozenLakeH50-v0": {
        "entry_point": _FROZEN_LAKE,
        "kwargs": {"goal_reward": 50.0, "hole_reward": -100.0},
        "max_episode_steps": 200,
    },
    # the step limit is the game's own, so that one state holds all of an episode
    **{
        f"sibling_replay/MinAtar-{game}-v0": {
            "entry_point": f"{__name__}.minatar:MinAtarEnv",
            "kwargs": {"game": game},
        }
        for game in GAMES
    },
}


def register_envs() -> None:
    """Make the environments known to `gymnasium.make`; calling it again changes nothing."""
    for env_id, spec in _SPECS.items():
        if env_id not in gym.registry:
            gym.register(id=env_id, **spec)


register_envs()
