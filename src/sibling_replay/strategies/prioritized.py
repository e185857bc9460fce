"""Prioritized experience replay (Schaul et al.), proportional variant."""

from __future__ import annotations

from dataclasses import dataclass

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.base import Strategy
from sibling_replay.strategies.laws import Law, prioritized_probabilities
from sibling_replay.strategies.recipe import ANCHOR, LAST, OWN_MASS, Recipe


@dataclass(frozen=True, kw_only=True)
class Prioritized(Strategy):
    """Entry i with probability u_i / S (eq. 2), weight (N u_i / S)^-beta; it is refreshed."""

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=ANCHOR, weights=OWN_MASS, refreshed=LAST)

    def law(self, masses: F64, groups: I64) -> Law:
        own = prioritized_probabilities(masses)
        return Law(own, own, own)
