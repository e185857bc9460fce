"""The ring of stored transitions with its masses, groups and outcomes.

`Memory` owns the arrays; the kernels here move entries in and out of all of them at once. It knows
neither a sampling rule nor a weight: a strategy reads its arrays and draws, a buffer checks its
input and calls it.

A slot's *generation* is how often it has been filled. In a ring it follows from the number of
entries ever added, so it is never stored: an entry drawn when `added` entries had been written has
been overwritten since if its slot lies among those filled in between. Where somebody else chooses
the slots (slots.py), each carries a *stamp* instead: the number of additions before its own.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch, Plan, batch_plan
from sibling_replay.replay.checks import check_keys, check_outcomes
from sibling_replay.replay.handles import handle_of, open_table, open_vector
from sibling_replay.replay.index import (
    Index,
    check_index,
    groups_of,
    insert,
    new_index,
    remove,
)
from sibling_replay.replay.intern import (
    KeyTable,
    forget,
    intern,
    leave_key,
    new_key_table,
)
from sibling_replay.replay.partition import Partition, join, leave, new_partition
from sibling_replay.replay.payload import LAYOUT_COLUMNS, Layout, gather, pack_row

# Places in `counts` and in `peaks`.
ADDED, LIVE, DROPPED, ROW_WORDS = range(4)
MAX_PRIORITY, MAX_MASS = range(2)

_FULL_HASH = 0xFFFFFFFF
_MOST_PLANS = 64  # batch sizes remembered
MOST_ADDED = 2**62  # far from where the count of additions would overflow


class Memory:
    """Storage of a replay buffer: rows, masses, and, if wanted, groups and outcomes."""

    def __init__(
        self,
        layout: Layout,
        capacity: int,
        *,
        grouped: bool,
        outcomes: bool = False,
        floors: Literal["slots", "groups"] | None = None,
        any_order: bool = False,
        hash_mask: int = _FULL_HASH,
    ) -> None:
        if outcomes and not grouped:
            raise ValueError("outcomes are counted within groups: they need groups")
        self.layout = layout
        self.capacity = capacity
        self._plans: dict[int, Plan] = {}
        self.rows = layout.new_rows(capacity)
        self.index: Index = new_index(capacity, capacity, grouped=grouped, floors=floors)
        groups = capacity if grouped else 0
        kept = capacity if outcomes else 0
        self.keys: KeyTable = new_key_table(groups, layout.key_bytes, hash_mask)
        self.outcomes: Partition = new_partition(kept, kept)  # slots in outcomes
        self.outcome_keys: KeyTable = new_key_table(kept, layout.outcome_bytes, hash_mask)
        self.group_outcomes: Partition = new_partition(kept, kept)  # outcomes in groups
        self.counts: I64 = np.array([0, 0, 0, layout.row_words], dtype=np.int64)
        self.peaks: F64 = np.ones(2)  # largest raw priority ever assigned, and its mass
        # [slots] where they are filled in any order, else empty; an empty slot's is MOST_ADDED.
        self.stamps: I64 = np.full(capacity if any_order else 0, MOST_ADDED, dtype=np.int64)
        # Arrays that never change: a state whose copies differ is of another memory.
        self._fixed = {
            name: self.arrays()[name].copy()
            for name in ("index.levels", "keys.spec", "outcome_keys.spec")
        }
        self.handle = handle_of(
            [
                *self.index,
                *self.keys,
                *self.outcomes,
                *self.outcome_keys,
                *self.group_outcomes,
                self.rows,
                layout.table,
                layout.outcome_table,
                self.counts,
                self.peaks,
                self.stamps,
            ]
        )

    @property
    def grouped(self) -> bool:
        return bool(self.index.items.shape[0])

    @property
    def counts_outcomes(self) -> bool:
        return bool(self.outcomes.items.shape[0])

    @property
    def live(self) -> int:
        return int(self.counts[LIVE])

    @property
    def added(self) -> int:
        return int(self.counts[ADDED])

    @property
    def live_slots(self) -> I64:
        """The slots that hold an entry."""
        return np.arange(self.live)

    @property
    def masses(self) -> F64:
        """Masses of the live slots."""
        return self.index.tree[: self.live]

    @property
    def groups(self) -> I64:
        """Groups of the live slots."""
        return self.index.items[: self.live, 0].astype(np.int64)

    def new_batch(self, size: int) -> Batch:
        """A batch whose columns are not filled yet."""
        plan = self._plans.get(size)
        if plan is None:
            if len(self._plans) == _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[size] = batch_plan(self.layout, size, self)
        return Batch(plan)

    def read(self, slots: I64) -> dict[str, NDArray[Any]]:
        """The stored values of live slots, as columns."""
        places, size_bytes = self.layout.columns(slots.size)
        block = np.empty(size_bytes, dtype=np.uint8)
        gather(self.rows, self.layout.table, slots, slots, block, 0)
        return {
            name: np.ndarray(shape, dtype, block, offset)
            for name, (shape, dtype, offset) in places.items()
        }

    def generations(self) -> I64:
        """How often each slot has been filled."""
        slots = np.arange(self.capacity)
        return (self.added - slots + self.capacity - 1) // self.capacity

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array of the state by name, as views."""
        named: dict[str, NDArray[Any]] = {
            "rows": self.rows,
            "counts": self.counts,
            "peaks": self.peaks,
        }
        for prefix in ("index", "keys", "outcomes", "outcome_keys", "group_outcomes"):
            for field, array in getattr(self, prefix)._asdict().items():
                named[f"{prefix}.{field}"] = array
        return named

    def check_valid(self) -> tuple[bool, str]:
        """Whether every structure agrees with every other."""
        for name, fixed in self._fixed.items():
            if not np.array_equal(self.arrays()[name], fixed):
                return False, f"{name} is not that of a memory of this layout and capacity"
        if self.counts[ROW_WORDS] != self.layout.row_words:
            return False, f"rows of {self.counts[ROW_WORDS]} words"
        ok, why = self._check_live()
        if not ok:
            return False, why
        if self.counts[DROPPED] < 0:
            return False, f"{self.counts[DROPPED]} dropped updates"
        if not ((self.peaks > 0) & np.isfinite(self.peaks)).all():
            return False, f"the largest priority is {self.peaks[MAX_PRIORITY]}, its mass " + str(
                self.peaks[MAX_MASS]
            )
        live = self.live_slots
        ok, why = check_index(self.index, live)
        if not ok:
            return False, why
        groups = Partition(*self.index[4:9])
        rows = self.rows
        if self.grouped:
            ok, why = check_keys(self.keys, groups, rows, live, self.layout.key_bytes)
        if ok and self.counts_outcomes:
            ok, why = check_outcomes(self.outcomes, self.group_outcomes, groups, live)
            if ok:
                size = self.layout.outcome_bytes
                ok, why = check_keys(self.outcome_keys, self.outcomes, rows, live, size)
        return ok, why

    def _check_live(self) -> tuple[bool, str]:
        """Whether as many entries are live as a ring holds after its additions."""
        if self.live != min(self.added, self.capacity) or not 0 <= self.added < MOST_ADDED:
            return False, f"{self.live} live entries after {self.added} additions"
        return True, ""


