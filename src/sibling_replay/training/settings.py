"""What a learner is told beside what to learn from: frozen numbers, checked, and their schedules.

The schedule is a plain function that compiles, so all trainers share it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sibling_replay.replay.inner import inner
from sibling_replay.training.losses import loss_named


@inner()
def linear(start: float, end: float, over: int, t: int) -> float:
    """From `start` at t = 0 to `end` at t = `over`, constant afterwards (and if `over` is 0)."""
    if t >= over:
        return end
    return start + (end - start) * (t / over)


_linear = linear.py_func  # from Python, without the way into compiled code


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """Settings of every learner. Steps are environment steps unless the comment says otherwise."""

    capacity: int = 50_000  # transitions the replay buffer holds
    learning_starts: int = 1_000  # the first update follows the step with this number
    learning_rate: float = 1e-3  # Adam's
    gamma: float = 0.99
    target_interval: int = 1_000
    epsilon_start: float = 1.0
    epsilon_end: float = 0.05
    epsilon_decay_steps: int = 50_000
    beta_updates: int = 100_000  # replay updates over which beta is annealed
    beta_start: float = 0.4
    beta_end: float = 1.0  # equal to beta_start: fixed
    batch_size: int = 32
    grad_clip: float = 10.0  # largest gradient norm

    def __post_init__(self) -> None:
        at_least(self, 1, "capacity", "target_interval", "batch_size")
        at_least(self, 0, "learning_starts", "epsilon_decay_steps", "beta_updates")
        for name in ("learning_rate", "grad_clip"):
            require(self, name, 0 < getattr(self, name) < math.inf, "positive and finite")
        for name in ("epsilon_start", "epsilon_end", "beta_start", "beta_end", "gamma"):
            require(self, name, 0 <= getattr(self, name) <= 1, "between 0 and 1")

    def beta(self, update: int) -> float:
        """Importance exponent of an update, counted from 0 (the paper: 0.4 toward 1)."""
        return float(_linear(self.beta_start, self.beta_end, self.beta_updates, update))

    def epsilon(self, step: int) -> float:
        """Exploration rate of an environment step, counted from 0."""
        return float(_linear(self.epsilon_start, self.epsilon_end, self.epsilon_decay_steps, step))

    def updates_after(self, step: int) -> int:
        """How many updates follow a step, counted from 1."""
        return int(step >= self.learning_starts)

    def target_share(self, step: int) -> float:
        """How far the target network goes toward the online one after a step: 1 copies, 0 waits."""
        return float(step % self.target_interval == 0)


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(LearningSettings):
    """Settings of a learner with a multilayer perceptron."""

    hidden_layers: str = "64-64"  # units of each
    loss: str = "mse"  # one of those in `losses`
    tau: float = 1.0  # how far the target network goes in an update of it; 1 copies
    train_every: int = 1  # steps between rounds of updates
    updates_a_round: int = 1
    through_time_limits: bool = True  # targets bootstrap where a time limit cut an episode off
    n_steps: int = 1  # that an outcome covers at most

    def __post_init__(self) -> None:
        super().__post_init__()
        loss_named(self.loss)  # refuses what is none
        layers = re.fullmatch(r"[1-9]\d*(-[1-9]\d*)*", self.hidden_layers)
        require(self, "hidden_layers", layers is not None, "units of layers, as 64-64")
        at_least(self, 1, "train_every", "updates_a_round", "n_steps")
        require(self, "tau", 0 < self.tau <= 1, "above 0 and at most 1")
        limits = isinstance(self.through_time_limits, bool)
        require(self, "through_time_limits", limits, "True or False")

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(map(int, self.hidden_layers.split("-")))

    def updates_after(self, step: int) -> int:
        due = step >= self.learning_starts and step % self.train_every == 0
        return self.updates_a_round if due else 0

    def target_share(self, step: int) -> float:
        return self.tau if step % self.target_interval == 0 else 0.0


def settings_by_name(given: Mapping[str, Any]) -> NetworkSettings:
    """Settings from arguments: `hidden` are the layers as numbers, numbers of NumPy are taken as
    Python's, and an unknown name is refused with the list of those there are."""
    given = {name: x.item() if isinstance(x, np.generic) else x for name, x in given.items()}
    if "hidden" in given:
        hidden = given.pop("hidden")
        if "hidden_layers" in given:
            raise TypeError("hidden and hidden_layers say the same: give one of them")
        if isinstance(hidden, (str, int)):
            raise TypeError(f"hidden must be the units of each layer, as (64, 64), got {hidden!r}")
        given["hidden_layers"] = "-".join(map(str, hidden))
    known = [field.name for field in fields(NetworkSettings)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"unknown settings {', '.join(unknown)}: there are {', '.join(known)}")
    return NetworkSettings(**given)


def is_int(config: object, name: str) -> bool:
    """Whether a setting is a whole number, and not a bool that passes for one."""
    value = getattr(config, name)
    return isinstance(value, int) and not isinstance(value, bool)


def at_least(config: object, least: int, *names: str) -> None:
    """Refuse settings that are no whole numbers from `least` on."""
    for name in names:
        enough = is_int(config, name) and getattr(config, name) >= least
        require(config, name, enough, f"an int >= {least}")


def require(config: object, name: str, condition: bool, what: str) -> None:
    """Refuse a setting by name."""
    if not condition:
        raise ValueError(f"{name} must be {what}, got {getattr(config, name)!r}")
