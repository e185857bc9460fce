"""Uniform replay: the baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch
from sibling_replay.replay.memory import Memory
from sibling_replay.rng import Uniforms
from sibling_replay.strategies.base import Strategy, refuse_invalid
from sibling_replay.strategies.draws import draw_uniform
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.refresh import first_invalid


@dataclass(frozen=True, kw_only=True)
class Uniform(Strategy):
    """Every entry with probability 1/N, independently, with weight one; nothing is refreshed."""

    @property
    def needs_floors(self) -> None:
        return None

    def draw(self, memory: Memory, size: int, beta: float, uniforms: Uniforms) -> Batch:
        batch = memory.new_batch(size)
        draw_uniform(memory.handle, uniforms.take(size), batch.block)
        return batch

    def refresh(self, memory: Memory, batch: Batch, errors: F64) -> None:
        invalid = first_invalid(errors)
        if invalid >= 0:
            refuse_invalid(batch, errors, invalid)

    def law(self, masses: F64, groups: I64) -> Law:
        same = np.full(masses.size, 1.0 / masses.size)
        return Law(same, same, same)
