"""Equal keys, one part: a hash table from the key bytes of a row to a part of a partition.

A key is the leading bytes of a row. It is never stored twice: the table remembers only which part
a key belongs to, and a candidate is compared, word by word, with the row of one of the part's
members. Two keys with one hash are therefore never merged. Linear probing; deletion shifts later
entries back, so there are no tombstones and no rebuilds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import I32, U32
from sibling_replay.replay.inner import inner
from sibling_replay.replay.partition import free_part, leave, member, new_part
from sibling_replay.replay.touch import fetch

FULL_HASH = 0xFFFFFFFF
_MULTIPLIER = 0x9E3779B97F4A7C15


class KeyTable(NamedTuple):
    """A hash table of parts."""

    table: I32  # [places]: part + 1, or 0
    hashes: U32  # [parts]: hash of the part's key
    spec: U32  # [3]: whole words in a key, mask of its last part of a word, mask on the hash


def new_key_table(parts: int, key_bytes: int, hash_mask: int = FULL_HASH) -> KeyTable:
    """A table with room for `parts` keys. `hash_mask` lets tests force collisions."""
    tail = (1 << 8 * (key_bytes % 4)) - 1
    return KeyTable(
        table=np.zeros(max(16, parts + parts // 8 + 1), dtype=np.int32),
        hashes=np.zeros(parts, dtype=np.uint32),
        spec=np.array([key_bytes // 4, tail, hash_mask], dtype=np.uint32),
    )


@inner(forceinline=True)
def hash_key(row, spec):
    words = np.uint64(spec[0])
    h = np.uint64(0)
    for w in range(words):
        h = (h ^ np.uint64(row[w])) * np.uint64(_MULTIPLIER)
        h ^= h >> np.uint64(32)
    if spec[1] != 0:
        h = (h ^ np.uint64(row[words] & spec[1])) * np.uint64(_MULTIPLIER)
        h ^= h >> np.uint64(32)
    return np.uint32(h) & spec[2]


@inner(forceinline=True)
def _home(h, places):
    """Where a hash belongs: its share of the table, so any table size will do."""
    return np.int64((np.uint64(h) * np.uint64(places)) >> np.uint64(32))


@inner(forceinline=True)
def _same_key(rows, slot, row, spec):
    words = np.uint64(spec[0])
    slot = np.uint64(slot)
    for w in range(words):
        if rows[slot, w] != row[w]:
            return False
    return spec[1] == 0 or (rows[slot, words] ^ row[words]) & spec[1] == 0


@inner(forceinline=True)
def fetch_key(keys, partition, row):
    """Fetch what `intern_hashed` and `join` will look at first. Returns the hash of the row's
    key."""
    h = hash_key(row, keys.spec)
    part = np.int64(keys.table[_home(h, keys.table.size)]) - 1
    if part >= 0:
        fetch(keys.hashes, part)
        count, start = np.int64(partition.vec[part, 0]), np.int64(partition.vec[part, 1])
        if count > 1:
            fetch(partition.pool, start)
            fetch(partition.pool, start + count)
    return h


@inner(forceinline=True)
def intern(keys, partition, rows, row):
    """The part of a row's key, a new empty one if no member has this key."""
    return intern_hashed(keys, partition, rows, row, hash_key(row, keys.spec))


@inner(forceinline=True)
def _probe(keys, partition, rows, row, h):
    """The part of a row's key, given its hash, and its place; -1 and a free place if there is
    none."""
    places = keys.table.size
    place = _home(h, places)
    while keys.table[place] != 0:
        part = np.int64(keys.table[place] - 1)
        if keys.hashes[part] == h and _same_key(
            rows, member(partition.vec, partition.pool, part, 0), row, keys.spec
        ):
            return part, place
        place += 1
        if place == places:
            place = 0
    return np.int64(-1), place


