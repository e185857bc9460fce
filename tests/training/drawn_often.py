"""Kernels of the trainer of tables, called often from compiled code: they have no way in from
Python."""

from __future__ import annotations

import numpy as np
from numba import njit

from sibling_replay.training.tabular import batch as kernels
from sibling_replay.training.tabular.learning import _choose


@njit(cache=True)
def draw_often(memory, batch, rule, live, newest, beta, rng, batches, counts):
    """Count the slots that batches train."""
    for _ in range(batches):
        kernels.draw(memory, batch, rule, live, newest, beta, False, rng)
        for b in range(batch.slots.size):
            counts[batch.slots[b]] += 1


@njit(cache=True)
def choose_often(batch, wanted, rng, repeats):
    """How often the second stage chose each row, and the mean of weight times error."""
    chosen = np.zeros(batch.td.size, np.int64)
    total = 0.0
    for _ in range(repeats):
        for i in range(wanted):
            batch.uniforms[batch.uniforms.size - wanted + i] = rng.random()
        _choose(batch, wanted, 1e-6)
        for b in range(batch.td.size):
            chosen[b] += batch.chosen[b]
            total += batch.weights[b] * batch.td[b]
    return chosen, total / (repeats * batch.td.size)
