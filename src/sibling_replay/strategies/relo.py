"""ReLo: replay by reducible loss (Sujit et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sibling_replay.replay.arrays import F64
from sibling_replay.strategies.api import Draw, Needs, Refresh, Signals, Strategy
from sibling_replay.strategies.drawing import draw_as_per
from sibling_replay.strategies.laws import Law, prioritized_law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View


def _huber(errors: F64) -> F64:
    size = np.abs(errors)
    return np.where(size <= 1.0, 0.5 * size**2, size - 0.5)


_LOSSES: dict[str, Callable[[F64], F64]] = {"squared": np.square, "huber": _huber}


@register
@dataclass(frozen=True, kw_only=True)
class ReLo(Strategy):
    """PER's law and weights with priority relu(loss - loss of the target network) + epsilon: what
    the target network has learnt no better cannot be learnt.

    of: the loss: "squared", of the TD error, or "huber", as in the authors' DQN. Take the one that
        your learner minimises.

    The learner hands in `target_error`, the target minus the target network's own value of the
    entry. It equals the TD error right after the target network was copied, and all priorities are
    epsilon then.

    Examples:
        >>> ReLo().needs.signals  # update_priorities(batch, td, target_error=...)
        ('target_error',)
    """

    epsilon: float = 1e-5
    of: str = "squared"
    needs: ClassVar[Needs] = Needs(signals=("target_error",))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of not in _LOSSES:
            raise ValueError(f"of must be one of {', '.join(_LOSSES)}, not {self.of!r}")

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        return draw_as_per(self, view, size, stream, beta)

    def refresh(self, view: View, draw: Draw, td_errors: F64, signals: Signals) -> Refresh:
        loss = _LOSSES[self.of]
        reducible = loss(td_errors) - loss(signals["target_error"])
        return Refresh(slots=draw.slots, priorities=np.maximum(reducible, 0.0) + self.epsilon)

    def law(self, view: View, size: int) -> Law:
        own = prioritized_law(view)
        return Law(own, own, own)
