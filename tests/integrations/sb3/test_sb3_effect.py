"""The paper's effect inside SB3: on OutlierBandit PER learns to prefer the risky arm, SAMPLE not.

The paper's settings of this environment (squared loss, alpha 0.6, Adam 7.5e-4), with beta fixed at
0.4, shorter, and with more exploration, so that a few thousand steps are enough. Fewer are not:
what is over-replayed must have happened. Of seeds 0 to 7, all eight show the effect after 4000
steps; after 2500, seven do, and seed 1, with five rare rewards where nine were to be expected, does
not.
"""

from __future__ import annotations

import gymnasium as gym
import pytest
import torch as th
from bandit_effect import RISKY, SAFE
from sb3_kit import BANDIT
from stable_baselines3.common.callbacks import BaseCallback

from sibling_replay import Prioritized, SiblingSample
from sibling_replay.integrations.sb3 import SiblingDQN

STEPS, FROM, EVERY = 4_000, 1_500, 25


class Preference(BaseCallback):
    """Which arm the network values more, every so often once it has learned."""

    def __init__(self):
        super().__init__()
        self.risky = []

    def _on_step(self) -> bool:
        if self.n_calls > FROM and self.n_calls % EVERY == 0:
            with th.no_grad():
                value = self.model.q_net(th.zeros(1, 1, dtype=th.int64))[0]
            self.risky.append(bool(value[RISKY] > value[SAFE]))
        return True


def share_of_risky(strategy, seed):
    model = SiblingDQN(
        "MlpPolicy", gym.make(BANDIT), strategy=strategy, loss="mse", beta_final=0.4, gamma=0.0,
        learning_rate=7.5e-4, buffer_size=5_000, learning_starts=500, train_freq=1, seed=seed,
        exploration_fraction=1.0, exploration_final_eps=0.3, device="cpu",
    )  # fmt: skip
    watch = Preference()
    model.learn(STEPS, callback=watch)
    return sum(watch.risky) / len(watch.risky)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_per_prefers_the_risky_arm_and_sample_the_safe_one(seed):
    assert share_of_risky(Prioritized(alpha=0.6), seed) > 0.8
    assert share_of_risky(SiblingSample(alpha=0.6), seed) < 0.2
