"""What a run is: every number that decides its result, frozen, and the paper's numbers as data.

A run is a pure function of its `RunConfig`. `paper_config` fills one with the settings of the
paper (table `tab:grid-settings`, appendix "Priority updates"); anything can be overridden.
The two schedules are plain functions that compile, so both trainers share them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from numba import njit

METHODS = ("DDQN", "PER", "SAMPLE", "MODEL", "AVG", "AVG-g2", "AVG-g4")
"""The methods the paper names. Any other `AVG-gK` is understood, and RANK, rank-based PER."""

ENVIRONMENTS = {
    "OutlierBandit": "sibling_replay/OutlierBandit-v0",
    "TwoChains": "sibling_replay/TwoChains-v0",
    "FrozenLake-H100/H300": "sibling_replay/FrozenLakeH100-v0",
    "FrozenLake-H50": "sibling_replay/FrozenLakeH50-v0",
}
"""The paper's names of its tabular environments, and the ids Gymnasium knows them by."""

_METHOD = re.compile(r"DDQN|PER|RANK|SAMPLE|MODEL|AVG|AVG-g([1-9][0-9]*)")


@njit(cache=True)
def linear(start: float, end: float, over: int, t: int) -> float:
    """From `start` at t = 0 to `end` at t = `over`, constant afterwards (and if `over` is 0)."""
    if t >= over:
        return end
    return start + (end - start) * (t / over)


def gym_id(env: str) -> str:
    """The Gymnasium id of an environment named as in the paper; other names are ids already."""
    return ENVIRONMENTS.get(env, env)


def subset_size(method: str) -> int | None:
    """K of `AVG-gK` (eq. 12); None for every other method, AVG over whole groups included."""
    match = _METHOD.fullmatch(method)
    if match is None:
        raise ValueError(f"unknown method {method!r}: expected one of {', '.join(METHODS)}")
    return int(match.group(1)) if match.group(1) else None


