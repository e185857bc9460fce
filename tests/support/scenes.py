"""Ready-made buffers, and ways to fill them and to draw from them in bulk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sibling_replay import (
    Prioritized,
    ReplayBuffer,
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    Strategy,
    Uniform,
)
from sibling_replay.strategies.over_memory import refresh_slots
from sibling_replay.strategies.recipe import LAST
from sibling_replay.testing.twin import FIELDS
from support.averaging import averaged

# Every rule of drawing and refreshing there is, by a name that reads well in a test id.
STRATEGIES = {
    "uniform": lambda **o: Uniform(**o),
    "prioritized": lambda **o: Prioritized(**o),
    "sample": lambda **o: SiblingSample(**o),
    "model": lambda **o: SiblingModel(**o),
    "average": lambda **o: SiblingAverage(**o),
    "average-all": lambda **o: SiblingAverage(update_all_siblings=True, **o),
    "average-2": lambda **o: SiblingAverage(max_siblings=2, **o),
    "average-2-all": lambda **o: SiblingAverage(max_siblings=2, update_all_siblings=True, **o),
}
SIBLING_STRATEGIES = [name for name in STRATEGIES if name not in ("uniform", "prioritized")]

CAPACITIES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65)


def new_buffer(strategy: Strategy, capacity: int, seed: int = 0, key="exact") -> ReplayBuffer:
    return ReplayBuffer(FIELDS, capacity, strategy, key=key, seed=seed)


def add_entries(buffer: ReplayBuffer, groups, outcomes) -> None:
    """Entries given by a group number and an outcome number each."""
    groups, outcomes = np.asarray(groups), np.asarray(outcomes)
    buffer.extend(
        groups // 2,
        groups % 2,
        (outcomes % 5).astype(np.float32) - 2,
        outcomes,
        outcomes % 3 == 0,
        outcomes % 7 == 0,
    )


def set_priorities(buffer: ReplayBuffer, errors) -> None:
    """Give every live slot a priority of our choosing, through the compiled refresh."""
    errors = np.asarray(errors, dtype=np.float64)
    memory, strategy = buffer._memory, buffer.strategy
    buffer.sample(len(buffer))
    slots = np.arange(len(buffer))
    refresh_slots(
        memory.handle, slots, errors, memory.added, LAST, strategy.alpha, strategy.epsilon
    )


def heavy_tailed(rng: np.random.Generator, size: int, spread: float = 2.0):
    """TD errors over several orders of magnitude, some of them zero."""
    errors = np.exp(spread * rng.standard_normal(size))
    errors[rng.random(size) < 0.05] = 0.0
    return errors


def fixed_buffer(strategy: Strategy, seed: int = 1) -> ReplayBuffer:
    """24 entries in groups of 1, 2, 3, 5 and 13, of few outcomes, with very different masses."""
    rng = np.random.default_rng([seed, 1])
    buffer = new_buffer(strategy, 30, seed)
    groups = np.repeat(np.arange(5), [1, 2, 3, 5, 13])
    add_entries(buffer, rng.permutation(groups), rng.integers(0, 4, groups.size))
    set_priorities(buffer, heavy_tailed(rng, groups.size, spread=1.0))
    return buffer


def churned_buffer(strategy: Strategy, seed: int = 1, adds: int = 2500) -> ReplayBuffer:
    """A buffer of 53 after thousands of evictions and refreshes, groups coming and going."""
    rng = np.random.default_rng([seed, 2])
    buffer = new_buffer(strategy, 53, seed)
    added = 0
    while added < adds:
        count = int(rng.integers(1, 9))
        era = added // 100  # groups die out as time passes
        add_entries(buffer, era + rng.geometric(0.3, count), rng.integers(0, 4, count))
        added += count
        batch = buffer.sample(8, beta=0.4)
        if rng.random() < 0.3:  # some of the batch is overwritten before it is refreshed
            add_entries(buffer, era + rng.geometric(0.3, 3), rng.integers(0, 4, 3))
            added += 3
        buffer.update_priorities(averaged(batch), heavy_tailed(rng, 8, spread=1.0))
    return buffer


SCENES = {"fixed": fixed_buffer, "churned": churned_buffer}


class Draws(NamedTuple):
    """Many draws, a row a batch."""

    anchors: np.ndarray  # [batches, size]
    trained: np.ndarray  # [batches, size]
    outcome: np.ndarray  # [batches, size]


def draw_many(buffer: ReplayBuffer, batches: int, size: int) -> Draws:
    out = Draws(*(np.empty((batches, size), dtype=np.int64) for _ in range(3)))
    for i in range(batches):
        batch = buffer.sample(size)
        out.anchors[i] = batch.anchors
        out.trained[i] = batch.slots
        out.outcome[i] = batch.outcome_slots
    return out


def strata_law(law, size: int):
    """[size, N]: the law of each draw of a stratified batch over the slots.

    Draw b is uniform over the b-th of `size` equal intervals of cumulative probability.
    """
    ends = np.concatenate([[0.0], np.cumsum(law)])
    edges = np.arange(size + 1) / size
    low = np.maximum(ends[None, :-1], edges[:-1, None])
    high = np.minimum(ends[None, 1:], edges[1:, None])
    overlap = np.maximum(high - low, 0.0)
    overlap[overlap < 1e-13] = 0.0  # rounding of the two ways to the same edge
    return overlap / overlap.sum(axis=1, keepdims=True)
