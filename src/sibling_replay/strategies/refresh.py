"""The compiled priority refreshes: p = |td| + epsilon, mass u = p^alpha."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.index import assign, look_up_groups
from sibling_replay.replay.memory import MOST_ADDED, overwritten
from sibling_replay.replay.opened import (
    ADDED,
    DROPPED,
    LIVE,
    MAX_MASS,
    MAX_PRIORITY,
    open_counts,
    open_index,
    open_peaks,
    open_rows,
    open_stamps,
)
from sibling_replay.replay.partition import member
from sibling_replay.strategies.header import DATE, open_header
from sibling_replay.strategies.power import GREATEST, write_powers


@njit(cache=True)
def first_invalid(errors):
    """The place of the first error that is NaN or infinite; -1 if there is none."""
    for i in range(errors.size):
        if not abs(errors[i]) < np.inf:
            return i
    return -1


@njit(cache=True, forceinline=True)
def refresh_slots(handle, slots, errors, added, alpha, epsilon):
    """Give slots drawn after `added` additions new priorities, in order: the last one stays.

    Slots that have been overwritten since are dropped and counted. Returns -1; or, with nothing
    changed, the place of the first invalid error, or -2 minus the place of a slot without entry.
    """
    invalid = first_invalid(errors)
    if invalid >= 0:
        return invalid
    counts = open_counts(handle)
    peaks = open_peaks(handle)
    now = counts[ADDED]
    capacity = open_rows(handle).shape[0]
    stamps = open_stamps(handle)
    bound = counts[LIVE] if stamps.size == 0 else capacity  # an empty slot's stamp is of no draw
    for b in range(slots.size):
        if not 0 <= slots[b] < bound:
            return -2 - b
        # nothing has been removed since the draw, so it cannot have been drawn
        if now == added and stamps.size > 0 and stamps[slots[b]] == MOST_ADDED:
            return -2 - b
    kept_slots = np.empty(slots.size, dtype=np.int64)
    kept_groups = np.empty(slots.size, dtype=np.int64)
    priorities = np.empty(slots.size)
    masses = np.empty(slots.size)
    kept = 0
    peak = -1
    for b in range(slots.size):
        if now != added and overwritten(stamps, slots[b], added, now, capacity):
            continue
        kept_slots[kept] = slots[b]
        priorities[kept] = min(abs(errors[b]) + epsilon, GREATEST)
        if priorities[kept] > peaks[MAX_PRIORITY]:
            peaks[MAX_PRIORITY] = priorities[kept]
            peak = kept
        kept += 1
    write_powers(priorities[:kept], alpha, masses[:kept])
    if peak >= 0:
        peaks[MAX_MASS] = masses[peak]
    counts[DROPPED] += slots.size - kept
    index = open_index(handle)
    look_up_groups(index, kept_slots[:kept], kept_groups[:kept])
    assign(index, kept_slots[:kept], kept_groups[:kept], masses[:kept])
    return -1


@njit(cache=True)
def refresh_batch(handle, block, errors, alpha, epsilon):
    """Refresh the trained slots of a batch, given its block."""
    slots, _, _, _, _, _, _ = open_header(block, errors.size)
    return refresh_slots(handle, slots, errors, block.view(np.int64)[DATE], alpha, epsilon)


@njit(cache=True)
def list_members(handle, groups, added):
    """Members not newer than `added` additions of each group, and the place of its group: the
    siblings that a full average has used and that still exist."""
    index = open_index(handle)
    now = open_counts(handle)[ADDED]
    capacity = open_rows(handle).shape[0]
    stamps = open_stamps(handle)
    total = 0
    for i in range(groups.size):
        total += index.vec[groups[i], 0]
    slots = np.empty(total, dtype=np.int64)
    places = np.empty(total, dtype=np.int64)
    found = 0
    for i in range(groups.size):
        for k in range(index.vec[groups[i], 0]):
            slot = member(index.vec, index.pool, groups[i], k)
            if not overwritten(stamps, slot, added, now, capacity):
                slots[found] = slot
                places[found] = i
                found += 1
    return slots[:found], places[:found]
