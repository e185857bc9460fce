"""Memory and minibatch of the compiled trainer, and what the shared steps of strategies do there.

A group is an exact (state, action), g = s * A + a. An outcome (s', r, term, trunc) of a group is a
number: 2 * id + trunc, so a group has `width` = 2 * O possible ones, and the flat index
g * width + o looks up everything a target needs. A batch row is trained toward the share-weighted
mean target of its *terms*: one outcome with share 1, or those of the siblings averaged.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sibling_replay.envs import TabularModel
from sibling_replay.replay.index import Index, new_index, pick_all
from sibling_replay.replay.inner import inner
from sibling_replay.replay.tree import find as find_leaves
from sibling_replay.strategies.power import GREATEST, write_powers
from sibling_replay.strategies.recipe import (
    ALL_AVERAGED,
    GROUP_MEAN,
    LARGEST,
    LAST,
    NOTED,
    NOTHING,
    SUBSET_MEAN,
)
from sibling_replay.strategies.steps import (
    Rows,
    assign_masses,
    assign_to_members,
    draw_rows,
    first_invalid,
    list_counted_outcomes,
    list_subsets,
    rank,
    rank_among,
    write_masses,
)
from sibling_replay.strategies.weights import BY_BATCH, write_weights
from sibling_replay.training.losses import HUBER, MSE, slope_and_loss
from sibling_replay.training.tabular.rules import (
    BY_AGE,
    BY_GROUP,
    HUBER_DROP,
    LEAF,
    NEWEST,
    OF_ERROR,
    REMEMBERED,
    SCORED,
    TableRule,
)
from sibling_replay.training.tabular.scores import (
    COUNT,
    SQUARES,
    SUM,
    GroupScores,
    new_scores,
    note,
    score_of,
    set_score,
)

DIVERGED = "a TD error is not finite: training has diverged"


class OutcomeTable(NamedTuple):
    """What outcomes mean for a target: those of all groups, by flat index g * width + o; or, of
    more steps than one, those that entries have, by slot."""

    next_state: NDArray[np.int32]
    reward: NDArray[Any]
    discount: NDArray[Any]  # gamma to the number of steps, or 0 after termination or truncation
    powers: NDArray[np.float32]  # [n + 1] of gamma, the first is 1; as a buffer of n steps has them


class TableMemory(NamedTuple):
    """The replay buffer: slots hold outcomes, the index holds masses and groups."""

    entries: Index  # grouped by (s, a); not kept up where nothing is drawn by mass
    group: NDArray[np.int32]  # [capacity]
    outcome: NDArray[np.int32]  # [capacity] flat index of what its own step led to
    counts: NDArray[np.int64]  # [G * width] live entries with each outcome
    best: NDArray[np.float64]  # [slots or groups] scratch of `refresh`, zero between calls
    stamps: NDArray[np.int64]  # none: slots are filled in a ring
    noted: NDArray[np.float64]  # [capacity] |td|, td or target of each entry; infinite at first
    ranked: NDArray[np.float64]  # [capacity] |td| at the last ranking, falling; -1 behind the last
    kept: GroupScores


class TableBatch(NamedTuple):
    """B rows; the terms of row b are starts[b] .. starts[b + 1] - 1."""

    slots: NDArray[np.int64]  # [B] trained slots (the anchors of AVG and MODEL)
    anchors: NDArray[np.int64]  # [B]
    outcome_slots: NDArray[np.int64]  # [B]
    groups: NDArray[np.int64]  # [B]
    group_sizes: NDArray[np.int64]  # [B]
    weights: NDArray[np.float32]  # [B]
    td: NDArray[Any]  # [B]
    priorities: NDArray[np.float64]  # [B] |td| + epsilon
    masses: NDArray[np.float64]  # [B] priorities ** alpha
    starts: NDArray[np.int64]  # [B + 1]
    outcomes: NDArray[np.int64]  # [terms] place in an `OutcomeTable`
    shares: NDArray[np.float64]  # [terms]
    siblings: NDArray[np.int64]  # [terms] slots of AVG-gK
    uniforms: NDArray[np.float64]  # [B times what a row takes, and a second stage's]
    targets: NDArray[Any]  # [B]
    aside: NDArray[Any]  # [B] errors against the target network's own values
    shift: NDArray[Any]  # [B] added to the errors in the loss
    chosen: NDArray[np.int64]  # [B] how often the second stage chose a row


def outcome_tables(
    model: TabularModel, gamma: float, dtype: DTypeLike, through_time_limits: bool
) -> OutcomeTable:
    """Outcome tables of an environment. A time limit stops bootstrapping like a termination, unless
    targets go through it. Rewards are those of a buffer, which keeps them in single precision."""
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
            cut = bool(truncated) and not through_time_limits
            ended = model.terminated[:, :, o].ravel() | cut
            discount[rows, columns] = np.where(ended, 0.0, gamma)
    return OutcomeTable(next_state.ravel(), reward.ravel(), discount.ravel(), _powers(gamma, 1))


def outcomes_by_slot(n_steps: int, capacity: int, gamma: float, dtype: DTypeLike) -> OutcomeTable:
    """Room for what the n steps from each entry on led to."""
    return OutcomeTable(
        next_state=np.zeros(capacity, np.int32),
        reward=np.zeros(capacity, dtype),
        discount=np.zeros(capacity, dtype),
        powers=_powers(gamma, n_steps),
    )


def _powers(gamma: float, n_steps: int) -> NDArray[np.float32]:
    powers: NDArray[np.float32] = np.float32(gamma) ** np.arange(n_steps + 1, dtype=np.float32)
    return powers


@inner(error_model="numpy")
def lengthen(outcomes, newest, steps, reward, next_state, final):
    """Write a step into the outcomes of the entries that it is part of: its own, in the slot
    `newest`, and those before it, up to `steps` in all. Targets do not go beyond a `final` step.
    Sums are in single precision, as a buffer's."""
    capacity = outcomes.reward.size
    for back in range(min(steps, outcomes.powers.size - 1)):
        slot = (newest - back) % capacity
        total = outcomes.powers[back] * np.float32(reward)
        if back > 0:
            total += np.float32(outcomes.reward[slot])
        outcomes.reward[slot] = total
        outcomes.next_state[slot] = next_state
        outcomes.discount[slot] = np.float32(0.0) if final else outcomes.powers[back + 1]


