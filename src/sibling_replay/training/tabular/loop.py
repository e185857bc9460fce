"""The loop of the compiled trainer: its state as arrays, and the kernels that advance it.

A step is `_collect` (act, step, add), `_sample` (draw a batch), `_update` (learn, refresh) and
`_conclude` (copy the target, evaluate, where due). `advance` is the only entry: it runs whole
steps, and can pause inside its last one, after sampling and before the update, for a caller who
wants to look at the buffer there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sibling_replay.envs import inverse_cdf
from sibling_replay.replay.index import insert, remove
from sibling_replay.replay.inner import inner
from sibling_replay.strategies.recipe import BY_MASS, GROUP_MEAN, NOTHING
from sibling_replay.strategies.steps import first_invalid
from sibling_replay.training.evaluation import LONGEST_EVALUATION
from sibling_replay.training.losses import Loss
from sibling_replay.training.settings import linear
from sibling_replay.training.tabular.batch import (
    DIVERGED,
    OutcomeTable,
    TableBatch,
    TableMemory,
    draw,
    lengthen,
    refresh,
)
from sibling_replay.training.tabular.learning import learn
from sibling_replay.training.tabular.network import (
    Network,
    all_values,
    first_largest,
    greedy,
)
from sibling_replay.training.tabular.rules import BY_GROUP, TableRule
from sibling_replay.training.tabular.scores import (
    COUNT,
    SQUARES,
    SUM,
    note,
    score_of,
    set_leaf,
    set_score,
)

CLOCK = np.dtype(
    [
        ("step", np.int64),  # steps taken
        ("state", np.int64),
        ("elapsed", np.int64),  # steps of the current episode
        ("episodes", np.int64),  # episodes finished
        ("updates", np.int64),  # optimizer steps taken
        ("live", np.int64),  # entries in the buffer
        ("evaluations", np.int64),
        ("ended", np.int64),  # whether the last step ended an episode
        ("paused", np.int64),  # whether the last step still waits for its update
        ("largest", np.float64),  # largest raw priority so far
        ("largest_mass", np.float64),  # its mass
    ]
)


class Settings(NamedTuple):
    """The part of a `TabularConfig` the loop reads, as plain numbers."""

    rule: TableRule
    loss: Loss
    n_steps: int
    through_time_limits: bool
    steps: int
    updates_a_step: int
    learning_starts: int
    learning_rate: float
    grad_clip: float
    target_interval: int
    epsilon_start: float
    epsilon_end: float
    epsilon_decay_steps: int
    eval_episodes: int
    eval_interval: int
    eval_mean_rewards: bool
    alpha: float
    epsilon: float  # added to |td| in every refresh (appendix "Priority updates")
    beta_start: float
    beta_end: float
    beta_updates: int


class World(NamedTuple):
    """The environment, with (s, a) flattened to g."""

    cumulative: NDArray[np.float64]  # [G, O]
    next_state: NDArray[np.int32]  # [G, O]
    reward: NDArray[np.float64]  # [G, O]
    mean_reward: NDArray[np.float64]  # [G]
    terminated: NDArray[np.bool_]  # [G, O]
    success: NDArray[np.bool_]  # [G, O]
    outcome: NDArray[np.int32]  # [G, O] flat outcome index without truncation
    initial: NDArray[np.float64]  # [S] cumulative
    time_limit: int


class EvaluationCurve(NamedTuple):
    """Room for every evaluation a run can have, and the values an evaluation is greedy in."""

    step: NDArray[np.int64]
    episode: NDArray[np.int64]
    mean_return: NDArray[np.float64]
    success: NDArray[np.float64]
    values: NDArray[Any]  # [S, A]
    policy: NDArray[np.int64]  # [S] group of the greedy action


class TabularRun(NamedTuple):
    """Everything a run is between two steps, but for its random draws."""

    settings: Settings
    world: World
    outcomes: OutcomeTable
    network: Network
    memory: TableMemory
    batch: TableBatch
    curve: EvaluationCurve
    clock: NDArray[Any]  # [1] of CLOCK
    visits: NDArray[np.int64]  # [2, G] how often each group was acted in, and replayed
    outcome_visits: NDArray[np.float64]  # [2, G * width] how often each outcome came, was replayed


class Draws(NamedTuple):
    """Where the uniforms of a run come from.

    Beside the arrays, not among them: Numba recognises a tuple of arrays at a glance, but inspects
    one that holds a Generator anew at every call, for 0.8 ms.
    """

    env: np.random.Generator
    explore: np.random.Generator
    replay: np.random.Generator
    eval: np.random.Generator


@inner(error_model="numpy")
def _collect(run, draws):
    """One environment step, epsilon-greedy, and its transition into the buffer.

    Two uniforms of the explore stream are used whether or not the step explores; the environment
    uses one per step and one per reset.
    """
    clock = run.clock[0]
    settings = run.settings
    world = run.world
    n_actions = run.network.bias3.size
    epsilon = linear(
        settings.epsilon_start, settings.epsilon_end, settings.epsilon_decay_steps, clock.step
    )
    chance = draws.explore.random()
    which = draws.explore.random()
    if chance < epsilon:
        action = min(np.int64(which * n_actions), n_actions - 1)
    else:
        action = greedy(run.network, clock.state)

    group = clock.state * n_actions + action
    run.visits[0, group] += 1
    o = inverse_cdf(world.cumulative[group], draws.env.random())
    clock.step += 1
    clock.elapsed += 1
    truncated = clock.elapsed >= world.time_limit
    outcome = world.outcome[group, o] + np.int64(truncated)
    run.outcome_visits[0, outcome] += 1.0
    _add(run.memory, clock, settings, group, outcome)
    ended = world.terminated[group, o] or truncated
    if settings.n_steps > 1:
        newest = (clock.step - 1) % run.memory.group.size
        reward, after = world.reward[group, o], world.next_state[group, o]
        final = world.terminated[group, o] or (truncated and not settings.through_time_limits)
        lengthen(run.outcomes, newest, clock.elapsed, reward, after, final)
    if ended:
        clock.state = inverse_cdf(world.initial, draws.env.random())
        clock.elapsed = 0
        clock.episodes += 1
        clock.ended = 1
    else:
        clock.state = world.next_state[group, o]
        clock.ended = 0


@inner(error_model="numpy")
def _add(memory, clock, settings, group, outcome):
    """Store a transition with the largest raw priority so far, over the oldest if full."""
    capacity = memory.outcome.size
    slot = (clock.step - 1) % capacity
    rule = settings.rule
    prioritized = rule.recipe.anchors == BY_MASS
    if clock.live == capacity:
        memory.counts[memory.outcome[slot]] -= 1
        left = 0
        if prioritized:
            left = remove(memory.entries, slot)
        if rule.anchors == BY_GROUP:
            set_leaf(memory.kept, rule.kappa, settings.alpha, memory.group[slot], left)
        note(memory.kept, memory.noted, slot, memory.group[slot], np.inf)
    else:
        clock.live += 1
    memory.group[slot] = group
    memory.outcome[slot] = outcome
    memory.counts[outcome] += 1
    if prioritized:
        insert(memory.entries, slot, group, clock.largest_mass)
    if rule.anchors == BY_GROUP:
        members = memory.entries.vec[group, 0]
        if members == 1:
            memory.kept.scores[group] = memory.kept.largest[0]
        set_leaf(memory.kept, rule.kappa, settings.alpha, group, members)


@inner(error_model="numpy")
def _sample(run, draws):
    """Draw the batch of this step's update."""
    clock = run.clock[0]
    settings = run.settings
    beta = linear(settings.beta_start, settings.beta_end, settings.beta_updates, clock.updates)
    newest = (clock.step - 1) % run.memory.group.size
    by_slot = settings.n_steps > 1
    draw(run.memory, run.batch, settings.rule, clock.live, newest, beta, by_slot, draws.replay)
    if settings.rule.candidates == 1:
        _count_replays(run)


