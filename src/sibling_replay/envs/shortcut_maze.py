"""ShortcutMaze: a near exit with a rare prize, and a far goal that is worth more."""

from __future__ import annotations

import numpy as np

from .base import check_finite, check_probability
from .grid import GridEnv, Tile, sure
from .noise_laws import Law

MAP = (
    "S..#......",
    "...#......",
    "...#..#...",
    "......#...",
    "......#...",
    "...#..#...",
    "...#......",
    "X..#......",
    "...#..#...",
    "...#..#..G",
)


class ShortcutMazeEnv(GridEnv):
    """TwoChains' choice as a maze: a lottery at hand, a sure reward far away.

    ## Description
    10 rows of 10 cells with two walls (`#`). The goal is 18 steps away. The shortcut (`X`), seven
    steps away, ends the episode as well and pays 200 once in fifty times: 4 on average, less than
    the goal's 10 even after discounting the longer way. A learner that is shown the prize more
    often than it happens takes the shortcut, and the value of the goal has a long way back to the
    start to prove it wrong.

    The map, and that the shortcut ends the episode, are our choice.

    ## Action space
    `Discrete(4)`: 0 left, 1 down, 2 right, 3 up. Against walls and the edge the walker stays.

    ## Observation space
    `Discrete(100)`: row * 10 + column. The start is 0, the shortcut 70, the goal 99.

    ## Rewards
    Paid by the cell that is entered, or stayed on: `goal_reward` (10) at the goal; `prize` (200)
    with probability `p` (0.02), else 0, at the shortcut; `step_reward` (-0.1) elsewhere.

    ## Episode end
    Termination at the goal or the shortcut, truncation after 100 steps.

    ## Success
    An episode succeeds if the goal was entered.

    ## Arguments
    ```python
    gym.make("sibling_replay/ShortcutMaze-v0", p=0.02, prize=200.0, goal_reward=10.0,
             step_reward=-0.1)
    ```

    Examples:
        >>> env = gym.make("sibling_replay/ShortcutMaze-v0")
        >>> int(env.reset(seed=0)[0])
        0
    """

    def __init__(
        self,
        p: float = 0.02,
        prize: float = 200.0,
        goal_reward: float = 10.0,
        step_reward: float = -0.1,
        render_mode: None = None,
    ) -> None:
        p = check_probability("p", p)
        lottery = Law(np.array([check_finite("prize", prize), 0.0]), np.array([p, 1.0 - p]))
        quiet = Tile(sure(check_finite("step_reward", step_reward)))
        tiles = {
            "S": quiet,
            ".": quiet,
            "X": Tile(lottery, ends=True),
            "G": Tile(sure(check_finite("goal_reward", goal_reward)), ends=True),
        }
        super().__init__(MAP, tiles)
        self.render_mode = render_mode