def new_memory(
    capacity: int, n_groups: int, width: int, grouped: bool, rule: TableRule
) -> TableMemory:
    scored = rule.anchors == BY_GROUP
    summed = rule.recipe.refreshed in (SCORED, REMEMBERED)
    return TableMemory(
        entries=new_index(capacity, n_groups, grouped=grouped),
        group=np.zeros(capacity, np.int32),
        outcome=np.zeros(capacity, np.int32),
        counts=np.zeros(n_groups * width, np.int64),
        best=np.zeros(max(capacity, n_groups)),
        stamps=np.zeros(0, np.int64),
        noted=np.full(capacity, np.inf),
        ranked=np.full(capacity if rule.recipe.refreshed == NOTED else 0, -1.0),
        kept=new_scores(n_groups, scored, summed),
    )


def new_batch(wanted: int, rule: TableRule, width: int, dtype: DTypeLike) -> TableBatch:
    """Arrays for one minibatch of so many trained rows, reused by every update of a run."""
    recipe = rule.recipe
    size = wanted * rule.candidates
    second = wanted if rule.candidates > 1 else 0
    terms = size * (width if recipe.trained == GROUP_MEAN else max(recipe.subset, 1))
    return TableBatch(
        slots=np.zeros(size, np.int64),
        anchors=np.zeros(size, np.int64),
        outcome_slots=np.zeros(size, np.int64),
        groups=np.zeros(size, np.int64),
        group_sizes=np.zeros(size, np.int64),
        weights=np.ones(size, np.float32),
        td=np.zeros(size, dtype),
        priorities=np.zeros(size),
        masses=np.zeros(size),
        starts=np.arange(size + 1),
        outcomes=np.zeros(terms, np.int64),
        shares=np.ones(terms),
        siblings=np.zeros(size * recipe.subset, np.int64),
        uniforms=np.zeros(size * rule.uniforms + second),
        targets=np.zeros(size, dtype),
        aside=np.zeros(size, dtype),
        shift=np.zeros(size, dtype),
        chosen=np.zeros(size, np.int64),
    )


