"""EPER for groups: prioritized by the expected TD error (2407.09702)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sibling_replay.replay.arrays import F64
from sibling_replay.strategies.api import Draw, Needs, Refresh, Signals, Strategy
from sibling_replay.strategies.drawing import group_chances, slots_by_group
from sibling_replay.strategies.group_scores import refuse_initial, scores_of, sums_after
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View


@register
@dataclass(frozen=True, kw_only=True)
class ExpectedTD(Strategy):
    """PER's law and weights, where every entry has its group's priority: |mean of the siblings'
    last TD errors| + epsilon, of those that have one. Noise that averages out draws no attention.

    A group's priority is that of its last refresh; a new group has the largest so far.

    Examples:
        >>> sampler = SlotSampler(4, ExpectedTD(alpha=1.0), seed=0)
        >>> sampler.put([0, 1, 2, 3], keys=[7, 7, 8, 8])  # two groups
        >>> sampler.update_slots([0, 1, 2, 3], [2.0, -2.0, 1.0, 1.0], sampler.clock)
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.  0.  0.5 0.5]
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_initial(self)

    needs: ClassVar[Needs] = Needs(
        groups=True, signed=True, columns={"error": np.nan}, scores=True, kappa=1.0
    )

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        groups, slots = slots_by_group(view, size, stream)
        chances = group_chances(view, groups)
        return Draw(slots=slots, weights=self.importance_weights(view, chances, beta))

    def refresh(self, view: View, draw: Draw, td_errors: F64, signals: Signals) -> Refresh:
        sums = sums_after(view, "error", draw.slots, td_errors)
        return Refresh(
            slots=draw.slots,
            columns={"error": td_errors},
            groups=sums.groups,
            scores=scores_of("mean", sums) + self.epsilon,
        )

    def law(self, view: View, size: int) -> Law:
        each = group_chances(view, view.groups(view.slots))
        return Law(each, each, each)
