"""The paper's FrozenLake: Gymnasium's own, with a nearly obedient walker and deep holes."""

from __future__ import annotations

import numpy as np
from gymnasium.envs.toy_text.frozen_lake import MAPS, FrozenLakeEnv

from .base import check_finite, check_probability


class DeepHoleFrozenLakeEnv(FrozenLakeEnv):
    """Gymnasium's slippery 8x8 FrozenLake in which slips are rare and holes are expensive.

    ## Description
    The walker goes where it is told with probability `success_rate` (0.99) and slips to each side
    with half of the rest. Beside a hole, the best action has a rare and very bad outcome: the
    mirror image of OutlierBandit, with 64 states and bootstrapping. Prioritized replay shows such
    falls more often than they happen and makes the learner shun the short way.

    Dynamics, table `P`, spaces, rendering and `info` are those of `FrozenLake-v1`; this class only
    sets its parameters. Two ids are registered, with a limit of 200 steps:

    | id | goal | hole | other steps |
    |---|---|---|---|
    | `sibling_replay/FrozenLakeH100-v0` | 100 | -300 | -0.01 |
    | `sibling_replay/FrozenLakeH50-v0` | 50 | -100 | -0.01 |

    (`FrozenLake-v1` itself would stop after 100 steps, with `map_name="8x8"` too.)

    ## Action space
    `Discrete(4)`: 0 left, 1 down, 2 right, 3 up.

    ## Observation space
    `Discrete(64)`: row * 8 + column. The start is 0, the goal 63.

    ## Rewards
    Paid on entering a tile: `goal_reward`, `hole_reward`, or `step_reward`.

    ## Episode end
    Termination at the goal or in a hole, truncation after 200 steps.

    ## Success
    An episode succeeds if the goal was entered.

    ## Arguments
    ```python
    gym.make("sibling_replay/FrozenLakeH100-v0", success_rate=0.99, goal_reward=100.0,
             hole_reward=-300.0, step_reward=-0.01, map_name="8x8")
    ```

    Examples:
        >>> env = gym.make("sibling_replay/FrozenLakeH100-v0")
        >>> env.observation_space.n.item()
        64
    """

    def __init__(
        self,
        goal_reward: float = 100.0,
        hole_reward: float = -300.0,
        step_reward: float = -0.01,
        success_rate: float = 0.99,
        map_name: str = "8x8",
        render_mode: str | None = None,
    ) -> None:
        if map_name not in MAPS:
            raise ValueError(f"map_name must be one of {sorted(MAPS)}, got {map_name!r}")
        rewards = (
            check_finite("goal_reward", goal_reward),
            check_finite("hole_reward", hole_reward),
            check_finite("step_reward", step_reward),
        )
        super().__init__(
            render_mode=render_mode,
            map_name=map_name,
            is_slippery=True,
            success_rate=check_probability("success_rate", success_rate),
            reward_schedule=rewards,  # type: ignore[arg-type]  # annotated as ints, used as numbers
        )


def enters_goal(env: FrozenLakeEnv, state: int, next_state: int) -> bool:
    """Whether this transition of any FrozenLake makes its episode a success."""
    tiles = np.ravel(env.desc)
    return bool(tiles[next_state] == b"G" and tiles[state] != b"G")
