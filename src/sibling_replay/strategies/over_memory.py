"""Draws and refreshes of a memory: the shared steps between its handle and the block of a batch."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.inner import inner
from sibling_replay.replay.memory import MOST_ADDED, overwritten
from sibling_replay.replay.memory_view import (
    ADDED,
    DROPPED,
    LIVE,
    MAX_MASS,
    MAX_PRIORITY,
    open_best,
    open_counts,
    open_group_outcomes,
    open_index,
    open_layout,
    open_notes,
    open_outcomes,
    open_peaks,
    open_rows,
    open_stamps,
)
from sibling_replay.replay.notes import write_column
from sibling_replay.replay.partition import member
from sibling_replay.replay.payload import gather
from sibling_replay.replay.views import part
from sibling_replay.strategies import steps
from sibling_replay.strategies.header import open_date, open_header
from sibling_replay.strategies.power import GREATEST, write_powers
from sibling_replay.strategies.recipe import BY_MASS, LAST, Recipe


@njit(cache=True)
def draw_batch(
    handle, uniforms, start, block, size, beta, normalize, anchors, trained, weights, subset
):
    """Fill a batch as a recipe says, with random numbers from `start` on. False if no mass is
    there to draw by."""
    index = open_index(handle)
    counts = open_counts(handle)
    if anchors == BY_MASS and not index.tree[-1] > 0.0:
        return False
    rows, fields = open_header(block, size)
    open_date(block)[0] = counts[ADDED]
    recipe = Recipe(anchors, trained, weights, 0, subset)
    scattered = open_stamps(handle).size > 0
    steps.draw_rows(
        index,
        recipe,
        counts[LIVE],
        scattered,
        part(uniforms, start, uniforms.size - start),
        beta,
        normalize,
        rows,
    )
    gather(open_rows(handle), open_layout(handle), rows.slots, rows.outcome_slots, block, fields)
    return True


@njit(cache=True)
def write_batch(handle, slots, anchors, outcome_slots, weights, block):
    """Fill a batch with what somebody else has drawn."""
    rows, fields = open_header(block, slots.size)
    open_date(block)[0] = open_counts(handle)[ADDED]
    for b in range(slots.size):
        rows.slots[b] = slots[b]
        rows.anchors[b] = anchors[b]
        rows.outcome_slots[b] = outcome_slots[b]
        rows.weights[b] = weights[b]
    steps.write_groups(open_index(handle), anchors, rows.groups, rows.group_sizes)
    gather(open_rows(handle), open_layout(handle), slots, outcome_slots, block, fields)


# --------------------------------------------------------------------------------------- terms


@njit(cache=True)
def count_outcomes(handle, groups, starts):
    """How many distinct outcomes each group has, as running totals."""
    found = open_group_outcomes(handle)
    starts[0] = 0
    for b in range(groups.size):
        starts[b + 1] = starts[b] + found.vec[groups[b], 0]


@njit(cache=True)
def list_outcomes(handle, groups, starts, slots, shares):
    """Every distinct outcome of each group, once counted."""
    index = open_index(handle)
    outcomes = open_outcomes(handle)
    steps.list_outcomes(index, outcomes, open_group_outcomes(handle), groups, starts, slots, shares)


@njit(cache=True)
def list_subsets(handle, groups, uniforms, start, wanted, starts, slots, shares):
    """A uniform subset of each group, with random numbers from `start` on."""
    index = open_index(handle)
    steps.list_subsets(
        index, groups, part(uniforms, start, uniforms.size - start), wanted, starts, slots, shares
    )


# ------------------------------------------------------------------------------------- refresh


@inner(forceinline=True)
def _note_peak(peaks, priority, mass):
    if priority > peaks[MAX_PRIORITY]:
        peaks[MAX_PRIORITY] = priority
        peaks[MAX_MASS] = mass


@inner()
def _keep_current(handle, slots, errors, added, kept_slots, kept_errors):
    """Slots drawn after `added` additions that have not been overwritten since, and their errors;
    the others are counted as dropped.

    Returns how many, and -1; or, with nothing changed, the place of the first invalid error, or -2
    minus the place of a slot without entry.
    """
    invalid = steps.first_invalid(errors)
    if invalid >= 0:
        return 0, invalid
    counts = open_counts(handle)
    now = counts[ADDED]
    capacity = open_rows(handle).shape[0]
    stamps = open_stamps(handle)
    bound = counts[LIVE] if stamps.size == 0 else capacity  # an empty slot's stamp is of no draw
    for b in range(slots.size):
        if not 0 <= slots[b] < bound:
            return 0, -2 - b
        # nothing has been removed since the draw, so it cannot have been drawn
        if now == added and stamps.size > 0 and stamps[slots[b]] == MOST_ADDED:
            return 0, -2 - b
    kept = 0
    for b in range(slots.size):
        if now != added and overwritten(stamps, slots[b], added, now, capacity):
            continue
        kept_slots[kept] = slots[b]
        kept_errors[kept] = errors[b]
        kept += 1
    counts[DROPPED] += slots.size - kept
    return kept, -1


@inner(forceinline=True)
def _refresh(handle, slots, errors, added, refreshed, alpha, epsilon, floor):
    kept_slots = np.empty(slots.size, dtype=np.int64)
    kept_errors = np.empty(slots.size)
    kept, invalid = _keep_current(handle, slots, errors, added, kept_slots, kept_errors)
    if invalid != -1 or kept == 0:
        return invalid
    priorities = np.empty(kept)
    masses = np.empty(kept)
    kept_errors = part(kept_errors, 0, kept)
    largest = steps.write_masses(kept_errors, alpha, epsilon, priorities, masses, floor)
    _note_peak(open_peaks(handle), priorities[largest], masses[largest])
    groups = np.empty(kept, dtype=np.int64)
    steps.assign_masses(
        open_index(handle), refreshed, part(kept_slots, 0, kept), groups, masses, open_best(handle)
    )
    return -1


@njit(cache=True)
def refresh_slots(handle, slots, errors, added, refreshed, alpha, epsilon, floor=0.0):
    """Give slots drawn after `added` additions new priorities. Returns the second of what
    `_keep_current` does."""
    return _refresh(handle, slots, errors, added, refreshed, alpha, epsilon, floor)


@njit(cache=True)
def note_batch(handle, block, errors, alpha):
    """Note the sizes of a batch's errors in the first column, and give each the mass of its rank
    among those of the last ranking. Returns as `refresh_slots` does."""
    rows, _ = open_header(block, errors.size)
    return _note(handle, rows.slots, errors, open_date(block)[0], alpha)


@njit(cache=True)
def note_slots(handle, slots, errors, added, alpha):
    """The same for slots drawn after `added` additions."""
    return _note(handle, slots, errors, added, alpha)


@inner()
def _note(handle, slots, errors, added, alpha):
    kept_slots = np.empty(slots.size, dtype=np.int64)
    kept_errors = np.empty(slots.size)
    kept, invalid = _keep_current(handle, slots, errors, added, kept_slots, kept_errors)
    if invalid != -1:
        return invalid
    for i in range(kept):
        kept_errors[i] = abs(kept_errors[i])
    index, notes = open_index(handle), open_notes(handle)
    kept_slots, kept_errors = part(kept_slots, 0, kept), part(kept_errors, 0, kept)
    write_column(notes, index, 0, kept_slots, kept_errors)
    groups, masses = np.empty(kept, dtype=np.int64), np.empty(kept)
    steps.rank_among(notes.ranked, kept_errors, alpha, masses)
    steps.assign_masses(index, LAST, kept_slots, groups, masses, masses)  # LAST needs no scratch
    return -1


@njit(cache=True)
def rank_all(handle, slots, alpha):
    """Masses of all that is stored by the rank of what was noted."""
    index = open_index(handle)
    groups, masses = np.empty(slots.size, dtype=np.int64), np.empty(slots.size)
    notes = open_notes(handle)
    steps.rank(slots, notes.columns, notes.ranked, alpha, masses)
    steps.assign_masses(index, LAST, slots, groups, masses, masses)  # LAST needs no scratch


@njit(cache=True)
def refresh_batch(handle, block, errors, refreshed, alpha, epsilon, floor):
    """Refresh the trained slots of a batch, given its block."""
    rows, _ = open_header(block, errors.size)
    date = open_date(block)[0]
    return _refresh(handle, rows.slots, errors, date, refreshed, alpha, epsilon, floor)


@njit(cache=True)
def refresh_members(handle, groups, group_sizes, errors, added, alpha, epsilon, floor):
    """Refresh every member of groups that were drawn after `added` additions and had so many
    members then. Those that have gone since are counted as dropped, once a group.

    Returns -1, or, with nothing changed, the place of the first invalid error.
    """
    invalid = steps.first_invalid(errors)
    if invalid >= 0:
        return invalid
    counts = open_counts(handle)
    priorities = np.empty(errors.size)
    masses = np.empty(errors.size)
    steps.write_masses(errors, alpha, epsilon, priorities, masses, floor)
    index = open_index(handle)
    best = open_best(handle)
    drawn = 0
    for b in range(groups.size):  # each group once
        if best[groups[b]] == 0.0:
            best[groups[b]] = 1.0
            drawn += group_sizes[b]
    for b in range(groups.size):
        best[groups[b]] = 0.0
    stamps = open_stamps(handle)
    capacity = open_rows(handle).shape[0]
    peaks = open_peaks(handle)
    for b in range(groups.size):
        if _any_older(index, groups[b], stamps, added, counts[ADDED], capacity):
            _note_peak(peaks, priorities[b], masses[b])
    found = steps.assign_to_members(
        index, groups, masses, best, stamps, added, counts[ADDED], capacity
    )
    counts[DROPPED] += drawn - found
    return -1


@inner()
def _any_older(index, group, stamps, added, now, capacity):
    """Whether a group has a member from before `added` additions."""
    for k in range(index.vec[group, 0]):
        slot = member(index.vec, index.pool, group, k)
        if now == added or not overwritten(stamps, slot, added, now, capacity):
            return True
    return False


@njit(cache=True)
def find_stale(handle, slots, added):
    """Which slots have been filled again, or emptied, since `added` additions."""
    stamps = open_stamps(handle)
    now = open_counts(handle)[ADDED]
    capacity = open_rows(handle).shape[0]
    stale = np.zeros(slots.size, dtype=np.bool_)
    if now != added:
        for b in range(slots.size):
            stale[b] = overwritten(stamps, slots[b], added, now, capacity)
    return stale


@njit(cache=True)
def assign_priorities(handle, slots, priorities, alpha):
    """Give live slots raw priorities, in order. Overwrites `priorities`."""
    if slots.size == 0:
        return
    for i in range(slots.size):
        priorities[i] = min(priorities[i], GREATEST)
    masses = np.empty(slots.size)
    write_powers(priorities, alpha, masses)
    peaks = open_peaks(handle)
    for i in range(slots.size):
        _note_peak(peaks, priorities[i], masses[i])
    groups = np.empty(slots.size, dtype=np.int64)
    steps.assign_masses(open_index(handle), LAST, slots, groups, masses, open_best(handle))
