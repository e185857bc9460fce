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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sibling_replay.envs import GAMES
from sibling_replay.grouping import parse_key
from sibling_replay.training.config import RunConfig
from sibling_replay.training.methods import draws_by_siblings
from sibling_replay.training.settings import at_least, require

MINATAR_METHODS = ("DDQN", "PER", "SAMPLE")
CONDITIONS = ("clean", "mp-tail")


@dataclass(frozen=True, kw_only=True)
class MinAtarConfig(RunConfig):
    """One run of a game. Steps are environment steps unless the comment says otherwise."""

    kind = "minatar"
    first_names = (
        "env", "method", "condition", "seed", "learning_rate", "encoder", "steps", "capacity",
        "learning_starts", "batch_size", "gamma", "target_interval", "epsilon_start", "epsilon_end",
        "epsilon_decay_steps", "alpha", "beta_start", "beta_end", "beta_updates", "grad_clip",
        "sticky", "max_episode_steps", "tail_probability", "tail_magnitude", "eval_interval",
        "eval_episodes", "diagnostics_every",
    )  # fmt: skip
    renamed: ClassVar[Mapping[str, str]] = {"eval_interval": "eval_every_steps"}

    condition: str  # one of CONDITIONS: what rewards training sees
    learning_rate: float  # Adam's
    encoder: str = ""  # digest of the frozen encoder that makes the groups; "": none does
    key: str = ""  # another map that makes them, as `parse_key` reads it: auto, simhash:12, ...
    hidden: int = 128  # units of the layer behind the convolutions
    steps: int = 5_000_000
    capacity: int = 100_000
    learning_starts: int = 5_000
    epsilon_end: float = 0.1
    epsilon_decay_steps: int = 100_000
    beta_updates: int = 5_000_000
    sticky: float = 0.1  # probability of repeating the last action
    max_episode_steps: int = 5_000
    tail_probability: float = 0.02  # of mp-tail
    tail_magnitude: float = 30.0  # of mp-tail, reward units
    eval_every_steps: int = 10_000
    diagnostics_every: int = 5_000  # a window of diagnostics; 0 = off

    def __post_init__(self) -> None:
        for name, choices in (("env", tuple(GAMES)), ("condition", CONDITIONS)):
            require(self, name, getattr(self, name) in choices, f"one of {', '.join(choices)}")
        super().__post_init__()
        grouped = draws_by_siblings(self.method)
        made = bool(self.encoder) or bool(self.key)
        require(self, "encoder", made or not grouped, f"given for {self.method}, or a key")
        require(self, "key", not (self.key and self.encoder), "empty beside an encoder")
        if self.key:
            parse_key(self.key)  # refuses what is none
        at_least(self, 1, "eval_every_steps", "max_episode_steps", "hidden")
        require(self, "sticky", 0 <= self.sticky <= 1, "between 0 and 1")
        require(self, "tail_probability", 0 <= self.tail_probability < 1, "in [0, 1)")
        finite = 0 <= self.tail_magnitude < math.inf
        require(self, "tail_magnitude", finite, "non-negative and finite")

    @property
    def label(self) -> str:
        return f"{self.env}-{self.method}-{self.condition}-seed{self.seed}"
