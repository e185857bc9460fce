"""Names as people type them: in any case, and refused with a sentence if they name nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import gymnasium as gym

from sibling_replay.envs import TabularModel
from sibling_replay.training.config import ENVIRONMENTS, METHODS, gym_id

T = TypeVar("T")


def spelt(what: str, value: T, choices: Iterable[T], where: str = "") -> T:
    """The choice that is meant, whatever the case of its letters."""
    choices = list(choices)
    if value in choices:
        return value
    for choice in choices:
        if str(choice).casefold() == str(value).casefold():
            return choice
    listed = ", ".join(map(str, choices))
    raise ValueError(f"unknown {what} {value!r}{where}: choose from {listed}")


def method_named(name: str) -> str:
    """A method of the paper, or AVG-gK for any K."""
    size = re.fullmatch(r"avg-g([1-9][0-9]*)", name, re.IGNORECASE)
    return f"AVG-g{size[1]}" if size else spelt("method", name, METHODS)


def table_environment(name: str) -> str:
    """An environment of the paper, or the id of any registered one that `train` can run: it has a
    transition table and a time limit."""
    try:
        env = spelt("environment", name, [*ENVIRONMENTS, *gym.registry])
    except ValueError:
        raise ValueError(
            f"unknown environment {name!r}: choose from {', '.join(ENVIRONMENTS)}, "
            "or give the Gymnasium id of an environment with a transition table P"
        ) from None
    if env in ENVIRONMENTS:
        return env
    try:
        made: gym.Env[Any, Any] = gym.make(gym_id(env))
    except Exception as error:  # whatever its constructor raises; often a missing extra
        raise ValueError(f"{env} cannot be made: {error}") from error
    try:
        TabularModel.from_env(made)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`train` needs an environment with a transition table P over numbered states and "
            f"actions, such as FrozenLake-v1, and {env} is not one: {error}. For other "
            "environments use the library in your own loop or in a host, such as Stable-Baselines3"
        ) from error
    finally:
        made.close()
    if gym.spec(env).max_episode_steps is None:
        raise ValueError(
            f"{env} has no time limit: a greedy policy that never ends an episode would be "
            "evaluated for ever. Register it with max_episode_steps"
        )
    return env
