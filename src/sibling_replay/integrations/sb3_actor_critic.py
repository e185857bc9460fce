"""Stable-Baselines3: SAC, TD3 and DDPG over weighted, prioritized replay.

The loss of every critic is weighted. The actor's loss is not, as the literature has it: weights
correct the critics' targets for how outcomes were drawn, and an actor has none. Nor is that of
SAC's entropy coefficient.

SB3 hands a buffer actions scaled to [-1, 1], so that is what a key map or function is given.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sibling_replay.integrations import host
from sibling_replay.integrations.sb3_model import SiblingAlgorithm

with host("Stable-Baselines3", "sb3"):
    from stable_baselines3 import DDPG, SAC, TD3
    from torch.nn import functional as F


class _SquaredErrors(SiblingAlgorithm):
    """Critics with one value each, learnt by squared errors."""

    loss_path: ClassVar[str] = "F.mse_loss"

    def stock_loss(self) -> Any:
        return F.mse_loss

    def losses_a_batch(self) -> int:
        return int(self.critic.n_critics)


class SiblingSAC(_SquaredErrors, SAC):
    """SAC whose critics learn from weighted, prioritized replay; see `SiblingAlgorithm`.

    Priorities are the mean absolute TD error over critics. The losses of the actor and the entropy
    coefficient are unweighted.
    """

    averages: ClassVar[bool] = True  # SB3 values each next observation on its own


class SiblingTD3(_SquaredErrors, TD3):
    """TD3 whose critics learn from weighted, prioritized replay; see `SiblingAlgorithm`.

    Priorities are the mean absolute TD error over critics. The actor's loss is unweighted. Not for
    `SiblingAverage`: TD3 draws its target noise once an entry, not for each of several outcomes.
    """


class SiblingDDPG(_SquaredErrors, DDPG):
    """DDPG whose critic learns from weighted, prioritized replay; see `SiblingAlgorithm`.

    Priorities are the absolute TD error (the mean over critics, if there are several). The actor's
    loss is unweighted. Not for `SiblingAverage`, as TD3.
    """
