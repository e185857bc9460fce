"""Interned keys against a dictionary, under forced hash collisions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sibling_replay.replay.intern import first_bad_place, intern, leave_key, new_key_table
from sibling_replay.replay.partition import check_partition, join, new_partition
from support import examples
from support.scenes import CAPACITIES

# None: every key collides. Low bits: all at home in place 0. High bits: homes all over the table,
# the last ones so near its end that their entries wrap around.
HASH_MASKS = (0, 0x1, 0x7, 0x80000000, 0xE0000000, 0xFF000000, 0xFFFFFFFF)
KEY_BYTES = (1, 2, 3, 4, 5, 7, 8, 9, 12)


class InternMachine(RuleBasedStateMachine):
    """A ring of slots whose rows begin with a key, as the memory uses it."""

    @initialize(
        slots=st.sampled_from(CAPACITIES),
        key_bytes=st.sampled_from(KEY_BYTES),
        hash_mask=st.sampled_from(HASH_MASKS),
    )
    def start(self, slots, key_bytes, hash_mask):
        self.rows = np.zeros((slots, key_bytes // 4 + 1), dtype=np.uint32)
        self.key_bytes = key_bytes
        self.keys = new_key_table(slots, key_bytes, hash_mask)
        self.p = new_partition(slots, slots)
        self.key_of = {}  # slot -> key

    def _row(self, key, garbage):
        """A row of 32-bit words with the key first and anything after it."""
        row = np.full(self.rows.shape[1], garbage, dtype=np.uint32)
        digits = np.frombuffer(int(key).to_bytes(16, "big"), dtype=np.uint8)[-self.key_bytes :]
        row.view(np.uint8)[: self.key_bytes] = digits
        return row, digits.tobytes()

    def _store(self, slot, key, garbage):
        if slot in self.key_of:
            self._remove(slot)
        row, name = self._row(key, garbage)
        part = intern(self.keys, self.p, self.rows, row)
        expected = {int(self.p.items[0, s]) for s, k in self.key_of.items() if k == name}
        if expected:
            assert {part} == expected
        else:
            assert self.p.vec[part, 0] == 0
        self.rows[slot] = row
        join(self.p, slot, part)
        self.key_of[slot] = name

    def _remove(self, slot):
        name = self.key_of.pop(slot)
        part, emptied = leave_key(self.keys, self.p, slot)
        assert emptied == (name not in self.key_of.values())
        assert self.p.vec[part, 0] == sum(k == name for k in self.key_of.values())

    @rule(data=st.data(), key=st.integers(0, 255), garbage=st.integers(0, 2**32 - 1))
    def store(self, data, key, garbage):
        self._store(data.draw(st.integers(0, len(self.rows) - 1)), key, garbage)

    @rule(
        first=st.integers(0, 70),
        keys=st.lists(st.integers(0, 255), min_size=1, max_size=80),
        garbage=st.integers(0, 2**32 - 1),
    )
    def store_many(self, first, keys, garbage):
        for i, key in enumerate(keys):
            self._store((first + i) % len(self.rows), key, garbage)

    @rule(data=st.data())
    def remove(self, data):
        if self.key_of:
            self._remove(data.draw(st.sampled_from(sorted(self.key_of))))

    @rule(data=st.data())
    def remove_many(self, data):
        for slot in data.draw(st.permutations(sorted(self.key_of)))[: len(self.key_of) // 2]:
            self._remove(slot)

    @invariant()
    def same_key_same_part(self):
        if not hasattr(self, "p"):
            return
        ok, why = check_partition(self.p)
        assert ok, why
        assert first_bad_place(self.keys, self.p, self.rows) == -1
        part_of = {}
        for slot, name in self.key_of.items():
            assert part_of.setdefault(name, int(self.p.items[0, slot])) == self.p.items[0, slot]
        assert len(set(part_of.values())) == len(part_of)
        assert np.count_nonzero(self.keys.table) == len(part_of)


TestIntern = InternMachine.TestCase
TestIntern.settings = examples(120, 20)


def test_colliding_keys_are_never_merged():
    """All keys with one hash, filled and emptied through several generations."""
    rng = np.random.default_rng(0)
    for mask in HASH_MASKS:
        rows = np.zeros((200, 1), dtype=np.uint32)
        keys, p = new_key_table(200, 4, mask), new_partition(200, 200)
        for step in range(1500):
            slot = step % 200
            if step >= 200:
                leave_key(keys, p, slot)
            row = np.array([rng.integers(0, 90)], dtype=np.uint32)
            part = intern(keys, p, rows, row)
            rows[slot] = row
            join(p, slot, part)
        pairs = {(int(rows[slot, 0]), int(p.items[0, slot])) for slot in range(200)}
        assert len(pairs) == len({key for key, _ in pairs}) == len({part for _, part in pairs})
        assert first_bad_place(keys, p, rows) == -1
