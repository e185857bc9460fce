"""SAMPLE: priority chooses the group, chance the sibling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sibling_replay.strategies.api import Needs, Strategy
from sibling_replay.strategies.laws import (
    Law,
    prioritized_law,
    sibling_law,
)
from sibling_replay.strategies.recipe import GROUP_MASS, LAST, SIBLING, Recipe
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import View


@register
@dataclass(frozen=True, kw_only=True)
class SiblingSample(Strategy):
    """A uniform sibling of the anchor: slot j with probability s_g / (S n_g) (eq. 9), weight
    (n_g S / (N s_g))^beta (eq. 10); the trained sibling is refreshed.

    Examples:
        >>> sampler = SlotSampler(4, SiblingSample(alpha=1.0), seed=0)
        >>> sampler.put([0, 1, 2, 3], keys=[7, 7, 8, 8])  # two groups
        >>> sampler.update_slots([0, 1, 2, 3], [0.0, 3.0, 1.0, 1.0], sampler.clock)
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.3 0.3 0.2 0.2]
    """

    needs: ClassVar[Needs] = Needs(groups=True)

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=SIBLING, weights=GROUP_MASS, refreshed=LAST)

    def law(self, view: View, size: int) -> Law:
        sibling = sibling_law(view)
        return Law(prioritized_law(view), sibling, sibling)
