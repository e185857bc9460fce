"""ConalBandit: arms that differ in their noise, and in their mean if it is shifted."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from .base import TableEnv, check_finite
from .noise_laws import gauss_law

ARMS = 5
MEAN = 2.0
LEAST_DEVIATION, LARGEST_DEVIATION = 0.1, 2.1


class ConalBanditEnv(TableEnv):
    """Five arms whose rewards spread more and more: a cone.

    ## Description
    One state, five actions, every episode one step long. A large TD error says that an arm is
    noisy, not that its value is wrong, so replay by TD errors spends its updates on the noisy arms.
    In the plain form all arms are worth the same: whatever is chosen returns 2, and what can be
    compared is how far values are from 2 and what is replayed. In the shifted form the quiet arm is
    the best one and the noisiest the worst, though single rewards often say otherwise.

    How the means fall and deviations rise between the first arm and the last was left open to us:
    in equal steps. Normal rewards are seven values of exact mean and variance (Gauss-Hermite).

    ## Action space
    `Discrete(5)`: an arm each.

    ## Observation space
    `Discrete(1)`: always 0.

    ## Rewards
    | arm | 0 | 1 | 2 | 3 | 4 |
    |---|---|---|---|---|---|
    | standard deviation | 0.1 | 0.6 | 1.1 | 1.6 | 2.1 |
    | mean, `sibling_replay/ConalBandit-v0` (`shift=0`) | 2 | 2 | 2 | 2 | 2 |
    | mean, `sibling_replay/ShiftedConalBandit-v0` (`shift=1`) | 3 | 2.75 | 2.5 | 2.25 | 2 |

    ## Episode end
    Every step terminates. The time limit of one step changes nothing.

    ## Success
    An episode succeeds if no arm has a larger mean than the one chosen.

    ## Arguments
    ```python
    gym.make("sibling_replay/ConalBandit-v0", shift=0.0, noise=1.0)
    ```
    `noise` multiplies all standard deviations.

    Examples:
        >>> env = gym.make("sibling_replay/ConalBandit-v0")
        >>> int(env.reset(seed=0)[0]), env.action_space.n.item()
        (0, 5)
    """

    def __init__(self, shift: float = 0.0, noise: float = 1.0, render_mode: None = None) -> None:
        shift = check_finite("shift", shift)
        if not check_finite("noise", noise) >= 0.0:
            raise ValueError(f"noise multiplies standard deviations and is >= 0, got {noise!r}")
        self.means = MEAN + shift * np.linspace(1.0, 0.0, ARMS)
        deviations = noise * np.linspace(LEAST_DEVIATION, LARGEST_DEVIATION, ARMS)
        self.P = {0: {}}
        for arm, (mean, deviation) in enumerate(zip(self.means, deviations, strict=True)):
            law = gauss_law(deviation)
            pairs = zip(law.probabilities.tolist(), (mean + law.values).tolist(), strict=True)
            self.P[0][arm] = [(probability, 0, reward, True) for probability, reward in pairs]
        self.initial_state_distrib = np.ones(1)
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(ARMS)
        self.render_mode = render_mode

    def is_success(self, state: int, action: int, next_state: int) -> bool:
        return bool(self.means[action] == self.means.max())
