"""The slot sampler against its laws and against a naive twin, on slots filled in any order."""

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

from sibling_replay import Prioritized, SiblingAverage, SiblingSample, SlotSampler, Uniform
from sibling_replay.testing.chi_square import LawRejected, check_draws
from support import examples
from support.averaging import averaged
from support.scenes import (
    CAPACITIES,
    STRATEGIES,
    add_entries,
    draw_many,
    heavy_tailed,
    new_buffer,
    strata_law,
)
from support.slot_pair import SlotPair

ALPHA = 0.8
SINGLE_DRAWS = 20_000
BATCHES, BATCH = 4_000, 8
NORMALIZATIONS = ("batch", "buffer", None)

# Averages over whole groups either count outcomes they are given or list the members.
CASES = {name: (make, False) for name, make in STRATEGIES.items()} | {
    f"{name}-counted": (STRATEGIES[name], True) for name in ("average", "average-all")
}
names = pytest.mark.parametrize("name", STRATEGIES)


def churned_sampler(strategy, seed: int = 1) -> SlotSampler:
    """Slots of 61 rewritten and emptied at random thousands of times, some refreshes stale."""
    rng = np.random.default_rng([seed, 3])
    sampler = SlotSampler(61, strategy, seed=seed)
    for step in range(400):
        count = int(rng.integers(1, 9))
        sampler.put(rng.integers(0, 61, count), step // 20 + rng.geometric(0.3, count))
        batch = sampler.sample(8)
        if step % 4 == 0:
            sampler.remove(rng.choice(sampler.live_slots, len(sampler) // 8, replace=False))
        sampler.update_priorities(averaged(batch), heavy_tailed(rng, 8, spread=1.0))
    assert (sampler.dropped_updates > 0) != isinstance(strategy, Uniform)
    assert 20 < len(sampler) < 61
    assert np.unique(sampler.groups, return_counts=True)[1].max() >= 5
    return sampler


@names
def test_single_draws_follow_the_law(name):
    sampler = churned_sampler(STRATEGIES[name](alpha=ALPHA))
    law = sampler.probabilities()
    draws = draw_many(sampler, SINGLE_DRAWS, 1)
    check_draws(draws.anchors, law.anchor)
    check_draws(draws.trained, law.trained)
    if not name.startswith("average"):
        check_draws(draws.outcome, law.outcome)


@names
def test_each_draw_of_a_batch_follows_its_stratum(name):
    sampler = churned_sampler(STRATEGIES[name](alpha=ALPHA))
    law = sampler.probabilities()
    of_anchor = strata_law(law.anchor, BATCH)
    if name == "uniform":
        of_anchor = np.tile(law.anchor, (BATCH, 1))
    draws = draw_many(sampler, BATCHES, BATCH)
    places = np.arange(BATCH) * sampler.capacity
    check_draws(draws.anchors + places, of_anchor / BATCH)
    if name in ("sample", "model"):
        siblings = (sampler.groups[:, None] == sampler.groups) & (sampler.groups >= 0)
        to_sibling = siblings / np.maximum(siblings.sum(axis=1, keepdims=True), 1)
        check_draws(draws.outcome + places, of_anchor @ to_sibling / BATCH)


def test_saboteurs_are_rejected():
    """Uniform for prioritized, the anchor for its sibling, the slot next door, a stale group."""
    per = churned_sampler(STRATEGIES["prioritized"](alpha=ALPHA))
    sample = churned_sampler(STRATEGIES["sample"](alpha=ALPHA))
    before = sample.groups
    sample.put(sample.live_slots[:12], sample.groups.max() + np.arange(12) // 3)
    rng = np.random.default_rng(0)
    draws = draw_many(sample, SINGLE_DRAWS, 1)
    law = sample.probabilities()
    check_draws(draws.trained, law.trained)
    stale = [rng.choice(np.flatnonzero(before == before[a])) for a in draws.anchors.ravel()]
    anchors = draw_many(per, SINGLE_DRAWS, 1).anchors
    wrong = {
        "uniform": (rng.choice(per.live_slots, SINGLE_DRAWS), per.probabilities().anchor),
        "neighbour": ((anchors + 1) % per.capacity, per.probabilities().anchor),
        "prioritized": (anchors, churned_sampler(STRATEGIES["uniform"]()).probabilities().anchor),
        "the anchor": (draws.anchors, law.trained),
        "stale group": (stale, law.trained),
    }
    for slots, promised in wrong.values():
        with pytest.raises(LawRejected):
            check_draws(slots, promised)


def new_pair(name, capacity, seed, **options):
    make, counted = CASES[name]
    return SlotPair(make(**options), capacity, seed, counted)


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("name", CASES)
def test_random_walk(name, capacity):
    rng = np.random.default_rng([capacity, len(name)])
    normalize = NORMALIZATIONS[int(rng.integers(3))]
    alpha = float(rng.choice([0.0, 0.6, 1.0]))
    pair = new_pair(name, capacity, capacity, alpha=alpha, normalize=normalize)
    keys = max(2, capacity // 4)
    for _ in range(25):
        count = int(rng.integers(1, capacity + 2))
        pair.put(
            rng.integers(0, capacity, count),
            rng.integers(0, keys, count),
            rng.integers(0, 6, count),
        )
        pair.sample(int(rng.integers(1, 12)), float(rng.random()))
        if rng.random() < 0.3:
            live = pair.sampler.live_slots
            pair.remove(rng.choice(live, int(rng.integers(0, live.size + 1)), replace=False))
        pair.update(int(rng.integers(3)), heavy_tailed(rng, 12))
        pair.check()
    if name != "uniform":
        assert pair.twin.max_priority > 1.0


class SlotMachine(RuleBasedStateMachine):
    """Any operations in any order."""

    name: str

    @initialize(
        capacity=st.sampled_from(CAPACITIES),
        alpha=st.sampled_from([0.0, 0.6, 1.0]),
        normalize=st.sampled_from(NORMALIZATIONS),
    )
    def start(self, capacity, alpha, normalize):
        self.pair = new_pair(self.name, capacity, 0, alpha=alpha, normalize=normalize)

    @rule(
        rows=st.lists(
            st.tuples(st.integers(0, 99), st.integers(0, 5), st.integers(0, 3)),
            min_size=1,
            max_size=70,
        )
    )
    def put(self, rows):
        slots, keys, outcomes = zip(*rows, strict=True)
        self.pair.put(np.array(slots) % self.pair.sampler.capacity, keys, outcomes)

    @precondition(lambda self: len(self.pair.sampler) > 0)
    @rule(picks=st.sets(st.integers(0, 99), max_size=9))
    def remove(self, picks):
        live = self.pair.sampler.live_slots
        self.pair.remove(live[sorted({pick % live.size for pick in picks})])

    @precondition(lambda self: len(self.pair.sampler) > 0)
    @rule(size=st.integers(1, 17), beta=st.floats(0.0, 1.0))
    def sample(self, size, beta):
        self.pair.sample(size, beta)

    @rule(which=st.integers(0, 2), errors=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=9))
    def update(self, which, errors):
        self.pair.update(which, errors)

    @invariant()
    def agrees(self):
        if hasattr(self, "pair"):
            self.pair.check()


@pytest.mark.parametrize("name", CASES)
def test_machine(name):
    machine = type(f"Slots_{name}", (SlotMachine,), {"name": name})
    run_state_machine_as_test(machine, settings=examples(15, 25))


@names
def test_in_ring_order_it_is_the_buffer(name):
    """The same keys, the same uniforms and errors: the same draws, weights and masses."""
    strategy = STRATEGIES[name](alpha=ALPHA, normalize="buffer")
    buffer = new_buffer(strategy, 17, seed=4)
    sampler = SlotSampler(17, strategy, seed=4)
    rng = np.random.default_rng(0)
    for step in range(120):
        keys = rng.integers(0, 6, 3)
        add_entries(buffer, keys, np.arange(3 * step, 3 * step + 3))  # every outcome another
        sampler.put(np.arange(3 * step, 3 * step + 3) % 17, keys)
        ours, theirs = sampler.sample(8, 0.5), buffer.sample(8, 0.5)
        for column in ("slots", "anchors", "outcome_slots", "groups", "group_sizes", "weights"):
            assert np.array_equal(getattr(ours, column), getattr(theirs, column)), column
        if name.startswith("average"):
            for column in ("slots", "shares", "starts"):
                found = getattr(ours.outcomes, column), getattr(theirs.outcomes, column)
                assert np.array_equal(*found), column
        errors = heavy_tailed(rng, 8)
        sampler.update_priorities(averaged(ours), errors)
        buffer.update_priorities(averaged(theirs), errors)
        live = len(buffer)
        assert np.array_equal(sampler.masses[:live], buffer.masses)
        for stated, expected in zip(sampler.probabilities(), buffer.probabilities(), strict=True):
            assert np.array_equal(stated[:live], expected)


def test_slots_can_be_refreshed_by_themselves():
    """As a whole batch would be; what was written or emptied since is dropped and counted."""
    sampler = SlotSampler(6, Prioritized(alpha=1.0), seed=0)
    sampler.put(np.arange(5))
    date = sampler.clock
    sampler.update_slots([0, 1, 0], [3.0, 2.0, 4.0], date)  # the last of a slot stays
    np.testing.assert_allclose(sampler.masses, [4.0 + 1e-6, 2.0 + 1e-6, 1.0, 1.0, 1.0, 0.0])
    sampler.put([1])
    sampler.remove([2])
    sampler.update_slots([1, 2, 3], [9.0, 9.0, 5.0], date)
    assert sampler.dropped_updates == 2
    np.testing.assert_allclose(sampler.masses[[1, 2, 3]], [4.0 + 1e-6, 0.0, 5.0 + 1e-6])
    before = sampler.masses
    for slots, errors, message in (
        ([3, 4], [1.0, np.nan], "TD error 1 is nan"),
        ([3, 4], [1.0], "expected 2 TD errors"),
        ([5], [1.0], "slot 5 holds no entry"),
        ([6], [1.0], "slot 6 is not one of 6"),
    ):
        with pytest.raises(ValueError, match=message):
            sampler.update_slots(slots, errors, sampler.clock)
    assert np.array_equal(sampler.masses, before)
    with pytest.raises(TypeError, match="update_priorities"):
        SlotSampler(6, SiblingAverage()).update_slots([0], [1.0], 0)
    uniform = SlotSampler(6, Uniform())
    uniform.put([0])
    uniform.update_slots([0], [7.0], uniform.clock)
    assert uniform.masses[0] == 1.0


def test_unchanged_entries_can_be_left_alone():
    sampler = SlotSampler(6, SiblingSample(alpha=1.0), seed=0)
    sampler.put([0, 1, 2], [7, 7, 8])
    sampler.update_slots([0, 1, 2], [3.0, 4.0, 5.0], sampler.clock)
    assert sampler.holds([0, 2, 3]).tolist() == [True, True, False]
    assert sampler.changed([0, 1, 2, 3], [7, 8, 8, 8]).tolist() == [False, True, False, True]
    sampler.put([0, 1, 2, 3], [7, 8, 8, 8], only_changed=True)
    np.testing.assert_allclose(sampler.masses[:4], np.array([3.0, 5.0, 5.0, 5.0]) + 1e-6)
    groups = sampler.groups
    assert groups[0] != groups[1] == groups[2] == groups[3]
    ok, why = sampler.check_valid()
    assert ok, why


def test_no_slots_at_all() -> None:
    sampler = SlotSampler(8, SiblingSample(), seed=1)
    sampler.put([], [])
    assert len(sampler) == 0
    sampler.put([3, 4], [0, 0])
    sampler.remove([])
    sampler.update_slots([], [], sampler.clock)
    assert sampler.live_slots.tolist() == [3, 4] and sampler.holds([]).tolist() == []
