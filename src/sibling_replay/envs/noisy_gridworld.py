"""NoisyGridworld: the short way leads through noise that means nothing."""

from __future__ import annotations

import math

import numpy as np

from .base import check_finite
from .grid import GridEnv, Tile, sure
from .noise_laws import Law, gauss_law

MAP = (
    "........",
    ".~~~~~~.",
    ".~~~~~~.",
    "S~~~~~~G",
    ".~~~~~~.",
    ".~~~~~~.",
    "........",
)


class NoisyGridworldEnv(GridEnv):
    """A field of random rewards between start and goal, with a quiet border.

    ## Description
    7 rows of 8 cells. The goal is seven steps away, straight through a field (`~`) whose cells pay
    normal noise of mean 0; around it, along the border, the way is quiet and takes thirteen. On
    average a noisy cell pays what any other does, so the straight way is the best. Noise gives
    every transition of the field a large TD error for ever, whether or not anything is left to
    learn there, and the maximum over noisy estimates makes the field look better than it is.

    Which cells are noisy and what a step costs was left open to us; N(0, 2) is read as a variance
    of 2. Noise is seven values of exact mean and variance (Gauss-Hermite).

    ## Action space
    `Discrete(4)`: 0 left, 1 down, 2 right, 3 up. Against the edge the walker stays.

    ## Observation space
    `Discrete(56)`: row * 8 + column. The start is 24, the goal 31.

    ## Rewards
    Paid by the cell that is entered, or stayed on: `goal_reward` (10) at the goal, `step_reward`
    (-0.1) elsewhere, and in the field normal noise of this `variance` (2) beside it.

    ## Episode end
    Termination at the goal, truncation after 100 steps.

    ## Success
    An episode succeeds if the goal was entered.

    ## Arguments
    ```python
    gym.make("sibling_replay/NoisyGridworld-v0", variance=2.0, goal_reward=10.0,
             step_reward=-0.1)
    ```

    Examples:
        >>> env = gym.make("sibling_replay/NoisyGridworld-v0")
        >>> env.observation_space.n.item()
        56
    """

    def __init__(
        self,
        variance: float = 2.0,
        goal_reward: float = 10.0,
        step_reward: float = -0.1,
        render_mode: None = None,
    ) -> None:
        if not check_finite("variance", variance) >= 0.0:
            raise ValueError(f"variance must be >= 0, got {variance!r}")
        step = check_finite("step_reward", step_reward)
        values, probabilities = gauss_law(math.sqrt(variance))
        quiet = Tile(sure(step))
        tiles = {
            "S": quiet,
            ".": quiet,
            "~": Tile(Law(np.add(step, values), probabilities)),
            "G": Tile(sure(check_finite("goal_reward", goal_reward)), ends=True),
        }
        super().__init__(MAP, tiles)
        self.render_mode = render_mode