@inner(error_model="numpy")
def draw(memory, batch, rule, live, newest, beta, by_slot, rng):
    """Fill a batch from `live` entries; `newest` is the slot that was filled last. Outcomes are
    those of all groups, or `by_slot`."""
    recipe = rule.recipe
    for i in range(1 if rule.anchors == NEWEST else 0, batch.uniforms.size):
        batch.uniforms[i] = rng.random()
    rows = Rows(
        batch.slots,
        batch.anchors,
        batch.outcome_slots,
        batch.groups,
        batch.group_sizes,
        batch.weights,
    )
    size = batch.slots.size
    if rule.anchors == BY_GROUP:
        _draw_by_group(memory, batch, recipe, live, beta)
    else:
        draw_rows(memory.entries, recipe, live, False, batch.uniforms, beta, BY_BATCH, rows)
        if rule.anchors == NEWEST or rule.anchors == BY_AGE:
            _draw_by_age(batch, rule, live, newest, memory.group.size)
    for b in range(size):  # also where the index keeps no groups
        batch.groups[b] = memory.group[batch.slots[b]]
    if rule.pull != 0.0:
        for b in range(size):
            own, kept_of = memory.noted[batch.slots[b]], memory.kept.sums
            batch.shift[b] = 0.0
            if own < np.inf:
                group = batch.groups[b]
                batch.shift[b] = rule.pull * (kept_of[SUM, group] / kept_of[COUNT, group] - own)
    if recipe.trained == GROUP_MEAN:
        list_counted_outcomes(
            memory.entries, memory.counts, batch.groups, batch.starts, batch.outcomes, batch.shares
        )
    elif recipe.trained == SUBSET_MEAN:
        list_subsets(
            memory.entries,
            batch.groups,
            batch.uniforms[size:],
            recipe.subset,
            batch.starts,
            batch.siblings,
            batch.shares,
        )
        for term in range(batch.starts[size]):
            slot = batch.siblings[term]
            batch.outcomes[term] = slot if by_slot else memory.outcome[slot]
    else:
        for b in range(size):
            slot = batch.outcome_slots[b]
            batch.outcomes[b] = slot if by_slot else memory.outcome[slot]


@inner(error_model="numpy")
def _draw_by_age(batch, rule, live, newest, capacity):
    """The newest entry in the first row; or all rows with P ~ (1 - decay)^age, by the inverse of
    its sum."""
    for b in range(batch.slots.size if rule.anchors == BY_AGE else 1):
        age = 0
        if rule.anchors == BY_AGE:
            kept = math.log1p(-rule.decay)
            age = np.int64(math.log1p(batch.uniforms[b] * math.expm1(kept * live)) / kept)
        slot = (newest - min(age, live - 1)) % capacity
        batch.anchors[b] = batch.slots[b] = batch.outcome_slots[b] = slot


@inner(error_model="numpy")
def _draw_by_group(memory, batch, recipe, live, beta):
    """Groups stratified over the tree of leaves, then a uniform member of each."""
    size = batch.slots.size
    kept, index = memory.kept, memory.entries
    means = np.empty(size)
    for b in range(size):
        means[b] = (b + batch.uniforms[b]) * (kept.tree[-1] / size)
    find_leaves(kept.tree, kept.levels, means, batch.groups)
    pick_all(index, batch.groups, batch.uniforms[size:], batch.slots)
    for b in range(size):
        batch.anchors[b] = batch.outcome_slots[b] = batch.slots[b]
        batch.group_sizes[b] = index.vec[batch.groups[b], 0]
        means[b] = kept.tree[batch.groups[b]] / batch.group_sizes[b]
        batch.weights[b] = 1.0
    if recipe.weights == LEAF:
        write_weights(means, kept.tree[-1], live, 0.0, beta, BY_BATCH, batch.weights)


