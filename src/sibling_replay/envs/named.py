"""Environments by a text that a config, a file name and a shell can hold.

An id of Gymnasium, and after it parameters of `gymnasium.make`, each after a comma:

    FrozenLake-v1,map_name=8x8,max_episode_steps=200

Values are true, false, numbers or words of letters, digits and . + - _, so that no shell or file
system reads anything into them. Two parameters are ours:

    rewards=mean            every action pays its mean: the noise-free twin, of any table
    reward_noise=tail-30    noise on rewards, as kind-scale: tail, gauss or student
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from .mean_rewards import MeanRewards
from .reward_noise import NoisyRewards, RewardNoise

Value = bool | int | float | str

_PARAMETER = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>[\w.+-]+)", re.ASCII)
REWARD_PARAMETERS = ("rewards", "reward_noise")


def parse_env(text: str) -> tuple[str, dict[str, Value]]:
    """The id and the parameters after it.

    Examples:
        >>> parse_env("FrozenLake-v1,map_name=8x8")
        ('FrozenLake-v1', {'map_name': '8x8'})
    """
    env_id, *parts = text.split(",")
    parameters: dict[str, Value] = {}
    for part in parts:
        match = _PARAMETER.fullmatch(part)
        if match is None or match["name"] in parameters or not env_id:
            raise ValueError(
                "an environment is an id and then parameters as name=value, each once and after a "
                f"comma, such as FrozenLake-v1,map_name=8x8, not {text!r}"
            )
        parameters[match["name"]] = _value(match["value"])
    return env_id, parameters


def env_text(env_id: str, parameters: Mapping[str, Value]) -> str:
    """The one text for these: parameters in the order of their names.

    Examples:
        >>> env_text("FrozenLake-v1", {"map_name": "8x8"})
        'FrozenLake-v1,map_name=8x8'
    """
    written = (f",{name}={_written(parameters[name])}" for name in sorted(parameters))
    return env_id + "".join(written)


def make_env(text: str) -> gym.Env[Any, Any]:
    """The environment of a text. One without parameters is `gymnasium.make(text)`.

    Examples:
        >>> make_env("FrozenLake-v1,map_name=8x8").observation_space.n.item()
        64
    """
    env_id, parameters = parse_env(text)
    rewards = parameters.pop("rewards", None)
    noise = parameters.pop("reward_noise", None)
    if rewards not in (None, "mean"):
        raise ValueError(f"rewards can be mean, or be left out, not {rewards!r}")
    law = None if noise is None else RewardNoise.parse(str(noise))
    env: gym.Env[Any, Any] = gym.make(env_id, **parameters)  # type: ignore[arg-type]
    if rewards == "mean":
        env = MeanRewards(env)
    return env if law is None else NoisyRewards(env, law)


def _value(text: str) -> Value:
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
