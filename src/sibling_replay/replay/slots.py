"""A memory whose slots somebody else owns: keys, masses and groups, no transitions.

A `Memory` like the ring's, but the slot of an entry is the caller's choice, entries may be removed,
and a row holds the bytes of the entry's key and outcome only. Removals also advance the clock, so
that older draws can be told.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sibling_replay.replay.arrays import I64
from sibling_replay.replay.index import groups_of
from sibling_replay.replay.intern import fetch_key
from sibling_replay.replay.memory import MOST_ADDED, Memory, evict, place
from sibling_replay.replay.memory_view import (
    ADDED,
    KEYS,
    LIVE,
    open_counts,
    open_index,
    open_keys,
    open_rows,
    open_stamps,
)
from sibling_replay.replay.notes import NotesForm
from sibling_replay.replay.payload import LAYOUT_COLUMNS, Layout
from sibling_replay.replay.tree import lower_min, raise_sum


def layout_of_keys(key_bytes: int, outcome_bytes: int) -> Layout:
    """Rows of a key and an outcome, of which a draw gathers nothing."""
    no_fields = np.zeros((0, LAYOUT_COLUMNS), dtype=np.int64)
    size = key_bytes + outcome_bytes
    return Layout(
        fields={},
        table=no_fields,
        outcome_table=no_fields,
        key_bytes=key_bytes,
        outcome_bytes=size,
        row_words=max(1, -(-size // 4)),
    )


class SlotMemory(Memory):
    """Masses and, if keys have bytes, groups of slots that are filled in any order."""

    def __init__(
        self,
        capacity: int,
        key_bytes: int,
        outcome_bytes: int,
        *,
        min_tree: Literal["slots", "groups"] | None = None,
        largest: bool = False,
        notes: NotesForm | None = None,
        first: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        super().__init__(
            layout_of_keys(key_bytes, outcome_bytes),
            capacity,
            grouped=key_bytes > 0,
            outcomes=outcome_bytes > 0,
            min_tree=min_tree,
            any_order=True,
            largest=largest,
            notes=notes,
            first=first,
        )

    @property
    def live_slots(self) -> I64:
        return np.flatnonzero(self.stamps != MOST_ADDED)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {**super().arrays(), "stamps": self.stamps}

    def _check_live(self) -> tuple[bool, str]:
        """Whether the stamps tell as many entries apart as are counted."""
        if not 0 <= self.added < MOST_ADDED:
            return False, f"{self.added} additions"
        stamps = self.stamps[self.live_slots]
        if not ((stamps >= 0) & (stamps < self.added)).all():
            return False, f"stamps up to {stamps.max()} after {self.added} additions"
        if not np.unique(stamps).size == stamps.size == self.live:
            return False, f"{self.live} live entries, but {np.unique(stamps).size} stamps"
        return True, ""


@njit(cache=True)
def put_rows(handle, slots, rows, grouped, counting, noting):
    """Fill slots in order, whatever they hold."""
    counts = open_counts(handle)
    stamps = open_stamps(handle)
    index = open_index(handle)
    keys = open_keys(handle, KEYS)
    h = np.uint32(0)
    for i in range(slots.size):
        slot = slots[i]
        if grouped is not None:
            h = fetch_key(keys, groups_of(index), rows[i])
        if stamps[slot] == MOST_ADDED:
            counts[LIVE] += 1
        else:
            evict(handle, index, keys, slot, grouped, counting, noting)
        stamps[slot] = counts[ADDED]
        place(handle, index, keys, open_rows(handle), slot, rows[i], h, grouped, counting, noting)


@njit(cache=True)
def remove_slots(handle, slots, grouped, counting, noting):
    """Empty those of the slots that hold an entry."""
    counts = open_counts(handle)
    stamps = open_stamps(handle)
    index = open_index(handle)
    keys = open_keys(handle, KEYS)
    for i in range(slots.size):
        slot = slots[i]
        if stamps[slot] == MOST_ADDED:
            continue
        evict(handle, index, keys, slot, grouped, counting, noting)
        if index.slot_floors.size > 0:
            lower_min(index.slot_floors, index.levels, slot, np.inf)
        raise_sum(index.tree, index.levels, slot)
        stamps[slot] = MOST_ADDED
        counts[LIVE] -= 1
        counts[ADDED] += 1
