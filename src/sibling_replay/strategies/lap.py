"""LAP: loss-adjusted prioritized replay (Fujimoto, Meger, Precup 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sibling_replay.strategies.api import Strategy
from sibling_replay.strategies.laws import Law, prioritized_law
from sibling_replay.strategies.recipe import ANCHOR, LAST, NO_WEIGHTS, Recipe
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import View


@register
@dataclass(frozen=True, kw_only=True)
class LAP(Strategy):
    """Entry i with probability ~ max(|TD error|, floor)^alpha, weights of one; it is refreshed.

    It goes with a Huber loss of threshold `floor`, loss="huber" in our learners: where that loss is
    squared, entries are drawn evenly, and where it is linear, by their errors. `epsilon` is not
    used.

    Examples:
        >>> sampler = SlotSampler(4, LAP(alpha=1.0), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> sampler.update_slots([0, 1, 2, 3], [0.5, 1.0, 2.0, 4.0], sampler.clock)
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.12 0.12 0.25 0.5 ]
    """

    alpha: float = 0.4
    floor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.floor < math.inf:
            raise ValueError(f"floor must be finite and positive, got {self.floor}")

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=ANCHOR, weights=NO_WEIGHTS, refreshed=LAST, floor=float(self.floor))

    def law(self, view: View, size: int) -> Law:
        own = prioritized_law(view)
        return Law(own, own, own)
