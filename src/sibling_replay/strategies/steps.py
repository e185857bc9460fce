"""The compiled steps that strategies are made of: anchors, siblings, weights, refreshes.

They work on an `Index` and on the columns of a batch, whoever owns these: the replay buffer, the
slot sampler and the tabular trainer call the same ones. Random numbers come as an array: first one
a row for the anchors, then, row by row, what the siblings need.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sibling_replay.replay.arrays import F32, I64
from sibling_replay.replay.index import (
    assign,
    draw_subset,
    fill_group,
    fill_members,
    find,
    look_up_groups,
    pick_all,
    raise_all,
    stratify,
    sum_of,
)
from sibling_replay.replay.inner import inner
from sibling_replay.replay.memory import overwritten
from sibling_replay.replay.partition import member
from sibling_replay.replay.views import part
from sibling_replay.strategies.power import GREATEST, write_powers
from sibling_replay.strategies.recipe import (
    GROUP_MASS,
    LARGEST,
    NO_WEIGHTS,
    OUTCOME,
    SIBLING,
    UNIFORM,
)
from sibling_replay.strategies.weights import write_weights


class Rows(NamedTuple):
    """The columns that a draw fills, an entry a row."""

    slots: I64  # whose observation and action are trained
    anchors: I64
    outcome_slots: I64  # whose outcome is trained toward
    groups: I64  # of the anchor; -1 in an index without groups
    group_sizes: I64
    weights: F32


# ---------------------------------------------------------------------------------------- draw


@inner(forceinline=True, error_model="numpy")
def draw_rows(index, recipe, live, scattered, uniforms, beta, normalize, rows):
    """Draw as a recipe says from `live` entries: in the first slots, or, if `scattered`, in any.

    What means are taken over is listed afterwards, from the groups (`terms`).
    """
    size = rows.slots.size
    means = np.empty(size)
    _draw_anchors(index, recipe, live, scattered, uniforms, means, rows.anchors)
    write_groups(index, rows.anchors, rows.groups, rows.group_sizes)
    if recipe.trained == SIBLING or recipe.trained == OUTCOME:
        pick_all(index, rows.groups, part(uniforms, size, uniforms.size - size), rows.outcome_slots)
    else:
        for b in range(size):
            rows.outcome_slots[b] = rows.anchors[b]
    for b in range(size):
        rows.slots[b] = rows.outcome_slots[b] if recipe.trained == SIBLING else rows.anchors[b]
    _weigh(index, recipe, live, beta, normalize, means, rows)


@inner(forceinline=True)
def _draw_anchors(index, recipe, live, scattered, uniforms, targets, anchors):
    if recipe.anchors == UNIFORM and not scattered:
        for b in range(anchors.size):
            anchors[b] = min(np.int64(uniforms[b] * live), live - 1)
        return
    if recipe.anchors == UNIFORM:  # uniform replay leaves all masses at one
        for b in range(anchors.size):
            targets[b] = uniforms[b] * live
    else:
        stratify(index, uniforms, targets)
    find(index, targets, anchors)


@inner(forceinline=True)
def write_groups(index, slots, groups, group_sizes):
    """The groups of live slots and how many members these have."""
    look_up_groups(index, slots, groups)
    if index.items.shape[1] > 0:
        for b in range(slots.size):
            group_sizes[b] = index.vec[np.uint64(groups[b]), 0]
    else:
        for b in range(slots.size):
            group_sizes[b] = 1


@inner(forceinline=True, error_model="numpy")
def _weigh(index, recipe, live, beta, normalize, means, rows):
    """Importance weights by the mean mass behind each row."""
    if recipe.weights == NO_WEIGHTS:
        for b in range(means.size):
            rows.weights[b] = 1.0
        return
    if recipe.weights == GROUP_MASS:
        for b in range(means.size):
            means[b] = sum_of(index, rows.groups[b]) / rows.group_sizes[b]
        floors = index.group_floors
    else:
        for b in range(means.size):
            means[b] = index.tree[np.uint64(rows.anchors[b])]
        floors = index.slot_floors
    floor = floors[-1] if floors.size > 0 else 0.0
    write_weights(means, index.tree[-1], live, floor, beta, normalize, rows.weights)


# --------------------------------------------------------------------------------------- terms


@inner(forceinline=True)
def list_subsets(index, groups, uniforms, wanted, starts, slots, shares):
    """A uniform subset of min(`wanted`, n_g) siblings a row (eq. 12), with equal shares. Takes
    `wanted` uniforms a row, always. Row b has terms starts[b] to starts[b + 1] - 1."""
    starts[0] = 0
    for b in range(groups.size):
        first = starts[b]
        count = draw_subset(
            index,
            groups[b],
            part(uniforms, b * wanted, wanted),
            part(slots, first, wanted),
        )
        for term in range(first, first + count):
            shares[term] = 1.0 / count
        starts[b + 1] = first + count


@inner(forceinline=True)
def list_outcomes(index, outcomes, group_outcomes, groups, starts, slots, shares):
    """Every distinct outcome of each row's group, from partitions: a slot that holds it and its
    share, count / n_g. `starts` says how many there are (`count_outcomes`)."""
    for b in range(groups.size):
        size = index.vec[groups[b], 0]
        for k in range(starts[b + 1] - starts[b]):
            outcome = member(group_outcomes.vec, group_outcomes.pool, groups[b], k)
            slots[starts[b] + k] = member(outcomes.vec, outcomes.pool, outcome, 0)
            shares[starts[b] + k] = outcomes.vec[outcome, 0] / size


@inner(forceinline=True)
def list_counted_outcomes(index, counts, groups, starts, outcomes, shares):
    """The same from a table of counts, [groups * width], in which an outcome is its place."""
    width = counts.size // index.vec.shape[0]
    term = 0
    for b in range(groups.size):
        starts[b] = term
        for outcome in range(groups[b] * width, (groups[b] + 1) * width):
            if counts[outcome] > 0:
                outcomes[term] = outcome
                shares[term] = counts[outcome] / index.vec[groups[b], 0]
                term += 1
    starts[groups.size] = term


# ------------------------------------------------------------------------------------- refresh


@njit(cache=True)
def first_invalid(errors):
    """The place of the first error that is NaN or infinite; -1 if there is none."""
    for i in range(errors.size):
        if not abs(errors[i]) < np.inf:
            return i
    return -1


@inner(forceinline=True)
def write_masses(errors, alpha, epsilon, priorities, masses, floor=0.0):
    """p = |td| + epsilon, or `floor` where that is more, and u = p^alpha. Returns the place of the
    first largest."""
    largest = 0
    for i in range(errors.size):
        priorities[i] = min(max(abs(np.float64(errors[i])) + epsilon, floor), GREATEST)
        if priorities[i] > priorities[largest]:
            largest = i
    write_powers(priorities, alpha, masses)
    return largest


@inner()
def rank(slots, noted, ranked, alpha, masses):
    """Put slots into the order of falling numbers and write their masses, rank^-alpha; of equal
    numbers the lower slot ranks first. `slots` are all that hold an entry, rising, and `noted` has
    a number for every slot. `ranked` receives the numbers in that order, and -1 behind them."""
    _sort_falling(slots, noted)
    places = np.empty(slots.size)
    for i in range(slots.size):
        places[i] = 1.0 / (i + 1)
        ranked[i] = noted[slots[i]]
    for i in range(slots.size, ranked.size):
        ranked[i] = -1.0
    write_powers(places, alpha, masses)


@inner()
def rank_among(ranked, numbers, alpha, masses):
    """Masses of numbers by the ranks that they would have had in the last ranking: the first of
    those that are not larger. Before any ranking all are of the first rank."""
    places = np.empty(numbers.size)
    for i in range(numbers.size):
        low, high = 0, ranked.size
        while low < high:
            middle = (low + high) // 2
            if ranked[middle] > numbers[i]:
                low = middle + 1
            else:
                high = middle
        places[i] = 1.0 / (low + 1)
    write_powers(places, alpha, masses)


@inner()
def _sort_falling(slots, noted):
    """Merge sort. NumPy's would lengthen every trainer's compilation by several seconds."""
    count, width = slots.size, 1
    merged = np.empty_like(slots)
    while width < count:
        for start in range(0, count, 2 * width):
            middle, end = min(start + width, count), min(start + 2 * width, count)
            left, right = start, middle
            for i in range(start, end):
                if right == end or (left < middle and noted[slots[left]] >= noted[slots[right]]):
                    merged[i] = slots[left]
                    left += 1
                else:
                    merged[i] = slots[right]
                    right += 1
        for i in range(count):
            slots[i] = merged[i]
        width *= 2


@inner(forceinline=True)
def assign_masses(index, refreshed, slots, groups, masses, best):
    """Give live slots their new masses: of several for one slot the last, or the largest.

    LARGEST overwrites `slots` and `masses`. `best` is scratch, zero between calls: [slots].
    """
    count = slots.size
    if refreshed == LARGEST:
        count = _keep_largest(slots, masses, best)
    look_up_groups(index, part(slots, 0, count), part(groups, 0, count))
    assign(index, part(slots, 0, count), part(groups, 0, count), part(masses, 0, count))


@inner(forceinline=True)
def _keep_largest(slots, masses, best):
    """Every slot once, where it comes first, with the largest of its masses. Returns how many."""
    for i in range(slots.size):
        best[slots[i]] = max(best[slots[i]], masses[i])
    count = 0
    for i in range(slots.size):
        slot = slots[i]
        if best[slot] > 0.0:
            slots[count] = slot
            masses[count] = best[slot]
            best[slot] = 0.0
            count += 1
    return count


@inner(forceinline=True)
def assign_to_members(index, groups, masses, best, stamps, added_then, added_now, capacity):
    """Give every member of each row's group the largest mass of the group's rows, except members
    that came after the draw, at `added_then` additions. Returns how many were given one.

    `best` is scratch, zero between calls: [groups].
    """
    total = 0
    for b in range(groups.size):
        if best[groups[b]] == 0.0:
            total += index.vec[groups[b], 0]
        best[groups[b]] = max(best[groups[b]], masses[b])
    slots = np.empty(total, dtype=np.int64)
    found = 0
    for b in range(groups.size):
        group = groups[b]
        mass = best[group]
        if mass > 0.0:
            best[group] = 0.0
            first = found
            for k in range(index.vec[group, 0]):
                slot = member(index.vec, index.pool, group, k)
                if added_now == added_then or not overwritten(
                    stamps, slot, added_then, added_now, capacity
                ):
                    slots[found] = slot
                    found += 1
            if found - first == index.vec[group, 0]:
                fill_group(index, group, mass)
            else:
                fill_members(index, part(slots, first, found - first), group, mass)
    raise_all(index, part(slots, 0, found))
    return found
