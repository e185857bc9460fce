"""A buffer and its naive twin, given the same operations and compared after each."""

from __future__ import annotations

import itertools
import math

import numpy as np

from sibling_replay import SiblingAverage, SiblingModel, SiblingSample, Uniform
from sibling_replay.replay.index import sum_of
from support.naive import NaiveBuffer
from support.scenes import new_buffer

# Masses are powers computed in another way than Python's (1e-14 each); weights leave as float32.
MASS_TOLERANCE = 1e-11
WEIGHT_TOLERANCE = 2e-6


def columns_of(groups, outcomes):
    """The six columns of entries given by small numbers; several outcomes agree in some fields."""
    groups, outcomes = np.asarray(groups), np.asarray(outcomes)
    return (
        groups // 2,
        groups % 2,
        (outcomes % 3).astype(np.float32) - 1,
        outcomes // 3,
        outcomes % 2 == 0,
        outcomes % 4 == 0,
    )


class Pair:
    def __init__(self, strategy, capacity: int, seed: int = 0, key="exact") -> None:
        self.buffer = new_buffer(strategy, capacity, seed, key)
        self.grouped = key is not None
        self.twin = NaiveBuffer(strategy, capacity)
        self._stream = np.random.default_rng(seed)  # what the buffer's draws consume, in order
        self._open: list = []

    def add(self, group: int, outcome: int) -> None:
        row = [column.item() for column in columns_of(group, outcome)]
        self.buffer.add(*row)
        self.twin.add(*row)

    def extend(self, groups, outcomes) -> None:
        columns = columns_of(groups, outcomes)
        self.buffer.extend(*columns)
        for row in zip(*columns, strict=True):
            self.twin.add(*row)

    def sample(self, size: int, beta: float) -> None:
        batch = self.buffer.sample(size, beta)
        uniforms = self._stream.random(self.twin.uniforms_used(batch))
        self._check_batch(batch, size, beta, uniforms)
        self._open.append((batch, self.twin.note(batch)))
        del self._open[:-3]  # a few batches wait, so that some are stale when they are refreshed

    def update(self, which: int, errors) -> None:
        """Refresh one of the waiting batches. It stays: a batch may be refreshed again."""
        if self._open:
            batch, noted = self._open[which % len(self._open)]
            errors = np.resize(np.asarray(errors, dtype=np.float64), batch.size)
            self.buffer.update_priorities(batch, errors)
            self.twin.refresh(noted, errors)

    # ---------------------------------------------------------------- checks

    def check(self) -> None:
        ok, why = self.buffer.check_valid()
        assert ok, why
        self.check_state()

    def check_state(self) -> None:
        buffer, twin = self.buffer, self.twin
        assert len(buffer) == len(twin.entries)
        assert buffer.max_priority == twin.max_priority
        assert buffer.dropped_updates == twin.dropped
        np.testing.assert_allclose(buffer.masses, twin.masses(), rtol=MASS_TOLERANCE)
        generations = np.zeros(buffer.capacity, dtype=np.int64)
        for serial in range(twin.added):
            generations[serial % buffer.capacity] += 1
        assert np.array_equal(buffer.generations, generations)
        self._check_groups()
        self._check_outcomes()
        if twin.entries:
            law = buffer.probabilities()
            for stated, expected in zip(
                law, (twin.anchor_law(), twin.trained_law(), twin.outcome_law()), strict=True
            ):
                assert abs(stated.sum() - 1.0) < 1e-12
                np.testing.assert_allclose(stated, expected, rtol=1e-9)

    def _check_groups(self) -> None:
        """The same slots together, and n_g and s_g of each group."""
        index = self.buffer._memory.index
        groups = self.buffer.groups
        if not self.grouped:
            assert (groups == -1).all()
            return
        ids = set()
        for key, members in self.twin.members().items():
            (group,) = {int(groups[slot]) for slot in members}
            ids.add(group)
            assert index.vec[group, 0] == len(members)
            assert math.isclose(sum_of(index, group), self.twin.group_mass(key), rel_tol=1e-9)
        assert len(ids) == len(self.twin.members())
        assert index.vec[:, 0].sum() == len(self.twin.entries)

    def _check_outcomes(self) -> None:
        memory = self.buffer._memory
        assert memory.counts_outcomes == self.buffer.strategy.needs.outcomes
        if not memory.counts_outcomes:
            return
        counts = self.twin.outcome_counts()
        outcome_of = memory.outcomes.items[0, : len(self.twin.entries)]
        for key, members in self.twin.members().items():
            group = self.buffer.groups[members[0]]
            assert memory.group_outcomes.vec[group, 0] == len(counts[key])
            for slot in members:
                entry = self.twin.entries[slot]
                assert memory.outcomes.vec[outcome_of[slot], 0] == counts[key][entry.outcome]

    def _check_batch(self, batch, size: int, beta: float, uniforms) -> None:
        twin, strategy = self.twin, self.twin.strategy
        self._check_anchors(batch.anchors, uniforms[:size])
        members = twin.members()
        assert batch.added == twin.added
        for b in range(size):
            anchor, trained = int(batch.anchors[b]), int(batch.slots[b])
            source = int(batch.outcome_slots[b])
            siblings = members[twin.entries[anchor].key]
            if isinstance(strategy, SiblingSample):
                assert trained == source and trained in siblings
            elif isinstance(strategy, SiblingModel):
                assert trained == anchor and source in siblings
            else:
                assert trained == source == anchor
            key = (int(batch.obs[b]), int(batch.action[b]))
            assert key == twin.entries[trained].key
            assert _outcome_row(batch, b) == twin.entries[source].outcome
            if self.grouped:
                assert batch.group_sizes[b] == len(siblings)
                assert batch.groups[b] == self.buffer.groups[anchor]
            else:
                assert batch.group_sizes[b] == 1 and batch.groups[b] == -1
        np.testing.assert_allclose(
            batch.weights, twin.weights(batch.slots, beta), rtol=WEIGHT_TOLERANCE
        )
        if isinstance(strategy, SiblingAverage):
            self._check_averages(batch, members)
        else:
            assert batch.outcomes is batch

    def _check_anchors(self, anchors, uniforms) -> None:
        """Anchor b is where the b-th uniform number says, in the b-th interval of the mass."""
        law = self.twin.anchor_law()
        ends = [0.0, *itertools.accumulate(law)]
        for b, (anchor, uniform) in enumerate(zip(anchors, uniforms, strict=True)):
            if isinstance(self.twin.strategy, Uniform):
                target = uniform
            else:
                target = (b + uniform) / len(anchors)
            assert ends[anchor] - 1e-9 <= target <= ends[anchor + 1] + 1e-9

    def _check_averages(self, batch, members) -> None:
        """Which siblings are averaged, and that their mean target is the mean over them."""
        twin, found = self.twin, batch.outcomes
        assert found.starts[0] == 0 and found.starts[-1] == found.size == found.slots.size
        means = batch.average(_fake_target(found))
        for b in range(batch.size):
            siblings = members[twin.entries[batch.anchors[b]].key]
            own = slice(found.starts[b], found.starts[b + 1])
            slots = found.slots[own].tolist()
            assert math.isclose(found.shares[own].sum(), 1.0)
            assert len(set(slots)) == len(slots) and set(slots) <= set(siblings)
            rows = range(found.size)[own]
            for row, slot in zip(rows, slots, strict=True):
                assert _outcome_row(found, row) == twin.entries[slot].outcome
            averaged = slots
            if twin.strategy.max_siblings is None:
                averaged = siblings  # every sibling, though only one slot an outcome is listed
                assert len(slots) == len({twin.entries[s].outcome for s in siblings})
            else:
                assert len(slots) == min(twin.strategy.max_siblings, len(siblings))
            targets = [_fake_target_of(twin.entries[slot].outcome) for slot in averaged]
            assert math.isclose(means[b], math.fsum(targets) / len(targets), rel_tol=1e-12)


def _outcome_row(block, row: int) -> tuple:
    return (
        float(block.reward[row]),
        int(block.next_obs[row]),
        bool(block.terminated[row]),
        bool(block.truncated[row]),
    )


def _fake_target(block):
    """Any function of the outcome will do for a target."""
    keep = np.where(block.terminated | block.truncated, 0.0, 0.9)
    return block.reward.astype(np.float64) + keep * (3.0 + block.next_obs) ** 2 + 10.0


def _fake_target_of(outcome) -> float:
    reward, next_obs, terminated, truncated = outcome
    return reward + (0.0 if terminated or truncated else 0.9) * (3.0 + next_obs) ** 2 + 10.0
