"""TabularModel: the arrays of an environment with a transition table, for compiled loops.

Gymnasium's toy-text environments publish their law as `P[state][action] = [(probability,
next_state, reward, terminated), ...]` and draw from it with one uniform per `reset` and per `step`.
The same law as arrays, read with the same uniforms by `inverse_cdf`, gives the same trajectory,
without a Python call per step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from numba import njit
from numpy.typing import NDArray

from .base import ListedOutcome, Outcome, RewardLayer, TableEnv
from .frozen_lake import enters_goal

# `steps >= time_limit` is the whole rule, with or without a limit.
NO_TIME_LIMIT = int(np.iinfo(np.int64).max)

_SUM_TOLERANCE = 1e-9  # of probabilities that should sum to 1: rounding, not a modelling error


@njit(cache=True)
def inverse_cdf(cumulative: NDArray[np.float64], uniform: float) -> int:
    """The first index whose cumulative probability exceeds `uniform`; 0 if none does.

    None does only if rounding left the last sum below 1 and the uniform above it; index 0 is what
    Gymnasium's argmax answers there. `cumulative` may be padded by repeating its last value.

    Examples:
        >>> inverse_cdf(np.array([0.2, 1.0]), 0.5)
        1
    """
    for index in range(cumulative.shape[0]):
        if cumulative[index] > uniform:
            return index
    return 0


@dataclass(frozen=True, eq=False)
class TabularModel:
    """The law of a finite environment. S states, A actions, O = the most outcomes of any (s, a).

    Outcomes keep the order of `P`, which decides what a uniform draws. Beyond `n_outcomes[s, a]`
    the arrays repeat the last outcome, with probability 0.

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/OutlierBandit-v0"))
        >>> table.probability[0, 1].tolist(), table.reward[0, 1].tolist()
        ([0.01, 0.99], [100.0, 0.0])
    """

    probability: NDArray[np.float64]  # [S, A, O]
    cumulative: NDArray[np.float64]  # [S, A, O] running sums of probability
    next_state: NDArray[np.int32]  # [S, A, O]
    reward: NDArray[np.float64]  # [S, A, O]
    terminated: NDArray[np.bool_]  # [S, A, O]
    success: NDArray[np.bool_]  # [S, A, O] this transition makes its episode a success
    outcome_id: NDArray[np.int32]  # [S, A, O] equal (next_state, reward, terminated), equal id
    n_outcomes: NDArray[np.int32]  # [S, A] as listed, repetitions included
    initial_cumulative: NDArray[np.float64]  # [S]
    time_limit: int  # steps; an episode is truncated when steps >= time_limit

    @property
    def n_states(self) -> int:
        return len(self.n_outcomes)

    @property
    def n_actions(self) -> int:
        return int(self.n_outcomes.shape[1])

    @classmethod
    def from_env(cls, env: gym.Env[Any, Any]) -> TabularModel:
        """The table of `env`, which may carry the wrappers `gymnasium.make` adds.

        Success is what the environment says it is (ours), entering the goal (any FrozenLake), or
        else a termination with positive reward. Noise on rewards, and means of rewards in their
        place, are part of the table.
        """
        time_limit = _time_limit(env)
        base: Any = env.unwrapped
        n_states, n_actions = _sizes(base)
        _check_follows_table(base)

        def listed(s: int, a: int) -> list[ListedOutcome]:
            return [
                ListedOutcome(*outcome, _is_success(base, s, a, *outcome[1:]))
                for outcome in _outcomes(base.P, s, a, n_states)
            ]

        model = cls._of_outcomes(
            [[listed(s, a) for a in range(n_actions)] for s in range(n_states)],
            _initial_cumulative(base, n_states),
            time_limit,
        )
        for layer in _reward_layers(env):
            model = model.with_outcomes(layer.of_outcomes)
        return model

    def with_outcomes(
        self, change: Callable[[list[ListedOutcome]], list[ListedOutcome]]
    ) -> TabularModel:
        """The table in which the outcomes of every state and action are what `change` makes of
        them."""
        listed = [
            [change(self.outcomes(s, a)) for a in range(self.n_actions)]
            for s in range(self.n_states)
        ]
        return self._of_outcomes(listed, self.initial_cumulative, self.time_limit)

    def outcomes(self, s: int, a: int) -> list[ListedOutcome]:
        """What an action can lead to, as listed."""
        n = self.n_outcomes[s, a]
        columns = (self.probability, self.next_state, self.reward, self.terminated, self.success)
        rows = zip(*(column[s, a, :n].tolist() for column in columns), strict=True)
        return [ListedOutcome(*row) for row in rows]

    @classmethod
    def _of_outcomes(
        cls,
        listed: list[list[list[ListedOutcome]]],
        initial_cumulative: NDArray[np.float64],
        time_limit: int,
    ) -> TabularModel:
        width = max(len(outcomes) for row in listed for outcomes in row)
        shape = (len(listed), len(listed[0]), width)
        model = cls(
            probability=np.zeros(shape),
            cumulative=np.empty(shape),
            next_state=np.empty(shape, np.int32),
            reward=np.empty(shape),
            terminated=np.empty(shape, np.bool_),
            success=np.empty(shape, np.bool_),
            outcome_id=np.empty(shape, np.int32),
            n_outcomes=np.empty(shape[:2], np.int32),
            initial_cumulative=initial_cumulative,
            time_limit=time_limit,
        )
        for s, row in enumerate(listed):
            for a, outcomes in enumerate(row):
                model._fill(s, a, outcomes)
        return model

    def _fill(self, s: int, a: int, outcomes: list[ListedOutcome]) -> None:
        """Write the outcomes of one (s, a), then repeat the last up to the common width."""
        n = len(outcomes)
        self.n_outcomes[s, a] = n
        self.probability[s, a, :n] = [outcome.probability for outcome in outcomes]
        self.cumulative[s, a, :n] = np.cumsum(self.probability[s, a, :n])
        ids: dict[tuple[int, float, bool], int] = {}
        for o, (_, next_state, reward, terminated, success) in enumerate(outcomes):
            self.next_state[s, a, o] = next_state
            self.reward[s, a, o] = reward
            self.terminated[s, a, o] = terminated
            self.success[s, a, o] = success
            self.outcome_id[s, a, o] = ids.setdefault((next_state, reward, terminated), len(ids))
        for array in (self.cumulative, self.next_state, self.reward, self.terminated,
                      self.success, self.outcome_id):  # fmt: skip
            array[s, a, n:] = array[s, a, n - 1]


def _is_success(env: Any, s: int, a: int, next_state: int, reward: float, terminated: bool) -> bool:
    if isinstance(env, TableEnv):
        return env.is_success(s, a, next_state)
    if isinstance(env, FrozenLakeEnv):
        return enters_goal(env, s, next_state)
    return terminated and reward > 0


def _time_limit(env: gym.Env[Any, Any]) -> int:
    """The step at which the wrappers truncate; refuses wrappers that make the table untrue."""
    limit = NO_TIME_LIMIT
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, (gym.ObservationWrapper, gym.RewardWrapper, gym.ActionWrapper)):
            raise ValueError(
                f"{type(layer).__name__} changes what the agent sees, does or earns, so the table "
                "of the environment inside it is not the law of this one"
            )
        if isinstance(layer, gym.wrappers.TimeLimit):
            if layer.spec is None or layer.spec.max_episode_steps is None:
                raise ValueError(
                    "cannot read the TimeLimit of an environment without a spec: make it with "
                    "gymnasium.make(id, max_episode_steps=...)"
                )
            limit = min(limit, layer.spec.max_episode_steps)
        layer = layer.env
    return limit


def _reward_layers(env: gym.Env[Any, Any]) -> list[RewardLayer]:
    """Wrappers that change rewards in a way a table can show, the innermost first."""
    found = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, RewardLayer):
            found.append(env)
        env = env.env
    return found[::-1]


def _sizes(env: Any) -> tuple[int, int]:
    """Numbers of states and actions; refuses an environment without a table over integers."""
    name = type(env).__name__
    for attribute in ("P", "initial_state_distrib"):
        if not hasattr(env, attribute):
            raise TypeError(f"{name} has no transition table: attribute {attribute!r} is missing")
    for kind in ("observation_space", "action_space"):
        space = getattr(env, kind)
        if not isinstance(space, spaces.Discrete) or space.start != 0:
            raise TypeError(f"{name}.{kind} must be Discrete and start at 0, is {space}")
    return int(env.observation_space.n), int(env.action_space.n)


def _check_follows_table(env: Any) -> None:
    if getattr(env, "fickle_passenger", False):
        raise ValueError(
            f"{type(env).__name__} with fickle_passenger=True changes destinations outside its "
            "table P, so no table can stand for it: sibling_replay/FickleTaxi-v0 is the same with "
            "a table"
        )


def _outcomes(
    table: Mapping[int, Mapping[int, Any]], s: int, a: int, n_states: int
) -> list[Outcome]:
    """The outcomes of `P[s][a]` as plain Python numbers, validated."""
    where = f"P[{s}][{a}]"
    try:
        listed = list(table[s][a])
    except (KeyError, IndexError) as error:
        raise ValueError(f"{where} is missing from the transition table") from error
    if not listed:
        raise ValueError(f"{where} lists no outcome")
    outcomes = []
    for entry in listed:
        if len(entry) != 4:
            raise ValueError(
                f"{where}: expected (probability, next_state, reward, terminated), got {entry!r}"
            )
        probability, next_state, reward, terminated = entry
        if not 0 <= next_state < n_states or int(next_state) != next_state:
            raise ValueError(f"{where}: next state {next_state!r} is not in 0 .. {n_states - 1}")
        if not math.isfinite(reward):
            raise ValueError(f"{where}: reward {reward!r} is not finite")
        outcomes.append((float(probability), int(next_state), float(reward), bool(terminated)))
    _check_distribution(where, np.array([outcome[0] for outcome in outcomes]))
    return outcomes


def _initial_cumulative(env: Any, n_states: int) -> NDArray[np.float64]:
    distribution = np.asarray(env.initial_state_distrib, dtype=np.float64)
    if distribution.shape != (n_states,):
        raise ValueError(
            f"initial_state_distrib has shape {distribution.shape}, expected ({n_states},)"
        )
    _check_distribution("initial_state_distrib", distribution)
    return np.cumsum(distribution)


def _check_distribution(where: str, probabilities: NDArray[np.float64]) -> None:
    if not (probabilities >= 0).all():  # also refuses NaN
        raise ValueError(f"{where}: {probabilities.tolist()} has an entry that is not >= 0")
    total = float(probabilities.sum())
    if not abs(total - 1.0) <= _SUM_TOLERANCE:
        raise ValueError(f"{where}: probabilities sum to {total!r}, not 1")
