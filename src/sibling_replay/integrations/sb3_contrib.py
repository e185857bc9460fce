"""SB3-Contrib: QR-DQN and TQC over weighted, prioritized replay.

Both learn the quantiles of a return. The loss of each entry is weighted; the actor's loss of TQC is
not. Priorities come from the expected value: the mean over quantiles of the target minus that of
the prediction, for TQC the mean of its size over critics. So an entry whose law is known has
priority near zero, however wide that law is.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sibling_replay.integrations import host
from sibling_replay.integrations.sb3_model import SiblingAlgorithm

with host("sb3-contrib", "sb3"):
    from sb3_contrib import QRDQN, TQC
    from sb3_contrib.common.utils import quantile_huber_loss

__all__ = ["SiblingQRDQN", "SiblingTQC"]


class _Quantiles(SiblingAlgorithm):
    """All quantiles of all critics are learnt by one call of the quantile Huber loss.

    Not for `SiblingAverage`: means of quantiles are not the quantiles of what siblings led to.
    """

    loss_path: ClassVar[str] = "quantile_huber_loss"

    def stock_loss(self) -> Any:
        return quantile_huber_loss


class SiblingQRDQN(_Quantiles, QRDQN):
    """QR-DQN that learns from weighted, prioritized replay; see `SiblingAlgorithm`."""


class SiblingTQC(_Quantiles, TQC):
    """TQC whose critics learn from weighted, prioritized replay; see `SiblingAlgorithm`."""
