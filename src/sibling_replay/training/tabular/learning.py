"""One optimizer step of the table's network: targets, errors, the loss and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sibling_replay.replay.inner import inner
from sibling_replay.training.losses import MSE, PAL, size_above_one, slope_and_loss
from sibling_replay.training.tabular.network import (
    add_row,
    backward,
    drop_rows,
    first_largest,
    forward,
    optimize,
)

if TYPE_CHECKING:  # what kernels here are compiled for: when it changes, they are stale
    from sibling_replay.training.tabular.batch import OutcomeTable, TableBatch  # noqa: F401

_FAST: dict[str, Any] = {"error_model": "numpy", "forceinline": True}


@inner(**_FAST)
def evaluate_batch(net, outcomes, batch, rule, loss):
    """TD errors of a batch, and its loss gradient with respect to the values.

    The target of row b is the share-weighted mean over its terms of the Double-DQN target (eq. 11)
    r + gamma (1 - d) Q_target(s', argmax_a Q(s', a)); one term for all methods but AVG (eq. 12).
    The loss is mean_b w_b (Q_b - Y_b)^2, so its gradient at Q_b is 2 w_b (Q_b - Y_b) / B, summed
    over the rows that share a (state, action). Returns the rows in use and how many have gradient.
    """
    dtype = net.theta.dtype.type
    n_actions = net.bias3.size
    size = batch.groups.size
    trained = 0
    for b in range(size):
        trained = add_row(net.row_of, net.states, trained, batch.groups[b] // n_actions)
    used = trained
    for term in range(batch.starts[size]):
        outcome = batch.outcomes[term]
        if outcomes.discount[outcome] > 0:
            used = add_row(net.row_of, net.states, used, outcomes.next_state[outcome])
    forward(net, used)

    for b in range(size):
        mean = dtype(0)
        for term in range(batch.starts[b], batch.starts[b + 1]):
            outcome = batch.outcomes[term]
            y = outcomes.reward[outcome]
            if outcomes.discount[outcome] > 0:
                state = outcomes.next_state[outcome]
                action = first_largest(net.values[net.row_of[state]])
                y += outcomes.discount[outcome] * net.target[state, action]
            mean += dtype(batch.shares[term]) * y
        state = batch.groups[b] // n_actions
        action = batch.groups[b] % n_actions
        batch.td[b] = mean - net.values[net.row_of[state], action]
        batch.targets[b] = mean
        batch.aside[b] = mean - net.target[state, action]
    if rule.candidates > 1:
        _choose(batch, size // rule.candidates, rule.least)
    net.d_values[:trained] = dtype(0)
    scale = 2.0 / size if loss.kind == MSE else 1.0 / size
    divisor = _divisor(batch, rule, loss) if loss.kind == PAL else 1.0
    for b in range(size):
        row = net.row_of[batch.groups[b] // n_actions]
        action = batch.groups[b] % n_actions
        force = batch.td[b] + batch.shift[b]
        if loss.kind != MSE:
            force = dtype(slope_and_loss(force, loss.kind, loss.number, divisor)[0])
        net.d_values[row, action] -= dtype(scale * batch.weights[b]) * force
    return used, trained


@inner(**_FAST)
def _divisor(batch, rule, loss):
    """Of PAL: the mean of max(|d|, 1)^alpha over the rows that are trained."""
    mean, rows = 0.0, batch.td.size
    if rule.candidates > 1:
        rows //= rule.candidates
    for b in range(batch.td.size):
        times = batch.chosen[b] if rule.candidates > 1 else 1
        if times > 0:
            size = size_above_one(np.float64(batch.td[b] + batch.shift[b]), loss.number)
            mean += times * size / rows
    return mean


@inner(**_FAST)
def _choose(batch, wanted, least):
    """The second stage of LaBER: so many rows with probability ~ p = |d| + least, weight
    mean(p) / p. A row that is not chosen weighs nothing; one chosen twice weighs twice."""
    size = batch.td.size
    total = 0.0
    for b in range(size):
        total += abs(np.float64(batch.td[b])) + least
        batch.chosen[b] = 0
        batch.weights[b] = 0.0
    place, reached = 0, abs(np.float64(batch.td[0])) + least
    # one number in each of equal parts: rows come in order, so that one pass finds them
    for i in range(wanted):
        goal = (i + batch.uniforms[batch.uniforms.size - wanted + i]) / wanted * total
        while reached <= goal and place < size - 1:
            place += 1
            reached += abs(np.float64(batch.td[place])) + least
        batch.chosen[place] += 1
        # for a mean over all candidates
        batch.weights[place] += total / (wanted * (abs(np.float64(batch.td[place])) + least))


@inner(error_model="numpy")
def learn(net, outcomes, batch, rule, loss, update, learning_rate, grad_clip):
    """One optimizer step on a batch; `batch.td` receives the TD errors from before the step."""
    used, trained = evaluate_batch(net, outcomes, batch, rule, loss)
    backward(net, trained)
    optimize(net, trained, update, learning_rate, grad_clip)
    drop_rows(net, used)
