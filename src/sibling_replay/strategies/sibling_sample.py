"""SAMPLE: priority chooses the group, chance the sibling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.base import Strategy
from sibling_replay.strategies.laws import (
    Law,
    prioritized_probabilities,
    sibling_probabilities,
)
from sibling_replay.strategies.recipe import GROUP_MASS, LAST, SIBLING, Recipe


@dataclass(frozen=True, kw_only=True)
class SiblingSample(Strategy):
    """A uniform sibling of the anchor: slot j with probability s_g / (S n_g) (eq. 9), weight
    (n_g S / (N s_g))^beta (eq. 10); the trained sibling is refreshed."""

    needs_groups: ClassVar[bool] = True

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=SIBLING, weights=GROUP_MASS, refreshed=LAST)

    def law(self, masses: F64, groups: I64) -> Law:
        sibling = sibling_probabilities(masses, groups)
        return Law(prioritized_probabilities(masses), sibling, sibling)