@inner(error_model="numpy")
def _write_drops(batch, loss, alpha, epsilon):
    """Priorities relu(loss(d) - loss(d')) + epsilon. Returns the first largest."""
    largest = 0
    for b in range(batch.td.size):
        _, now = slope_and_loss(np.float64(batch.td[b]), loss, 1.0, 1.0)
        _, aside = slope_and_loss(np.float64(batch.aside[b]), loss, 1.0, 1.0)
        drop = now - aside
        batch.priorities[b] = min(max(drop, 0.0) + epsilon, GREATEST)
        if batch.priorities[b] > batch.priorities[largest]:
            largest = b
    write_powers(batch.priorities, alpha, batch.masses)
    return largest


@inner(error_model="numpy")
def _note(memory, batch, rule, alpha, epsilon):
    """Scores of the groups that were trained, or the targets of the slots."""
    kept, index = memory.kept, memory.entries
    whole = rule.recipe.trained == GROUP_MEAN
    for b in range(batch.slots.size):
        group = batch.groups[b]
        if rule.recipe.refreshed == REMEMBERED:
            note(kept, memory.noted, batch.slots[b], group, np.float64(batch.targets[b]))
            continue
        mean, square = np.float64(batch.td[b]), 0.0
        if not whole:
            note(kept, memory.noted, batch.slots[b], group, mean)
            count = kept.sums[COUNT, group]
            mean = kept.sums[SUM, group] / count
            square = max(kept.sums[SQUARES, group], 0.0) / count
        score = score_of(rule.score, mean, square, epsilon)
        set_score(kept, rule.kappa, alpha, group, index.vec[group, 0], score)


@inner(error_model="numpy")
def refresh(memory, batch, rule, alpha, epsilon, live, updates):
    """Write priorities back, after so many updates. Returns the row with the largest, -1 if none
    can be."""
    recipe = rule.recipe
    if first_invalid(batch.td) >= 0:
        raise ValueError(DIVERGED)
    if recipe.refreshed == SCORED or recipe.refreshed == REMEMBERED:
        _note(memory, batch, rule, alpha, epsilon)
        return -1
    if rule.priority != OF_ERROR:
        loss = HUBER if rule.priority == HUBER_DROP else MSE
        largest = _write_drops(batch, loss, alpha, epsilon)
    else:
        largest = write_masses(
            batch.td, alpha, epsilon, batch.priorities, batch.masses, recipe.floor
        )
    index = memory.entries
    if recipe.refreshed == ALL_AVERAGED and recipe.trained == GROUP_MEAN:
        assign_to_members(index, batch.groups, batch.masses, memory.best, memory.stamps, 0, 0, 0)
    elif recipe.refreshed != NOTHING:
        every = recipe.refreshed == ALL_AVERAGED
        count = batch.starts[batch.slots.size] if every else batch.slots.size
        ranks_all = False
        if recipe.refreshed == NOTED:
            largest = -1  # priorities are ranks, of which none is above the first
            ranks_all = updates % recipe.ranked_every == 0
            for b in range(batch.slots.size):
                batch.priorities[b] = abs(np.float64(batch.td[b]))
                memory.noted[batch.slots[b]] = batch.priorities[b]
            if ranks_all:
                count = live
            else:
                rank_among(memory.ranked, batch.priorities, alpha, batch.masses)
        slots = np.arange(count)
        groups = np.empty(count, np.int64)
        masses = np.empty(count)
        if ranks_all:
            rank(slots, memory.noted, memory.ranked, alpha, masses)
        else:
            for b in range(batch.slots.size):
                if every:
                    for term in range(batch.starts[b], batch.starts[b + 1]):
                        slots[term] = batch.siblings[term]
                        masses[term] = batch.masses[b]
                else:
                    slots[b] = batch.slots[b]
                    masses[b] = batch.masses[b]
        chosen = LARGEST if every or recipe.refreshed == LARGEST else LAST
        assign_masses(index, chosen, slots, groups, masses, memory.best)
    return largest
