"""Slots, their masses and their groups: what every draw reads and every refresh writes.

Masses live in the leaves of the sum tree. Group sums are kept beside them and adjusted by
differences, because a group has no tree of its own; so each carries its *wear*, a bound on its own
relative rounding error, and is summed afresh from its members when that passes 1e-10. An ordinary
change wears it by one unit, so a fresh sum is needed once in 56,000 changes; a cancellation that
would lose digits (1e300 leaves, 1e-300 stays) triggers one at once.

Sum and wear stand in the header of the vector of a group's members: near what a draw reads next,
and nowhere for a group of one, whose sum is its only mass.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import F64, I32, I64
from sibling_replay.replay.doubles import load_double, store_double
from sibling_replay.replay.inner import inner
from sibling_replay.replay.partition import (
    CLASS_BITS,
    Partition,
    check_partition,
    join,
    leave,
    member,
    new_partition,
)
from sibling_replay.replay.touch import fetch, touch
from sibling_replay.replay.tree import (
    find as find_slots,
)
from sibling_replay.replay.tree import (
    lower_min,
    new_tree,
    raise_sum,
    raise_sums,
    rebuild_sums,
)

_HEADER = 3  # words before a group's members: its sum, and a mark with the wear
_SUM, _MARK = -3, -1  # where they are from the first member
_MOST_WEAR = 56_000.0  # units of 2^-49: a relative error of 1e-10
_WEAR_OF_ROUNDING = 2.0**-53 / 2.0**-49


class Index(NamedTuple):
    """The arrays of an index; those of groups are empty when it keeps none.

    Floors, where kept, are trees of minima with the levels of `tree`: of the slots' masses, or of
    the groups' mean masses s_g / n_g. Their root gives the largest importance weight there is.
    """

    tree: F64  # leaves first: [slots] masses, padding, inner nodes, total
    levels: I64  # [depth]: where each level of the tree starts
    items: I32  # [2, slots]: group, position in it
    vec: I32  # [groups, 2]: n_g, where its members are
    pool: I32  # of each group s_g, its wear in units of 2^-49, and its members
    heads: I32
    slot_floors: F64
    group_floors: F64


def new_index(
    capacity: int,
    max_groups: int,
    grouped: bool = True,
    min_tree: Literal["slots", "groups"] | None = None,
) -> Index:
    """An empty index. Floors over groups need as many slots as groups at least."""
    if min_tree == "groups" and not (grouped and max_groups <= capacity):
        raise ValueError("a tree of minima over groups needs groups, and at least as many slots")
    tree, levels = new_tree(capacity)
    if not grouped:
        max_groups = 0
    groups = new_partition(capacity if grouped else 0, max_groups, _HEADER)
    return Index(
        tree=tree,
        levels=levels,
        items=groups.items,
        vec=groups.vec,
        pool=groups.pool,
        heads=groups.heads,
        slot_floors=new_tree(capacity, fill=np.inf)[0] if min_tree == "slots" else np.zeros(0),
        group_floors=new_tree(capacity, fill=np.inf)[0] if min_tree == "groups" else np.zeros(0),
    )


@inner(forceinline=True)
def groups_of(index):
    """The partition of slots into groups."""
    return Partition(index.items, index.vec, index.pool, index.heads)


def check_groups(index: Index) -> tuple[bool, str]:
    """Whether the partition of slots into groups is one."""
    return check_partition(
        Partition(index.items, index.vec, index.pool, index.heads), header=_HEADER
    )


@inner(forceinline=True)
def sum_of(index, group):
    """s_g, 0 for a group without members."""
    group = np.uint64(group)
    count = index.vec[group, 0]
    start = np.int64(index.vec[group, 1])
    if count > 1:
        return load_double(index.pool, start + _SUM)
    return index.tree[np.uint64(start)] if count == 1 else 0.0


@inner(forceinline=True)
def _write_sum(index, start, total, wear):
    """Write the sum and its error bound of the group whose vector starts here."""
    store_double(index.pool, start + _SUM, total)
    mark = index.pool[start + _MARK] & ((1 << CLASS_BITS) - 1)
    index.pool[start + _MARK] = mark | (np.int64(wear) << CLASS_BITS)


@inner()
def wear_of(index, group):
    """Bound on the relative error of s_g, in units of 2^-49."""
    if index.vec[group, 0] < 2:
        return np.int64(0)
    return np.int64(index.pool[index.vec[group, 1] + _MARK]) >> CLASS_BITS


@njit(cache=True)
def first_overworn(index):
    """The first group whose error bound is outside [0, limit]; -1 if none is."""
    for group in range(index.vec.shape[0]):
        if not 0 <= wear_of(index, group) <= _MOST_WEAR:
            return group
    return -1


@njit(cache=True)
def group_sums(index):
    """Every s_g."""
    sums = np.zeros(index.vec.shape[0])
    for group in range(sums.size):
        sums[group] = sum_of(index, group)
    return sums


@inner()
def fresh_sum(index, group):
    """s_g summed over the members."""
    total = 0.0
    for k in range(index.vec[group, 0]):
        total += index.tree[member(index.vec, index.pool, group, k)]
    return total


@inner(forceinline=True, error_model="numpy")
def _shift_sum(index, group, difference):
    """Adjust s_g for a mass that changed by `difference`; the tree's leaf is already written."""
    group = np.uint64(group)
    count = index.vec[group, 0]
    if count > 1:
        start = np.int64(index.vec[group, 1])
        old = load_double(index.pool, start + _SUM)
        worn = np.int64(index.pool[start + _MARK]) >> CLASS_BITS
        new = old + difference
        # Rounding this sum adds half a unit in its last place; a fall in size magnifies the rest.
        wear = (worn * old + _WEAR_OF_ROUNDING * max(old, new)) / new
        if new > 0.0 and wear < _MOST_WEAR:
            _write_sum(index, start, new, np.int64(wear) + 1)
        else:
            _write_sum(index, start, fresh_sum(index, group), 0)
    if index.group_floors.size > 0:
        mean = sum_of(index, group) / count if count > 0 else np.inf
        lower_min(index.group_floors, index.levels, group, mean)


