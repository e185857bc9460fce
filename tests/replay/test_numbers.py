"""Numbers stay right: powers, extremes, cancellations, and millions of operations without drift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sibling_replay import Prioritized, SiblingSample
from sibling_replay.replay.checks import check_index
from sibling_replay.replay.index import (
    group_sums,
    insert,
    new_index,
    remove,
    sum_of,
    wear_of,
)
from sibling_replay.strategies.over_memory import draw_batch
from sibling_replay.strategies.power import GREATEST, LEAST, write_powers
from sibling_replay.strategies.recipe import ANCHOR, BY_MASS, GROUP_MASS, OWN_MASS, SIBLING
from sibling_replay.strategies.weights import BY_BATCH
from support.averaging import averaged
from support.masses import assign_masses
from support.scenes import STRATEGIES, add_entries, heavy_tailed, new_buffer, set_priorities

DRIFT = 1e-9  # what the issue allows, relative


# --------------------------------------------------------------------------- powers


def powers(bases, exponent):
    bases = np.array(bases, dtype=np.float64)
    out = np.empty(bases.size)
    write_powers(bases, float(exponent), out)
    return out


@pytest.mark.parametrize("exponent", [0.1, 0.3, 0.5, 0.6, 0.7, 1.0, 2.0, -0.4, -1.0])
def test_powers_are_accurate(exponent):
    rng = np.random.default_rng(0)
    bases = np.concatenate(
        [
            np.exp(rng.uniform(-20, 20, 5000)),
            1 + rng.uniform(-1e-6, 1e-6, 1000),
            2.0 ** np.arange(-40, 40),
        ]
    )
    np.testing.assert_allclose(powers(bases, exponent), bases**exponent, rtol=3e-14)


def test_powers_at_the_ends_of_the_range():
    bases = 10.0 ** np.arange(-299, 300, dtype=np.float64)
    np.testing.assert_allclose(powers(bases, 1.0), bases, rtol=1e-12)
    np.testing.assert_allclose(powers(bases, 0.6), bases**0.6, rtol=1e-12)
    np.testing.assert_allclose(powers(bases, -1.0), 1 / bases, rtol=1e-12)


def test_powers_are_held_to_their_range():
    with np.errstate(over="ignore"):
        got = powers([0.0, 1e-320, 1e-300, 1e300, 1.7e308, np.inf], 1.0)
    assert ((got >= LEAST * (1 - 1e-12)) & (got <= GREATEST * (1 + 1e-12))).all()
    got = powers([1e-200, 1e200], 5.0)
    np.testing.assert_allclose(got, [LEAST, GREATEST], rtol=1e-12)


@given(st.floats(1e-290, 1e290), st.floats(0.0, 1.0))
def test_powers_anywhere(base, exponent):
    assert powers([base], exponent)[0] == pytest.approx(base**exponent, rel=1e-12)


def test_exact_powers():
    """One to any power, and any number to the power zero, are one: the limits depend on it."""
    assert (powers(np.exp(np.linspace(-100, 100, 1001)), 0.0) == 1.0).all()
    for exponent in (0.0, 0.1, 0.4, 0.6, 1.0, -3.7):
        assert (powers(np.ones(17), exponent) == 1.0).all()


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=33))
def test_a_power_does_not_depend_on_its_neighbours(bases):
    """Vectorised or left over at the end, alone or in a crowd: the same bits."""
    together = powers(bases, 0.6)
    alone = [powers([base], 0.6)[0] for base in bases]
    np.testing.assert_allclose(together, alone, rtol=1e-15)


# ------------------------------------------------------------------------- extremes


def test_masses_over_six_hundred_orders_of_magnitude():
    """The light are never drawn beside the heavy, and are all there again when these are gone."""
    masses = np.array([1e-300, 1e300, 1e-300, 1.0, 1e299])
    index = new_index(5, 5)
    for slot, mass in enumerate(masses):
        insert(index, slot, slot % 2, mass)
    assert check_index(index, np.arange(5)) == (True, "")
    assert sum_of(index, 0) == pytest.approx(1e299, rel=1e-12)
    assign_masses(
        index, np.array([4]), np.array([1e-300])
    )  # 1e299 leaves the sum of 1e-300 and 1e-300
    assert sum_of(index, 0) == pytest.approx(3e-300, rel=1e-12)
    assign_masses(index, np.array([1, 3]), np.array([1e-300, 1e-300]))
    assert sum_of(index, 1) == pytest.approx(2e-300, rel=1e-12)
    assert index.tree[-1] == pytest.approx(5e-300, rel=1e-12)
    assert check_index(index, np.arange(5)) == (True, "")


@pytest.mark.parametrize("alpha", [0.6, 1.0])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_buffer_of_extreme_priorities_can_be_drawn_from(name, alpha):
    """TD errors from nothing to the largest float: laws sum to one, weights stay in [0, 1]."""
    buffer = new_buffer(STRATEGIES[name](alpha=alpha, epsilon=1e-300), 40)
    rng = np.random.default_rng(0)
    add_entries(buffer, rng.integers(0, 8, 40), rng.integers(0, 3, 40))
    set_priorities(buffer, 10.0 ** rng.uniform(-300, 300, 40))
    for _ in range(30):
        batch = buffer.sample(16, beta=1.0)
        assert (buffer.masses[batch.anchors] > 0).all()
        assert np.isfinite(batch.weights).all() and (batch.weights <= 1.0).all()
        assert batch.weights.max() == 1.0
        for part in buffer.probabilities():
            assert abs(part.sum() - 1.0) < 1e-9
        errors = rng.choice([0.0, 1e-300, 1.0, 1e300, np.finfo(float).max], 16)
        buffer.update_priorities(averaged(batch), errors)
        add_entries(buffer, rng.integers(0, 8, 3), rng.integers(0, 3, 3))
        ok, why = buffer.check_valid()
        assert ok, why


def test_a_group_emptied_and_refilled():
    """Nothing of the old members stays in the sum of the new."""
    index = new_index(8, 4)
    for round_ in range(50):
        for slot in range(4):
            insert(index, slot, 2, 10.0 ** (round_ - 25 + slot))
        for slot in range(4):
            assert remove(index, slot) == 3 - slot
        assert sum_of(index, 2) == 0.0 and index.vec[2, 0] == 0
        insert(index, 5, 2, 0.1)
        assert sum_of(index, 2) == 0.1
        remove(index, 5)


def test_the_last_member_is_the_sum():
    """0.1 + 0.2 - 0.2 is not 0.1; the sum of a group of one is its member all the same."""
    index = new_index(4, 1)
    insert(index, 0, 0, 0.1)
    for mass in (0.2, 0.7, 1e16, 1e300):
        insert(index, 1, 0, mass)
        remove(index, 1)
        assert sum_of(index, 0) == 0.1


def test_no_mass_at_all_is_refused():
    buffer = new_buffer(Prioritized(), 4)
    add_entries(buffer, [0, 1], [0, 0])
    memory = buffer._memory
    assign_masses(memory.index, np.array([0, 1]), np.array([0.0, 0.0]))
    assert memory.index.tree[-1] == 0.0
    with pytest.raises(ValueError, match="mass is zero"):
        buffer.sample(4)
    batch = memory.new_batch(4)
    recipe = (BY_MASS, ANCHOR, OWN_MASS, 0)
    assert not draw_batch(memory.handle, np.zeros(4), 0, batch.block, 4, 0.4, BY_BATCH, *recipe)


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0), 1.0])
def test_draws_at_the_very_ends_of_the_mass(uniform):
    """A uniform of one cannot come from a Generator, but from a caller's own arithmetic."""
    rng = np.random.default_rng(1)
    for capacity in (1, 7, 8, 9, 64, 65):
        for _ in range(20):
            index_buffer = new_buffer(SiblingSample(), capacity)
            count = int(rng.integers(1, capacity + 1))
            add_entries(index_buffer, rng.integers(0, 3, count), rng.integers(0, 3, count))
            set_priorities(index_buffer, heavy_tailed(rng, count, spread=5.0))
            memory = index_buffer._memory
            batch = memory.new_batch(5)
            uniforms = np.full(10, uniform)
            recipe = (BY_MASS, SIBLING, GROUP_MASS, 0)
            block = batch.block
            assert draw_batch(memory.handle, uniforms, 0, block, 5, 0.4, BY_BATCH, *recipe)
            assert (batch.anchors < count).all() and (batch.slots < count).all()
            assert (batch.anchors >= 0).all() and (batch.slots >= 0).all()
            groups = index_buffer.groups
            assert np.array_equal(groups[batch.anchors], groups[batch.slots])
            if uniform == 0.0:
                assert batch.anchors[0] == 0
            else:
                assert batch.anchors[-1] == count - 1


