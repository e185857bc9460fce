"""Entries whose outcome grows with the steps that follow: what n_step.py does, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import I64
from sibling_replay.replay.inner import inner
from sibling_replay.replay.memory import append, replace_row
from sibling_replay.replay.memory_view import ADDED, open_counts, open_layout, open_rows
from sibling_replay.replay.payload import Layout, pack_row
from sibling_replay.replay.views import view_as

CLOSED = -1  # in the place of a slot
_SUMMED = ("reward", "discount")
_TAKEN = ("next_obs", "terminated", "truncated")  # of the newest step, as they are
_REWARD, _DISCOUNT = 0, 1
_OFFSET = 1  # column of a layout's table


def places_of(layout: Layout) -> I64:
    """[5, 2]: offset and bytes in a row of reward and discount, and of what is taken as it is."""
    names = list(layout.fields)
    return np.array(
        [
            (layout.table[names.index(name), _OFFSET], layout.fields[name].stored_width)
            for name in (*_SUMMED, *_TAKEN)
        ],
        dtype=np.int64,
    )


@inner()
def _number(row, place, cell):
    """A float of a row, by way of a cell of its type: rows are words, which may lie anywhere."""
    cells, own = view_as(row, np.uint8), view_as(cell, np.uint8)
    for k in range(place[1]):
        own[k] = cells[place[0] + k]
    return cell[0]


@inner()
def _put_number(row, place, cell, value):
    cell[0] = value
    cells, own = view_as(row, np.uint8), view_as(cell, np.uint8)
    for k in range(place[1]):
        cells[place[0] + k] = own[k]


@inner(forceinline=True)
def _goes(slot, start, count, capacity):
    """Whether a slot that holds an entry is overwritten by so many from `start` on, which may fill
    the last empty slots first."""
    return (slot - start) % capacity < count


@njit(cache=True)
def append_steps(handle, block, count, envs, growing, powers, places, grouped, counting, noting):
    """Store a step of some environments, one a row, and lengthen the entries that it continues.

    growing: [environments, n - 1], the slot of the step before, of that before it, ...; updated.
    powers: of gamma, [n + 1], of the rewards' dtype.

    Returns whether it did: not, and nothing is changed, if rewards add up to no number.
    """
    counts, rows = open_counts(handle), open_rows(handle)
    capacity = rows.shape[0]
    start = counts[ADDED] % capacity
    row = np.empty(rows.shape[1], dtype=np.uint32)
    cell = np.empty(1, powers.dtype)
    for i in range(count):
        pack_row(block, open_layout(handle), count, i, row)
        reward = _number(row, places[_REWARD], cell)
        for k in range(growing.shape[1]):
            slot = growing[envs[i], k]
            if slot != CLOSED and not _goes(slot, start, count, capacity):
                if not np.isfinite(
                    _number(rows[slot], places[_REWARD], cell) + powers[k + 1] * reward
                ):
                    return False
    for env in range(growing.shape[0]):
        for k in range(growing.shape[1]):
            if growing[env, k] != CLOSED and _goes(growing[env, k], start, count, capacity):
                growing[env, k] = CLOSED
    append(handle, block, count, grouped, counting, noting)
    for i in range(count):
        newest = (start + i) % capacity
        source = view_as(rows[newest], np.uint8)
        reward = _number(rows[newest], places[_REWARD], cell)
        for k in range(growing.shape[1]):
            slot = growing[envs[i], k]
            if slot == CLOSED:
                continue
            for word in range(row.size):
                row[word] = rows[slot, word]
            cells = view_as(row, np.uint8)
            for field in range(2, places.shape[0]):
                for byte in range(places[field, 0], places[field, 0] + places[field, 1]):
                    cells[byte] = source[byte]
            total = _number(row, places[_REWARD], cell) + powers[k + 1] * reward
            _put_number(row, places[_REWARD], cell, total)
            _put_number(row, places[_DISCOUNT], cell, powers[k + 2])
            replace_row(handle, rows, slot, row, counting)
        ended = source[places[3, 0]] != 0 or source[places[4, 0]] != 0
        for k in range(growing.shape[1] - 1, -1, -1):
            before = newest if k == 0 else growing[envs[i], k - 1]
            growing[envs[i], k] = CLOSED if ended else before
    return True
