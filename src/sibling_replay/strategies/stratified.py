"""SER: every group equally often, then every sibling equally often (Daley, Hickert, Amato 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sibling_replay.strategies.api import Draw, Needs, Strategy
from sibling_replay.strategies.drawing import slots_by_group
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View


@register
@dataclass(frozen=True, kw_only=True)
class Stratified(Strategy):
    """Entry j of group g with probability 1 / (G n_g), weights of one; nothing is refreshed.

    Groups are found by the tree over groups, in which every leaf stays at one: no pass over the
    buffer. `alpha` and `epsilon` are not used.

    Examples:
        >>> sampler = SlotSampler(4, Stratified(), seed=0)
        >>> sampler.put([0, 1, 2, 3], keys=[7, 7, 7, 8])  # groups of three and of one
        >>> print(np.round(sampler.probabilities().trained, 2))
        [0.17 0.17 0.17 0.5 ]
    """

    needs: ClassVar[Needs] = Needs(groups=True, scores=True)

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        return Draw(slots=slots_by_group(view, size, stream)[1])

    def law(self, view: View, size: int) -> Law:
        sizes = view.group_sizes(view.groups(view.slots))
        each = 1.0 / (view.group_ids.size * sizes)
        return Law(each, each, each)
