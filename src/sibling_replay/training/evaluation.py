"""Greedy episodes, played side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

# Steps after which an evaluation episode is given up: an environment without a time limit may hold
# a greedy policy for ever.
LONGEST_EVALUATION = 10_000


def greedy_returns(
    greedy_all: Callable[[Any], Any], envs: Sequence[gym.Env[Any, Any]], seeds: ArrayLike
) -> NDArray[np.float64]:
    """The undiscounted return of one episode in each environment, begun with its seed; an episode
    that does not end is given up after `LONGEST_EVALUATION` steps.

    greedy_all: actions of a batch of observations.
    """
    starts = zip(envs, np.asarray(seeds).tolist(), strict=True)
    shown = [env.reset(seed=int(seed))[0] for env, seed in starts]
    total = np.zeros(len(envs))
    playing = list(range(len(envs)))
    for _ in range(LONGEST_EVALUATION):
        if not playing:
            break
        actions = np.asarray(greedy_all(np.stack([shown[place] for place in playing])))
        going = []
        for place, action in zip(playing, actions, strict=True):
            shown[place], reward, terminated, truncated, _ = envs[place].step(action)
            total[place] += float(reward)
            if not (terminated or truncated):
                going.append(place)
        playing = going
    return total
