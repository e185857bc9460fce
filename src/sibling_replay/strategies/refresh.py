"""The compiled priority refreshes: p = |td| + epsilon, mass u = p^alpha."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.index import assign
from sibling_replay.replay.memory import (
    ADDED,
    DROPPED,
    LIVE,
    MAX_MASS,
    MAX_PRIORITY,
    open_counts,
    open_index,
    open_peaks,
    open_rows,
    overwritten,
)
from sibling_replay.replay.partition import member

# Masses are held to this range, so that sums over any buffer stay finite and positive.
LEAST_MASS = 1e-300
GREATEST_MASS = 1e300


@njit(cache=True)
def first_unfit(errors):
    """The place of the first error that is NaN, infinite or negative; -1 if there is none."""
    for i in range(errors.size):
        if not (errors[i] >= 0.0 and errors[i] < np.inf):
            return i
    return -1


@njit(cache=True)
def mass_of(priority, alpha):
    """u = p^alpha, within the range of masses."""
    return min(max(priority**alpha, LEAST_MASS), GREATEST_MASS)


@njit(cache=True)
def refresh_slots(handle, slots, errors, added, alpha, epsilon):
    """Give slots drawn after `added` additions new priorities, in order: the last one stays.

    Slots that have been overwritten since are dropped and counted. Returns -1; or, with nothing
    changed, the place of the first unfit error, or -2 minus the place of a slot that holds nothing.
    """
    unfit = first_unfit(errors)
    if unfit >= 0:
        return unfit
    counts = open_counts(handle)
    peaks = open_peaks(handle)
    now = counts[ADDED]
    capacity = open_rows(handle).shape[0]
    for b in range(slots.size):
        if not 0 <= slots[b] < counts[LIVE]:
            return -2 - b
    kept_slots = np.empty(slots.size, dtype=np.int64)
    masses = np.empty(slots.size)
    kept = 0
    peak = peaks[MAX_PRIORITY]
    for b in range(slots.size):
        if overwritten(slots[b], added, now, capacity):
            continue
        priority = errors[b] + epsilon
        peak = max(peak, priority)
        kept_slots[kept] = slots[b]
        masses[kept] = mass_of(priority, alpha)
        kept += 1
    if peak > peaks[MAX_PRIORITY]:
        peaks[MAX_PRIORITY] = peak
        peaks[MAX_MASS] = mass_of(peak, alpha)
    counts[DROPPED] += slots.size - kept
    assign(open_index(handle), kept_slots[:kept], masses[:kept])
    return -1


@njit(cache=True)
def list_members(handle, groups, added):
    """Members not newer than `added` additions of each group, and the place of its group: the
    siblings that a full average has used and that still exist."""
    index = open_index(handle)
    now = open_counts(handle)[ADDED]
    capacity = open_rows(handle).shape[0]
    total = 0
    for i in range(groups.size):
        total += index.vec[groups[i], 0]
    slots = np.empty(total, dtype=np.int64)
    places = np.empty(total, dtype=np.int64)
    found = 0
    for i in range(groups.size):
        for k in range(index.vec[groups[i], 0]):
            slot = member(index.vec, index.pool, groups[i], k)
            if not overwritten(slot, added, now, capacity):
                slots[found] = slot
                places[found] = i
                found += 1
    return slots[:found], places[:found]
