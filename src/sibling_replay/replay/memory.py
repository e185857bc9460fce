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
from sibling_replay.replay.batch import Batch, Outcomes, Plan, batch_plan
from sibling_replay.replay.checks import check_index, check_keys, check_outcomes, check_rows
from sibling_replay.replay.handles import handle_of
from sibling_replay.replay.index import (
    Index,
    fetch_members,
    groups_of,
    insert,
    insert_mass,
    new_index,
    remove,
)
from sibling_replay.replay.inner import inner
from sibling_replay.replay.intern import (
    FULL_HASH,
    KeyTable,
    fetch_key,
    forget,
    intern,
    intern_hashed,
    leave_key,
    new_key_table,
)
from sibling_replay.replay.memory_view import (
    ADDED,
    DROPPED,
    KEYS,
    LIVE,
    MAX_MASS,
    MAX_PRIORITY,
    ORDER,
    OUTCOME_KEYS,
    ROW_WORDS,
    open_counts,
    open_group_outcomes,
    open_index,
    open_keys,
    open_layout,
    open_notes,
    open_outcomes,
    open_peaks,
    open_rows,
)
from sibling_replay.replay.notes import (
    START_MASS,
    Notes,
    NotesForm,
    check_notes,
    new_notes,
    note_arrival,
    note_departure,
)
from sibling_replay.replay.partition import Partition, join, leave, new_partition
from sibling_replay.replay.payload import Layout, gather, pack_row
from sibling_replay.replay.spare_batches import SpareBatches

_MOST_SIZES = 64  # of batches, remembered
MOST_ADDED = 2**62  # far from where the count of additions would overflow
MOST_PRIORITY = 2.0**996  # about 1e300: of priorities and of masses, so that sums stay finite


