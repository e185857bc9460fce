"""MODEL: the anchor, with an outcome drawn from the group's counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sibling_replay.strategies.api import Needs, Strategy
from sibling_replay.strategies.laws import (
    Law,
    prioritized_law,
    sibling_law,
)
from sibling_replay.strategies.recipe import GROUP_MASS, LAST, OUTCOME, Recipe
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import View


@register
@dataclass(frozen=True, kw_only=True)
class SiblingModel(Strategy):
    """The anchor's observation and action with a whole outcome (s', r, terminated, truncated) of
    its group, drawn by its count there. Weights as SAMPLE; the anchor is refreshed with the TD
    error of the drawn outcome.

    A uniform member of the group carries outcome o with probability count(o) / n_g, which is the
    law to draw from: one member is picked, whatever the group's size or number of outcomes.

    Examples:
        >>> sampler = SlotSampler(4, SiblingModel(alpha=1.0), seed=0)
        >>> sampler.put([0, 1, 2, 3], keys=[7, 7, 8, 8])  # two groups
        >>> sampler.update_slots([0, 1, 2, 3], [0.0, 3.0, 1.0, 1.0], sampler.clock)
        >>> law = sampler.probabilities()
        >>> print(np.round(law.trained, 2), np.round(law.outcome, 2))
        [0.  0.6 0.2 0.2] [0.3 0.3 0.2 0.2]
    """

    needs: ClassVar[Needs] = Needs(groups=True, other_outcomes=True)

    @property
    def recipe(self) -> Recipe:
        return Recipe(trained=OUTCOME, weights=GROUP_MASS, refreshed=LAST)

    def law(self, view: View, size: int) -> Law:
        anchor = prioritized_law(view)
        return Law(anchor, anchor, sibling_law(view))
