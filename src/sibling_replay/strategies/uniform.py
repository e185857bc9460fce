"""Uniform replay: the baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.base import Strategy
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.recipe import ANCHOR, NO_WEIGHTS, NOTHING, UNIFORM, Recipe


@dataclass(frozen=True, kw_only=True)
class Uniform(Strategy):
    """Every entry with probability 1/N, independently, with weight one; nothing is refreshed."""

    @property
    def recipe(self) -> Recipe:
        return Recipe(anchors=UNIFORM, trained=ANCHOR, weights=NO_WEIGHTS, refreshed=NOTHING)

    def law(self, masses: F64, groups: I64) -> Law:
        same = np.full(masses.size, 1.0 / masses.size)
        return Law(same, same, same)
