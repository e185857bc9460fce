"""Minibatches of the compiled trainer: which slots a method trains on, towards what, how hard.

The five rows of the design's table of laws, over the kernels of `sibling_replay.replay`. A group is
an exact (state, action), g = s * A + a. An outcome (s', r, term, trunc) of a group is a number:
2 * id + trunc, so a group has `width` = 2 * O possible ones, and the flat index g * width + o
looks up everything a target needs. A batch row is trained toward the share-weighted mean target of
its *terms*: one outcome with share 1, or for AVG those of the siblings averaged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from sibling_replay.envs import TabularModel
from sibling_replay.replay.index import (
    Index,
    assign,
    draw_subset,
    fill_group,
    find,
    new_index,
    pick,
    rebuild,
    stratify,
    sum_of,
)
from sibling_replay.strategies.power import write_powers
from sibling_replay.strategies.weights import BY_BATCH, write_weights
from sibling_replay.training.config import RunConfig

EPSILON = 1e-6  # added to |td| in every refresh (appendix "Priority updates")
DDQN, PER, SAMPLE, MODEL, AVG, AVG_SUBSET = range(6)

_KERNEL: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "forceinline": True,  # spares copying the descriptors of 30 arrays per call
    "no_cpython_wrapper": True,  # for kernels only: calling one from Python crashes
}


class Outcomes(NamedTuple):
    """What the outcomes of all groups mean for a target, by flat index g * width + o."""

    next_state: NDArray[np.int32]  # [G * width]
    reward: NDArray[Any]  # [G * width]
    discount: NDArray[Any]  # [G * width] gamma, or 0 after termination or truncation


class Memory(NamedTuple):
    """The replay buffer: slots hold outcomes, the index holds masses and groups."""

    entries: Index  # grouped by (s, a); without slots for DDQN
    group: NDArray[np.int32]  # [capacity]
    outcome: NDArray[np.int32]  # [capacity] flat index
    counts: NDArray[np.int64]  # [G * width] live entries with each outcome
    best: NDArray[np.float64]  # [slots or groups] scratch of `refresh`, zero between calls


class Batch(NamedTuple):
    """B rows; the terms of row b are starts[b] .. starts[b + 1] - 1."""

    anchors: NDArray[np.int64]  # [B]
    slots: NDArray[np.int64]  # [B] trained slots (the anchors of AVG and MODEL)
    groups: NDArray[np.int64]  # [B]
    weights: NDArray[np.float32]  # [B]
    td: NDArray[Any]  # [B]
    priorities: NDArray[np.float64]  # [B] |td| + epsilon
    masses: NDArray[np.float64]  # [B] priorities ** alpha
    starts: NDArray[np.int64]  # [B + 1]
    outcomes: NDArray[np.int64]  # [terms] flat index
    shares: NDArray[np.float64]  # [terms]
    siblings: NDArray[np.int64]  # [B, K] of AVG-gK
    uniforms: NDArray[np.float64]  # [B]
    subset_uniforms: NDArray[np.float64]  # [K] of AVG-gK
    proposed_slots: NDArray[np.int64]  # [most slots a refresh of AVG can address]
    proposed_groups: NDArray[np.int64]  # the same
    proposed_masses: NDArray[np.float64]  # the same


def method_code(method: str) -> int:
    """The method as a number, for compiled branches."""
    plain = {"DDQN": DDQN, "PER": PER, "SAMPLE": SAMPLE, "MODEL": MODEL, "AVG": AVG}
    return plain.get(method, AVG_SUBSET)


def outcome_tables(model: TabularModel, gamma: float, dtype: DTypeLike) -> Outcomes:
    """Outcome tables of an environment. A time limit stops bootstrapping like a termination.
    Rewards are those of a buffer, which keeps them in single precision."""
    n_states, n_actions, listed = model.next_state.shape
    width = 2 * listed
    shape = (n_states * n_actions, width)
    next_state = np.zeros(shape, np.int32)
    reward = np.zeros(shape, dtype)
    discount = np.zeros(shape, dtype)
    rows = np.arange(shape[0])
    for o in range(listed):
        kept = 2 * model.outcome_id[:, :, o].ravel()
        for truncated in (0, 1):
            columns = kept + truncated
            next_state[rows, columns] = model.next_state[:, :, o].ravel()
            reward[rows, columns] = model.reward[:, :, o].ravel().astype(np.float32)
            ended = model.terminated[:, :, o].ravel() | bool(truncated)
            discount[rows, columns] = np.where(ended, 0.0, gamma)
    return Outcomes(next_state.ravel(), reward.ravel(), discount.ravel())


def new_memory(config: RunConfig, n_groups: int, width: int) -> Memory:
    grouped = config.method not in ("DDQN", "PER")
    return Memory(
        entries=new_index(config.capacity, n_groups, grouped=grouped),
        group=np.zeros(config.capacity, np.int32),
        outcome=np.zeros(config.capacity, np.int32),
        counts=np.zeros(n_groups * width, np.int64),
        best=np.zeros(max(config.capacity, n_groups)),
    )


def new_batch(config: RunConfig, width: int, dtype: DTypeLike) -> Batch:
    """Arrays for one minibatch, reused by every update of a run."""
    size, subset = config.batch_size, config.max_siblings or 0
    terms = size * (width if config.method == "AVG" else max(subset, 1))
    addressed = size * max(subset, 1)
    return Batch(
        anchors=np.zeros(size, np.int64),
        slots=np.zeros(size, np.int64),
        groups=np.zeros(size, np.int64),
        weights=np.ones(size, np.float32),
        td=np.zeros(size, dtype),
        priorities=np.zeros(size),
        masses=np.zeros(size),
        starts=np.arange(size + 1),
        outcomes=np.zeros(terms, np.int64),
        shares=np.ones(terms),
        siblings=np.zeros((size, subset), np.int64),
        uniforms=np.zeros(size),
        subset_uniforms=np.zeros(subset),
        proposed_slots=np.zeros(addressed, np.int64),
        proposed_groups=np.zeros(addressed, np.int64),
        proposed_masses=np.zeros(addressed),
    )


@njit(**_KERNEL)
def draw(memory, batch, method, live, beta, rng):
    """Fill a batch from `live` entries: B uniforms for anchors, then what the method needs."""
    for b in range(batch.uniforms.size):
        batch.uniforms[b] = rng.random()
    if method == DDQN:
        for b in range(batch.uniforms.size):
            slot = min(np.int64(batch.uniforms[b] * live), live - 1)
            batch.slots[b] = slot
            batch.groups[b] = memory.group[slot]
            batch.outcomes[b] = memory.outcome[slot]
        return
    stratify(memory.entries, batch.uniforms, batch.uniforms)
    find(memory.entries, batch.uniforms, batch.anchors)
    for b in range(batch.anchors.size):
        batch.groups[b] = memory.group[batch.anchors[b]]
    if method == AVG:
        _whole_groups(memory, batch)
    elif method == AVG_SUBSET:
        _subsets(memory, batch, rng)
    else:
        _single_outcomes(memory, batch, method, rng)
    _weigh(memory.entries, batch, method, beta, live)


@njit(**_KERNEL)
def _single_outcomes(memory, batch, method, rng):
    """PER trains the anchor; SAMPLE a uniform sibling (eq. 9); MODEL the anchor toward an outcome
    drawn by its count, which is the outcome of a uniform sibling."""
    for b in range(batch.anchors.size):
        anchor = batch.anchors[b]
        batch.slots[b] = anchor
        batch.outcomes[b] = memory.outcome[anchor]
        if method != PER:
            sibling = pick(memory.entries, batch.groups[b], rng.random())
            batch.outcomes[b] = memory.outcome[sibling]
            if method == SAMPLE:
                batch.slots[b] = sibling


@njit(**_KERNEL)
def _whole_groups(memory, batch):
    """The mean over a group is the mean over its outcomes, weighted by their counts."""
    width = memory.counts.size // memory.entries.vec.shape[0]
    term = 0
    for b in range(batch.anchors.size):
        batch.slots[b] = batch.anchors[b]
        group = batch.groups[b]
        batch.starts[b] = term
        for outcome in range(group * width, (group + 1) * width):
            if memory.counts[outcome] > 0:
                batch.outcomes[term] = outcome
                batch.shares[term] = memory.counts[outcome] / memory.entries.vec[group, 0]
                term += 1
    batch.starts[batch.anchors.size] = term


@njit(**_KERNEL)
def _subsets(memory, batch, rng):
    """min(K, n_g) siblings without replacement (eq. 12), from K uniforms per row, always."""
    term = 0
    for b in range(batch.anchors.size):
        batch.slots[b] = batch.anchors[b]
        for k in range(batch.subset_uniforms.size):
            batch.subset_uniforms[k] = rng.random()
        siblings = batch.siblings[b]
        count = draw_subset(memory.entries, batch.groups[b], batch.subset_uniforms, siblings)
        batch.starts[b] = term
        for k in range(count):
            batch.outcomes[term] = memory.outcome[siblings[k]]
            batch.shares[term] = 1.0 / count
            term += 1
    batch.starts[batch.anchors.size] = term


@njit(**_KERNEL)
def _weigh(index, batch, method, beta, live):
    """Importance weights by the mean mass behind each row: its own for PER, the group's for others.
    In single precision, as a buffer's batch has them."""
    means = batch.uniforms  # spent by now
    for b in range(means.size):
        group = batch.groups[b]
        if method == PER:
            means[b] = index.tree[batch.anchors[b]]
        else:
            means[b] = sum_of(index, group) / index.vec[group, 0]
    write_weights(means, index.tree[-1], live, 0.0, beta, BY_BATCH, batch.weights)


