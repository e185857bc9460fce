"""CER: combined experience replay (Zhang, Sutton 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sibling_replay.strategies.api import Draw, Strategy
from sibling_replay.strategies.drawing import uniform_slots
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.registry import register
from sibling_replay.strategies.view import Stream, View


@register
@dataclass(frozen=True, kw_only=True)
class Combined(Strategy):
    """The newest entry first, then uniform ones; weights of one, nothing is refreshed.

    Examples:
        >>> sampler = SlotSampler(4, Combined(), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> int(sampler.sample(2).slots[0])  # the newest
        3
    """

    def draw(self, view: View, size: int, stream: Stream, beta: float) -> Draw:
        others = uniform_slots(view, size - 1, stream)
        return Draw(slots=np.concatenate([[view.newest], others]))

    def law(self, view: View, size: int) -> Law:
        each = (size - 1) / view.size + (view.slots == view.newest)
        each = each / size
        return Law(each, each, each)