# ----------------------------------------------------------------------------- drift


def mix_operations(buffer, operations, rng, errors_of):
    """A third additions (with eviction, once full), the rest refreshes, in compiled chunks.

    What was just added is refreshed too, so that the newcomers' largest mass does not hide what the
    sums lose below it.
    """
    chunk = 500
    for done in range(0, operations, 3 * chunk):
        era = done // 40_000  # groups are born, grow and die
        add_entries(buffer, era + rng.integers(0, 700, chunk), rng.integers(0, 3, chunk))
        batch = buffer.sample(2 * chunk)
        newest = buffer._memory.added - 1 - np.arange(chunk)
        batch.slots[:chunk] = newest % buffer.capacity
        if done // chunk % 2:  # refresh anything, not only what its mass makes likely
            batch.slots[chunk:] = rng.integers(0, len(buffer), chunk)
        buffer.update_priorities(averaged(batch), errors_of(2 * chunk))


def check_against_recomputation(buffer):
    """Every group sum and every node of the tree, summed afresh from the leaves."""
    index, masses = buffer._memory.index, buffer.masses
    sums = group_sums(index)
    order = np.argsort(buffer.groups, kind="stable")
    groups, starts = np.unique(buffer.groups[order], return_index=True)
    ends = [*starts[1:], order.size]
    for group, start, end in zip(groups, starts, ends, strict=True):
        exact = math.fsum(masses[order[start:end]])
        assert abs(sums[group] - exact) <= DRIFT * exact
    gone = np.setdiff1d(np.arange(sums.size), groups)
    assert (sums[gone] == 0).all() and (index.vec[gone, 0] == 0).all()

    leaves = index.tree[: index.levels[1]]
    for level in range(1, index.levels.size):
        start = index.levels[level]
        width = 8**level
        padded = np.zeros(-(-leaves.size // width) * width)
        padded[: leaves.size] = leaves
        for node, part in enumerate(padded.reshape(-1, width)):
            exact = math.fsum(part)
            assert abs(index.tree[start + node] - exact) <= DRIFT * exact
    ok, why = buffer.check_valid()
    assert ok, why


TAILS = {
    "moderate": lambda rng: lambda n: rng.random(n),
    "heavy": lambda rng: lambda n: heavy_tailed(rng, n, spread=6.0),
    "extreme": lambda rng: lambda n: 10.0 ** rng.uniform(-300, 300, n),
}


def run_drift(tail, operations, capacity):
    rng = np.random.default_rng(7)
    buffer = new_buffer(SiblingSample(alpha=1.0, epsilon=1e-300), capacity)
    mix_operations(buffer, operations, rng, TAILS[tail](rng))
    assert buffer._memory.added >= operations // 3 > capacity
    check_against_recomputation(buffer)


@pytest.mark.parametrize("tail", TAILS)
def test_no_drift_in_three_hundred_thousand_operations(tail):
    run_drift(tail, 300_000, 20_000)


@pytest.mark.long
@pytest.mark.parametrize("tail", TAILS)
def test_no_drift_in_ten_million_operations(tail):
    run_drift(tail, 10_000_000, 100_000)


@pytest.mark.parametrize("spread", [1.0, 3.0, 10.0, 100.0])
def test_nothing_is_lost_by_cancellation(spread):
    """Small groups whose heavy members come and go: what stays is a small rest of a large sum, and
    is right to the last digits after every single change."""
    rng = np.random.default_rng(int(spread))
    index = new_index(24, 6)
    for slot in range(24):
        insert(index, slot, slot % 6, 1.0)
    exponents = np.clip(spread * rng.standard_normal((4000, 2)), -680, 680)
    for masses in np.exp(exponents):
        slots = rng.integers(0, 24, 2)
        assign_masses(index, slots, masses)
        for group in slots % 6:
            exact = math.fsum(index.tree[group:24:6])
            assert abs(sum_of(index, group) - exact) <= DRIFT * exact


def test_no_drift_where_a_sum_is_only_ever_adjusted():
    """One group of few members, always the same, refreshed more often than the wear allows."""
    index = new_index(8, 1)
    for slot in range(8):
        insert(index, slot, 0, 1.0)
    rng = np.random.default_rng(0)
    for _ in range(2500):
        assign_masses(index, rng.integers(0, 8, 64), rng.random(64) + 1e-9)
        exact = math.fsum(index.tree[:8])
        assert abs(sum_of(index, 0) - exact) <= DRIFT * exact
    assert wear_of(index, 0) > 0  # adjusted, not summed afresh each time
