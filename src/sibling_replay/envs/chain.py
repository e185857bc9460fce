"""Chain and BlindCliffWalk: states in a row, nothing random, a reward at the far end.

There is nothing to correct: every group has one outcome. What counts is how fast the one reward
travels back, which is what prioritized replay was made for.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from .base import Outcome, TableEnv, check_finite, check_whole


class _RowEnv(TableEnv):
    """States 0 .. end in a row: the first is the start, the last terminal."""

    end: int

    def _set(self, rows: dict[int, dict[int, list[Outcome]]], end: int) -> None:
        self.P = {**rows, end: {action: [(1.0, end, 0.0, True)] for action in (0, 1)}}
        self.end = end
        self.initial_state_distrib = np.eye(end + 1)[0]
        self.observation_space = spaces.Discrete(end + 1)
        self.action_space = spaces.Discrete(2)


class ChainEnv(_RowEnv):
    """Forward or back, and a reward at the end.

    ## Description
    `length` states in a row. Going back is a step lost, not an end: a random walk needs many
    episodes to see the reward at all.

    ## Action space
    `Discrete(2)`: 0 back (at the first state: stay), 1 forward.

    ## Observation space
    `Discrete(length + 1)`: 0 is the start, `length` the end (terminal).

    ## Rewards
    `reward` (1) on reaching the end, `step_reward` (-0.01) on every other step.

    ## Episode end
    Termination at the end, truncation after 100 steps.

    ## Success
    An episode succeeds if the end was reached.

    ## Arguments
    ```python
    gym.make("sibling_replay/Chain-v0", length=20, reward=1.0, step_reward=-0.01)
    ```

    Examples:
        >>> env = gym.make("sibling_replay/Chain-v0")
        >>> int(env.reset(seed=0)[0])
        0
    """

    def __init__(
        self,
        length: int = 20,
        reward: float = 1.0,
        step_reward: float = -0.01,
        render_mode: None = None,
    ) -> None:
        end = check_whole("length", length, 1)
        reward = check_finite("reward", reward)
        step = check_finite("step_reward", step_reward)

        def forward(state: int) -> Outcome:
            last = state + 1 == end
            return (1.0, state + 1, reward if last else step, last)

        rows = {s: {0: [(1.0, max(s - 1, 0), step, False)], 1: [forward(s)]} for s in range(end)}
        self._set(rows, end)
        self.render_mode = render_mode

    def is_success(self, state: int, action: int, next_state: int) -> bool:
        return next_state == self.end != state


class BlindCliffWalkEnv(_RowEnv):
    """One right action in every state; the wrong one is the end.

    ## Description
    The example of Schaul et al. (2016): `length` states in a row, of two actions one goes on and
    the other falls off the cliff. Random play gets to the reward once in 2^length episodes, so that
    nearly all that is stored is worthless, and replay finds the rest sooner if it looks at errors.
    The right action alternates (0 in even states, 1 in odd ones), which was left open to us: no
    policy that ignores the state gets far.

    ## Action space
    `Discrete(2)`.

    ## Observation space
    `Discrete(length + 1)`: 0 is the start, `length` stands for both ends (terminal).

    ## Rewards
    `reward` (1) for the right action in the last state, 0 for all others.

    ## Episode end
    Termination by a wrong action or behind the last state. Truncation after 100 steps, which is
    out of reach unless `length` exceeds it.

    ## Success
    An episode succeeds if all its actions were right.

    ## Arguments
    ```python
    gym.make("sibling_replay/BlindCliffWalk-v0", length=10, reward=1.0)
    ```

    Examples:
        >>> env = gym.make("sibling_replay/BlindCliffWalk-v0")
        >>> int(env.reset(seed=0)[0])
        0
    """

    def __init__(self, length: int = 10, reward: float = 1.0, render_mode: None = None) -> None:
        end = check_whole("length", length, 1)
        reward = check_finite("reward", reward)
        rows: dict[int, dict[int, list[Outcome]]] = {}
        for state in range(end):
            last = state + 1 == end
            rows[state] = {
                state % 2: [(1.0, state + 1, reward if last else 0.0, last)],
                1 - state % 2: [(1.0, end, 0.0, True)],
            }
        self._set(rows, end)
        self.render_mode = render_mode

    def is_success(self, state: int, action: int, next_state: int) -> bool:
        return state + 1 == self.end and action == state % 2
