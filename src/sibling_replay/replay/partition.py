"""Items split into parts, with O(1) join, leave and k-th member.

The same structure holds three relations: slots in groups, slots in outcomes, outcomes in groups.
Each part keeps its members in a small vector inside one shared pool; a part of one keeps its member
in place of the vector. Vectors have room for 2, 3, 4, 6, 8, 12, ... members; they grow by one step
when full and halve at a quarter. Freed blocks wait in one list per size, and when the pool runs out
it is repacked tight.

A block begins with a header, whose last word is the vector's *mark*: its size class and what else
the owner of the partition keeps there (`index` keeps a sum and its wear). A part's start is that of
its members, so the header lies before it.

With (header + 3) / 2 words an item a repacked pool always has room: n members take at most
header + 1.5 n words, and most an item where all parts are pairs, (header + 2) / 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import I32
from sibling_replay.replay.inner import inner

_SIZES = 64  # free lists, one per size class
_USED = 64  # heads[_USED]: pool entries handed out so far
FREE_PART = 65  # heads[FREE_PART]: first part id on the free list
PARTS_USED = 66  # heads[PARTS_USED]: part ids handed out so far
_HEADER = 67  # heads[_HEADER]: words of a header
NONE = -1
CLASS_BITS = 8  # of a mark: the size class; the others are the owner's
_CLASS = (1 << CLASS_BITS) - 1


class Partition(NamedTuple):
    """The arrays of a partition."""

    items: I32  # [2, items]: part (-1: in none), position in the part's vector
    vec: I32  # [parts, 2]: number of members, start of the vector (the member itself if one)
    pool: I32  # the vectors, each after its header
    heads: I32  # [68]: free lists, high-water marks, words of a header


def new_partition(items: int, parts: int, header: int = 1) -> Partition:
    """A partition without members, whose vectors have headers of so many words."""
    heads = np.full(_HEADER + 1, NONE, dtype=np.int32)
    heads[_USED] = 0
    heads[PARTS_USED] = 0
    heads[_HEADER] = header
    members = np.zeros((2, items), dtype=np.int32)
    members[0] = NONE
    words = items * (header + 3) // 2 + (header + 3 if items else 0)
    return Partition(
        items=members,
        vec=np.zeros((parts, 2), dtype=np.int32),
        pool=np.zeros(words, dtype=np.int32),
        heads=heads,
    )


@inner(forceinline=True)
def room(size_class):
    """Members that a vector of a size class has room for: 2, 3, 4, 6, 8, 12, ..."""
    return (np.int64(2) + (size_class & 1)) << (size_class >> 1)


@inner()
def _class_for(count):
    size_class = np.int64(0)
    while room(size_class) < count:
        size_class += 1
    return size_class


@inner(forceinline=True)
def member(vec, pool, part, k):
    """The k-th member of a part, 0 <= k < its count."""
    start = vec[part, 1]
    return start if vec[part, 0] == 1 else pool[start + k]


@inner()
def _allocate(pool, heads, size_class):
    """Where the members of a free vector go; NONE if there is none."""
    start = np.int64(heads[size_class])
    if start != NONE:
        heads[size_class] = pool[start]
        return start
    start = np.int64(heads[_USED]) + heads[_HEADER]
    if start + room(size_class) > pool.size:
        return np.int64(NONE)
    heads[_USED] = start + room(size_class)
    return start


@inner()
def _release(pool, heads, start, size_class):
    pool[start] = heads[size_class]
    heads[size_class] = start


@inner()
def _mark(p, start, size_class, kept):
    """Mark a vector with its size class, keeping the owner's bits of an earlier mark."""
    p.pool[start - 1] = (kept & ~_CLASS) | size_class


@inner()
def _move(p, part, count, old, start, to, size_class):
    """Copy a vector and its header, from the words `old`, to another place."""
    header = np.int64(p.heads[_HEADER])
    for k in range(-header, count):
        p.pool[to + k] = old[start + k]
    _mark(p, to, size_class, p.pool[to - 1])
    p.vec[part, 1] = to


@inner()
def _repack(p, growing):
    """Lay all vectors side by side in blocks of the smallest sufficient size, that of a growing
    part with room for one more."""
    old = np.empty(p.heads[_USED], dtype=np.int32)
    for k in range(old.size):
        old[k] = p.pool[k]
    for size_class in range(_SIZES):
        p.heads[size_class] = NONE
    p.heads[_USED] = 0
    for part in range(p.heads[PARTS_USED] if p.heads[PARTS_USED] > 0 else p.vec.shape[0]):
        count = np.int64(p.vec[part, 0])
        wanted = count + (part == growing)
        if wanted < 2:
            continue
        size_class = _class_for(wanted)
        start = _allocate(p.pool, p.heads, size_class)
        if count == 1:
            _begin(p, part, start, size_class)
        else:
            _move(p, part, count, old, np.int64(p.vec[part, 1]), start, size_class)


@inner()
def _begin(p, part, start, size_class):
    """Make a vector of a part of one."""
    for k in range(1, np.int64(p.heads[_HEADER]) + 1):
        p.pool[start - k] = 0
    _mark(p, start, size_class, 0)
    p.pool[start] = p.vec[part, 1]
    p.vec[part, 1] = start


