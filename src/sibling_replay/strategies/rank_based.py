"""Prioritized experience replay (Schaul et al.), rank-based variant."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from sibling_replay.strategies.api import Needs, Strategy
from sibling_replay.strategies.laws import Law, prioritized_law
from sibling_replay.strategies.recipe import ANCHOR, NOTED, OWN_MASS, Recipe
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import View


@register
@dataclass(frozen=True, kw_only=True)
class RankBased(Strategy):
    """Entry i with probability ~ rank(i)^-alpha by falling |TD error|, weights as PER.

    every: refreshes after which all entries are ranked anew. In between, an entry that is refreshed
        gets the rank that its error would have had in the last ranking, and a newcomer the first.
        The law is exact for the masses that are stored.

    Examples:
        >>> sampler = SlotSampler(4, RankBased(alpha=1.0, every=1), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> sampler.update_slots([0, 1, 2, 3], [0.5, 1.0, 2.0, 4.0], sampler.clock)
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.12 0.16 0.24 0.48]
    """

    alpha: float = 0.7
    every: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.every, bool):
            raise TypeError(f"every must be a whole number, not {self.every!r}")
        object.__setattr__(self, "every", operator.index(self.every))
        if self.every < 1:
            raise ValueError(f"every must be at least 1, got {self.every}")
        if self.initial != "largest":
            raise ValueError(f"newcomers rank first: initial cannot be {self.initial!r}")

    @property
    def needs(self) -> Needs:
        return Needs(columns={"error": np.inf}, sweep=self.every)

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=ANCHOR, weights=OWN_MASS, refreshed=NOTED, ranked_every=self.every)

    def law(self, view: View, size: int) -> Law:
        own = prioritized_law(view)
        return Law(own, own, own)
