"""Uniform replay: the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sibling_replay.strategies.api import Needs, Strategy
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.recipe import ANCHOR, NO_WEIGHTS, NOTHING, UNIFORM, Recipe
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import View


@register
@dataclass(frozen=True, kw_only=True)
class Uniform(Strategy):
    """Every entry with probability 1/N, independently, with weight one; nothing is refreshed.

    Examples:
        >>> sampler = SlotSampler(4, Uniform(), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> sampler.update_slots([0, 1, 2, 3], [0.5, 1.0, 2.0, 4.0], sampler.clock)
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.25 0.25 0.25 0.25]
    """

    needs: ClassVar[Needs] = Needs(host_may_draw=True)

    @property
    def recipe(self) -> Recipe:
        return Recipe(anchors=UNIFORM, trained=ANCHOR, weights=NO_WEIGHTS, refreshed=NOTHING)

    def law(self, view: View, size: int) -> Law:
        same = np.full(view.size, 1.0 / view.size)
        return Law(same, same, same)