@njit(**_KERNEL)
def refresh(memory, batch, method, alpha, update_all):
    """Write |td| + 1e-6 back as priorities. Returns the row with the largest.

    Of several for one entry the last wins; for AVG the largest, found by mass, which rises with
    priority.
    """
    largest = 0
    for b in range(batch.td.size):
        batch.priorities[b] = abs(np.float64(batch.td[b])) + EPSILON
        if not batch.priorities[b] < np.inf:
            raise ValueError("a TD error is not finite: training has diverged")
        if batch.priorities[b] > batch.priorities[largest]:
            largest = b
    write_powers(batch.priorities, alpha, batch.masses)
    if method != AVG and method != AVG_SUBSET:
        assign(memory.entries, batch.slots, batch.groups, batch.masses)
        return largest
    if update_all and method == AVG:
        _fill_groups(memory, batch)
        return largest
    if update_all:
        count = _propose_siblings(memory, batch)
    else:
        count = _propose_anchors(memory, batch)
    assign(
        memory.entries,
        batch.proposed_slots[:count],
        batch.proposed_groups[:count],
        batch.proposed_masses[:count],
    )
    return largest


@njit(**_KERNEL)
def _propose(memory, batch, count, slot):
    """Take the largest mass noted for a slot, unless it was taken before."""
    if memory.best[slot] > 0.0:
        batch.proposed_slots[count] = slot
        batch.proposed_groups[count] = memory.group[slot]
        batch.proposed_masses[count] = memory.best[slot]
        memory.best[slot] = 0.0
        count += 1
    return count


