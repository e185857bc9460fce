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
    """Entry i with probability u_i / S (eq. 2), weight (N u_i / S)^-beta; it is refreshed."""

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=ANCHOR, weights=OWN_MASS, refreshed=LAST)

    def law(self, view: View, size: int) -> Law:
        own = prioritized_law(view)
        return Law(own, own, own)