# Where the arrays of a memory stand in its handle.
_KEYS, _OUTCOMES, _OUTCOME_KEYS, _GROUP_OUTCOMES = 11, 14, 19, 22
_ROWS, _TABLE, _OUTCOME_TABLE, _COUNTS, _PEAKS, _STAMPS = range(27, 33)


@njit(cache=True, forceinline=True)
def open_index(handle):
    """Masses and groups."""
    return Index(
        open_vector(handle, 0, np.float64),
        open_vector(handle, 1, np.int64),
        open_vector(handle, 2, np.float64),
        open_vector(handle, 3, np.uint16),
        open_table(handle, 4, 2, np.int32),
        open_table(handle, 5, 2, np.int32),
        open_vector(handle, 6, np.uint8),
        open_vector(handle, 7, np.int32),
        open_vector(handle, 8, np.int32),
        open_vector(handle, 9, np.float64),
        open_vector(handle, 10, np.float64),
    )


@njit(cache=True, forceinline=True)
def _open_partition(handle, first):
    return Partition(
        open_table(handle, first, 2, np.int32),
        open_table(handle, first + 1, 2, np.int32),
        open_vector(handle, first + 2, np.uint8),
        open_vector(handle, first + 3, np.int32),
        open_vector(handle, first + 4, np.int32),
    )