@dataclass(frozen=True)
class RunConfig:
    """One training run. Steps are environment steps unless the comment says otherwise."""

    env: str  # a name of the paper (`ENVIRONMENTS`) or a Gymnasium id with a table `P`
    method: str  # one of `METHODS`
    seed: int
    steps: int
    capacity: int  # transitions the replay buffer holds
    learning_starts: int  # the first update follows the step with this number
    learning_rate: float  # Adam's
    gamma: float
    target_interval: int
    epsilon_start: float
    epsilon_end: float
    epsilon_decay_steps: int
    eval_episodes: int  # episodes per evaluation
    eval_interval: int  # training episodes between evaluations
    beta_updates: int  # replay updates over which beta is annealed
    alpha: float = 0.6
    beta_start: float = 0.4
    beta_end: float = 1.0  # equal to beta_start: fixed
    batch_size: int = 32
    hidden: int = 64  # units in each of the two hidden layers
    grad_clip: float = 10.0  # largest gradient norm
    max_siblings: int | None = None  # K of AVG-gK; None averages whole groups
    update_all_siblings: bool = False  # AVG: refresh every sibling used, not only the anchor
    diagnostics_every: int = 0  # steps; 0 = off

    def __post_init__(self) -> None:
        if not self.env:
            raise ValueError("env must be the name of an environment")
        size = subset_size(self.method)
        if self.max_siblings != size:
            raise ValueError(
                f"max_siblings={self.max_siblings} does not fit method {self.method!r}, "
                f"which means max_siblings={size}"
            )
        if self.update_all_siblings and not self.method.startswith("AVG"):
            raise ValueError(f"update_all_siblings is for AVG; the method is {self.method!r}")
        for name in ("steps", "capacity", "target_interval", "eval_episodes", "eval_interval"):
            require(self, name, is_int(self, name) and getattr(self, name) >= 1, "an int >= 1")
        for name in ("batch_size", "hidden"):
            require(self, name, is_int(self, name) and getattr(self, name) >= 1, "an int >= 1")
        for name in ("seed", "learning_starts", "epsilon_decay_steps", "beta_updates"):
            require(self, name, is_int(self, name) and getattr(self, name) >= 0, "an int >= 0")
        require(
            self,
            "diagnostics_every",
            is_int(self, "diagnostics_every") and self.diagnostics_every >= 0,
            "an int >= 0",
        )
        for name in ("learning_rate", "grad_clip"):
            require(self, name, 0 < getattr(self, name) < math.inf, "positive and finite")
        for name in ("epsilon_start", "epsilon_end", "beta_start", "beta_end", "gamma"):
            require(self, name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        require(self, "alpha", 0 <= self.alpha < math.inf, "non-negative and finite")

    def beta(self, update: int) -> float:
        """Importance exponent of an update, counted from 0 (the paper: 0.4 toward 1)."""
        return float(linear(self.beta_start, self.beta_end, self.beta_updates, update))

    def epsilon(self, step: int) -> float:
        """Exploration rate of an environment step, counted from 0."""
        return float(linear(self.epsilon_start, self.epsilon_end, self.epsilon_decay_steps, step))


def is_int(config: object, name: str) -> bool:
    """Whether a setting is a whole number, and not a bool that passes for one."""
    value = getattr(config, name)
    return isinstance(value, int) and not isinstance(value, bool)


def require(config: object, name: str, condition: bool, what: str) -> None:
    """Refuse a setting by name."""
    if not condition:
        raise ValueError(f"{name} must be {what}, got {getattr(config, name)!r}")


# Table `tab:grid-settings`. The main comparison anneals beta over as many replay updates as there
# are steps; H50 uses the FrozenLake column. Other tabular environments borrow that column too.
_FROZEN_LAKE: dict[str, Any] = {
    "steps": 500_000,
    "capacity": 50_000,
    "learning_starts": 5_000,
    "learning_rate": 3e-3,
    "gamma": 0.99,
    "target_interval": 1_000,
    "epsilon_start": 1.0,
    "epsilon_end": 0.05,
    "epsilon_decay_steps": 500_000,
    "eval_episodes": 50,
    "eval_interval": 20,
    "beta_updates": 500_000,
}
PAPER_SETTINGS: dict[str, dict[str, Any]] = {
    "OutlierBandit": {
        "steps": 50_000,
        "capacity": 5_000,
        "learning_starts": 500,
        "learning_rate": 7.5e-4,
        "gamma": 0.0,
        "target_interval": 500,
        "epsilon_start": 1.0,
        "epsilon_end": 0.02,
        "epsilon_decay_steps": 10_000,
        "eval_episodes": 500,
        "eval_interval": 500,
        "beta_updates": 50_000,
    },
    "TwoChains": {
        "steps": 100_000,
        "capacity": 5_000,
        "learning_starts": 1_000,
        "learning_rate": 7.5e-4,
        "gamma": 0.99,
        "target_interval": 1_000,
        "epsilon_start": 1.0,
        "epsilon_end": 0.05,
        "epsilon_decay_steps": 50_000,
        "eval_episodes": 200,
        "eval_interval": 100,
        "beta_updates": 100_000,
    },
    "FrozenLake-H100/H300": _FROZEN_LAKE,
    "FrozenLake-H50": _FROZEN_LAKE,
}

# Appendix "Priority updates": AVG refreshes the anchor alone in Bandit, every sibling elsewhere.
_ANCHOR_ONLY = ("OutlierBandit",)


def paper_config(env: str, method: str, seed: int, **overrides: Any) -> RunConfig:
    """The paper's run of `method` on `env`, annealed beta; keyword arguments replace settings.

    An environment the paper does not have gets the FrozenLake column.
    """
    settings: dict[str, Any] = dict(PAPER_SETTINGS.get(env, _FROZEN_LAKE))
    settings["max_siblings"] = subset_size(method)
    settings["update_all_siblings"] = method.startswith("AVG") and env not in _ANCHOR_ONLY
    unknown = sorted(set(overrides) - set(RunConfig.__dataclass_fields__))
    if unknown:
        raise ValueError(f"unknown settings: {', '.join(unknown)}")
    settings.update(overrides)
    return RunConfig(env=env, method=method, seed=seed, **settings)
