"""Items split into parts, with O(1) join, leave and k-th member.

The same structure holds three relations: slots in groups, slots in outcomes, outcomes in groups.
Each part keeps its members in a small vector of power-of-two capacity inside one shared pool; a
part of one keeps its member in place of the vector. Vectors double when full and halve at a
quarter; freed blocks wait in one list per size, and when the pool runs out it is repacked tight.
With `POOL_PER_ITEM` entries an item, a repacked pool always has room for the vector that grows
(vectors of 2n-2 at most for n members, plus the new one beside the old).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import I32, U8

POOL_PER_ITEM = 3
_SIZES = 32  # free lists, one per block size 2^k
_USED = 32  # heads[_USED]: pool entries handed out so far
_FREE_PART = 33  # heads[_FREE_PART]: first part id on the free list
PARTS_USED = 34  # heads[PARTS_USED]: part ids handed out so far
NONE = -1


class Partition(NamedTuple):
    """The arrays of a partition."""

    items: I32  # [2, items]: part (-1: in none), position in the part's vector
    vec: I32  # [parts, 2]: number of members, start of the vector (the member itself if one)
    klass: U8  # [parts]: the vector has room for 2^klass members
    pool: I32  # [3 * items]: the vectors
    heads: I32  # [35]: free lists and high-water marks


def new_partition(items: int, parts: int) -> Partition:
    heads = np.full(PARTS_USED + 1, NONE, dtype=np.int32)
    heads[_USED] = 0
    heads[PARTS_USED] = 0
    members = np.zeros((2, items), dtype=np.int32)
    members[0] = NONE
    return Partition(
        items=members,
        vec=np.zeros((parts, 2), dtype=np.int32),
        klass=np.zeros(parts, dtype=np.uint8),
        pool=np.zeros(POOL_PER_ITEM * items, dtype=np.int32),
        heads=heads,
    )


@njit(cache=True, forceinline=True)
def member(vec, pool, part, k):
    """The k-th member of a part, 0 <= k < its count."""
    start = vec[part, 1]
    return start if vec[part, 0] == 1 else pool[start + k]


@njit(cache=True)
def _allocate(pool, heads, size_class):
    block = heads[size_class]
    if block != NONE:
        heads[size_class] = pool[block]
        return np.int64(block)
    used = np.int64(heads[_USED])
    if used + (np.int64(1) << size_class) > pool.size:
        return np.int64(NONE)
    heads[_USED] = used + (np.int64(1) << size_class)
    return used


@njit(cache=True)
def _release(pool, heads, block, size_class):
    pool[block] = heads[size_class]
    heads[size_class] = block


@njit(cache=True)
def _repack(p):
    """Lay all vectors side by side in blocks of the smallest sufficient size."""
    old = p.pool[: p.heads[_USED]].copy()
    p.heads[:_SIZES] = NONE
    used = np.int64(0)
    for part in range(p.heads[PARTS_USED] if p.heads[PARTS_USED] > 0 else p.vec.shape[0]):
        count = p.vec[part, 0]
        if count < 2:
            continue
        size_class = 1
        while (1 << size_class) < count:
            size_class += 1
        start = p.vec[part, 1]
        for k in range(count):
            p.pool[used + k] = old[start + k]
        p.vec[part, 1] = used
        p.klass[part] = size_class
        used += np.int64(1) << size_class
    p.heads[_USED] = used


@njit(cache=True, forceinline=True)
def join(p, item, part):
    """Add an item that is in no part."""
    count = p.vec[part, 0]
    if count == 0:
        p.vec[part, 1] = item
        p.klass[part] = 0
    else:
        size_class = np.int64(p.klass[part])
        if count == np.int64(1) << size_class:
            block = _allocate(p.pool, p.heads, size_class + 1)
            if block == NONE:
                _repack(p)
                block = _allocate(p.pool, p.heads, size_class + 1)
            start = p.vec[part, 1]
            if count == 1:
                p.pool[block] = start
            else:
                for k in range(count):
                    p.pool[block + k] = p.pool[start + k]
                _release(p.pool, p.heads, start, size_class)
            p.vec[part, 1] = block
            p.klass[part] = size_class + 1
        p.pool[p.vec[part, 1] + count] = item
    p.items[0, item] = part
    p.items[1, item] = count
    p.vec[part, 0] = count + 1


@njit(cache=True, forceinline=True)
def leave(p, item):
    """Remove an item from its part; the last member takes its place. Returns the members left."""
    part = p.items[0, item]
    place = p.items[1, item]
    left = p.vec[part, 0] - 1
    start = p.vec[part, 1]
    size_class = np.int64(p.klass[part])
    p.items[0, item] = NONE
    p.vec[part, 0] = left
    if left == 0:
        return left
    last = p.pool[start + left]
    p.pool[start + place] = last
    p.items[1, last] = place  # harmless when item is the last: it has left already
    if left == 1:
        p.vec[part, 1] = p.pool[start]
        p.klass[part] = 0
        _release(p.pool, p.heads, start, size_class)
    elif left <= (np.int64(1) << size_class) >> 2:
        block = _allocate(p.pool, p.heads, size_class - 1)
        if block != NONE:
            for k in range(left):
                p.pool[block + k] = p.pool[start + k]
            _release(p.pool, p.heads, start, size_class)
            p.vec[part, 1] = block
            p.klass[part] = size_class - 1
    return left


@njit(cache=True)
def new_part(p):
    """The id of an empty part; ids of emptied parts are used again."""
    part = p.heads[_FREE_PART]
    if part != NONE:
        p.heads[_FREE_PART] = p.vec[part, 1]
    else:
        part = p.heads[PARTS_USED]
        p.heads[PARTS_USED] = part + 1
    return np.int64(part)


@njit(cache=True)
def free_part(p, part):
    """Give back the id of an emptied part."""
    p.vec[part, 1] = p.heads[_FREE_PART]
    p.heads[_FREE_PART] = part


def check_partition(p: Partition) -> tuple[bool, str]:
    """Whether every member is where its item says, and every item is in the vector of its part.

    The arrays may come from a damaged file, and compiled code follows any index: so nothing is
    followed here that has not been compared with its bounds.
    """
    parts, used = p.vec.shape[0], int(p.heads[_USED])
    if not 0 <= used <= p.pool.size:
        return False, f"{used} entries of a pool of {p.pool.size} are in use"
    owner = p.items[0, :].astype(np.int64)
    bad = np.flatnonzero((owner < NONE) | (owner >= parts))
    if bad.size:
        return False, f"item {bad[0]} is in part {owner[bad[0]]} of {parts}"
    counts = np.bincount(owner[owner >= 0], minlength=parts)
    bad = np.flatnonzero(counts != p.vec[:, 0])
    if bad.size:
        return False, f"part {bad[0]} counts {p.vec[bad[0], 0]} members but has {counts[bad[0]]}"
    size_class, start = p.klass.astype(np.int64), p.vec[:, 1].astype(np.int64)
    room = np.int64(1) << np.minimum(size_class, _SIZES)
    outside = (size_class >= _SIZES) | (room < counts) | (start < 0) | (start + room > used)
    outside |= size_class == 0
    bad = np.flatnonzero(np.where(counts > 1, outside, (counts == 1) & (size_class != 0)))
    if bad.size:
        return False, f"the vector of part {bad[0]} is too small or outside the pool"
    wrong = int(_first_misplaced(p))
    if wrong >= 0:
        return False, f"item {wrong} is not where it says it is"
    overlap = int(_first_overlap(p))
    if overlap >= 0:
        return False, f"the vector of part {overlap} overlaps another block"
    if overlap < NONE:
        return False, f"the free blocks of 2^{-2 - overlap} entries overlap or leave the pool"
    if not _check_free_parts(p):
        return False, "the list of free parts is broken"
    return True, ""


@njit(cache=True)
def _first_misplaced(p):
    """The first item that is not where it says; vectors are known to lie inside the pool."""
    for item in range(p.items.shape[1]):
        part = p.items[0, item]
        if part != NONE:
            k = p.items[1, item]
            if not 0 <= k < p.vec[part, 0] or member(p.vec, p.pool, part, k) != item:
                return item
    return -1


@njit(cache=True)
def _first_overlap(p):
    """The first part whose vector is not its own; -2 - k if the free blocks of 2^k are broken."""
    used = np.int64(p.heads[_USED])
    taken = np.zeros(p.pool.size, dtype=np.bool_)
    for size_class in range(_SIZES):
        block = np.int64(p.heads[size_class])
        while block != NONE:
            end = block + (np.int64(1) << size_class)
            if size_class == 0 or block < 0 or end > used or taken[block:end].any():
                return -2 - size_class
            taken[block:end] = True
            block = np.int64(p.pool[block])
    for part in range(p.vec.shape[0]):
        if p.vec[part, 0] > 1:
            start = np.int64(p.vec[part, 1])
            end = start + (np.int64(1) << np.int64(p.klass[part]))
            if taken[start:end].any():
                return part
            taken[start:end] = True
    return -1


@njit(cache=True)
def _check_free_parts(p):
    """Whether the ids handed out are the parts with members and those on the free list. Ids that
    are the caller's own (as groups are to their outcomes) are not handed out here."""
    handed_out = np.int64(p.heads[PARTS_USED])
    part = np.int64(p.heads[_FREE_PART])
    if not 0 <= handed_out <= p.vec.shape[0]:
        return False
    if handed_out == 0:
        return part == NONE
    expected = np.int64(0)
    for i in range(p.vec.shape[0]):
        if p.vec[i, 0] == 0 and i < handed_out:
            expected += 1
        elif p.vec[i, 0] > 0 and i >= handed_out:
            return False
    free = np.int64(0)
    while part != NONE:
        if not 0 <= part < handed_out or p.vec[part, 0] != 0 or free == expected:
            return False
        free += 1
        part = np.int64(p.vec[part, 1])
    return free == expected
