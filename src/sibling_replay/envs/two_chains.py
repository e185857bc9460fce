"""TwoChains: OutlierBandit's choice, with the safe reward many steps away."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from .base import Outcome, TableEnv, check_finite, check_probability

SAFE, RISKY = 0, 1


class TwoChainsEnv(TableEnv):
    """A long safe chain against a short risky one of lower mean.

    ## Description
    One decision, at the start. The safe chain surely pays a small reward after `chain_length + 1`
    steps; the risky one pays a large reward after two steps, rarely. As in OutlierBandit the safe
    branch has the higher mean (1 against 0.8), but here its value has to travel back along the
    chain by bootstrapping, while the rare outcome sits one step from the start: replay that
    over-selects it also takes updates away from the chain.

    ## Action space
    `Discrete(2)`: at the start, 0 takes the safe branch and 1 the risky one. Everywhere else both
    actions do the same: continue.

    ## Observation space
    `Discrete(L + 4)`, L = `chain_length`:
    - 0: start
    - 1 .. L: the safe chain
    - L + 1: the risky state
    - L + 2: goal (terminal)
    - L + 3: hole (terminal)

    ## Rewards
    - entering the goal from the safe chain: `safe_reward` (1)
    - from the risky state: `risky_reward` (80) at the goal with probability `p` (0.01), else
      `hole_reward` (0) in the hole
    - every other step: 0

    ## Episode end
    Termination at the goal or the hole. Truncation after 20 steps, which is out of reach unless
    `chain_length` exceeds 18: then give `gym.make` a larger `max_episode_steps`.

    ## Success
    An episode succeeds if the goal was reached, by either branch.

    ## Information
    `step()` and `reset()` return `prob`, the probability of what happened.

    ## Arguments
    ```python
    gym.make("sibling_replay/TwoChains-v0", chain_length=10, p=0.01, safe_reward=1.0,
             risky_reward=80.0, hole_reward=0.0)
    ```

    Examples:
        >>> table = TabularModel.from_env(make_env("sibling_replay/TwoChains-v0"))
        >>> np.round(optimal_values(table, gamma=1.0)[0], 6).tolist()  # at the start: safe, risky
        [1.0, 0.8]
    """

    def __init__(
        self,
        chain_length: int = 10,
        p: float = 0.01,
        safe_reward: float = 1.0,
        risky_reward: float = 80.0,
        hole_reward: float = 0.0,
        render_mode: None = None,
    ) -> None:
        if chain_length != int(chain_length) or chain_length < 1:
            raise ValueError(f"chain_length must be a whole number >= 1, got {chain_length!r}")
        chain_length = int(chain_length)
        p = check_probability("p", p)
        safe_reward = check_finite("safe_reward", safe_reward)
        risky_reward = check_finite("risky_reward", risky_reward)
        hole_reward = check_finite("hole_reward", hole_reward)

        start, first, last = 0, 1, chain_length
        self.risky_state, self.goal, self.hole = last + 1, last + 2, last + 3
        n_states = last + 4

        # Where both actions lead, for every state but the start.
        continuing: dict[int, list[Outcome]] = {
            **{s: [(1.0, s + 1, 0.0, False)] for s in range(first, last)},
            last: [(1.0, self.goal, safe_reward, True)],
            self.risky_state: [
                (p, self.goal, risky_reward, True),
                (1.0 - p, self.hole, hole_reward, True),
            ],
            self.goal: [(1.0, self.goal, 0.0, True)],
            self.hole: [(1.0, self.hole, 0.0, True)],
        }
        self.P = {s: {SAFE: outcomes, RISKY: outcomes} for s, outcomes in continuing.items()}
        self.P[start] = {
            SAFE: [(1.0, first, 0.0, False)],
            RISKY: [(1.0, self.risky_state, 0.0, False)],
        }
        self.initial_state_distrib = np.zeros(n_states)
        self.initial_state_distrib[start] = 1.0
        self.observation_space = spaces.Discrete(n_states)
        self.action_space = spaces.Discrete(2)
        self.render_mode = render_mode

    def is_success(self, state: int, action: int, next_state: int) -> bool:
        return next_state == self.goal and state != self.goal
