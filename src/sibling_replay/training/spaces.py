"""What a learner for vectors makes of an environment's spaces."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces

from sibling_replay.grouping import parse_key
from sibling_replay.strategies import Strategy


def key_for(key: Any, strategy: Strategy, observation_space: gym.Space[Any]) -> Any:
    """What the buffer takes for a key: numbered states are told apart exactly unless it is said
    otherwise. One that is given to a strategy without groups is kept for `support` and `diagnose`.
    """
    if key is None:
        usual = "exact" if isinstance(observation_space, spaces.Discrete) else "auto"
        return parse_key(usual) if strategy.needs.groups else "default"
    return parse_key(key) if isinstance(key, str) else key


def check_spaces(observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
    """Refuse what a multilayer perceptron over discrete actions is not for, and say what is."""
    if not isinstance(action_space, spaces.Discrete):
        raise TypeError(
            f"DQN chooses among Discrete actions, and these are {action_space}: for continuous "
            "control take an actor-critic, such as SAC of Stable-Baselines3, with our buffer"
        )
    if action_space.start != 0:
        raise TypeError(
            f"DQN numbers actions from 0, and these are {action_space}: shift them by "
            "gymnasium.wrappers.TransformAction"
        )
    if isinstance(observation_space, (spaces.Dict, spaces.Tuple)):
        raise TypeError(
            f"DQN takes vectors, and these observations are {observation_space}: wrap the "
            "environment with gymnasium.wrappers.FlattenObservation"
        )
    if isinstance(observation_space, spaces.MultiDiscrete):
        raise TypeError(
            f"DQN takes vectors, and these observations are numbers of kinds, {observation_space}: "
            "wrap the environment with gymnasium.wrappers.FlattenObservation, which tells kinds "
            "apart"
        )
    shape = observation_space.shape or ()
    if len(shape) > 1:
        raise TypeError(
            f"DQN takes vectors, and these observations are images of shape {shape}: take a "
            "convolutional network (SiblingDQN of sibling_replay.integrations.sb3 with CnnPolicy), "
            "or flatten them with gymnasium.wrappers.FlattenObservation"
        )