@njit(cache=True, forceinline=True)
def _open_keys(handle, first):
    return KeyTable(
        open_vector(handle, first, np.int32),
        open_vector(handle, first + 1, np.uint32),
        open_vector(handle, first + 2, np.uint32),
    )


@njit(cache=True, forceinline=True)
def open_outcomes(handle):
    """The partition of slots into outcomes."""
    return _open_partition(handle, _OUTCOMES)


@njit(cache=True, forceinline=True)
def open_group_outcomes(handle):
    """The partition of outcomes into groups."""
    return _open_partition(handle, _GROUP_OUTCOMES)


@njit(cache=True, forceinline=True)
def open_counts(handle):
    return open_vector(handle, _COUNTS, np.int64)


@njit(cache=True, forceinline=True)
def open_peaks(handle):
    return open_vector(handle, _PEAKS, np.float64)


@njit(cache=True, forceinline=True)
def open_stamps(handle):
    return open_vector(handle, _STAMPS, np.int64)


@njit(cache=True, forceinline=True)
def open_rows(handle):
    return open_table(handle, _ROWS, open_counts(handle)[ROW_WORDS], np.uint32)


@njit(cache=True, forceinline=True)
def open_layout(handle):
    return open_table(handle, _TABLE, LAYOUT_COLUMNS, np.int64)


@njit(cache=True, forceinline=True)
def open_outcome_layout(handle):
    return open_table(handle, _OUTCOME_TABLE, LAYOUT_COLUMNS, np.int64)


@njit(cache=True)
def _leave_outcome(handle, slot):
    outcome, emptied = leave_key(_open_keys(handle, _OUTCOME_KEYS), open_outcomes(handle), slot)
    if emptied:
        leave(open_group_outcomes(handle), outcome)


@njit(cache=True)
def _join_outcome(handle, slot, group, rows, row):
    outcomes = open_outcomes(handle)
    outcome = intern(_open_keys(handle, _OUTCOME_KEYS), outcomes, rows, row)
    if outcomes.vec[outcome, 0] == 0:
        join(open_group_outcomes(handle), outcome, group)
    join(outcomes, slot, outcome)


@njit(cache=True, forceinline=True)
def evict(handle, slot):
    """Take an entry out of its outcome and its group, and its mass out of the slot.

    The sums above the slot are left to what follows in it.
    """
    index = open_index(handle)
    if open_outcomes(handle).items.shape[0] > 0:
        _leave_outcome(handle, slot)
    if index.items.shape[0] > 0:
        group = np.int64(index.items[slot, 0])
        if remove(index, slot) == 0:
            forget(_open_keys(handle, _KEYS), groups_of(index), group)
    else:
        remove(index, slot)


@njit(cache=True, forceinline=True)
def place(handle, slot, row):
    """Put an entry into an empty slot: find the key's group, join it, store the row, set the mass
    of the largest priority so far."""
    index = open_index(handle)
    rows = open_rows(handle)
    group = np.int64(0)
    if index.items.shape[0] > 0:
        group = intern(_open_keys(handle, _KEYS), groups_of(index), rows, row)
        if open_outcomes(handle).items.shape[0] > 0:
            _join_outcome(handle, slot, group, rows, row)
    rows[slot, :] = row
    insert(index, slot, group, open_peaks(handle)[MAX_MASS])
    open_counts(handle)[ADDED] += 1


@njit(cache=True)
def append(handle, block, count):
    """Store entries in the ring, the oldest making room."""
    counts = open_counts(handle)
    capacity = open_rows(handle).shape[0]
    row = np.empty(counts[ROW_WORDS], dtype=np.uint32)
    for i in range(count):
        slot = counts[ADDED] % capacity
        if counts[LIVE] < capacity:
            counts[LIVE] += 1
        else:
            evict(handle, slot)
        pack_row(block, open_layout(handle), count, i, row)
        place(handle, slot, row)


@njit(cache=True)
def overwritten(stamps, slot, added_then, added_now, capacity):
    """Whether a slot drawn after `added_then` additions has been filled again since."""
    if stamps.size > 0:
        return stamps[slot] >= added_then
    return (slot - added_then) % capacity < added_now - added_then
