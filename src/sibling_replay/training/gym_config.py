"""What a run on any Gymnasium environment is: every number that decides its result, frozen."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from sibling_replay.grouping import parse_key
from sibling_replay.strategies.api import INITIALS
from sibling_replay.training.config import RunConfig, at_least, require

LEARNERS = ("sb3",)
CONDITIONS = ("clean", "mp-tail")
LOSSES = ("mse", "huber")


@dataclass(frozen=True, kw_only=True)
class GymConfig(RunConfig):
    """A Double DQN with a multilayer perceptron on a registered environment with vectors for
    observations and discrete actions. Evaluations are of the environment without a tail."""

    kind = "gym"

    learner: str = "sb3"  # whose arithmetic: one of LEARNERS
    condition: str = "clean"  # one of CONDITIONS: what rewards training sees
    key: str = ""  # the map that makes siblings, as `parse_key` reads it; "": equal observations
    initial: str = "largest"  # how newcomers start: one of INITIALS
    hidden: str = "64-64"  # units of the hidden layers
    loss: str = "mse"
    train_every: int = 1  # steps between rounds of updates
    updates_a_round: int = 1
    tail_probability: float = 0.02  # of mp-tail
    tail_magnitude: float = 30.0  # of mp-tail, reward units
    eval_every_steps: int = 1_000

    def __post_init__(self) -> None:
        super().__post_init__()
        named = {"learner": LEARNERS, "condition": CONDITIONS, "initial": INITIALS, "loss": LOSSES}
        for name, choices in named.items():
            require(self, name, getattr(self, name) in choices, f"one of {', '.join(choices)}")
        if self.key:
            parse_key(self.key)  # refuses what is none
        layers = re.fullmatch(r"[1-9]\d*(-[1-9]\d*)*", self.hidden)
        require(self, "hidden", layers is not None, "units of layers, as 64-64")
        at_least(self, 1, "eval_every_steps", "train_every", "updates_a_round")
        require(self, "tail_probability", 0 <= self.tail_probability < 1, "in [0, 1)")
        finite = 0 <= self.tail_magnitude < math.inf
        require(self, "tail_magnitude", finite, "non-negative and finite")

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(map(int, self.hidden.split("-")))
