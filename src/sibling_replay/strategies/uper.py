"""UPER: prioritized by what uncertainty is left to learn (Carrasco-Davis et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sibling_replay.replay.arrays import F64
from sibling_replay.strategies.api import Draw, Needs, Refresh, Signals, Strategy
from sibling_replay.strategies.drawing import draw_as_per
from sibling_replay.strategies.laws import Law, prioritized_law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View

_NO_NOISE = 1e-10  # added to the aleatoric uncertainty


@register
@dataclass(frozen=True, kw_only=True)
class UPER(Strategy):
    """PER's law and weights with priority 1/2 log(1 + (E + d^2) / (A + 1e-10)), at least epsilon.

    Your learner hands in E and A, the signals `epistemic` and `aleatoric`: variances, of an
    ensemble's heads and of returns. None of ours is an ensemble.

    Examples:
        >>> UPER().needs.signals  # update_priorities(batch, td, epistemic=..., aleatoric=...)
        ('epistemic', 'aleatoric')
    """

    needs: ClassVar[Needs] = Needs(signals=("epistemic", "aleatoric"))

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        return draw_as_per(self, view, size, stream, beta)

    def refresh(self, view: View, draw: Draw, td_errors: F64, signals: Signals) -> Refresh:
        for name, variances in signals.items():
            if (variances < 0.0).any():
                raise ValueError(f"{name} is a variance, and was {variances.min()}")
        ratio = (signals["epistemic"] + td_errors**2) / (signals["aleatoric"] + _NO_NOISE)
        gain = 0.5 * np.log1p(ratio)
        return Refresh(slots=draw.slots, priorities=np.maximum(gain, self.epsilon))

    def law(self, view: View, size: int) -> Law:
        own = prioritized_law(view)
        return Law(own, own, own)