@njit(**_KERNEL)
def _propose_anchors(memory, batch):
    """Every anchor gets the largest priority of the rows it was drawn for."""
    best = memory.best
    for b in range(batch.masses.size):
        best[batch.anchors[b]] = max(best[batch.anchors[b]], batch.masses[b])
    count = 0
    for b in range(batch.masses.size):
        count = _propose(memory, batch, count, batch.anchors[b])
    return count


@njit(**_KERNEL)
def _propose_siblings(memory, batch):
    """Every sibling used in an average gets the largest priority of the rows that used it."""
    best = memory.best
    for b in range(batch.masses.size):
        for k in range(batch.starts[b + 1] - batch.starts[b]):
            slot = batch.siblings[b, k]
            best[slot] = max(best[slot], batch.masses[b])
    count = 0
    for b in range(batch.masses.size):
        for k in range(batch.starts[b + 1] - batch.starts[b]):
            count = _propose(memory, batch, count, batch.siblings[b, k])
    return count


@njit(**_KERNEL)
def _fill_groups(memory, batch):
    """Every member of every group in the batch gets the largest priority of the group's rows."""
    best = memory.best
    for b in range(batch.masses.size):
        best[batch.groups[b]] = max(best[batch.groups[b]], batch.masses[b])
    for b in range(batch.masses.size):
        group = batch.groups[b]
        if best[group] > 0.0:
            fill_group(memory.entries, group, best[group])
            best[group] = 0.0
    rebuild(memory.entries)
