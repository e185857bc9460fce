"""Uniform replay that forgets: older entries less often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sibling_replay.replay.arrays import F64
from sibling_replay.strategies.api import Draw, Strategy
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View


@register
@dataclass(frozen=True, kw_only=True)
class AgeDecayed(Strategy):
    """An entry with probability ~ (1 - decay)^age, its age the number of entries added after it;
    weights of one, nothing is refreshed. Decay 0 is uniform replay.

    Examples:
        >>> sampler = SlotSampler(4, AgeDecayed(decay=0.5), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.07 0.13 0.27 0.53]
    """

    decay: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.decay < 1.0:
            raise ValueError(f"decay must be from 0 to below 1, got {self.decay}")

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        uniforms = stream.take(size)
        if view.in_order and self.decay:  # every age once: the inverse of a geometric law
            log = np.log1p(-self.decay)
            ages = np.floor(np.log1p(uniforms * np.expm1(view.size * log)) / log)
            return Draw(slots=view.at_ages(ages.astype(np.int64).clip(0, view.size - 1)))
        ends = np.cumsum(self._chances(view))
        places = np.searchsorted(ends, uniforms * ends[-1], side="right")
        return Draw(slots=view.slots[places.clip(0, view.size - 1)])

    def _chances(self, view: View) -> F64:
        chances: F64 = (1.0 - self.decay) ** view.age(view.slots).astype(np.float64)
        return np.asarray(chances / chances.sum())

    def law(self, view: View, size: int) -> Law:
        each = self._chances(view)
        return Law(each, each, each)
