"""Groups by the absolute mean of their TD errors: noise that averages out draws no attention."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sibling_replay import Draw, Law, Needs, Refresh, Strategy, Stream, View, register


@register
class GroupMean(Strategy):
    """Group g with probability M_g / Z, M_g = n_g |mean TD|^alpha, then a uniform sibling."""

    name: ClassVar[str] = "group-mean"
    needs = Needs(
        groups=True, signed=True, columns={"error": np.nan}, scores=True, kappa=1.0, sweep=10
    )

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        strata = (np.arange(size) + stream.take(size)) * (view.group_total / size)
        groups = view.find_groups(strata)
        each = view.group_leaves(groups) / view.group_sizes(groups) / view.group_total
        slots = view.pick(groups, stream.take(size))
        return Draw(slots=slots, weights=self.importance_weights(view, each, beta))

    def refresh(self, view: View, draw: Draw, td_errors: Any, signals: Any) -> Refresh:
        return Refresh(slots=draw.slots, columns={"error": td_errors})

    def rescore(self, view: View, values: Any) -> Refresh:
        count, total, _ = view.column_sums("error", view.group_ids)
        known = count > 0
        scores = np.abs(total[known] / count[known]) + self.epsilon
        return Refresh(groups=view.group_ids[known], scores=scores)

    def law(self, view: View, size: int) -> Law:
        groups = view.groups(view.slots)
        each = view.group_leaves(groups) / view.group_sizes(groups) / view.group_total
        return Law(anchor=each, trained=each, outcome=each)
