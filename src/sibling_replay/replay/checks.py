"""Whether the partitions of a memory agree with its rows and with each other.

The arrays may come from a damaged file, and compiled code follows any index: each check relies only
on what an earlier one has compared with its bounds.
"""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.arrays import I64, U32
from sibling_replay.replay.intern import KeyTable, first_bad_place
from sibling_replay.replay.partition import NONE, PARTS_USED, Partition, check_partition


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
    own = outcomes.items[:, 0]
    if not np.array_equal(np.flatnonzero(own != NONE), live):
        return False, "a slot is live or has an outcome, but not both"
    if not np.array_equal(group_outcomes.items[:, 0] != NONE, outcomes.vec[:, 0] > 0):
        return False, "an outcome has entries or a group, but not both"
    if not np.array_equal(group_outcomes.items[own[live], 0], groups.items[live, 0]):
        return False, "an entry's outcome belongs to another group than the entry"
    return True, ""


def check_keys(
    table: KeyTable, partition: Partition, rows: U32, live: I64, size: int
) -> tuple[bool, str]:
    """Same `size` leading bytes if and only if same part, and the table finds every part.

    The partition must have been checked.
    """
    parts = partition.items[live, 0].astype(np.int64)
    place = int(first_bad_place(table, partition, rows))
    if place >= 0:
        return False, f"the table of keys of {size} bytes is wrong at place {place}"
    if live.size == 0:
        return True, ""
    if parts.max() >= partition.heads[PARTS_USED]:
        return False, f"part {parts.max()} has an id that was not handed out"
    keys = np.ascontiguousarray(rows[live].view(np.uint8)[:, :size])
    _, by_key = np.unique(keys.view(f"V{size}"), return_inverse=True)
    pairs = np.unique(by_key.ravel().astype(np.int64) << 32 | parts)
    if not pairs.size == by_key.max() + 1 == np.unique(parts).size:
        return False, f"parts do not match the stored keys of {size} bytes"
    return True, ""
