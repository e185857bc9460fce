"""The sum tree against a list: sums bit for bit, and every target on the slot it belongs to."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sibling_replay.replay.index import find as find_in_index
from sibling_replay.replay.index import insert, new_index, stratify
from sibling_replay.replay.tree import (
    find,
    lower_min,
    new_tree,
    raise_sum,
    raise_sums,
    rebuild_sums,
    tree_levels,
)
from support import examples
from support.masses import assign_masses
from support.scenes import CAPACITIES

TINIEST, HUGEST = 1e-300, 1e300


def find_one(tree, levels, *targets):
    out = np.empty(len(targets), dtype=np.int64)
    find(tree, levels, np.array(targets, dtype=np.float64), out)
    return out.tolist()


def filled(masses):
    tree, levels = new_tree(len(masses))
    tree[: len(masses)] = masses
    rebuild_sums(tree, levels)
    return tree, levels


def naive_find(masses, target):
    """The first slot whose cumulative mass exceeds the target; at the end the last with mass."""
    for slot, end in enumerate(itertools.accumulate(masses)):
        if end > target:
            return slot
    return max(slot for slot, mass in enumerate(masses) if mass > 0)


@pytest.mark.parametrize("capacity", [*CAPACITIES, 511, 512, 513, 100_000])
def test_layout(capacity):
    """Levels are whole cache lines of eight, each an eighth of the one below, up to one root."""
    levels = tree_levels(capacity)
    tree, _ = new_tree(capacity)
    assert tree.size == levels[-1] + 1 and tree.ctypes.data % 64 == 0
    widths = np.diff(levels)
    assert widths[0] >= capacity and (widths % 8 == 0).all()
    assert (widths[1:] >= widths[:-1] // 8).all() and widths[-1] == 8


class TreeMachine(RuleBasedStateMachine):
    """Whole-number masses, so that sums and targets are exact whatever their order."""

    @initialize(capacity=st.sampled_from(CAPACITIES))
    def start(self, capacity):
        self.index = new_index(capacity, 0, grouped=False, min_tree="slots")
        self.masses = [0.0] * capacity

    @rule(data=st.data(), mass=st.integers(0, 1000))
    def set_one(self, data, mass):
        slot = data.draw(st.integers(0, len(self.masses) - 1))
        insert(self.index, slot, 0, float(mass))
        self.masses[slot] = float(mass)

    @rule(data=st.data())
    def set_many(self, data):
        """With duplicates: the last stays."""
        slots = data.draw(st.lists(st.integers(0, len(self.masses) - 1), max_size=40))
        masses = data.draw(st.lists(st.integers(0, 1000), min_size=len(slots), max_size=len(slots)))
        assign_masses(
            self.index, np.array(slots, dtype=np.int64), np.array(masses, dtype=np.float64)
        )
        for slot, mass in zip(slots, masses, strict=True):
            self.masses[slot] = float(mass)

    @rule(data=st.data())
    def look_up(self, data):
        total = int(sum(self.masses))
        if total == 0:
            return
        targets = data.draw(st.lists(st.integers(0, total), min_size=1, max_size=20))
        targets += [0, total, total - 1]
        out = np.empty(len(targets), dtype=np.int64)
        find_in_index(self.index, np.array(targets, dtype=np.float64), out)
        assert out.tolist() == [naive_find(self.masses, target) for target in targets]

    @invariant()
    def sums_are_exact(self):
        if hasattr(self, "index"):
            assert self.index.tree[-1] == sum(self.masses)
            again = self.index.tree.copy()
            rebuild_sums(again, self.index.levels)
            assert np.array_equal(again, self.index.tree)
            assert self.index.tree[: len(self.masses)].tolist() == self.masses
            assert (self.index.tree[len(self.masses) : self.index.levels[1]] == 0).all()

    @invariant()
    def floor_is_the_least(self):
        """Of the slots that were ever set."""
        if hasattr(self, "index"):
            leaves = self.index.slot_floors[: len(self.masses)]
            assert self.index.slot_floors[-1] == leaves.min()
            for leaf, mass in zip(leaves, self.masses, strict=True):
                assert leaf in (mass, np.inf)


TestTree = TreeMachine.TestCase
TestTree.settings = examples(60, 25)


@pytest.mark.parametrize("capacity", [1, 7, 8, 9, 63, 64, 65, 513])
def test_raising_paths_equals_rebuilding(capacity):
    """Bit for bit, for masses whose sums do round, for sorted and unsorted and repeated slots."""
    rng = np.random.default_rng(capacity)
    tree, levels = new_tree(capacity)
    for count in (1, 2, 5, 32, 200):
        for order in (np.sort, lambda slots: slots):
            slots = order(rng.integers(0, capacity, count))
            tree[slots] = np.exp(5 * rng.standard_normal(count))
            raise_sums(tree, levels, slots)
            again = tree.copy()
            rebuild_sums(again, levels)
            assert np.array_equal(tree, again)
        slot = int(rng.integers(capacity))
        tree[slot] = rng.random()
        raise_sum(tree, levels, slot)
        again = tree.copy()
        rebuild_sums(again, levels)
        assert np.array_equal(tree, again)


@given(
    st.lists(
        st.one_of(
            st.just(0.0),
            st.floats(TINIEST, HUGEST),
            st.integers(-300, 300).map(lambda e: float(f"1e{e}")),
        ),
        min_size=1,
        max_size=200,
    ).filter(lambda masses: sum(masses) > 0),
    st.lists(st.floats(0.0, 1.0), max_size=10),
)
def test_no_target_lands_on_an_empty_slot(masses, fractions):
    """Masses over 600 orders of magnitude, targets at both ends and just beside them, and one unit
    past the end, where rounding may push a stratum."""
    tree, levels = filled(masses)
    total = tree[-1]
    targets = [0.0, total, np.nextafter(total, 0.0), np.nextafter(total, np.inf)]
    targets += [fraction * total for fraction in fractions]
    targets += np.cumsum(masses).tolist()
    targets += np.nextafter(np.cumsum(masses), 0.0).tolist()
    found = find_one(tree, levels, *targets)
    assert all(masses[slot] > 0 for slot in found)
    ends = np.concatenate([[0.0], np.cumsum(masses)])
    for target, slot in zip(targets, found, strict=True):  # right, up to the rounding of sums
        assert ends[slot] * (1 - 1e-12) <= target
        assert target <= ends[slot + 1] * (1 + 1e-12)


def test_targets_past_the_end_fall_on_the_last_slot_with_mass():
    masses = [0.0] * 70
    masses[3], masses[40] = 0.1, 0.2
    tree, levels = filled(masses)
    beyond = np.nextafter(tree[-1], 1.0)
    assert find_one(tree, levels, tree[-1], beyond, 2 * tree[-1]) == [40, 40, 40]
    assert find_one(tree, levels, 0.0) == [3]


def test_a_tree_without_mass():
    """The total is zero and says so: callers must ask before they look (and do, see the draw)."""
    tree, levels = filled([0.0] * 20)
    assert tree[-1] == 0.0
    assert 0 <= find_one(tree, levels, 0.0)[0] < 24  # stays inside the array


@pytest.mark.parametrize("size", [1, 2, 8, 32, 64])
def test_stratification_is_exact(size):
    """Draw b lies in the b-th of B equal intervals. Whole masses with a total of 2^k: no rounding,
    so the comparison is exact, at the very edges of the intervals too."""
    rng = np.random.default_rng(size)
    index = new_index(50, 0, grouped=False)
    masses = rng.multinomial(1024, rng.dirichlet(np.full(50, 0.3))).astype(np.float64)
    assign_masses(index, np.arange(50), masses)
    assert index.tree[-1] == 1024
    edge = np.nextafter(1.0, 0.0)
    for uniforms in (np.zeros(size), np.full(size, 0.5), rng.integers(0, 16, size) / 16):
        targets = np.empty(size)
        stratify(index, uniforms, targets)
        assert np.array_equal(targets, (np.arange(size) + uniforms) * (1024 / size))
        out = np.empty(size, dtype=np.int64)
        expected = [naive_find(masses, target) for target in targets]
        find_in_index(index, targets, out)
        assert out.tolist() == expected
    targets = np.empty(size)
    stratify(index, np.full(size, edge), targets)
    width = 1024 / size
    assert (targets >= np.arange(size) * width).all()
    assert (targets <= (np.arange(size) + 1) * width).all()


def test_tree_of_minima():
    rng = np.random.default_rng(0)
    tree, levels = new_tree(65, fill=np.inf)
    values = np.full(65, np.inf)
    for _ in range(300):
        leaf = int(rng.integers(65))
        values[leaf] = np.inf if rng.random() < 0.2 else rng.random()
        lower_min(tree, levels, leaf, values[leaf])
        assert tree[-1] == values.min()