class Memory:
    """Storage of a replay buffer: rows, masses, and, if wanted, groups and outcomes."""

    def __init__(
        self,
        layout: Layout,
        capacity: int,
        *,
        grouped: bool,
        outcomes: bool = False,
        min_tree: Literal["slots", "groups"] | None = None,
        any_order: bool = False,
        largest: bool = False,
        notes: NotesForm | None = None,
        first: tuple[float, float] = (1.0, 1.0),
        hash_mask: int = FULL_HASH,
    ) -> None:
        if outcomes and not grouped:
            raise ValueError("outcomes are counted within groups: they need groups")
        self.layout = layout
        self.capacity = capacity
        self._batches: dict[int, SpareBatches] = {}
        self.rows = layout.new_rows(capacity)
        self.index: Index = new_index(capacity, capacity, grouped=grouped, min_tree=min_tree)
        groups = capacity if grouped else 0
        kept = capacity if outcomes else 0
        self.keys: KeyTable = new_key_table(groups, layout.key_bytes, hash_mask)
        self.outcomes: Partition = new_partition(kept, kept)  # slots in outcomes
        self.outcome_keys: KeyTable = new_key_table(kept, layout.outcome_bytes, hash_mask)
        self.group_outcomes: Partition = new_partition(kept, kept)  # outcomes in groups
        self.noted = () if notes is None else tuple(notes.columns)
        self.keeps_notes = notes is not None
        self.notes: Notes = new_notes(notes, capacity, grouped)
        self.counts: I64 = np.array([0, 0, 0, layout.row_words], dtype=np.int64)
        # Largest raw priority ever assigned, and its mass; at first what the first entries get.
        self.peaks: F64 = np.array(first)
        # [slots] where they are filled in any order, else empty; an empty slot's is MOST_ADDED.
        self.stamps: I64 = np.full(capacity if any_order else 0, MOST_ADDED, dtype=np.int64)
        # Scratch of refreshes that keep the largest of several, by slot or group: zero between.
        self.best: F64 = np.zeros(capacity if largest else 0)
        # Arrays that never change: a state whose copies differ is of another memory.
        self._fixed = {
            name: self.arrays()[name].copy()
            for name in ("index.levels", "keys.spec", "outcome_keys.spec", *self._fixed_notes())
        }
        named = self.arrays() | {
            "table": layout.table,
            "stamps": self.stamps,
            "best": self.best,
            **{f"notes.{name}": array for name, array in self.notes._asdict().items()},
        }
        self.handle = handle_of([named[name] for name in ORDER])

    @property
    def grouped(self) -> bool:
        return bool(self.index.items.shape[1])

    @property
    def counts_outcomes(self) -> bool:
        return bool(self.outcomes.items.shape[1])

    @property
    def keeps(self) -> tuple[Literal[True] | None, ...]:
        """Whether there are groups, outcomes and notes, as the kernels take it."""
        return self.grouped or None, self.counts_outcomes or None, self.keeps_notes or None

    def _fixed_notes(self) -> tuple[str, ...]:
        return ("notes.initial", "notes.levels", "notes.spec") if self.keeps_notes else ()

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
        return self.index.items[0, : self.live].astype(np.int64)

    def new_batch(self, size: int) -> Batch:
        """A batch whose columns are not filled yet."""
        spares = self._batches.get(size)
        if spares is None:
            if len(self._batches) == _MOST_SIZES:
                self._batches.clear()
            spares = self._batches[size] = SpareBatches(batch_plan(self.layout, size, self))
        return spares.take()

    def new_outcomes(
        self,
        slots: I64,
        shares: F64,
        starts: I64,
        remembered: tuple[I64, I64] | None = None,
        residuals: bool = False,
    ) -> Outcomes:
        """The outcomes of live slots, for means over them; for means of residuals with the
        observations and actions that led to them."""
        columns, size_bytes = self.layout.columns(slots.size, outcomes_only=not residuals)
        plan = Plan(columns, slots.size, size_bytes, parts=self.layout.parts)
        outcomes = Outcomes(plan, slots, shares, starts, remembered, residuals)
        table = self.layout.table if residuals else self.layout.outcome_table
        gather(self.rows, table, slots, slots, outcomes.block, 0)
        return outcomes

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
        if self.keeps_notes:
            named |= {f"notes.{field}": array for field, array in self.notes._asdict().items()}
        return named

    def check_valid(self) -> tuple[bool, str]:
        """Whether every structure agrees with every other."""
        for name, fixed in self._fixed.items():
            if self.arrays()[name].tobytes() != fixed.tobytes():
                return False, f"{name} is not that of a memory of this layout and capacity"
        if self.counts[ROW_WORDS] != self.layout.row_words:
            return False, f"rows of {self.counts[ROW_WORDS]} words"
        ok, why = self._check_live()
        if not ok:
            return False, why
        if self.counts[DROPPED] < 0:
            return False, f"{self.counts[DROPPED]} dropped updates"
        if not ((self.peaks > 0) & (self.peaks <= MOST_PRIORITY)).all():
            return False, f"the largest priority is {self.peaks[MAX_PRIORITY]}, its mass " + str(
                self.peaks[MAX_MASS]
            )
        live = self.live_slots
        ok, why = check_rows(self.rows, self.layout, live)
        if not ok:
            return False, why
        ok, why = check_index(self.index, live)
        if not ok:
            return False, why
        groups = groups_of.py_func(self.index)
        rows = self.rows
        if self.grouped:
            ok, why = check_keys(self.keys, groups, rows, live, self.layout.key_bytes)
        if ok and self.counts_outcomes:
            ok, why = check_outcomes(self.outcomes, self.group_outcomes, groups, live)
            if ok:
                size = self.layout.outcome_bytes
                ok, why = check_keys(self.outcome_keys, self.outcomes, rows, live, size)
        if ok and self.keeps_notes:
            by_slot = np.full(self.capacity, -1, dtype=np.int64)
            if self.grouped:
                by_slot[live] = self.index.items[0, live]
            ok, why = check_notes(self.notes, by_slot, self.index.vec[:, 0].astype(np.int64))
        return ok, why

    def _check_live(self) -> tuple[bool, str]:
        """Whether as many entries are live as a ring holds after its additions."""
        if self.live != min(self.added, self.capacity) or not 0 <= self.added < MOST_ADDED:
            return False, f"{self.live} live entries after {self.added} additions"
        return True, ""


@inner()
def _leave_outcome(handle, slot):
    outcome, emptied = leave_key(open_keys(handle, OUTCOME_KEYS), open_outcomes(handle), slot)
    if emptied:
        leave(open_group_outcomes(handle), outcome)


