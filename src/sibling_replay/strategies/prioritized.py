"""Prioritized experience replay (Schaul et al.), proportional variant."""

from __future__ import annotations

from dataclasses import dataclass

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.memory import Memory
from sibling_replay.rng import Uniforms
from sibling_replay.strategies.base import Strategy
from sibling_replay.strategies.draws import ANCHOR
from sibling_replay.strategies.laws import Law, prioritized_probabilities


@dataclass(frozen=True, kw_only=True)
class Prioritized(Strategy):
    """Entry i with probability u_i / S (eq. 2), weight (N u_i / S)^-beta; it is refreshed."""

    def draw(self, memory: Memory, size: int, beta: float, uniforms: Uniforms) -> Batch:
        return self._draw_prioritized(memory, size, beta, uniforms.take(size), ANCHOR)

    def law(self, masses: F64, groups: I64) -> Law:
        own = prioritized_probabilities(masses)
        return Law(own, own, own)
