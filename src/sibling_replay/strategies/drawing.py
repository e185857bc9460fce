"""Draws that strategies in NumPy share."""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.arrays import I64
from sibling_replay.strategies.api import Draw, Strategy
from sibling_replay.strategies.view import Stream, View


def uniform_slots(view: View, size: int, stream: Stream) -> I64:
    """Slots with an entry, each equally likely, independently."""
    return view.slots[(stream.take(size) * view.size).astype(np.int64)]


def slots_by_mass(view: View, size: int, stream: Stream) -> I64:
    """Slots stratified over the cumulative mass (eq. 2)."""
    return view.find((np.arange(size) + stream.take(size)) * (view.total / size))


def draw_as_per(strategy: Strategy, view: View, size: int, stream: Stream, beta: float) -> Draw:
    """PER's draw: by mass, with importance weights."""
    slots = slots_by_mass(view, size, stream)
    chances = view.masses[slots] / view.total
    return Draw(slots=slots, weights=strategy.importance_weights(view, chances, beta))