@inner(forceinline=True)
def _write_leaf(index, slot, group, mass):
    """Set a leaf and what hangs on it, except the sums above it in the tree."""
    slot = np.uint64(slot)
    difference = mass - index.tree[slot]
    index.tree[slot] = mass
    if index.items.shape[1] > 0:
        _shift_sum(index, group, difference)
    if index.slot_floors.size > 0:
        lower_min(index.slot_floors, index.levels, slot, mass)


@inner(forceinline=True)
def insert(index, slot, group, mass):
    """Put an entry into an empty slot. `group` is ignored by an index without groups."""
    if index.items.shape[1] > 0:
        join(groups_of(index), slot, group)
        if index.vec[group, 0] == 2:  # the vector is new: its sum was that of the first alone
            start = np.int64(index.vec[group, 1])
            _write_sum(index, start, index.tree[np.uint64(index.pool[start])], 0)
    _write_leaf(index, slot, group, mass)
    raise_sum(index.tree, index.levels, slot)


@inner(forceinline=True)
def insert_mass(index, slot, mass):
    """The same for an index without groups."""
    index.tree[np.uint64(slot)] = mass
    if index.slot_floors.size > 0:
        lower_min(index.slot_floors, index.levels, slot, mass)
    raise_sum(index.tree, index.levels, slot)


@inner(forceinline=True)
def remove(index, slot):
    """Empty a slot. Returns the members left in its group (0 for an index without groups).

    Sums above the leaf are left to the `insert` that follows in the same slot.
    """
    mass = index.tree[slot]
    index.tree[slot] = 0.0
    left = 0
    if index.items.shape[1] > 0:
        group = index.items[0, slot]
        left = leave(groups_of(index), slot)
        _shift_sum(index, group, -mass)
    return left


@inner(forceinline=True)
def fetch_members(index, slot, next_slot):
    """Prefetch the cache lines that `remove` of a slot reads, and the group record of the next
    slot, which says where in the pool its members are."""
    group = np.uint64(index.items[0, np.uint64(next_slot)])
    fetch(index.vec, group << np.uint64(1))
    group = np.uint64(index.items[0, np.uint64(slot)])
    if index.vec[group, 0] > 1:
        start = np.uint64(index.vec[group, 1])
        fetch(index.pool, start - np.uint64(1))
        fetch(index.pool, start + np.uint64(index.items[1, np.uint64(slot)]))
        fetch(index.pool, start + np.uint64(index.vec[group, 0] - 1))


@inner(forceinline=True)
def look_up_groups(index, slots, groups):
    """The groups of live slots; -1 in an index without groups."""
    if index.items.shape[1] > 0:
        for i in range(slots.size):
            groups[i] = index.items[0, np.uint64(slots[i])]
    else:
        for i in range(slots.size):
            groups[i] = -1


@inner(forceinline=True)
def _touch_leaves(index, slots):
    """Touch leaves and their parents."""
    parents = np.uint64(index.levels[1])
    for i in range(slots.size):
        slot = np.uint64(slots[i])
        touch(index.tree, slot)
        touch(index.tree, parents + (slot >> np.uint64(3)))