@inner()
def join_outcome(handle, slot, group, rows, row):
    outcomes = open_outcomes(handle)
    outcome = intern(open_keys(handle, OUTCOME_KEYS), outcomes, rows, row)
    if outcomes.vec[outcome, 0] == 0:
        join(open_group_outcomes(handle), outcome, group)
    join(outcomes, slot, outcome)


# What a memory keeps, `grouped`, `counting` and `noting`, is True or None in the kernels below: a
# branch on None is left out before anything in it is compiled, so that plain prioritized replay
# does not wait for the code of groups, nor groups for that of outcomes or notes.


@inner(forceinline=True)
def evict(handle, index, keys, slot, grouped, counting, noting):
    """Take an entry out of its outcome and its group, and its mass out of the slot.

    The sums above the slot are left to what follows in it.
    """
    if grouped is None:
        index.tree[slot] = 0.0
        if noting is not None:
            note_departure(open_notes(handle), index, slot, -1)
    else:
        if counting is not None:
            _leave_outcome(handle, slot)
        group = np.int64(index.items[0, slot])
        left = remove(index, slot)
        if noting is not None:
            note_departure(open_notes(handle), index, slot, group)
        if left == 0:
            forget(keys, groups_of(index), group)


@inner(forceinline=True)
def place(handle, index, keys, rows, slot, row, h, grouped, counting, noting):
    """Put an entry into an empty slot: find the key's group, given its hash, join it, store the
    row, set the mass of the largest priority so far."""
    mass = open_peaks(handle)[MAX_MASS]
    if noting is not None:
        if open_notes(handle).peaks[START_MASS] > 0.0:
            mass = open_notes(handle).peaks[START_MASS]
    if grouped is None:
        _store(rows, slot, row)
        insert_mass(index, slot, mass)
        if noting is not None:
            note_arrival(open_notes(handle), index, slot, -1)
    else:
        group = intern_hashed(keys, groups_of(index), rows, row, h)
        if counting is not None:
            join_outcome(handle, slot, group, rows, row)
        _store(rows, slot, row)
        insert(index, slot, group, mass)
        if noting is not None:
            note_arrival(open_notes(handle), index, slot, group)
    open_counts(handle)[ADDED] += 1


@inner(forceinline=True)
def _store(rows, slot, row):
    """In a loop: assigning a slice compiles an error message for shapes, for a second or two."""
    for word in range(row.size):
        rows[slot, word] = row[word]


@njit(cache=True)
def append(handle, block, count, grouped, counting, noting):
    """Store entries in the ring, the oldest making room."""
    counts = open_counts(handle)
    index = open_index(handle)
    keys = open_keys(handle, KEYS)
    rows = open_rows(handle)
    capacity = rows.shape[0]
    row = np.empty(rows.shape[1], dtype=np.uint32)
    h = np.uint32(0)
    for i in range(count):
        slot = counts[ADDED] % capacity
        pack_row(block, open_layout(handle), count, i, row)
        if grouped is not None:  # what the key needs comes while the old entry goes
            h = fetch_key(keys, groups_of(index), row)
        if counts[LIVE] < capacity:
            counts[LIVE] += 1
        else:
            evict(handle, index, keys, slot, grouped, counting, noting)
        place(handle, index, keys, rows, slot, row, h, grouped, counting, noting)
    if grouped is not None:
        if counts[LIVE] == capacity:  # the next two to go
            fetch_members(index, counts[ADDED] % capacity, (counts[ADDED] + 1) % capacity)


@inner()
def replace_row(handle, rows, slot, row, counting):
    """Give a live entry another outcome: a row with the same key. What is counted of outcomes
    follows; the group, the mass and the date of the entry stay."""
    if counting is not None:
        group = np.int64(open_index(handle).items[0, slot])
        _leave_outcome(handle, slot)
        join_outcome(handle, slot, group, rows, row)
    _store(rows, slot, row)


@inner()
def overwritten(stamps, slot, added_then, added_now, capacity):
    """Whether a slot drawn after `added_then` additions has been filled again since."""
    if stamps.size > 0:
        return stamps[slot] >= added_then
    return (slot - added_then) % capacity < added_now - added_then
