"""Noise on rewards, for transition tables and for any Gymnasium environment.

One law serves both. A table lists what noise makes of each outcome; a wrapper draws it, from a
random stream of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from .base import ListedOutcome, RewardLayer
from .noise_laws import Law, gauss_law, student_law, tail_law
from .plain import plain, restored

if TYPE_CHECKING:
    from .tables import TabularModel

KINDS = ("tail", "gauss", "student")


@dataclass(frozen=True)
class RewardNoise:
    """What is added to a reward: independent noise, one of

    - "tail": -scale with `probability` and, if `mean_preserving`, so much more otherwise that the
      mean stays (the paper's mp-tail, of scale 30 and probability 0.02);
    - "gauss": normal, of standard deviation `scale`, as 7 values;
    - "student": heavy-tailed, of standard deviation `scale`, as 16 values (3 degrees of freedom).

    Both lists of values have the exact mean and variance (`noise_laws`), and mean 0: they cannot be
    anything but mean-preserving. With `positive_only`, rewards that are not above zero have none,
    as in the paper's MinAtar games.

    `of_table(model)` is a table with this noise, `NoisyRewards(env, noise)` an environment with it.

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/PortalBridge-v0"))
        >>> noisy = RewardNoise("gauss", scale=1.0).of_table(table)
        >>> np.allclose(optimal_values(noisy, 0.99), optimal_values(table, 0.99))
        True
    """

    kind: str
    scale: float
    mean_preserving: bool = True
    probability: float = 0.02  # of the loss; for "tail"
    positive_only: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind of noise must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.kind != "tail" and not self.mean_preserving:
            raise ValueError(
                f"{self.kind} noise has mean 0 and preserves every mean: mean_preserving=False is "
                "for kind='tail'"
            )
        self.law()  # refuses a scale or a probability that is none

    def law(self) -> Law:
        """What is added, as values and probabilities."""
        if self.kind == "tail":
            return tail_law(self.scale, self.probability, self.mean_preserving)
        return gauss_law(self.scale) if self.kind == "gauss" else student_law(self.scale)

    def reaches(self, reward: float) -> bool:
        """Whether a reward of this size has noise."""
        return reward > 0.0 or not self.positive_only

    def of_outcomes(self, outcomes: list[ListedOutcome]) -> list[ListedOutcome]:
        """Outcomes of a state and action, each once for every value of the noise."""
        noise = list(zip(*(part.tolist() for part in self.law()), strict=True))
        found = []
        for each in outcomes:
            for value, probability in noise if self.reaches(each.reward) else [(0.0, 1.0)]:
                chance = each.probability * probability
                found.append(each._replace(probability=chance, reward=each.reward + value))
        return found

    def of_table(self, model: TabularModel) -> TabularModel:
        """The table with this noise on its rewards."""
        return model.with_outcomes(self.of_outcomes)

    @classmethod
    def parse(cls, text: str) -> RewardNoise:
        """From `kind-scale`, as in tail-30."""
        kind, _, scale = text.partition("-")
        try:
            return cls(kind, float(scale))
        except ValueError as error:
            raise ValueError(
                f"reward_noise is kind-scale, such as tail-30, gauss-1 or student-2, not {text!r}: "
                f"{error}"
            ) from error


class NoisyRewards(RewardLayer, RecordConstructorArgs):
    """An environment with noise on its rewards.

    The wrapper's randomness is its own, a child of the reset's seed: the game below goes the same
    way with and without it. A reward that has noise takes one uniform.

    Examples:
        >>> env = NoisyRewards(gym.make("CartPole-v1"), RewardNoise("tail", scale=30.0))
        >>> obs, _ = env.reset(seed=0)
        >>> round(float(env.step(0)[1]), 3)  # 1 and a little more; rarely 1 - 30
        1.612
    """

    def __init__(self, env: gym.Env[Any, Any], noise: RewardNoise) -> None:
        RecordConstructorArgs.__init__(self, noise=noise)
        super().__init__(env)
        self.noise = noise
        law = noise.law()
        self._values = law.values.tolist()
        self._cumulative = law.probabilities.cumsum().tolist()
        self._cumulative[-1] = 1.0  # above every uniform, however the sum was rounded
        self._generator = np.random.Generator(np.random.PCG64())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            entropy = np.random.SeedSequence(seed, spawn_key=(0,))
            self._generator = np.random.Generator(np.random.PCG64(entropy))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, self.perturbed(float(reward)), terminated, truncated, info

    def perturbed(self, reward: float) -> float:
        """What training sees instead of a reward of the game."""
        if not self.noise.reaches(reward):
            return reward
        drawn = bisect_right(self._cumulative, self._generator.random())
        return reward + float(self._values[drawn])

    def of_outcomes(self, outcomes: list[ListedOutcome]) -> list[ListedOutcome]:
        return self.noise.of_outcomes(outcomes)

    def state_dict(self) -> dict[str, Any]:
        """The wrapper's part of a checkpoint, as plain data."""
        return {"generator": plain(self._generator.bit_generator.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._generator.bit_generator.state = restored(state["generator"])
