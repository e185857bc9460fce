"""Draws that strategies in NumPy share."""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.api import Draw, Strategy
from sibling_replay.strategies.view import Stream, View


def uniform_slots(view: View, size: int, stream: Stream) -> I64:
    """Slots with an entry, each equally likely, independently."""
    places = (stream.take(size) * view.size).astype(np.int64)
    return places if view.in_order else view.slots[places]  # in a ring the first slots are filled


def slots_by_mass(view: View, size: int, stream: Stream) -> I64:
    """Slots stratified over the cumulative mass (eq. 2)."""
    return view.find((np.arange(size) + stream.take(size)) * (view.total / size))


def draw_as_per(strategy: Strategy, view: View, size: int, stream: Stream, beta: float) -> Draw:
    """PER's draw: by mass, with importance weights."""
    slots = slots_by_mass(view, size, stream)
    chances = view.masses[slots] / view.total
    return Draw(slots=slots, weights=strategy.importance_weights(view, chances, beta))


def slots_by_group(view: View, size: int, stream: Stream) -> tuple[I64, I64]:
    """Groups stratified over the tree of groups, and a uniform member of each."""
    groups = view.find_groups((np.arange(size) + stream.take(size)) * (view.group_total / size))
    return groups, view.pick(groups, stream.take(size))


def group_chances(view: View, groups: I64) -> F64:
    """M_g / (Z n_g): a member of a group by the tree over groups."""
    return view.group_leaves(groups) / (view.group_sizes(groups) * view.group_total)
