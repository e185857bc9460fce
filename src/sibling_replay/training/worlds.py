"""Environments as the loop sees them: one, several side by side, or a vector of Gymnasium's.

A world shows an observation for every environment, takes an action for each, and gives back what
came of it as transitions with their true next observation. Whatever has ended is reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numba import njit


class Transition(NamedTuple):
    """What one action led to."""

    obs: Any
    action: int
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool

    @property
    def ended(self) -> bool:
        """Whether it was the last of its episode."""
        return self.terminated or self.truncated


class Episode(NamedTuple):
    """What an episode that has ended came to."""

    total: float  # rewards
    length: int  # steps


class Tally:
    """Rewards and steps of the episodes under way, and those that have ended."""

    def __init__(self, size: int) -> None:
        self.totals = [0.0] * size
        self.lengths = [0] * size
        self.finished: list[Episode] = []

    def note(self, place: int, reward: float, ended: bool) -> None:
        self.totals[place] += reward
        self.lengths[place] += 1
        if ended:
            self.finished.append(Episode(self.totals[place], self.lengths[place]))
            self.totals[place], self.lengths[place] = 0.0, 0


class World(Protocol):
    """Environments that are acted in together."""

    observations: list[Any]  # of the actions to come, one an environment
    places: Sequence[int]  # the environments of the last step's transitions
    tally: Tally

    @property
    def n_actions(self) -> int: ...
    def step(self, actions: Sequence[int]) -> list[Transition]: ...


def discrete_actions(space: gym.Space[Any], whose: str) -> int:
    """How many actions there are, from 0 on; other spaces are refused."""
    if not isinstance(space, spaces.Discrete) or space.start != 0:
        raise TypeError(f"{whose} must have actions Discrete(n) from 0, has {space}")
    return int(space.n)


class Envs:
    """Environments that this process steps one after the other."""

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], observations: Sequence[Any]) -> None:
        self.envs = list(envs)
        self.observations = [self._taken(place, obs) for place, obs in enumerate(observations)]
        self.places: Sequence[int] = range(len(self.envs))
        self.tally = Tally(len(self.envs))
        self.n_actions = discrete_actions(envs[0].action_space, str(envs[0]))

    def step(self, actions: Sequence[int]) -> list[Transition]:
        found = []
        for place, action in enumerate(actions):
            env, obs = self.envs[place], self.observations[place]
            next_obs, paid, terminated, truncated, _ = env.step(action)
            next_obs = self._taken(place, next_obs)
            reward, ended = float(paid), terminated or truncated
            found.append(Transition(obs, action, reward, next_obs, terminated, truncated))
            self.tally.note(place, reward, ended)
            self.observations[place] = self._taken(place, env.reset()[0]) if ended else next_obs
        return found

    def _taken(self, place: int, obs: Any) -> Any:
        """An observation of its own, of numbers: an environment may write the next one over it,
        also when it is reset."""
        if type(obs) is not np.ndarray:
            if not isinstance(obs, (list, float, np.floating)):
                return obs
            obs = np.array(obs)
        _refuse_unfit(obs, place, len(self.envs))
        return obs.copy()


class VectorWorld:
    """A vector environment of Gymnasium, in any of its ways to reset what has ended."""

    def __init__(self, env: VectorEnv[Any, Any, Any], observations: Any) -> None:
        self.env = env
        self.n_actions = discrete_actions(env.single_action_space, str(env))
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.observations = self._apart(observations)
        self.places: Sequence[int] = range(env.num_envs)
        self.tally = Tally(env.num_envs)
        self._ended = np.zeros(env.num_envs, dtype=bool)

    def step(self, actions: Sequence[int]) -> list[Transition]:
        shown, rewards, terminated, truncated, infos = self.env.step(np.asarray(actions))
        next_obs = self._apart(shown)
        ended = terminated | truncated
        last = list(next_obs)
        if self._mode == AutoresetMode.SAME_STEP and ended.any():
            for place in map(int, np.flatnonzero(ended)):
                last[place] = np.array(infos["final_obs"][place])
        # where the step before ended an episode, this one was its reset: no transition
        resets = self._ended if self._mode == AutoresetMode.NEXT_STEP else np.zeros_like(ended)
        found = []
        self.places = np.flatnonzero(~resets).tolist()
        for place in self.places:
            _refuse_unfit(last[place], place, self.env.num_envs)
            transition = Transition(
                self.observations[place],
                int(actions[place]),
                float(rewards[place]),
                last[place],
                bool(terminated[place]),
                bool(truncated[place]),
            )
            found.append(transition)
            self.tally.note(place, transition.reward, transition.ended)
        if self._mode == AutoresetMode.DISABLED and ended.any():
            next_obs = self._apart(self.env.reset(options={"reset_mask": ended})[0])
        self.observations, self._ended = next_obs, ended & ~resets
        return found

    def _apart(self, observations: Any) -> list[Any]:
        """Observations of their own, of numbers: a vector environment may write the next ones over
        these."""
        found = list(np.array(observations))
        for place, obs in enumerate(found):
            _refuse_unfit(obs, place, len(found))
        return found


def _refuse_unfit(obs: Any, place: int, size: int) -> None:
    """No learner survives an observation that is no number, and it would not say so."""
    floats = type(obs) is np.ndarray and obs.dtype.kind == "f"
    if floats and not _all_finite(obs if obs.ndim == 1 else obs.ravel()):
        which = f"environment {place}" if size > 1 else "the environment"
        raise ValueError(f"{which} gave the observation {obs}, which is not finite")


@njit(cache=True)
def _all_finite(values: Any) -> bool:
    for value in values:
        if not np.isfinite(value):
            return False
    return True
