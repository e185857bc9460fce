"""Whether the structures of a memory agree with its rows and with each other.

The arrays may come from a damaged file, and compiled code follows any index: each check relies only
on what an earlier one has compared with its bounds.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sibling_replay.replay.arrays import F64, I64, U32
from sibling_replay.replay.index import Index, check_groups, first_overworn, group_sums
from sibling_replay.replay.intern import KeyTable, first_bad_place, first_stray
from sibling_replay.replay.partition import NONE, PARTS_USED, Partition, check_partition
from sibling_replay.replay.payload import Layout
from sibling_replay.replay.tree import rebuild_sums


def check_rows(rows: U32, layout: Layout, live: I64) -> tuple[bool, str]:
    """Whether stored rewards are finite and stored booleans are 0 or 1, as `add` leaves them."""
    cells = rows.view(np.uint8)
    for (name, field), offset in zip(layout.fields.items(), layout.offsets, strict=True):
        if field.shape:
            continue
        stored = np.ascontiguousarray(cells[live, offset : offset + field.width])
        if field.dtype.kind == "b" and (stored > 1).any():
            return False, f"a stored {name} is neither true nor false"
        if name == "reward" and not np.isfinite(stored.view(field.dtype)).all():
            return False, "a stored reward is not finite"
    return True, ""


def check_outcomes(
    outcomes: Partition, group_outcomes: Partition, groups: Partition, live: I64
) -> tuple[bool, str]:
    """Whether every entry has an outcome, and every outcome the group of its entries.

    `live` are the slots that hold an entry.
    """
    for partition in (outcomes, group_outcomes):
        ok, why = check_partition(partition)
        if not ok:
            return False, f"outcomes: {why}"
    if group_outcomes.heads[PARTS_USED] != 0:  # groups hand out their own ids
        return False, "outcomes: a group's id was handed out as if it were new"
    own = outcomes.items[0, :]
    if not np.array_equal(np.flatnonzero(own != NONE), live):
        return False, "a slot is live or has an outcome, but not both"
    if not np.array_equal(group_outcomes.items[0, :] != NONE, outcomes.vec[:, 0] > 0):
        return False, "an outcome has entries or a group, but not both"
    if not np.array_equal(group_outcomes.items[0, own[live]], groups.items[0, live]):
        return False, "an entry's outcome belongs to another group than the entry"
    return True, ""


def check_keys(
    table: KeyTable, partition: Partition, rows: U32, live: I64, size: int
) -> tuple[bool, str]:
    """Same `size` leading bytes if and only if same part, and the table finds every part.

    The partition must have been checked.
    """
    place = int(first_bad_place(table, partition, rows))
    if place >= 0:
        return False, f"the table of keys of {size} bytes is wrong at place {place}"
    if live.size == 0:
        return True, ""
    last = int(partition.items[0, live].max())
    if last >= partition.heads[PARTS_USED]:
        return False, f"part {last} has an id that was not handed out"
    if first_stray(table, partition, rows, live) >= 0:
        return False, f"parts do not match the stored keys of {size} bytes"
    return True, ""


def check_index(index: Index, live: I64) -> tuple[bool, str]:
    """Whether masses, tree, groups and sums agree, given the slots that hold an entry."""
    capacity = int(index.levels[1])
    masses = index.tree[:capacity]
    alive = np.zeros(capacity, dtype=bool)
    alive[live] = True
    bad = np.flatnonzero(alive & ~((masses > 0) & np.isfinite(masses)))
    if bad.size:
        return False, f"live slot {bad[0]} has mass {masses[bad[0]]}"
    if not np.isfinite(index.tree[-1]):
        return False, f"the total mass is {index.tree[-1]}"
    bad = np.flatnonzero(~alive & (masses != 0))
    if bad.size:
        return False, f"empty slot {bad[0]} has mass {masses[bad[0]]}"
    again = index.tree.copy()
    rebuild_sums(again, index.levels)
    if not np.array_equal(again, index.tree):
        return False, "a node of the tree is not the sum of its children"
    ok, why = _check_floors(index.slot_floors, index.levels, np.where(alive, masses, np.inf))
    if not ok or index.items.shape[1] == 0:
        return ok, why
    ungrouped = np.flatnonzero(alive[: index.items.shape[1]] != (index.items[0, :] != NONE))
    if ungrouped.size:
        return False, f"slot {ungrouped[0]} is live or in a group, but not both"
    ok, why = check_groups(index)
    if not ok:
        return False, f"groups: {why}"
    worn = int(first_overworn(index))
    if worn >= 0:
        return False, f"group {worn}: its running sum exceeds its error bound"
    sums = group_sums(index)
    exact = np.bincount(
        index.items[0, live].astype(np.int64), weights=masses[live], minlength=sums.size
    )
    off = np.flatnonzero(~(np.abs(sums - exact) <= 1e-9 * exact))
    if off.size:
        return False, f"group {off[0]} sums to {exact[off[0]]} but keeps {sums[off[0]]}"
    counts = index.vec[:, 0]
    means = np.full(counts.size, np.inf)
    np.divide(sums, counts, out=means, where=counts > 0)
    return _check_floors(index.group_floors, index.levels, means)


def _check_floors(floors: F64, levels: I64, leaves: F64) -> tuple[bool, str]:
    """Whether a tree of minima, if kept, is that of these leaves."""
    if floors.size == 0:
        return True, ""
    expected = np.full(floors.size, np.inf)
    expected[: leaves.size] = leaves
    for below, here in pairwise(levels):
        nodes = expected[below:here].reshape(-1, 8).min(axis=1)
        expected[here : here + nodes.size] = nodes
    if not np.allclose(expected, floors, rtol=1e-9, atol=0.0):
        return False, "a node of the tree of minima is not the least of its children"
    return True, ""