@inner(forceinline=True)
def intern_hashed(keys, partition, rows, row, h):
    """The same, given the hash of the key."""
    part, place = _probe(keys, partition, rows, row, h)
    if part < 0:
        part = np.int64(new_part(partition))
        keys.table[place] = part + 1
        keys.hashes[part] = h
    return part


@inner()
def find_part(keys, partition, rows, row):
    """The part of a row's key; -1 if no member has this key."""
    return _probe(keys, partition, rows, row, hash_key(row, keys.spec))[0]


@njit(cache=True)
def enter_keys(keys, partition, rows):
    """Fill an empty table with the parts of a partition, each under the key of its first member."""
    places = keys.table.size
    for part in range(keys.hashes.size):
        if partition.vec[part, 0] > 0:
            first = member(partition.vec, partition.pool, part, 0)
            keys.hashes[part] = hash_key(rows[first], keys.spec)
            place = _home(keys.hashes[part], places)
            while keys.table[place] != 0:
                place = place + 1 if place + 1 < places else 0
            keys.table[place] = part + 1


@inner()
def forget(keys, partition, part):
    """Drop the key of an emptied part and free the part's id."""
    places = keys.table.size
    hole = _home(keys.hashes[part], places)
    while keys.table[hole] != part + 1:
        hole += 1
        if hole == places:
            hole = 0
    keys.table[hole] = 0
    place = hole
    while True:
        place += 1
        if place == places:
            place = 0
        if keys.table[place] == 0:
            break
        home = _home(keys.hashes[keys.table[place] - 1], places)
        # The entry may fill the hole unless its home lies after the hole, up to its place.
        reachable = hole < home <= place if hole <= place else (home > hole or home <= place)
        if not reachable:
            keys.table[hole] = keys.table[place]
            keys.table[place] = 0
            hole = place
    free_part(partition, part)


@inner()
def leave_key(keys, partition, item):
    """Remove an item from its part, and the part with it when it was the last."""
    part = np.int64(partition.items[0, item])
    if leave(partition, item) == 0:
        forget(keys, partition, part)
        return part, True
    return part, False


@njit(cache=True)
def first_bad_place(keys, partition, rows):
    """The first place of the table that is wrong; -1 if none is; the table's size if a key is
    missing. Right is: a part that has members, is here only, has the hash of its key and is found
    from its home. The partition must have been checked, for its members are followed."""
    parts = keys.hashes.size
    places = keys.table.size
    seen = np.zeros(parts, dtype=np.bool_)
    found = 0
    for place in range(places):
        part = np.int64(keys.table[place]) - 1
        if part == -1:
            continue
        if not 0 <= part < parts or seen[part] or partition.vec[part, 0] < 1:
            return place
        seen[part] = True
        found += 1
        first = member(partition.vec, partition.pool, part, 0)
        if hash_key(rows[first], keys.spec) != keys.hashes[part]:
            return place
        step = _home(keys.hashes[part], places)
        while step != place:
            if keys.table[step] == 0:
                return place
            step = step + 1 if step + 1 < places else 0
    for part in range(parts):
        if partition.vec[part, 0] > 0 and not seen[part]:
            return places
    return -1


@njit(cache=True)
def first_stray(keys, partition, rows, slots):
    """The first slot whose key is not found in the table as that of the slot's own part; -1 if
    there is none. Then slots have equal keys if and only if they are in one part. The table must
    have been checked: every search ends."""
    places = keys.table.size
    for i in range(slots.size):
        slot = slots[i]
        h = hash_key(rows[slot], keys.spec)
        place = _home(h, places)
        found = np.int64(-1)
        while keys.table[place] != 0:
            part = np.int64(keys.table[place] - 1)
            if keys.hashes[part] == h and _same_key(
                rows, member(partition.vec, partition.pool, part, 0), rows[slot], keys.spec
            ):
                found = part
                break
            place = place + 1 if place + 1 < places else 0
        if found != partition.items[0, slot]:
            return slot
    return np.int64(-1)
