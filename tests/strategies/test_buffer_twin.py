"""The whole buffer against a naive twin: long random walks, and Hypothesis looking for trouble."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support import examples
from support.pair import Pair
from support.scenes import CAPACITIES, STRATEGIES, heavy_tailed

NORMALIZATIONS = ("batch", "buffer", None)

# A strategy and its key: plain ones keep groups only if they are asked to.
CASES = {
    **{name: (make, "exact") for name, make in STRATEGIES.items()},
    "uniform-ungrouped": (STRATEGIES["uniform"], None),
    "prioritized-ungrouped": (STRATEGIES["prioritized"], None),
}


def new_pair(name, capacity, seed, **options):
    make, key = CASES[name]
    return Pair(make(**options), capacity, seed, key)


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("name", CASES)
def test_random_walk(name, capacity):
    """Every strategy at every awkward capacity, through several turns of the ring."""
    rng = np.random.default_rng([capacity, len(name)])
    normalize = NORMALIZATIONS[int(rng.integers(3))]
    alpha = float(rng.choice([0.0, 0.6, 1.0]))
    pair = new_pair(name, capacity, capacity, alpha=alpha, normalize=normalize)
    groups = max(2, capacity // 4)
    while pair.twin.added < 3 * capacity + 20:
        if rng.random() < 0.5:
            pair.add(int(rng.integers(groups)), int(rng.integers(6)))
        else:
            count = int(rng.integers(1, capacity + 3))
            pair.extend(rng.integers(0, groups, count), rng.integers(0, 6, count))
        pair.sample(int(rng.integers(1, 12)), float(rng.random()))
        pair.update(int(rng.integers(3)), heavy_tailed(rng, 12))
        pair.check_state()
    pair.check()
    if not name.startswith("uniform"):
        assert pair.twin.max_priority > 1.0  # the walk did refresh


class BufferMachine(RuleBasedStateMachine):
    """Any operations in any order."""

    name: str

    @initialize(
        capacity=st.sampled_from(CAPACITIES),
        alpha=st.sampled_from([0.0, 0.3, 0.6, 1.0]),
        normalize=st.sampled_from(NORMALIZATIONS),
        seed=st.integers(0, 100),
    )
    def start(self, capacity, alpha, normalize, seed):
        self.pair = new_pair(self.name, capacity, seed, alpha=alpha, normalize=normalize)

    @rule(group=st.integers(0, 4), outcome=st.integers(0, 5))
    def add(self, group, outcome):
        self.pair.add(group, outcome)

    @rule(rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=70))
    def extend(self, rows):
        self.pair.extend(*zip(*rows, strict=True))

    @precondition(lambda self: len(self.pair.buffer) > 0)
    @rule(size=st.integers(1, 17), beta=st.floats(0.0, 1.0))
    def sample(self, size, beta):
        self.pair.sample(size, beta)

    @rule(
        which=st.integers(0, 2),
        errors=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=9),
    )
    def update(self, which, errors):
        self.pair.update(which, errors)

    @invariant()
    def agrees(self):
        if hasattr(self, "pair"):
            self.pair.check()


@pytest.mark.parametrize("name", CASES)
def test_machine(name):
    machine = type(f"Buffer_{name}", (BufferMachine,), {"name": name})
    run_state_machine_as_test(machine, settings=examples(25, 30))