@inner(forceinline=True)
def _touch_sums(index, groups):
    """Touch the sums of groups, in a loop so short that the waits of many overlap."""
    for i in range(groups.size):
        group = np.uint64(groups[i])
        if index.vec[group, 0] > 1:
            touch(index.pool, np.int64(index.vec[group, 1]) + _MARK)


@inner(forceinline=True)
def assign(index, slots, groups, masses):
    """Give live slots, of these groups, new masses, in order: of several for one slot the last
    stays."""
    if index.items.shape[1] == 0 and index.slot_floors.size == 0:
        for i in range(slots.size):
            index.tree[np.uint64(slots[i])] = masses[i]
    else:
        _touch_leaves(index, slots)
        if index.items.shape[1] > 0:
            _touch_sums(index, groups)
        for i in range(slots.size):
            _write_leaf(index, slots[i], groups[i], masses[i])
    raise_all(index, slots)


@inner(forceinline=True)
def raise_all(index, slots):
    """Recompute the sums above leaves that were written."""
    if 8 * slots.size > index.tree.size:
        rebuild_sums(index.tree, index.levels)
    else:
        raise_sums(index.tree, index.levels, slots)


@inner(forceinline=True)
def fill_group(index, group, mass):
    """Give all members of a group one mass. The sums above them wait for `raise_all`."""
    count = index.vec[group, 0]
    for k in range(count):
        slot = np.uint64(member(index.vec, index.pool, group, k))
        index.tree[slot] = mass
        if index.slot_floors.size > 0:
            lower_min(index.slot_floors, index.levels, slot, mass)
    if count > 1:
        _write_sum(index, np.int64(index.vec[group, 1]), count * mass, 1)
    if index.group_floors.size > 0 and count > 0:
        lower_min(index.group_floors, index.levels, np.uint64(group), sum_of(index, group) / count)


@inner(forceinline=True)
def fill_members(index, slots, group, mass):
    """Give some members of a group one mass. The sums above them wait for `raise_all`."""
    for i in range(slots.size):
        _write_leaf(index, slots[i], group, mass)


@inner(forceinline=True)
def find(index, targets, out):
    """The slots on which targets in [0, total] of cumulative mass fall. Overwrites
    `targets`."""
    find_slots(index.tree, index.levels, targets, out)


@inner(forceinline=True)
def stratify(index, uniforms, targets):
    """Target b lies in the b-th of B equal intervals of the cumulative mass."""
    width = index.tree[-1] / targets.size
    for b in range(targets.size):
        targets[b] = (b + uniforms[b]) * width


@inner(forceinline=True)
def _locate(index, group, uniform):
    """Where in the pool a uniform member is; of a group of one, -1 minus the member."""
    group = np.uint64(group)
    count = index.vec[group, 0]
    start = np.int64(index.vec[group, 1])
    place = min(np.int64(uniform * count), np.int64(count) - 1)
    return -1 - start if count == 1 else start + place


@inner(forceinline=True)
def _located(index, where):
    return -1 - where if where < 0 else np.int64(index.pool[np.uint64(where)])


@inner(forceinline=True)
def pick(index, group, uniform):
    """A uniform member of a group, from one uniform number in [0, 1)."""
    return _located(index, _locate(index, group, uniform))


@inner(forceinline=True)
def pick_all(index, groups, uniforms, out):
    """The same for many groups, in two loops so short that the waits of many entries overlap."""
    for b in range(groups.size):
        out[b] = _locate(index, groups[b], uniforms[b])
    for b in range(groups.size):
        out[b] = _located(index, out[b])


@inner()
def draw_subset(index, group, uniforms, out):
    """min(K, n_g) distinct members, every subset equally likely, from K uniforms. Returns how many.

    Floyd's method: the j-th pick is uniform over the first n-K+j+1 places, and takes the last of
    these when its place is taken already. A group that fits is taken whole.
    """
    count = np.int64(index.vec[group, 0])
    wanted = out.size
    if count <= wanted:
        for k in range(count):
            out[k] = member(index.vec, index.pool, group, k)
        return count
    for j in range(wanted):
        bound = count - wanted + j
        place = min(np.int64(uniforms[j] * (bound + 1)), bound)
        chosen = np.int64(member(index.vec, index.pool, group, place))
        for earlier in range(j):
            if out[earlier] == chosen:
                chosen = np.int64(member(index.vec, index.pool, group, bound))
                break
        out[j] = chosen
    return np.int64(wanted)
