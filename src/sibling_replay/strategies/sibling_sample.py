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
    (n_g S / (N s_g))^beta (eq. 10); the trained sibling is refreshed."""

    needs: ClassVar[Needs] = Needs(groups=True)

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=SIBLING, weights=GROUP_MASS, refreshed=LAST)

    def law(self, view: View, size: int) -> Law:
        sibling = sibling_law(view)
        return Law(prioritized_law(view), sibling, sibling)
