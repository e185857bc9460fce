"""Entries moved to a memory with other keys.

`move_entries`: keys that tell as many entries apart, or more. Slots, masses, counts and, for groups
that stay whole, everything that a draw reads stay the same. `group_anew`: any keys. Slots, masses,
counts and columns stay the same, groups are made as if the entries had come one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sibling_replay.replay.arrays import I64
from sibling_replay.replay.index import assign, groups_of, insert, look_up_groups
from sibling_replay.replay.intern import enter_keys, hash_key, intern_hashed
from sibling_replay.replay.memory import Memory, evict, join_outcome, place
from sibling_replay.replay.memory_view import (
    ADDED,
    KEYS,
    ROW_WORDS,
    open_counts,
    open_index,
    open_keys,
    open_rows,
)
from sibling_replay.replay.notes import regroup_notes
from sibling_replay.replay.payload import pack_rows


def move_entries(old: Memory, new: Memory, columns: Mapping[str, NDArray[Any]]) -> None:
    """Fill an empty memory with the entries of another of its capacity, which hold `columns`.

    The keys of `new` must tell apart whatever those of `old` do. Groups of `old` in which they
    differ are split.
    """
    live = old.live
    places, size_bytes = new.layout.columns(live)
    block = np.zeros(size_bytes, dtype=np.uint8)
    for name, column in columns.items():
        shape, dtype, offset = places[name]
        np.ndarray(shape, dtype, block, offset)[...] = column
    pack_rows(block, new.layout.table, live, new.rows)
    for name, array in new.arrays().items():
        if not name.startswith(("rows", "keys.", "outcome_keys.")):
            array[...] = old.arrays()[name]
    new.counts[ROW_WORDS] = new.layout.row_words
    enter_keys(new.keys, groups_of.py_func(new.index), new.rows)
    if new.counts_outcomes:
        enter_keys(new.outcome_keys, new.outcomes, new.rows)
    slots = _in_mixed_groups(new)
    if slots.size:
        _place_anew(new.handle, slots, *new.keeps)


def _in_mixed_groups(memory: Memory) -> I64:
    """The slots, oldest entry first, of groups whose entries differ in their key."""
    slots = _oldest_first(memory)
    groups = memory.groups[slots]
    keys = np.ascontiguousarray(memory.rows[slots].view(np.uint8)[:, : memory.layout.key_bytes])
    _, numbers = np.unique(keys.view(f"V{keys.shape[1]}"), return_inverse=True)
    pairs = np.unique(np.stack([groups, numbers.ravel()], axis=1), axis=0)
    found, counts = np.unique(pairs[:, 0], return_counts=True)
    chosen: I64 = slots[np.isin(groups, found[counts > 1])]
    return chosen


@njit(cache=True)
def _place_anew(handle, slots, grouped, counting, noting):
    """Take entries, all there are of their groups, out and put each into the group of its key."""
    index = open_index(handle)
    keys = open_keys(handle, KEYS)
    rows = open_rows(handle)
    counts = open_counts(handle)
    added = counts[ADDED]
    masses = np.empty(slots.size)
    for i in range(slots.size):
        masses[i] = index.tree[slots[i]]
        evict(handle, index, keys, slots[i], grouped, counting, noting)
    for i in range(slots.size):
        row = rows[slots[i]].copy()
        h = hash_key(row, keys.spec)
        place(handle, index, keys, rows, slots[i], row, h, grouped, counting, noting)
    counts[ADDED] = added
    groups = np.empty(slots.size, dtype=np.int64)
    look_up_groups(index, slots, groups)
    assign(index, slots, groups, masses)


def group_anew(old: Memory, new: Memory) -> None:
    """Group the entries of a memory in another of its capacity, whose rows are written already, by
    the keys of those rows, the oldest entry first. The score of a group is the mean, over its
    members, of the scores of the groups they were in."""
    slots = _oldest_first(old)
    for name in ("counts", "peaks", "stamps"):
        getattr(new, name)[...] = getattr(old, name)
    new.counts[ROW_WORDS] = new.layout.row_words
    _group_all(new.handle, slots, old.index.tree[slots], *new.keeps[:2])
    # The sums over masses are those there were: nothing that draws by mass changes.
    new.index.tree[...] = old.index.tree
    new.index.slot_floors[...] = old.index.slot_floors
    if new.keeps_notes:
        for name in ("columns", "peaks", "clock", "ranked"):
            getattr(new.notes, name)[...] = getattr(old.notes, name)
        scores = old.notes.scores
        before = scores[old.index.items[0, slots]] if scores.size else np.zeros(0)
        regroup_notes(new.notes, new.index, slots, before)


def _oldest_first(memory: Memory) -> I64:
    """The slots that hold an entry, in the order in which they were filled."""
    if memory.stamps.size:
        live = memory.live_slots
        found: I64 = live[np.argsort(memory.stamps[live])]
        return found
    return (memory.added - memory.live + np.arange(memory.live)) % memory.capacity


@njit(cache=True)
def _group_all(handle, slots, masses, grouped, counting):
    """Put entries, of which only the rows are there, into the groups of their keys."""
    index = open_index(handle)
    keys = open_keys(handle, KEYS)
    rows = open_rows(handle)
    for i in range(slots.size):
        row = rows[slots[i]].copy()
        group = intern_hashed(keys, groups_of(index), rows, row, hash_key(row, keys.spec))
        if counting is not None:
            join_outcome(handle, slots[i], group, rows, row)
        insert(index, slots[i], group, masses[i])
