"""Groups given by number, for strategies that train an entry toward outcomes of its siblings: all
entries of a group must have one action."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import U8
from sibling_replay.replay.index import groups_of
from sibling_replay.replay.intern import find_part
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.memory_view import KEYS, open_index, open_keys, open_layout, open_rows
from sibling_replay.replay.partition import member
from sibling_replay.replay.payload import pack_row, pack_rows


def find_mixed_actions(memory: Memory, block: U8, count: int) -> tuple[int, int, bool] | None:
    """The first entry of a block that has another action than an entry of its group: its place, the
    slot of that other or its place in the block, and whether it is in the block; None if none has.
    """
    place = list(memory.layout.fields).index("action")
    offset = memory.layout.offsets[place]
    width = memory.layout.fields["action"].stored_width
    entry, slot = _against_stored(memory.handle, block, count, offset, width)
    if entry >= 0:
        return int(entry), int(slot), False
    if count == 1:
        return None
    rows = memory.layout.new_rows(count)
    pack_rows(block, memory.layout.table, count, rows)
    cells = rows.view(np.uint8)
    keys = np.ascontiguousarray(cells[:, : memory.layout.key_bytes])
    _, first, numbers = np.unique(
        keys.view(f"V{keys.shape[1]}"), return_index=True, return_inverse=True
    )
    actions = cells[:, offset : offset + width]
    leader = first[numbers.ravel()]
    other = np.flatnonzero((actions != actions[leader]).any(axis=1))
    return None if other.size == 0 else (int(other[0]), int(leader[other[0]]), True)


@njit(cache=True)
def _against_stored(handle, block, count, offset, width):
    """The first entry with another action than the stored ones of its group, and the slot of one of
    these; -1 if there is none."""
    index = open_index(handle)
    keys = open_keys(handle, KEYS)
    rows = open_rows(handle)
    groups = groups_of(index)
    row = np.empty(rows.shape[1], dtype=np.uint32)
    cells = row.view(np.uint8)
    for i in range(count):
        pack_row(block, open_layout(handle), count, i, row)
        group = find_part(keys, groups, rows, row)
        if group >= 0:
            slot = np.int64(member(index.vec, index.pool, group, 0))
            stored = rows[slot].view(np.uint8)
            for k in range(offset, offset + width):
                if stored[k] != cells[k]:
                    return i, slot
    return -1, np.int64(-1)