@inner()
def _grow(p, part, count):
    """Give a full vector, or a part of one, room for one more."""
    start = np.int64(p.vec[part, 1])
    size_class = np.int64(0) if count == 1 else np.int64(p.pool[start - 1] & _CLASS) + 1
    to = _allocate(p.pool, p.heads, size_class)
    if to == NONE:
        _repack(p, part)
    elif count == 1:
        _begin(p, part, to, size_class)
    else:
        _move(p, part, count, p.pool, start, to, size_class)
        _release(p.pool, p.heads, start, size_class - 1)


@inner(forceinline=True)
def join(p, item, part):
    """Add an item that is in no part."""
    count = np.int64(p.vec[part, 0])
    if count == 0:
        p.vec[part, 1] = item
    else:
        if count == 1 or count == room(np.int64(p.pool[p.vec[part, 1] - 1] & _CLASS)):
            _grow(p, part, count)
        p.pool[p.vec[part, 1] + count] = item
    p.items[0, item] = part
    p.items[1, item] = count
    p.vec[part, 0] = count + 1


@inner(forceinline=True)
def leave(p, item):
    """Remove an item from its part; the last member takes its place. Returns the members left."""
    part = p.items[0, item]
    place = p.items[1, item]
    left = np.int64(p.vec[part, 0]) - 1
    start = np.int64(p.vec[part, 1])
    p.items[0, item] = NONE
    p.vec[part, 0] = left
    if left == 0:
        return left
    last = p.pool[start + left]
    p.pool[start + place] = last
    p.items[1, last] = place  # harmless when item is the last: it has left already
    size_class = np.int64(p.pool[start - 1] & _CLASS)
    if left == 1:
        p.vec[part, 1] = p.pool[start]
        _release(p.pool, p.heads, start, size_class)
    elif 4 * left <= room(size_class):
        to = _allocate(p.pool, p.heads, size_class - 2)
        if to != NONE:
            _move(p, part, left, p.pool, start, to, size_class - 2)
            _release(p.pool, p.heads, start, size_class)
    return left


@inner()
def new_part(p):
    """The id of an empty part; ids of emptied parts are used again."""
    part = p.heads[FREE_PART]
    if part != NONE:
        p.heads[FREE_PART] = p.vec[part, 1]
    else:
        part = p.heads[PARTS_USED]
        p.heads[PARTS_USED] = part + 1
    return np.int64(part)


@inner()
def free_part(p, part):
    """Give back the id of an emptied part."""
    p.vec[part, 1] = p.heads[FREE_PART]
    p.heads[FREE_PART] = part


def check_partition(p: Partition, header: int = 1) -> tuple[bool, str]:
    """Whether every member is where its item says, and every item is in the vector of its part.

    The arrays may come from a damaged file, and compiled code follows any index: so nothing is
    followed here that has not been compared with its bounds.
    """
    parts, used = p.vec.shape[0], int(p.heads[_USED])
    if p.heads[_HEADER] != header:
        return False, f"headers of {p.heads[_HEADER]} words, expected {header}"
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
    several = np.flatnonzero(counts > 1)
    start = p.vec[several, 1].astype(np.int64)
    outside = (start < header) | (start >= used)
    size_class = p.pool[np.where(outside, 0, start - 1)].astype(np.int64) & _CLASS
    outside |= size_class >= _SIZES
    rooms = (2 + (size_class & 1)) << np.minimum(size_class >> 1, _SIZES // 2)
    bad = several[outside | (rooms < counts[several]) | (start + rooms > used)]
    if bad.size:
        return False, f"the vector of part {bad[0]} is too small or outside the pool"
    wrong = int(_first_misplaced(p))
    if wrong >= 0:
        return False, f"item {wrong} is not where it says it is"
    overlap = int(_first_overlap(p))
    if overlap >= 0:
        return False, f"the vector of part {overlap} overlaps another block"
    if overlap < NONE:
        return False, f"the free blocks of size class {-2 - overlap} overlap or leave the pool"
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
    """The first part whose vector is not its own; -2 - k if the free blocks of size
    class k are broken."""
    used, header = np.int64(p.heads[_USED]), np.int64(p.heads[_HEADER])
    taken = np.zeros(p.pool.size, dtype=np.bool_)
    for size_class in range(_SIZES):
        start = np.int64(p.heads[size_class])
        while start != NONE:
            end = start + room(size_class)
            if start < header or end > used or taken[start - header : end].any():
                return -2 - size_class
            taken[start - header : end] = True
            start = np.int64(p.pool[start])
    for part in range(p.vec.shape[0]):
        if p.vec[part, 0] > 1:
            start = np.int64(p.vec[part, 1])
            end = start + room(np.int64(p.pool[start - 1] & _CLASS))
            if taken[start - header : end].any():
                return part
            taken[start - header : end] = True
    return -1


@njit(cache=True)
def _check_free_parts(p):
    """Whether the ids handed out are the parts with members and those on the free list. Ids that
    are the caller's own (as groups are to their outcomes) are not handed out here."""
    handed_out = np.int64(p.heads[PARTS_USED])
    part = np.int64(p.heads[FREE_PART])
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
