"""PortalBridge: the best way has a rare and very bad outcome."""

from __future__ import annotations

import numpy as np

from .base import check_finite, check_probability
from .grid import GridEnv, Tile, sure
from .noise_laws import Law

MAP = (
    ".........",
    "....#....",
    "....#....",
    "....#....",
    "....#....",
    "S..P#...G",
)
BEYOND = (5, 5)  # where the portal leads: across the river


class PortalBridgeEnv(GridEnv):
    """A quick portal that rarely costs a lot, against a long way over a bridge.

    ## Description
    6 rows of 9 cells, a river (`#`) between start and goal. The bridge is at the far end of it:
    eighteen steps. The portal (`P`) takes whoever enters to the other side: six steps, but one
    time in two hundred it costs 100. That is 0.5 on average, less than the twelve steps it saves,
    so the portal is the better way. Prioritized replay shows the rare loss more often than it
    happens, and sends the learner over the bridge: OutlierBandit's mistake with the signs changed,
    and with bootstrapping.

    The map, and that the portal is worth its risk, are our choice.

    ## Action space
    `Discrete(4)`: 0 left, 1 down, 2 right, 3 up. Against river and edge the walker stays.

    ## Observation space
    `Discrete(54)`: row * 9 + column. The start is 45, the portal 48 (nobody is ever there: it leads
    to 50), the goal 53.

    ## Rewards
    Paid by the cell that is entered, or stayed on: `goal_reward` (10) at the goal, `step_reward`
    (-0.1) elsewhere; at the portal `-loss` (-100) beside it with probability `p` (0.005).

    ## Episode end
    Termination at the goal, truncation after 100 steps.

    ## Success
    An episode succeeds if the goal was entered, by either way.

    ## Arguments
    ```python
    gym.make("sibling_replay/PortalBridge-v0", p=0.005, loss=100.0, goal_reward=10.0,
             step_reward=-0.1)
    ```

    Examples:
        >>> env = gym.make("sibling_replay/PortalBridge-v0")
        >>> int(env.reset(seed=0)[0])
        45
    """

    def __init__(
        self,
        p: float = 0.005,
        loss: float = 100.0,
        goal_reward: float = 10.0,
        step_reward: float = -0.1,
        render_mode: None = None,
    ) -> None:
        step = check_finite("step_reward", step_reward)
        loss, p = check_finite("loss", loss), check_probability("p", p)
        quiet = Tile(sure(step))
        portal = Law(np.array([step - loss, step]), np.array([p, 1.0 - p]))
        tiles = {
            "S": quiet,
            ".": quiet,
            "P": Tile(portal, leads_to=BEYOND),
            "G": Tile(sure(check_finite("goal_reward", goal_reward)), ends=True),
        }
        super().__init__(MAP, tiles)
        self.render_mode = render_mode