@inner(error_model="numpy")
def _count_replays(run):
    """Of a batch whose rows are all trained, or of those that the second stage chose."""
    batch = run.batch
    for b in range(batch.groups.size):
        times = batch.chosen[b] if run.settings.rule.candidates > 1 else 1
        run.visits[1, batch.groups[b]] += times
        for term in range(batch.starts[b], batch.starts[b + 1]):
            outcome = batch.outcomes[term]
            if run.settings.n_steps > 1:
                outcome = np.int64(run.memory.outcome[outcome])
            run.outcome_visits[1, outcome] += times * batch.shares[term]


@inner(error_model="numpy")
def _update(run):
    """One optimizer step on the batch and the refresh of priorities."""
    clock = run.clock[0]
    settings = run.settings
    clock.updates += 1
    learn(
        run.network,
        run.outcomes,
        run.batch,
        settings.rule,
        settings.loss,
        clock.updates,
        settings.learning_rate,
        settings.grad_clip,
    )
    if settings.rule.candidates > 1:
        _count_replays(run)
    if settings.rule.recipe.refreshed != NOTHING:
        row = refresh(
            run.memory,
            run.batch,
            settings.rule,
            settings.alpha,
            settings.epsilon,
            clock.live,
            clock.updates,
        )
        if row >= 0 and run.batch.priorities[row] > clock.largest:
            clock.largest = run.batch.priorities[row]
            clock.largest_mass = run.batch.masses[row]
    elif first_invalid(run.batch.td) >= 0:
        raise ValueError(DIVERGED)
    every = settings.rule.rescored_every
    if every > 0 and clock.updates % every == 0:
        _rescore(run)


