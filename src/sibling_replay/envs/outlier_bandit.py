"""OutlierBandit: the smallest environment in which prioritized replay misleads."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from .base import TableEnv, check_finite, check_probability

SAFE, RISKY = 0, 1


class OutlierBanditEnv(TableEnv):
    """A sure reward against a rarely paid, very large one of lower mean.

    ## Description
    One state, two actions, every episode one step long. The risky action's rare reward leaves a TD
    error far above all others. Prioritized replay therefore shows it to the learner much more often
    than it happens, the learner's value of the risky action rises above its mean, and the worse
    action is chosen. A replay that keeps outcome frequencies within a state-action group does not
    make this mistake, and there is nothing else in this environment to get wrong.

    ## Action space
    `Discrete(2)`
    - 0: safe
    - 1: risky

    ## Observation space
    `Discrete(1)`: always 0.

    ## Rewards
    - safe: `safe_reward` (2)
    - risky: `outlier_reward` (100) with probability `p` (0.01), else `common_reward` (0): mean 1

    ## Episode end
    Every step terminates. There is no time limit.

    ## Success
    An episode succeeds if the safe action was chosen, whatever it paid.

    ## Information
    `step()` and `reset()` return `prob`, the probability of what happened.

    ## Arguments
    ```python
    gym.make("sibling_replay/OutlierBandit-v0", p=0.01, safe_reward=2.0, outlier_reward=100.0,
             common_reward=0.0)
    ```

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/OutlierBandit-v0"))
        >>> np.round(optimal_values(table, gamma=0.99), 6).tolist()  # safe, risky
        [[2.0, 1.0]]
    """

    def __init__(
        self,
        p: float = 0.01,
        safe_reward: float = 2.0,
        outlier_reward: float = 100.0,
        common_reward: float = 0.0,
        render_mode: None = None,
    ) -> None:
        p = check_probability("p", p)
        safe_reward = check_finite("safe_reward", safe_reward)
        outlier_reward = check_finite("outlier_reward", outlier_reward)
        common_reward = check_finite("common_reward", common_reward)

        self.P = {
            0: {
                SAFE: [(1.0, 0, safe_reward, True)],
                RISKY: [(p, 0, outlier_reward, True), (1.0 - p, 0, common_reward, True)],
            }
        }
        self.initial_state_distrib = np.ones(1)
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(2)
        self.render_mode = render_mode

    def is_success(self, state: int, action: int, next_state: int) -> bool:
        return action == SAFE
