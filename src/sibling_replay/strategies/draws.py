"""The compiled draws. Each fills a batch's block: header columns, then the gathered transitions."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.replay.index import (
    draw_subset,
    find,
    look_up_groups,
    pick_all,
    stratify,
    sum_of,
)
from sibling_replay.replay.opened import (
    ADDED,
    LIVE,
    open_counts,
    open_group_outcomes,
    open_index,
    open_layout,
    open_outcome_layout,
    open_outcomes,
    open_rows,
    open_stamps,
)
from sibling_replay.replay.partition import member
from sibling_replay.replay.payload import gather
from sibling_replay.strategies.header import DATE, open_header
from sibling_replay.strategies.weights import write_weights

# What is trained on once priority has drawn the anchor.
ANCHOR, SIBLING, ANCHOR_WITH_OUTCOME, ANCHOR_FOR_AVERAGE = range(4)


@njit(cache=True, forceinline=True)
def _write_groups(index, slots, groups, group_sizes):
    look_up_groups(index, slots, groups)
    if index.items.shape[1] > 0:
        for b in range(slots.size):
            group_sizes[b] = index.vec[np.uint64(groups[b]), 0]
    else:
        group_sizes[:] = 1


@njit(cache=True)
def draw_uniform(handle, uniforms, block):
    """Independent uniform slots with weight one."""
    size = uniforms.size
    slots, anchors, outcome_slots, groups, group_sizes, weights, fields = open_header(block, size)
    counts = open_counts(handle)
    block.view(np.int64)[DATE] = counts[ADDED]
    live = counts[LIVE]
    if open_stamps(handle).size == 0:
        for b in range(size):
            slots[b] = min(np.int64(uniforms[b] * live), live - 1)
    else:  # live slots lie anywhere, and uniform replay leaves all their masses at one
        find(open_index(handle), uniforms * live, slots)
    for b in range(size):
        anchors[b] = outcome_slots[b] = slots[b]
        weights[b] = 1.0
    _write_groups(open_index(handle), slots, groups, group_sizes)
    gather(open_rows(handle), open_layout(handle), slots, slots, block, fields)


@njit(cache=True)
def draw_prioritized(handle, uniforms, start, block, size, beta, normalize, trained):
    """Stratified anchors (eq. 2) and, by `trained`, what is learned from them.

    ANCHOR: the anchor itself. SIBLING: a uniform sibling (eq. 9). ANCHOR_WITH_OUTCOME: the anchor
    with the outcome of a uniform sibling, which is an outcome drawn by its count in the group.
    ANCHOR_FOR_AVERAGE: the anchor, weighted by its group. The first `size` uniforms from `start` on
    choose anchors, the next, if used, siblings. Returns False if there is no mass.
    """
    index = open_index(handle)
    counts = open_counts(handle)
    total = index.tree[-1]
    if not total > 0.0:
        return False
    slots, anchors, outcome_slots, groups, group_sizes, weights, fields = open_header(block, size)
    block.view(np.int64)[DATE] = counts[ADDED]
    means = np.empty(size)
    stratify(index, uniforms[start:], means)
    find(index, means, anchors)
    _write_groups(index, anchors, groups, group_sizes)
    if trained == SIBLING or trained == ANCHOR_WITH_OUTCOME:
        pick_all(index, groups, uniforms[start + size :], outcome_slots)
    else:
        for b in range(size):
            outcome_slots[b] = anchors[b]
    for b in range(size):
        slots[b] = outcome_slots[b] if trained == SIBLING else anchors[b]
    if trained == ANCHOR:
        for b in range(size):
            means[b] = index.tree[np.uint64(anchors[b])]
    else:
        for b in range(size):
            means[b] = sum_of(index, groups[b]) / group_sizes[b]
    floors = index.slot_floors if trained == ANCHOR else index.group_floors
    floor = floors[-1] if floors.size > 0 else 0.0
    write_weights(means, total, counts[LIVE], floor, beta, normalize, weights)
    gather(open_rows(handle), open_layout(handle), slots, outcome_slots, block, fields)
    return True


@njit(cache=True)
def count_outcomes(handle, groups, starts):
    """How many distinct outcomes each group has, as running totals."""
    found = open_group_outcomes(handle)
    starts[0] = 0
    for b in range(groups.size):
        starts[b + 1] = starts[b] + found.vec[groups[b], 0]


@njit(cache=True)
def list_outcomes(handle, groups, starts, slots, shares):
    """Every distinct outcome of each group: a slot that holds it and its share of the group."""
    index = open_index(handle)
    found = open_group_outcomes(handle)
    outcomes = open_outcomes(handle)
    for b in range(groups.size):
        size = index.vec[groups[b], 0]
        for k in range(starts[b + 1] - starts[b]):
            outcome = member(found.vec, found.pool, groups[b], k)
            slots[starts[b] + k] = member(outcomes.vec, outcomes.pool, outcome, 0)
            shares[starts[b] + k] = outcomes.vec[outcome, 0] / size


@njit(cache=True)
def list_subsets(handle, groups, starts, uniforms, wanted, slots, shares):
    """A uniform subset of at most `wanted` siblings of each group. Returns the number of slots."""
    index = open_index(handle)
    starts[0] = 0
    for b in range(groups.size):
        first = starts[b]
        count = draw_subset(
            index,
            groups[b],
            uniforms[b * wanted : (b + 1) * wanted],
            slots[first : first + wanted],
        )
        shares[first : first + count] = 1.0 / count
        starts[b + 1] = first + count
    return starts[groups.size]


@njit(cache=True)
def gather_outcomes(handle, slots, block):
    """The outcome columns of some slots."""
    gather(open_rows(handle), open_outcome_layout(handle), slots, slots, block, 0)
