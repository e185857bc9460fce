"""The partition against lists: members in order, ids used again, the pool never overlapping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sibling_replay.replay.partition import (
    check_partition,
    free_part,
    join,
    leave,
    member,
    new_part,
    new_partition,
)
from support import examples
from support.scenes import CAPACITIES


def members_of(p, part):
    return [int(member(p.vec, p.pool, part, k)) for k in range(p.vec[part, 0])]


class PartitionMachine(RuleBasedStateMachine):
    """Joining and leaving, with ids handed out and given back."""

    @initialize(items=st.sampled_from(CAPACITIES))
    def start(self, items):
        self.p = new_partition(items, items)
        self.parts = {}  # part -> its members, in order

    def _outside(self):
        inside = {item for members in self.parts.values() for item in members}
        return [item for item in range(self.p.items.shape[1]) if item not in inside]

    def _join(self, item, part):
        join(self.p, item, part)
        self.parts[part].append(item)

    def _leave(self, item):
        part = int(self.p.items[0, item])
        members = self.parts[part]
        left = leave(self.p, item)
        members[members.index(item)] = members[-1]  # the last takes its place
        members.pop()
        assert left == len(members)
        if not members:
            free_part(self.p, part)
            del self.parts[part]

    @rule(data=st.data())
    def open_part(self, data):
        outside = self._outside()
        if outside:
            part = int(new_part(self.p))
            assert part not in self.parts and 0 <= part < self.p.vec.shape[0]
            self.parts[part] = []
            self._join(data.draw(st.sampled_from(outside)), part)

    @precondition(lambda self: self.parts)
    @rule(data=st.data(), count=st.integers(1, 40))
    def join_many(self, data, count):
        part = data.draw(st.sampled_from(sorted(self.parts)))
        for item in self._outside()[:count]:
            self._join(item, part)

    @precondition(lambda self: self.parts)
    @rule(data=st.data(), count=st.integers(1, 40))
    def leave_many(self, data, count):
        part = data.draw(st.sampled_from(sorted(self.parts)))
        for item in data.draw(st.permutations(self.parts[part]))[:count]:
            self._leave(item)

    @precondition(lambda self: self.parts)
    @rule(data=st.data())
    def move(self, data):
        """What an eviction does: one item from its part into another."""
        item = data.draw(
            st.sampled_from(sorted(i for members in self.parts.values() for i in members))
        )
        self._leave(item)
        if self.parts:
            self._join(item, data.draw(st.sampled_from(sorted(self.parts))))

    @invariant()
    def agrees(self):
        if hasattr(self, "p"):
            ok, why = check_partition(self.p)
            assert ok, why
            for part, members in self.parts.items():
                assert members_of(self.p, part) == members
            assert self.p.vec[:, 0].sum() == sum(map(len, self.parts.values()))


TestPartition = PartitionMachine.TestCase
TestPartition.settings = examples(60, 30)


@pytest.mark.parametrize("header", [1, 3])
@pytest.mark.parametrize("items", [1, 2, 3, 8, 9, 64, 65, 300])
def test_the_pool_never_runs_out(items, header):
    """Churn of every shape, sized to fragment the pool, at full occupancy all the time."""
    rng = np.random.default_rng(items)
    p = new_partition(items, items, header)
    where = rng.integers(0, max(1, items // 3), items)
    for item in range(items):
        join(p, item, int(where[item]))
    for step in range(40 * items):
        item = step % items
        leave(p, item)
        spread = (1, max(1, items // 8), items, -(-items // 2))[step // (5 * items) % 4]
        pairs = spread == -(-items // 2)  # all of two members take most room
        join(p, item, item // 2 if pairs else int(rng.integers(spread)))
        if step % items == 0:
            ok, why = check_partition(p, header)
            assert ok, why
    assert p.vec[:, 0].sum() == items


def test_one_part_takes_all_and_gives_all_back():
    p = new_partition(100, 2)
    for _ in range(3):
        for item in range(100):
            join(p, item, 1)
        assert members_of(p, 1) == list(range(100))
        for item in range(99, -1, -1):
            assert leave(p, item) == item
        ok, why = check_partition(p)
        assert ok, why
