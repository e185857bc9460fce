"""What a run on any Gymnasium environment is: every number that decides its result, frozen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from sibling_replay.envs import NoisyRewards, RewardNoise, make_env
from sibling_replay.grouping import parse_key
from sibling_replay.strategies.api import INITIALS
from sibling_replay.training.config import RunConfig, usual_alpha
from sibling_replay.training.methods import draws_by_siblings
from sibling_replay.training.settings import NetworkSettings, at_least, require

LEARNERS = ("compiled", "torch", "sb3")
CONDITIONS = ("clean", "mp-tail")
STEPS = 50_000  # of a run, unless others are asked for


@dataclass(frozen=True, kw_only=True)
class GymConfig(RunConfig, NetworkSettings):
    """A Double DQN with a multilayer perceptron on a registered environment with vectors for
    observations and discrete actions. Evaluations are of the environment without a tail."""

    kind = "gym"

    learner: str = "compiled"  # whose arithmetic: one of LEARNERS
    condition: str = "clean"  # one of CONDITIONS: what rewards training sees
    key: str = ""  # the map that makes siblings, as `parse_key` reads it; "": equal observations
    initial: str = "largest"  # how newcomers start: one of INITIALS
    tail_probability: float = 0.02  # of mp-tail
    tail_magnitude: float = 30.0  # of mp-tail, reward units
    eval_every_steps: int = 1_000
    timed: bool = False  # keep CPU seconds, too, in which no two runs agree

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, choices in (
            ("learner", LEARNERS),
            ("condition", CONDITIONS),
            ("initial", INITIALS),
        ):
            require(self, name, getattr(self, name) in choices, f"one of {', '.join(choices)}")
        if self.key:
            parse_key(self.key)  # refuses what is none
        at_least(self, 1, "eval_every_steps")
        none = self.diagnostics_every == 0
        require(self, "diagnostics_every", none, "0: here the buffer is measured at evaluations")
        require(self, "tail_probability", 0 <= self.tail_probability < 1, "in [0, 1)")
        finite = 0 <= self.tail_magnitude < math.inf
        require(self, "tail_magnitude", finite, "non-negative and finite")


def training_env(config: GymConfig) -> gym.Env[Any, Any]:
    """What training sees: the environment, with the tail if there is to be one."""
    env = make_env(config.env)
    if config.condition == "clean":
        return env
    tail = RewardNoise("tail", config.tail_magnitude, probability=config.tail_probability)
    return NoisyRewards(env, tail)


def gym_config(env: str, method: str, seed: int, **settings: Any) -> GymConfig:
    """A run of `DQN`: epsilon falls over a fifth of it and beta rises over all of it, unless the
    settings say otherwise."""
    steps = settings.get("steps", STEPS)
    updates = steps // settings.get("train_every", 1) * settings.get("updates_a_round", 1)
    schedules = {"epsilon_decay_steps": steps // 5, "beta_updates": updates}
    key = "auto" if draws_by_siblings(method) else ""
    usual = {"steps": STEPS, "target_interval": 500, "key": key, "alpha": usual_alpha(method)}
    usual |= schedules
    return GymConfig(env=env, method=method, seed=seed, **{**usual, **settings})
