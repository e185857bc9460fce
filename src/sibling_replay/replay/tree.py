"""A sum tree over slot masses, eight children to a node.

One float64 array holds every level, leaves first: `tree[slot]` is a slot's mass and `tree[-1]` the
total. A node is the left-to-right sum of its eight children, which fill one cache line. Two rules
keep it right for ever:

* a parent is recomputed from its children, never adjusted by a difference, so nothing drifts;
* a query that rounding pushes past the end of a node falls back to the last child that has mass,
  so it never lands on an empty slot, for any target in [0, total].

A whole batch descends level by level, without branches, so the cache misses of all its draws
overlap.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import F64, I64, aligned_zeros

FANOUT = 8
_CACHE_LINE_BYTES = 64


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


@njit(cache=True, inline="always")
def _sum_of_children(tree, first):
    return (
        tree[first]
        + tree[first + 1]
        + tree[first + 2]
        + tree[first + 3]
        + tree[first + 4]
        + tree[first + 5]
        + tree[first + 6]
        + tree[first + 7]
    )


@njit(cache=True)
def raise_sum(tree, levels, slot):
    """Recompute the path from one slot to the root."""
    node = slot
    for level in range(1, levels.size):
        node >>= 3
        tree[levels[level] + node] = _sum_of_children(tree, levels[level - 1] + 8 * node)


@njit(cache=True)
def raise_sums(tree, levels, slots):
    """Recompute every node above `slots`. Neighbours that share a parent cost one recomputation
    when they are next to each other in `slots`, as stratified draws are."""
    nodes = slots.copy()
    count = nodes.size
    for level in range(1, levels.size):
        below = levels[level - 1]
        here = levels[level]
        last = np.int64(-1)
        kept = 0
        for i in range(count):
            node = nodes[i] >> 3
            if node != last:
                tree[here + node] = _sum_of_children(tree, below + 8 * node)
                nodes[kept] = node
                kept += 1
                last = node
        count = kept


@njit(cache=True)
def rebuild_sums(tree, levels):
    """Recompute every node from the leaves."""
    for level in range(1, levels.size):
        for node in range((levels[level] - levels[level - 1]) // 8):
            tree[levels[level] + node] = _sum_of_children(tree, levels[level - 1] + 8 * node)


@njit(cache=True)
def find(tree, levels, targets, out):
    """The slot on which each target in [0, total] falls, into `out`. `targets` is used up.

    The total must be positive. Target t falls on the first slot whose cumulative mass exceeds t.
    """
    out[:] = 0
    for level in range(levels.size - 2, -1, -1):
        start = levels[level]
        for i in range(targets.size):
            t = targets[i]
            first = start + 8 * out[i]
            s0 = tree[first]
            s1 = s0 + tree[first + 1]
            s2 = s1 + tree[first + 2]
            s3 = s2 + tree[first + 3]
            s4 = s3 + tree[first + 4]
            s5 = s4 + tree[first + 5]
            s6 = s5 + tree[first + 6]
            s7 = s6 + tree[first + 7]
            child = (
                np.int64(s0 <= t)
                + np.int64(s1 <= t)
                + np.int64(s2 <= t)
                + np.int64(s3 <= t)
                + np.int64(s4 <= t)
                + np.int64(s5 <= t)
                + np.int64(s6 <= t)
                + np.int64(s7 <= t)
            )
            below = s0 if s0 <= t else 0.0
            below = s1 if s1 <= t else below
            below = s2 if s2 <= t else below
            below = s3 if s3 <= t else below
            below = s4 if s4 <= t else below
            below = s5 if s5 <= t else below
            below = s6 if s6 <= t else below
            left = t - below
            if child == 8:  # past the end by rounding: the last child that has mass, and its end
                child = 7
                while child > 0 and tree[first + child] == 0.0:
                    child -= 1
                left = tree[first + child]
            out[i] = 8 * out[i] + child
            targets[i] = left


@njit(cache=True, inline="always")
def _least_of_children(tree, first):
    least = tree[first]
    for child in range(1, 8):
        if tree[first + child] < least:
            least = tree[first + child]
    return least


@njit(cache=True)
def lower_min(tree, levels, leaf, value):
    """Set one leaf of a tree of minima (same layout, empty leaves at infinity)."""
    tree[leaf] = value
    node = leaf
    for level in range(1, levels.size):
        node >>= 3
        tree[levels[level] + node] = _least_of_children(tree, levels[level - 1] + 8 * node)
