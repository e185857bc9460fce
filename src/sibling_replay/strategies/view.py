"""What a strategy in NumPy may read of a buffer, and its random numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.index import find, pick_all, sum_of
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.memory_view import open_index
from sibling_replay.replay.partition import member
from sibling_replay.replay.tree import find as find_leaves
from sibling_replay.rng import Uniforms
from sibling_replay.strategies.over_memory import count_outcomes, list_outcomes, list_subsets


class Stream:
    """The random numbers of a draw.

    Examples:
        >>> class Even(Strategy):
        ...     def draw(self, view, size, stream, beta):
        ...         return Draw(slots=view.slots[(stream.take(size) * view.size).astype(np.int64)])
        ...     def law(self, view, size):
        ...         return Law(*[np.full(view.size, 1 / view.size)] * 3)
        ...
        >>> sampler = SlotSampler(4, Even(), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> sampler.sample(2).slots.shape
        (2,)
    """

    def __init__(self, uniforms: Uniforms) -> None:
        self._uniforms = uniforms

    def take(self, n: int) -> F64:
        """The next n uniform numbers in [0, 1)."""
        return np.array(self._uniforms.take(n))


class View:
    """A buffer as it is now, to be read. Arrays are by slot, or for the slots or groups given.

    Examples:
        >>> class Heaviest(Strategy):
        ...     def draw(self, view, size, stream, beta):
        ...         return Draw(slots=np.full(size, view.masses.argmax()))
        ...     def refresh(self, view, draw, td_errors, signals):
        ...         return Refresh(slots=draw.slots, priorities=np.abs(td_errors))
        ...     def law(self, view, size):
        ...         heaviest = view.slots == view.masses.argmax()
        ...         return Law(*[heaviest.astype(float)] * 3)
        ...
        >>> sampler = SlotSampler(4, Heaviest(), seed=0)
        >>> sampler.put([0, 1, 2, 3])
        >>> sampler.update_slots([2], [9.0], sampler.clock)
        >>> sampler.sample(2).slots
        array([2, 2])
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def capacity(self) -> int:
        """How many slots there are."""
        return self._memory.capacity

    @property
    def size(self) -> int:
        """How many slots hold an entry."""
        return self._memory.live

    @property
    def slots(self) -> I64:
        """The slots that hold an entry, in order."""
        return self._memory.live_slots

    @property
    def newest(self) -> int:
        """The slot that was filled last."""
        if self._memory.stamps.size:
            live = self.slots
            return int(live[np.argmax(self._memory.stamps[live])])
        return (self._memory.added - 1) % self.capacity

    def age(self, slots: I64) -> I64:
        """How many entries were added after those of some live slots."""
        if self._memory.stamps.size:
            return self._memory.added - 1 - self._memory.stamps[slots]
        return (self._memory.added - 1 - slots) % self.capacity

    @property
    def in_order(self) -> bool:
        """Whether slots are filled one after the other, so that every age from 0 to size - 1 is
        there once."""
        return self._memory.stamps.size == 0

    def at_ages(self, ages: I64) -> I64:
        """The slots of these ages, where they are filled in order."""
        given = np.asarray(ages, dtype=np.int64)
        if not (self.in_order and (given >= 0).all() and (given < self.size).all()):
            raise ValueError(f"expected ages from 0 to {self.size - 1} of slots in order, {ages}")
        return (self._memory.added - 1 - given) % self.capacity

    # -------------------------------------------------------------------- masses

    @property
    def masses(self) -> F64:
        """[capacity] priority^alpha of every slot, 0 where it is empty; cannot be written."""
        masses = self._memory.index.tree[: self.capacity]
        masses.flags.writeable = False
        return masses

    @property
    def total(self) -> float:
        """The sum of all masses."""
        return float(self._memory.index.tree[-1])

    def find(self, targets: F64) -> I64:
        """The slots on which targets from 0 to `total` of cumulative mass fall."""
        wanted = np.array(targets, dtype=np.float64)
        if not (self.total > 0.0 and (wanted >= 0.0).all() and (wanted <= self.total).all()):
            raise ValueError(f"targets of a mass of {self.total} must be from 0 to that, {targets}")
        slots = np.empty(wanted.size, dtype=np.int64)
        _find(self._memory.handle, wanted, slots)
        return slots

    # --------------------------------------------------------------------- notes

    def column(self, name: str) -> F64:
        """[capacity] a column of the strategy's own; cannot be written."""
        place = self._place(name)
        column = self._memory.notes.columns[place * self.capacity : (place + 1) * self.capacity]
        column.flags.writeable = False
        return column

    def column_sums(self, name: str, groups: I64) -> tuple[F64, F64, F64]:
        """Of a column, for each group: how many members have a number, the sum of these, and the
        sum of their squares."""
        if not self._memory.grouped:
            raise ValueError("sums are by group, and no groups are kept")
        sums = self._memory.notes.sums.reshape(len(self._memory.noted), 3, -1)[self._place(name)]
        count, total, squares = sums[:, groups]
        return count, total, squares

    def _place(self, name: str) -> int:
        if name not in self._memory.noted:
            raise KeyError(f"no column {name!r}: the strategy's needs name {self._memory.noted}")
        return self._memory.noted.index(name)

    def scores(self, groups: I64) -> F64:
        """The scores of groups."""
        return np.array(self._memory.notes.scores[groups])

    def group_leaves(self, groups: I64) -> F64:
        """n_g^kappa v_g^alpha of groups."""
        return np.array(self._memory.notes.tree[groups])

    @property
    def group_total(self) -> float:
        """The sum of all leaves of the tree over groups."""
        return float(self._memory.notes.tree[-1])

    def find_groups(self, targets: F64) -> I64:
        """The groups on which targets from 0 to `group_total` fall."""
        wanted = np.array(targets, dtype=np.float64)
        total = self.group_total
        if not (total > 0.0 and (wanted >= 0.0).all() and (wanted <= total).all()):
            raise ValueError(f"targets of a tree of {total} must be from 0 to that, not {targets}")
        groups = np.empty(wanted.size, dtype=np.int64)
        notes = self._memory.notes
        find_leaves(notes.tree, notes.levels, wanted, groups)
        return groups

    # -------------------------------------------------------------------- groups

    @property
    def group_ids(self) -> I64:
        """The groups that have members."""
        return np.flatnonzero(self._memory.index.vec[:, 0])

    def groups(self, slots: I64) -> I64:
        """The group of each of some live slots; -1 where no groups are kept."""
        if not self._memory.grouped:
            return np.full(len(slots), -1, dtype=np.int64)
        return np.asarray(self._memory.index.items[0, slots], dtype=np.int64)

    def group_sizes(self, groups: I64) -> I64:
        """How many members groups have."""
        return np.asarray(self._memory.index.vec[groups, 0], dtype=np.int64)

    def group_masses(self, groups: I64) -> F64:
        """The sum of the members' masses."""
        known = self._known(groups)
        sums = np.empty(known.size)
        _sums(self._memory.handle, known, sums)
        return sums

    def members(self, group: int) -> I64:
        """The slots of a group."""
        known = self._known([group])
        slots = np.empty(self._memory.index.vec[known[0], 0], dtype=np.int64)
        _members(self._memory.handle, int(known[0]), slots)
        return slots

    def pick(self, groups: I64, uniforms: F64) -> I64:
        """A uniform member of each group, from a uniform number each."""
        known = self._known(groups)
        numbers = np.asarray(uniforms, dtype=np.float64)
        if numbers.shape != known.shape or not ((numbers >= 0.0) & (numbers < 1.0)).all():
            raise ValueError(f"expected {known.size} numbers in [0, 1), got {uniforms}")
        slots = np.empty(known.size, dtype=np.int64)
        _pick(self._memory.handle, known, numbers, slots)
        return slots

    def outcomes(self, groups: I64) -> tuple[I64, I64, F64]:
        """What a whole-group average is made of (the columns of `Terms`): every distinct outcome of
        each group, once, and its share. For strategies whose needs name `outcomes`."""
        known = self._known(groups)
        if not self._memory.counts_outcomes:
            raise ValueError("no outcomes are counted: the strategy's needs do not name them")
        starts = np.empty(known.size + 1, dtype=np.int64)
        count_outcomes(self._memory.handle, known, starts)
        slots, shares = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1])
        list_outcomes(self._memory.handle, known, starts, slots, shares)
        return starts, slots, shares

    def subsets(self, groups: I64, most: int, stream: Stream) -> tuple[I64, I64, F64]:
        """The same for a uniform subset of at most so many members of each group."""
        known = self._known(groups)
        uniforms = stream.take(known.size * most)
        count = int(np.minimum(self.group_sizes(known), most).sum())
        starts = np.empty(known.size + 1, dtype=np.int64)
        slots, shares = np.empty(count, dtype=np.int64), np.empty(count)
        list_subsets(self._memory.handle, known, uniforms, 0, most, starts, slots, shares)
        return starts, slots, shares

    def _known(self, groups: I64 | list[int]) -> I64:
        """Groups that have members: compiled code believes what it is given."""
        found: I64 = np.asarray(groups, dtype=np.int64).reshape(-1)
        sizes = self._memory.index.vec[:, 0]
        inside = (found >= 0) & (found < sizes.size)
        inside[inside] = sizes[found[inside]] > 0
        if not inside.all():
            raise ValueError(f"group {found[~inside][0]} has no members")
        return found


@njit(cache=True)
def _find(handle, targets, slots):
    find(open_index(handle), targets, slots)


@njit(cache=True)
def _sums(handle, groups, sums):
    index = open_index(handle)
    for i in range(groups.size):
        sums[i] = sum_of(index, groups[i])


@njit(cache=True)
def _members(handle, group, slots):
    index = open_index(handle)
    for k in range(slots.size):
        slots[k] = member(index.vec, index.pool, group, k)


@njit(cache=True)
def _pick(handle, groups, uniforms, slots):
    pick_all(open_index(handle), groups, uniforms, slots)
