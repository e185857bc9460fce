"""Prioritized experience replay (Schaul et al.), proportional variant."""

from __future__ import annotations

from dataclasses import dataclass

from sibling_replay.strategies.api import Strategy
from sibling_replay.strategies.laws import Law, prioritized_law
from sibling_replay.strategies.recipe import ANCHOR, LAST, OWN_MASS, Recipe
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import View


@register
@dataclass(frozen=True, kw_only=True)
class Prioritized(Strategy):
    """Entry i with probability u_i / S (eq. 2), weight (N u_i / S)^-beta; it is refreshed.

    Examples:
        >>> sampler = SlotSampler(4, Prioritized(alpha=1.0), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> sampler.update_slots([0, 1, 2, 3], [0.5, 1.0, 2.0, 4.0], sampler.clock)
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.07 0.13 0.27 0.53]
    """

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=ANCHOR, weights=OWN_MASS, refreshed=LAST)

    def law(self, view: View, size: int) -> Law:
        own = prioritized_law(view)
        return Law(own, own, own)