@inner(error_model="numpy")
def _rescore(run):
    """Scores of all groups by present values: the errors that all of their entries have now. Where
    errors are noted by slot, those are the present ones from now on, too."""
    rule, kept, counts = run.settings.rule, run.memory.kept, run.memory.counts
    values, target, outcomes = run.curve.values, run.network.target, run.outcomes
    all_values(run.network, values)
    n_actions = values.shape[1]
    beyond = np.empty(values.shape[0])
    for state in range(values.shape[0]):
        beyond[state] = target[state, first_largest(values[state])]
    width = counts.size // kept.scores.size
    errors = np.empty(counts.size)
    for group in range(kept.scores.size):
        members = run.memory.entries.vec[group, 0]
        if members == 0:
            continue
        state, action = group // n_actions, group % n_actions
        mean = square = 0.0
        for outcome in range(group * width, (group + 1) * width):
            if counts[outcome] > 0:
                error = np.float64(outcomes.reward[outcome]) - values[state, action]
                error += outcomes.discount[outcome] * beyond[outcomes.next_state[outcome]]
                errors[outcome] = error
                mean += counts[outcome] / members * error
                square += counts[outcome] / members * error * error
        score = score_of(rule.score, mean, square, run.settings.epsilon)
        set_score(kept, rule.kappa, run.settings.alpha, group, members, score)
        kept.sums[COUNT, group] = members
        kept.sums[SUM, group] = members * mean
        kept.sums[SQUARES, group] = members * square
    if rule.recipe.trained != GROUP_MEAN:
        for slot in range(run.clock[0].live):
            run.memory.noted[slot] = errors[run.memory.outcome[slot]]


@inner(error_model="numpy")
def _conclude(run, draws):
    """What follows a step: the target copy and the evaluation, where they are due."""
    clock = run.clock[0]
    settings = run.settings
    if clock.step % settings.target_interval == 0:
        all_values(run.network, run.network.target)
    due = clock.ended and clock.episodes % settings.eval_interval == 0
    if due or clock.step == settings.steps:
        _evaluate(run, draws)


@inner(error_model="numpy")
def _evaluate(run, draws):
    """Play greedy episodes on the evaluation stream and record their mean.

    The policy cannot change meanwhile, so its actions are tabulated once.
    """
    clock = run.clock[0]
    curve = run.curve
    world = run.world
    n_actions = run.network.bias3.size
    limit = min(world.time_limit, LONGEST_EVALUATION)
    all_values(run.network, curve.values)
    for state in range(curve.policy.size):
        curve.policy[state] = state * n_actions + first_largest(curve.values[state])
    total = 0.0
    successes = 0
    for _ in range(run.settings.eval_episodes):
        state = inverse_cdf(world.initial, draws.eval.random())
        elapsed = 0
        success = False
        ended = False
        while not ended:
            group = curve.policy[state]
            o = inverse_cdf(world.cumulative[group], draws.eval.random())
            elapsed += 1
            if run.settings.eval_mean_rewards:
                total += world.mean_reward[group]
            else:
                total += world.reward[group, o]
            success |= world.success[group, o]
            ended = world.terminated[group, o] or elapsed >= limit
            state = world.next_state[group, o]
        successes += success
    curve.step[clock.evaluations] = clock.step
    curve.episode[clock.evaluations] = clock.episodes
    curve.mean_return[clock.evaluations] = total / run.settings.eval_episodes
    curve.success[clock.evaluations] = successes / run.settings.eval_episodes
    clock.evaluations += 1


@njit(cache=True, nogil=True, error_model="numpy")
def advance(run, draws, until, pause):
    """Whole steps, up to and with step number `until`, after the rest of a paused one.

    With `pause`, stop in step `until` between sampling and update, if it has an update. The step
    counts as taken; whether it is paused is `clock.paused`.
    """
    clock = run.clock[0]
    updates = run.settings.updates_a_step
    # Each kernel is called in one place only: they are inlined, and take long to compile.
    while clock.paused or clock.step < until:
        update = 0
        if clock.paused:
            update = updates - 1  # it waits for its last one
        else:
            _collect(run, draws)
        while update < updates and clock.step >= run.settings.learning_starts:
            if clock.paused:
                clock.paused = 0
            else:
                _sample(run, draws)
                if pause and clock.step == until and update == updates - 1:
                    clock.paused = 1
                    return
            _update(run)
            update += 1
        _conclude(run, draws)
