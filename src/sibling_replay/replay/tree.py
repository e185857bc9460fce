"""A sum tree over slot masses, eight children to a node.

One float64 array holds every level, leaves first: `tree[slot]` is a slot's mass and `tree[-1]` the
total. A node is the left-to-right sum of its eight children, which fill one cache line. Two rules
keep it right for ever:

* a parent is recomputed from its children, never adjusted by a difference, so nothing drifts;
* a query that rounding pushes past the end of a node falls back to the last child that has mass,
  so it never lands on an empty slot, for any target in [0, total].

A whole batch descends level by level, without branches, and touches the nodes of a level before it
works on them, so the cache misses of all its draws overlap.
"""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.arrays import F64, I64, aligned_zeros
from sibling_replay.replay.inner import inner
from sibling_replay.replay.touch import touch

FANOUT = 8
_CACHE_LINE_BYTES = 64
_NEAR_NODES = 4096  # a level of so many is 32 KiB: the nearest cache
_0, _1, _2, _3, _4, _5, _6, _7 = (np.uint64(i) for i in range(8))


def tree_levels(capacity: int) -> I64:
    """Where each level starts in the array: the leaves at 0, the root at the last offset."""
    offsets = [0]
    width = -(-capacity // FANOUT) * FANOUT
    while width > 1:
        offsets.append(offsets[-1] + width)
        width //= FANOUT
        if width > 1:
            width = -(-width // FANOUT) * FANOUT
    return np.array(offsets, dtype=np.int64)


def new_tree(capacity: int, fill: float = 0.0) -> tuple[F64, I64]:
    """An empty tree and its level offsets. `fill` is the mass of an empty slot."""
    levels = tree_levels(capacity)
    tree = aligned_zeros(int(levels[-1]) + 1, np.dtype(np.float64), _CACHE_LINE_BYTES)
    tree += fill
    return tree, levels


@inner()
def sum_of_children(tree, first):
    """Eight neighbours, left to right. An unsigned place needs no check for negative indices."""
    return (
        tree[first]
        + tree[first + _1]
        + tree[first + _2]
        + tree[first + _3]
        + tree[first + _4]
        + tree[first + _5]
        + tree[first + _6]
        + tree[first + _7]
    )


@inner()
def raise_sum(tree, levels, slot):
    """Recompute the path from one slot to the root."""
    node = np.uint64(slot)
    for level in range(1, levels.size):
        node >>= _3
        first = np.uint64(levels[level - 1]) + (node << _3)
        tree[np.uint64(levels[level]) + node] = sum_of_children(tree, first)


@inner()
def raise_sums(tree, levels, slots):
    """Recompute every node above `slots`. Slots that share a parent cost one recomputation when
    they are next to each other, as in stratified draws; a level no wider than what is left to
    raise is recomputed whole."""
    nodes = np.empty(slots.size, dtype=np.int64)
    for i in range(slots.size):
        nodes[i] = slots[i]
    count = np.uint64(nodes.size)
    for level in range(1, levels.size):
        below = np.uint64(levels[level - 1])
        here = np.uint64(levels[level])
        last = np.uint64(tree.size)
        kept = np.uint64(0)
        width = (here - below) >> _3
        if width <= count:
            for node in range(width):
                tree[here + node] = sum_of_children(tree, below + (node << _3))
            count = width
            continue
        for i in range(count):
            node = np.uint64(nodes[i]) >> _3
            if node != last:
                tree[here + node] = sum_of_children(tree, below + (node << _3))
                nodes[kept] = node
                kept += _1
                last = node
        count = kept


@inner()
def rebuild_sums(tree, levels):
    """Recompute every node from the leaves."""
    for level in range(1, levels.size):
        below = np.uint64(levels[level - 1])
        here = np.uint64(levels[level])
        for node in range((here - below) >> _3):
            tree[here + node] = sum_of_children(tree, below + (node << _3))


@inner()
def find(tree, levels, targets, out):
    """The slot on which each target in [0, total] falls, into `out`. Overwrites `targets`.

    The total must be positive. Target t falls on the first slot whose cumulative mass exceeds t.
    """
    for i in range(out.size):
        out[i] = 0
    for level in range(levels.size - 2, -1, -1):
        start = np.uint64(levels[level])
        if levels[level + 1] - levels[level] > _NEAR_NODES:
            for i in range(np.uint64(targets.size)):
                touch(tree, start + (np.uint64(out[i]) << _3))
        for i in range(np.uint64(targets.size)):
            t = targets[i]
            node = np.uint64(out[i]) << _3
            first = start + node
            s0 = tree[first]
            s1 = s0 + tree[first + _1]
            s2 = s1 + tree[first + _2]
            s3 = s2 + tree[first + _3]
            s4 = s3 + tree[first + _4]
            s5 = s4 + tree[first + _5]
            s6 = s5 + tree[first + _6]
            s7 = s6 + tree[first + _7]
            child = (
                np.uint64(s0 <= t)
                + np.uint64(s1 <= t)
                + np.uint64(s2 <= t)
                + np.uint64(s3 <= t)
                + np.uint64(s4 <= t)
                + np.uint64(s5 <= t)
                + np.uint64(s6 <= t)
                + np.uint64(s7 <= t)
            )
            before = s0 if s0 <= t else 0.0  # running sums never fall: the last that fits
            before = s1 if s1 <= t else before
            before = s2 if s2 <= t else before
            before = s3 if s3 <= t else before
            before = s4 if s4 <= t else before
            before = s5 if s5 <= t else before
            before = s6 if s6 <= t else before
            if child <= _7:
                targets[i] = t - before
            else:  # past the end by rounding: the last child that has mass, and its end
                child = _7
                while child > _0 and tree[first + child] == 0.0:
                    child -= _1
                targets[i] = tree[first + child]
            out[i] = node + child


@inner()
def _least_of_children(tree, first):
    least = tree[first]
    for child in range(1, 8):
        if tree[first + child] < least:
            least = tree[first + child]
    return least


@inner()
def lower_min(tree, levels, leaf, value):
    """Set one leaf of a tree of minima (same layout, empty leaves at infinity)."""
    tree[leaf] = value
    node = leaf
    for level in range(1, levels.size):
        node >>= 3
        tree[levels[level] + node] = _least_of_children(tree, levels[level - 1] + 8 * node)
