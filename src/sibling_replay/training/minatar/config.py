"""What a MinAtar run is: every number that decides its result, frozen.

The defaults are the paper's (appendix "MinAtar settings and learning rates"). Where it is silent we
chose, once, for all methods alike:

    learning starts at step 5,000 and gradients are clipped at norm 10, as in its FrozenLake runs;
    evaluation every 10,000 steps, 10 greedy episodes of the clean game, sticky actions included.

Beta is annealed over five million updates whatever the length of a run, so a shorter run is the
beginning of the paper's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sibling_replay.envs import GAMES
from sibling_replay.training.config import is_int, linear, require

MINATAR_METHODS = ("DDQN", "PER", "SAMPLE")
CONDITIONS = ("clean", "mp-tail")


@dataclass(frozen=True)
class MinAtarConfig:
    """One training run. Steps are environment steps unless the comment says otherwise."""

    env: str  # the game, one of GAMES
    method: str  # one of MINATAR_METHODS
    condition: str  # one of CONDITIONS: what rewards training sees
    seed: int
    learning_rate: float  # Adam's
    encoder: str = ""  # digest of the frozen encoder that makes the groups; "": no groups
    steps: int = 5_000_000
    capacity: int = 100_000  # transitions the replay buffer holds
    learning_starts: int = 5_000  # the first update follows the step with this number
    batch_size: int = 32
    gamma: float = 0.99
    target_interval: int = 1_000
    epsilon_start: float = 1.0
    epsilon_end: float = 0.1
    epsilon_decay_steps: int = 100_000
    alpha: float = 0.6
    beta_start: float = 0.4
    beta_end: float = 1.0
    beta_updates: int = 5_000_000  # replay updates over which beta is annealed
    grad_clip: float = 10.0  # largest gradient norm
    sticky: float = 0.1  # probability of repeating the last action
    max_episode_steps: int = 5_000
    tail_probability: float = 0.02  # of mp-tail
    tail_magnitude: float = 30.0  # of mp-tail, reward units
    eval_interval: int = 10_000
    eval_episodes: int = 10  # episodes per evaluation
    diagnostics_every: int = 5_000  # a window of diagnostics; 0 = off

    def __post_init__(self) -> None:
        for name, choices in (
            ("env", tuple(GAMES)),
            ("method", MINATAR_METHODS),
            ("condition", CONDITIONS),
        ):
            require(self, name, getattr(self, name) in choices, f"one of {', '.join(choices)}")
        require(self, "encoder", self.method != "SAMPLE" or bool(self.encoder), "given for SAMPLE")
        for name in (
            "steps", "capacity", "batch_size", "target_interval", "eval_interval",
            "eval_episodes", "max_episode_steps",
        ):  # fmt: skip
            require(self, name, is_int(self, name) and getattr(self, name) >= 1, "an int >= 1")
        for name in (
            "seed", "learning_starts", "epsilon_decay_steps", "beta_updates", "diagnostics_every",
        ):  # fmt: skip
            require(self, name, is_int(self, name) and getattr(self, name) >= 0, "an int >= 0")
        for name in ("learning_rate", "grad_clip"):
            require(self, name, 0 < getattr(self, name) < math.inf, "positive and finite")
        for name in (
            "epsilon_start", "epsilon_end", "beta_start", "beta_end", "gamma", "sticky",
        ):  # fmt: skip
            require(self, name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        require(self, "tail_probability", 0 <= self.tail_probability < 1, "in [0, 1)")
        for name in ("alpha", "tail_magnitude"):
            require(self, name, 0 <= getattr(self, name) < math.inf, "non-negative and finite")

    def beta(self, update: int) -> float:
        """Importance exponent of an update, counted from 0."""
        return float(linear(self.beta_start, self.beta_end, self.beta_updates, update))

    def epsilon(self, step: int) -> float:
        """Exploration rate of an environment step, counted from 0."""
        return float(linear(self.epsilon_start, self.epsilon_end, self.epsilon_decay_steps, step))
