"""A slot sampler and its naive twin, given the same operations and compared after each."""

from __future__ import annotations

import itertools
import math

import numpy as np

from sibling_replay import (
    SiblingAverage,
    SiblingModel,
    SiblingSample,
    SlotSampler,
)
from support.naive import NaiveBuffer
from support.pair import MASS_TOLERANCE, WEIGHT_TOLERANCE


class SlotPair:
    """Entries are (slot, key number, outcome number). `counted`: outcomes are given to the sampler,
    which matters to averages over whole groups only; otherwise each entry is its own."""

    def __init__(self, strategy, capacity: int, seed: int = 0, counted: bool = False) -> None:
        self.counted = counted and strategy.needs.outcomes
        self.sampler = SlotSampler(capacity, strategy, seed=seed)
        self.twin = NaiveBuffer(strategy, capacity)
        self._stream = np.random.default_rng(seed)
        self._open: list = []

    def put(self, slots, keys, outcomes) -> None:
        self.sampler.put(slots, keys, outcomes if self.counted else None)
        for slot, key, outcome in zip(slots, keys, outcomes, strict=True):
            self.twin.put(int(slot), (int(key),), (int(outcome),))

    def remove(self, slots) -> None:
        self.sampler.remove(slots)
        for slot in slots:
            self.twin.remove(int(slot))

    def sample(self, size: int, beta: float) -> None:
        batch = self.sampler.sample(size, beta)
        uniforms = self._stream.random(self.twin.uniforms_used(batch))
        self._check_batch(batch, beta, uniforms)
        self._open.append((batch, self.twin.note(batch)))
        del self._open[:-3]

    def update(self, which: int, errors) -> None:
        if self._open:
            batch, noted = self._open[which % len(self._open)]
            errors = np.resize(np.asarray(errors, dtype=np.float64), batch.size)
            self.sampler.update_priorities(batch, errors)
            self.twin.refresh(noted, errors)

    # ---------------------------------------------------------------- checks

    def check(self) -> None:
        sampler, twin = self.sampler, self.twin
        ok, why = sampler.check_valid()
        assert ok, why
        assert len(sampler) == len(twin.entries)
        assert sampler.live_slots.tolist() == list(twin.entries)
        assert sampler.max_priority == twin.max_priority
        assert sampler.dropped_updates == twin.dropped
        np.testing.assert_allclose(sampler.masses, self._spread(twin.masses()), rtol=MASS_TOLERANCE)
        for members in twin.members().values():
            assert len({int(sampler.groups[slot]) for slot in members}) == 1
        assert len(np.unique(sampler.groups[sampler.live_slots])) == len(twin.members())
        assert (sampler.groups[self._spread([1.0] * len(twin.entries)) == 0] == -1).all()
        if twin.entries:
            for stated, expected in zip(
                sampler.probabilities(),
                (twin.anchor_law(), twin.trained_law(), twin.outcome_law()),
                strict=True,
            ):
                np.testing.assert_allclose(stated, self._spread(expected), rtol=1e-9)

    def _spread(self, values):
        """A list in the order of live slots, over all slots."""
        over = np.zeros(self.sampler.capacity)
        over[list(self.twin.entries)] = values
        return over

    def _check_batch(self, batch, beta: float, uniforms) -> None:
        twin, strategy = self.twin, self.twin.strategy
        members = twin.members()
        ends = np.cumsum([0.0, *self._spread(twin.anchor_law())])
        assert batch.added == twin.added
        for b in range(batch.size):
            anchor, trained = int(batch.anchors[b]), int(batch.slots[b])
            source = int(batch.outcome_slots[b])
            siblings = members[twin.entries[anchor].key]
            plain = strategy.needs.host_may_draw
            target = uniforms[b] if plain else (b + uniforms[b]) / batch.size
            assert ends[anchor] - 1e-9 <= target <= ends[anchor + 1] + 1e-9
            if isinstance(strategy, SiblingSample):
                assert trained == source and trained in siblings
            elif isinstance(strategy, SiblingModel):
                assert trained == anchor and source in siblings
            else:
                assert trained == source == anchor
            assert batch.group_sizes[b] == len(siblings)
            assert batch.groups[b] == self.sampler.groups[anchor]
        np.testing.assert_allclose(
            batch.weights, twin.weights(batch.slots, beta), rtol=WEIGHT_TOLERANCE
        )
        if isinstance(strategy, SiblingAverage):
            self._check_averages(batch, members)

    def _check_averages(self, batch, members) -> None:
        """The mean of any function of the outcome is the mean over the siblings averaged."""
        twin, found = self.twin, batch.outcomes

        def value(slot):
            return 10.0 + twin.entries[int(slot)].outcome[0] ** 2

        means = batch.average(np.array([value(slot) for slot in found.slots]))
        for b, (low, high) in enumerate(itertools.pairwise(found.starts)):
            siblings = members[twin.entries[int(batch.anchors[b])].key]
            slots = found.slots[low:high].tolist()
            assert len(set(slots)) == len(slots) and set(slots) <= set(siblings)
            averaged = slots
            if twin.strategy.max_siblings is None:
                averaged = siblings
                outcomes = {twin.entries[s].outcome for s in siblings}
                assert len(slots) == (len(outcomes) if self.counted else len(siblings))
            else:
                assert len(slots) == min(twin.strategy.max_siblings, len(siblings))
            expected = math.fsum(value(slot) for slot in averaged) / len(averaged)
            assert math.isclose(means[b], expected, rel_tol=1e-12)
