"""What a strategy notes: numbers by slot, their sums by group, a score a group and a tree of them.

A column holds a number a slot, NaN or an infinity where there is none. Of each column every group
keeps how many of its members have a number, their sum and the sum of their squares. These are
adjusted by differences and summed afresh from the members after as many changes as the group has
members, or when a change would lose digits, so that drift cannot build up. Signed numbers may
cancel: the error of a sum is bounded against the sum of the absolute values.

The tree over groups has leaves M_g = n_g^kappa v_g^alpha, v_g the group's score. A new group starts
with the largest score so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.inner import inner
from sibling_replay.replay.partition import member
from sibling_replay.replay.tree import new_tree, raise_sum, rebuild_sums

COUNT, SUM, SQUARES = range(3)
KAPPA, ALPHA = range(2)
LARGEST_SCORE, START_MASS = range(2)
SWEEP_CLOCK, START_CLOCK = range(2)
_PATIENCE = 16  # changes of a small group before it is summed afresh
_LOST = 1e-6  # of what left, so little remains in the sum of squares: digits are lost


@dataclass(frozen=True)
class NotesForm:
    """What is to be noted."""

    columns: dict[str, float] = field(default_factory=dict)  # name -> the number of a newcomer
    scores: bool = False
    kappa: float = 0.0
    alpha: float = 1.0
    ranks: bool = False


class Notes(NamedTuple):
    """The arrays; those of what is not noted are empty."""

    columns: F64  # [columns * slots]
    initial: F64  # [columns]
    sums: F64  # [columns * 3 * groups]
    changes: I64  # [groups]: of a column's sums, since they were taken afresh
    scores: F64  # [groups]
    tree: F64  # leaves first: [groups] M_g
    levels: I64
    spec: F64  # kappa, alpha
    peaks: F64  # largest score so far; the mass of newcomers, 0: that of the largest priority
    clock: I64  # refreshes so far, for sweeps and for the mass of newcomers
    ranked: F64  # [slots] the numbers of the last ranking, falling; -1 behind the last of them


def new_notes(form: NotesForm | None, capacity: int, grouped: bool) -> Notes:
    if form is None:
        form = NotesForm()
        capacity = 0
    groups = capacity if grouped else 0
    count = len(form.columns)
    scored = groups if form.scores else 0
    tree, levels = new_tree(scored) if scored else (np.zeros(0), np.zeros(0, np.int64))
    return Notes(
        columns=np.repeat(list(form.columns.values()), capacity).astype(np.float64),
        initial=np.array(list(form.columns.values()), dtype=np.float64),
        sums=np.zeros(count * 3 * groups),
        changes=np.zeros(groups if count else 0, dtype=np.int64),
        scores=np.zeros(scored),
        tree=tree,
        levels=levels,
        spec=np.array([form.kappa, form.alpha]),
        peaks=np.array([1.0, 0.0]),
        clock=np.zeros(2, dtype=np.int64),
        ranked=np.full(capacity if form.ranks else 0, -1.0),
    )


@inner()
def _shift(notes, column, group, old, new):
    """Adjust the sums of a column for a number that changed; one that is not finite is none.
    Returns whether so much left that the rest has lost digits."""
    groups = notes.changes.size
    first = column * 3 * groups + group
    if abs(old) < np.inf:
        notes.sums[first + COUNT * groups] -= 1.0
        notes.sums[first + SUM * groups] -= old
        notes.sums[first + SQUARES * groups] -= old * old
    if abs(new) < np.inf:
        notes.sums[first + COUNT * groups] += 1.0
        notes.sums[first + SUM * groups] += new
        notes.sums[first + SQUARES * groups] += new * new
    return abs(old) < np.inf and notes.sums[first + SQUARES * groups] < _LOST * old * old


@inner()
def _sum_afresh(notes, index, group):
    """Take all sums of a group from its members."""
    groups = notes.changes.size
    slots = notes.columns.size // notes.initial.size
    notes.changes[group] = 0
    for column in range(notes.initial.size):
        first = column * 3 * groups + group
        for part in range(3):
            notes.sums[first + part * groups] = 0.0
        for k in range(index.vec[group, 0]):
            slot = member(index.vec, index.pool, group, k)
            _shift(notes, column, group, np.nan, notes.columns[column * slots + slot])


@inner()
def _count_change(notes, index, group, lost):
    notes.changes[group] += 1
    if lost or notes.changes[group] > index.vec[group, 0] + _PATIENCE:
        _sum_afresh(notes, index, group)


@inner(error_model="numpy")
def set_leaf(notes, index, group):
    """M_g = n_g^kappa v_g^alpha, 0 without members."""
    count = index.vec[group, 0]
    leaf = 0.0
    if count > 0:
        leaf = np.float64(count) ** notes.spec[KAPPA] * notes.scores[group] ** notes.spec[ALPHA]
    notes.tree[group] = leaf
    raise_sum(notes.tree, notes.levels, group)


@inner()
def note_arrival(notes, index, slot, group):
    """An entry has come into a slot and, where there are any, a group."""
    if notes.initial.size > 0:
        slots = notes.columns.size // notes.initial.size
        for column in range(notes.initial.size):
            notes.columns[column * slots + slot] = notes.initial[column]
            if notes.changes.size > 0:
                _shift(notes, column, group, np.nan, notes.initial[column])
        if notes.changes.size > 0:
            _count_change(notes, index, group, False)
    if notes.scores.size > 0:
        if index.vec[group, 0] == 1:
            notes.scores[group] = notes.peaks[LARGEST_SCORE]
        set_leaf(notes, index, group)


@inner()
def note_departure(notes, index, slot, group):
    """The entry of a slot has left its group."""
    if notes.initial.size > 0:
        slots = notes.columns.size // notes.initial.size
        lost = False
        for column in range(notes.initial.size):
            old = notes.columns[column * slots + slot]
            notes.columns[column * slots + slot] = notes.initial[column]
            if notes.changes.size > 0:
                lost |= _shift(notes, column, group, old, np.nan)
        if notes.changes.size > 0:
            if index.vec[group, 0] == 0:
                _sum_afresh(notes, index, group)  # exactly nothing
            else:
                _count_change(notes, index, group, lost)
    if notes.scores.size > 0:
        if index.vec[group, 0] == 0:
            notes.scores[group] = 0.0
        set_leaf(notes, index, group)


@njit(cache=True)
def write_column(notes, index, column, slots, values):
    """Numbers for live slots, in order."""
    capacity = notes.columns.size // notes.initial.size
    for i in range(slots.size):
        place = column * capacity + slots[i]
        old = notes.columns[place]
        notes.columns[place] = values[i]
        if notes.changes.size > 0:
            group = np.int64(index.items[0, slots[i]])
            lost = _shift(notes, column, group, old, values[i])
            _count_change(notes, index, group, lost)


@njit(cache=True)
def write_scores(notes, index, groups, scores):
    """Scores of groups that have members, in order."""
    for i in range(groups.size):
        notes.scores[groups[i]] = scores[i]
        if scores[i] > notes.peaks[LARGEST_SCORE]:
            notes.peaks[LARGEST_SCORE] = scores[i]
        set_leaf(notes, index, groups[i])


@njit(cache=True)
def regroup_notes(notes, index, slots, scores):
    """Sums and scores of groups made anew; the columns stay as they are. `scores` has, for each of
    the slots, that of the group it was in: a group gets the mean over its members, so one that
    stays whole keeps its own."""
    if notes.changes.size > 0:
        for group in range(notes.changes.size):
            if index.vec[group, 0] > 0:
                _sum_afresh(notes, index, group)
    if notes.scores.size > 0:
        seen = np.zeros(notes.scores.size)
        for i in range(slots.size):
            group = index.items[0, slots[i]]
            seen[group] += 1.0
            notes.scores[group] += (scores[i] - notes.scores[group]) / seen[group]
        for group in range(notes.scores.size):
            if index.vec[group, 0] > 0:
                set_leaf(notes, index, group)


def check_notes(notes: Notes, groups: I64, sizes: I64) -> tuple[bool, str]:
    """Whether sums and leaves are those of the columns and scores. `groups` are of every slot, -1
    where it is empty or there are none; `sizes` of every group."""
    largest, start = notes.peaks
    if not (0.0 < largest < np.inf and 0.0 <= start < np.inf):
        return False, f"the largest score is {largest}, the mass of newcomers {start}"
    if (notes.clock < 0).any():
        return False, f"{notes.clock.min()} refreshes"
    if not (notes.ranked[1:] <= notes.ranked[:-1]).all():
        return False, "the numbers of the last ranking do not fall"
    if notes.changes.size:
        live = np.flatnonzero(groups >= 0)
        columns = notes.columns.reshape(notes.initial.size, -1)
        sums = notes.sums.reshape(notes.initial.size, 3, -1)
        for column, kept in zip(columns, sums, strict=True):
            there = live[np.isfinite(column[live])]
            values = column[there]
            for found, weights in zip(kept, (None, values, values**2), strict=True):
                exact = np.bincount(groups[there], weights, minlength=notes.changes.size)
                scale = np.bincount(
                    groups[there], None if weights is None else np.abs(weights),
                    minlength=notes.changes.size,
                )  # fmt: skip
                if not (np.abs(found - exact) <= 1e-6 * scale + 1e-6).all():
                    return False, "a group's sum of a column is not that of its members"
    if notes.scores.size:
        if not (np.isfinite(notes.scores) & (notes.scores >= 0.0)).all():
            return False, "a score is negative or not finite"
        kappa, alpha = notes.spec
        leaves = np.where(sizes > 0, sizes.astype(np.float64) ** kappa * notes.scores**alpha, 0.0)
        if not np.allclose(notes.tree[: sizes.size], leaves, rtol=1e-9, atol=0.0):
            return False, "a leaf of the tree over groups is not that of its group"
        above = notes.tree.copy()
        rebuild_sums(above, notes.levels)
        if not np.allclose(above, notes.tree, rtol=1e-9, atol=0.0):
            return False, "a node of the tree over groups is not the sum of its children"
    return True, ""
