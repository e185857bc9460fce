"""A control variate within the group: one target a row, with less of the group's noise in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.api import Draw, Needs, Refresh, Signals, Strategy
from sibling_replay.strategies.drawing import slots_by_mass, uniform_slots
from sibling_replay.strategies.laws import Law, prioritized_law, sibling_law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View


@register
@dataclass(frozen=True, kw_only=True)
class ControlVariate(Strategy):
    """Train slot j toward Y_j + lam (c - c_j): c_j is the slot's last target, c the mean of those
    of its group that have one. Siblings are drawn uniformly, so the shifts of a group add up to
    nothing, and the mean target stays what it was.

    lam: 1 takes as much noise away as last targets tell; they are of an older network, so less
        (0.5) also brings in less of its errors.
    alpha: 0 draws entries uniformly; above that, draws, weights and refreshes are SAMPLE's.

    Examples:
        >>> strategy = ControlVariate(lam=0.5)
        >>> strategy.needs.shifts  # a batch then has `shift`, which is added to targets in the loss
        True
    """

    alpha: float = 0.0
    lam: float = 0.5
    needs: ClassVar[Needs] = Needs(
        groups=True,
        other_outcomes=True,  # by way of c
        shifts=True,
        signals=("target",),
        columns={"target": np.nan},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.lam < math.inf:
            raise ValueError(f"lam must be finite and not negative, got {self.lam}")

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        if self.alpha == 0.0:
            slots = uniform_slots(view, size, stream)
            return Draw(slots=slots, shift=self._shift(view, slots))
        anchors = slots_by_mass(view, size, stream)
        groups = view.groups(anchors)
        slots = view.pick(groups, stream.take(size))
        chances = view.group_masses(groups) / (view.total * view.group_sizes(groups))
        weights = self.importance_weights(view, chances, beta)
        return Draw(slots=slots, anchors=anchors, weights=weights, shift=self._shift(view, slots))

    def _shift(self, view: View, slots: I64) -> F64:
        last = view.column("target")[slots]
        count, total, _ = view.column_sums("target", view.groups(slots))
        shift = self.lam * (total / np.maximum(count, 1.0) - last)
        return np.where(np.isfinite(last), shift, 0.0)

    def refresh(self, view: View, draw: Draw, td_errors: F64, signals: Signals) -> Refresh:
        priorities = None if self.alpha == 0.0 else np.abs(td_errors) + self.epsilon
        return Refresh(slots=draw.slots, priorities=priorities, columns=dict(signals))

    def law(self, view: View, size: int) -> Law:
        trained = sibling_law(view)  # with all masses equal, that of uniform replay
        return Law(prioritized_law(view), trained, trained)
