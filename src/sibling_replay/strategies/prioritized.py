"""Prioritized experience replay (Schaul et al.), proportional variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.base import Strategy
from sibling_replay.strategies.draws import ANCHOR
from sibling_replay.strategies.laws import Law, prioritized_probabilities


@dataclass(frozen=True, kw_only=True)
class Prioritized(Strategy):
    """Entry i with probability u_i / S (eq. 2), weight (N u_i / S)^-beta; it is refreshed."""

    _trained: ClassVar[int] = ANCHOR

    def law(self, masses: F64, groups: I64) -> Law:
        own = prioritized_probabilities(masses)
        return Law(own, own, own)
