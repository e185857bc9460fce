"""The paper's environments and the bench's, registered with Gymnasium when this is imported."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from .chain import BlindCliffWalkEnv, ChainEnv
from .conal_bandit import ConalBanditEnv
from .fickle_taxi import FickleTaxiEnv
from .frozen_lake import DeepHoleFrozenLakeEnv
from .mean_rewards import MeanRewards, mean_rewards
from .minatar import GAMES, MinAtarEnv
from .named import REWARD_PARAMETERS, env_text, make_env, parse_env
from .noisy_gridworld import NoisyGridworldEnv
from .optimal import (
    greedy_policy,
    optimal_values,
    policy_return,
    random_policy,
    reachable_states,
)
from .outlier_bandit import OutlierBanditEnv
from .portal_bridge import PortalBridgeEnv
from .reward_noise import NoisyRewards, RewardNoise
from .shortcut_maze import ShortcutMazeEnv
from .tables import NO_TIME_LIMIT, TabularModel, inverse_cdf
from .two_chains import TwoChainsEnv

__all__ = [
    "GAMES",
    "NO_TIME_LIMIT",
    "REWARD_PARAMETERS",
    "SHORT_NAMES",
    "BlindCliffWalkEnv",
    "ChainEnv",
    "ConalBanditEnv",
    "DeepHoleFrozenLakeEnv",
    "FickleTaxiEnv",
    "MeanRewards",
    "MinAtarEnv",
    "NoisyGridworldEnv",
    "NoisyRewards",
    "OutlierBanditEnv",
    "PortalBridgeEnv",
    "RewardNoise",
    "ShortcutMazeEnv",
    "TabularModel",
    "TwoChainsEnv",
    "env_text",
    "greedy_policy",
    "inverse_cdf",
    "make_env",
    "mean_rewards",
    "optimal_values",
    "parse_env",
    "policy_return",
    "random_policy",
    "reachable_states",
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
    "sibling_replay/ConalBandit-v0": {
        "entry_point": f"{__name__}.conal_bandit:ConalBanditEnv",
        "max_episode_steps": 1,
    },
    "sibling_replay/ShiftedConalBandit-v0": {
        "entry_point": f"{__name__}.conal_bandit:ConalBanditEnv",
        "kwargs": {"shift": 1.0},
        "max_episode_steps": 1,
    },
    "sibling_replay/NoisyGridworld-v0": {
        "entry_point": f"{__name__}.noisy_gridworld:NoisyGridworldEnv",
        "max_episode_steps": 100,
    },
    "sibling_replay/PortalBridge-v0": {
        "entry_point": f"{__name__}.portal_bridge:PortalBridgeEnv",
        "max_episode_steps": 100,
    },
    "sibling_replay/ShortcutMaze-v0": {
        "entry_point": f"{__name__}.shortcut_maze:ShortcutMazeEnv",
        "max_episode_steps": 100,
    },
    "sibling_replay/BlindCliffWalk-v0": {
        "entry_point": f"{__name__}.chain:BlindCliffWalkEnv",
        "max_episode_steps": 100,
    },
    "sibling_replay/Chain-v0": {
        "entry_point": f"{__name__}.chain:ChainEnv",
        "max_episode_steps": 100,
    },
    "sibling_replay/FickleTaxi-v0": {
        "entry_point": f"{__name__}.fickle_taxi:FickleTaxiEnv",
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

SHORT_NAMES = {
    env_id.removeprefix("sibling_replay/").removesuffix("-v0"): env_id for env_id in _SPECS
}
"""What ours are called where no other environment is meant: NoisyGridworld."""


def register_envs() -> None:
    """Make the environments known to `gymnasium.make`; calling it again changes nothing.

    Examples:
        >>> register_envs()
        >>> "sibling_replay/TwoChains-v0" in gym.registry
        True
    """
    for env_id, spec in _SPECS.items():
        if env_id not in gym.registry:
            gym.register(id=env_id, **spec)


register_envs()
