"""Groups and outcome counts of a memory against dictionaries, and damage that must be noticed."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sibling_replay.replay.index import sum_of
from sibling_replay.replay.memory import Memory, append
from sibling_replay.replay.payload import Layout
from sibling_replay.staging import Staging
from support import examples
from support.pair import columns_of
from support.scenes import CAPACITIES, FIELDS, SIBLING_STRATEGIES, STRATEGIES, churned_buffer

HASH_MASKS = (0, 0x7, 0xE0000000, 0xFFFFFFFF)
NAMES = tuple(FIELDS)


def new_memory(capacity, hash_mask=0xFFFFFFFF):
    layout = Layout.of(FIELDS, ("obs", "action"))
    memory = Memory(
        layout, capacity, grouped=True, outcomes=True, min_tree="groups", hash_mask=hash_mask
    )
    return memory, Staging(layout, NAMES)


class MemoryMachine(RuleBasedStateMachine):
    """Blocks of any length into rings of any size: what is forgotten is forgotten everywhere."""

    @initialize(capacity=st.sampled_from(CAPACITIES), hash_mask=st.sampled_from(HASH_MASKS))
    def start(self, capacity, hash_mask):
        self.memory, self.staging = new_memory(capacity, hash_mask)
        self.ring = {}  # slot -> (group, outcome)
        self.added = 0

    @rule(rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 11)), min_size=1, max_size=140))
    def append(self, rows):
        block, count = self.staging.stage_many(columns_of(*zip(*rows, strict=True)))
        append(self.memory.handle, block, count, *self.memory.keeps)
        assert count == len(rows)
        for row in rows:
            self.ring[self.added % self.memory.capacity] = row
            self.added += 1

    @rule(group=st.integers(0, 2), outcome=st.integers(0, 3), count=st.integers(1, 70))
    def repeat(self, group, outcome, count):
        """One entry again and again: every other group dies out."""
        self.append([(group, outcome)] * count)

    @invariant()
    def agrees(self):
        if not hasattr(self, "memory"):
            return
        ok, why = self.memory.check_valid()
        assert ok, why
        memory = self.memory
        groups, counts = defaultdict(list), defaultdict(Counter)
        for slot, (group, outcome) in self.ring.items():
            groups[group].append(slot)
            counts[group][outcome] += 1
        ids = {}
        for group, slots in groups.items():
            (ids[group],) = {int(memory.index.items[0, slot]) for slot in slots}
            assert memory.index.vec[ids[group], 0] == len(slots)
            assert sum_of(memory.index, ids[group]) == len(slots)  # all masses are one
            assert memory.group_outcomes.vec[ids[group], 0] == len(counts[group])
            for slot in slots:
                outcome = memory.outcomes.items[0, slot]
                assert memory.outcomes.vec[outcome, 0] == counts[group][self.ring[slot][1]]
                assert memory.group_outcomes.items[0, outcome] == ids[group]
        assert len(set(ids.values())) == len(groups)
        assert memory.index.vec[:, 0].sum() == len(self.ring)
        assert memory.group_outcomes.vec[:, 0].sum() == sum(map(len, counts.values()))
        assert memory.added == self.added and memory.live == len(self.ring)
        if self.ring:
            assert memory.index.group_floors[-1] == 1.0


TestMemory = MemoryMachine.TestCase
TestMemory.settings = examples(60, 15)


# -------------------------------------------------------------- damage is noticed


def broken(buffer, damage):
    ok, why = buffer.check_valid()
    assert ok, why
    damage(buffer._memory)
    ok, why = buffer.check_valid()
    assert not ok and why
    return why


@pytest.fixture
def buffer():
    return churned_buffer(STRATEGIES["average"](normalize="buffer"), adds=400)


def largest_group(memory):
    return int(np.argmax(memory.index.vec[:, 0]))


def _scale(array, place, factor=1.0 + 1e-6):
    array[place] *= factor


def _scale_sum(memory, group, factor):
    """A sum is a float64 in two words before the mark, at any multiple of four bytes."""
    start = 4 * (memory.index.vec[group, 1] - 3)
    cells = memory.index.pool.view(np.uint8)[start : start + 8]
    cells[:] = np.frombuffer((np.frombuffer(cells.tobytes()) * factor).tobytes(), np.uint8)


def _add(array, place, difference=1):
    array[place] += difference


DAMAGE = {
    "leaf": lambda m: _scale(m.index.tree, 5),
    "leaf is NaN": lambda m: _scale(m.index.tree, 5, np.nan),
    "leaf is zero": lambda m: _scale(m.index.tree, 5, 0.0),
    "leaf is negative": lambda m: _scale(m.index.tree, 5, -1.0),
    "node by one unit": lambda m: m.index.tree.__setitem__(
        int(m.index.levels[1]), np.nextafter(m.index.tree[m.index.levels[1]], np.inf)
    ),
    "total": lambda m: _scale(m.index.tree, -1),
    "mass beyond the ring": lambda m: _add(m.index.tree, m.capacity),
    "group sum": lambda m: _scale_sum(m, largest_group(m), 1 + 1e-8),
    "group sum is NaN": lambda m: _scale_sum(m, largest_group(m), np.nan),
    "size class": lambda m: _add(m.index.pool, m.index.vec[largest_group(m), 1] - 1),
    "size class far outside": lambda m: _add(
        m.index.pool, m.index.vec[largest_group(m), 1] - 1, 100
    ),
    "member's group": lambda m: _add(m.index.items, (0, 3)),
    "member's place": lambda m: _add(m.index.items, (1, 3)),
    "member in the pool": lambda m: _add(m.index.pool, m.index.vec[largest_group(m), 1]),
    "group size": lambda m: _add(m.index.vec, (largest_group(m), 0)),
    "group start": lambda m: _add(m.index.vec, (largest_group(m), 1)),
    "group start far outside": lambda m: _add(m.index.vec, (largest_group(m), 1), 2**30),
    "floor": lambda m: _scale(m.index.group_floors, -1),
    "stored key": lambda m: m.rows.view(np.uint8).__setitem__((2, 0), 199),
    "stored outcome": lambda m: m.rows.view(np.uint8).__setitem__(
        (2, m.layout.outcome_bytes - 1), 77
    ),
    "key table": lambda m: m.keys.table.__setitem__(slice(None), 0),
    "one key lost": lambda m: m.keys.table.__setitem__(int(np.flatnonzero(m.keys.table)[0]), 0),
    "hash": lambda m: _add(m.keys.hashes, m.index.items[0, 0]),
    "outcome of a slot": lambda m: m.outcomes.items.__setitem__((0, 0), -1),
    "outcome count": lambda m: _add(m.outcomes.vec, (m.outcomes.items[0, 0], 0)),
    "group of an outcome": lambda m: _add(m.group_outcomes.items, (0, m.outcomes.items[0, 0])),
    "outcomes of a group": lambda m: _add(m.group_outcomes.vec, (largest_group(m), 0), -1),
    "number of entries": lambda m: _add(m.counts, 1, -1),
    "largest priority": lambda m: m.peaks.__setitem__(0, 0.0),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_noticed(buffer, what):
    broken(buffer, DAMAGE[what])


@pytest.mark.parametrize("name", SIBLING_STRATEGIES)
def test_a_churned_memory_is_whole(name):
    buffer = churned_buffer(STRATEGIES[name](normalize="buffer"), adds=400)
    assert buffer.check_valid() == (True, "")
