"""How a built-in strategy is carried out on a memory: its recipe, by compiled steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sibling_replay.replay.arrays import F64
from sibling_replay.replay.batch import Batch, Outcomes
from sibling_replay.replay.memory import Memory
from sibling_replay.replay.notes import SWEEP_CLOCK
from sibling_replay.rng import Uniforms
from sibling_replay.strategies.api import Draw, Strategy
from sibling_replay.strategies.guard import refuse_invalid
from sibling_replay.strategies.noting import set_start
from sibling_replay.strategies.over_memory import (
    count_outcomes,
    draw_batch,
    list_outcomes,
    list_subsets,
    note_batch,
    note_slots,
    rank_all,
    refresh_batch,
    refresh_members,
    refresh_slots,
)
from sibling_replay.strategies.recipe import (
    ALL_AVERAGED,
    GROUP_MEAN,
    LARGEST,
    NOTED,
    NOTHING,
)
from sibling_replay.strategies.steps import first_invalid
from sibling_replay.strategies.weights import NORMALIZATIONS


class CompiledReplay:
    """Draws and refreshes by a strategy's recipe."""

    def __init__(self, strategy: Strategy, capacity: int) -> None:
        recipe = strategy.recipe
        assert recipe is not None
        self._name = strategy.name
        self._strategy = strategy
        self._starts = strategy.initial != "largest"
        # p = |td| + epsilon, or max(|td|, floor)
        self._rule = strategy.alpha, 0.0 if recipe.floor else strategy.epsilon, recipe.floor
        self._normalize = NORMALIZATIONS[strategy.normalize]
        # As plain attributes: looking them up in the recipe at every draw takes as long as drawing.
        self._anchors, self._trained, self._weights, self._refreshed = recipe[:4]
        self._subset, self._ranked_every = recipe.subset, recipe.ranked_every
        # Where every group fits, subsets take no random numbers.
        self._uniforms = recipe.uniforms if recipe.subset < capacity else 1
        self._averages = recipe.averages
        self._residuals = strategy.needs.residuals

    def draw(self, memory: Memory, size: int, beta: float, uniforms: Uniforms) -> Batch:
        """Draw a minibatch from a memory that has entries."""
        batch = memory.new_batch(size)
        block, start = uniforms.reserve(self._uniforms * size)
        if not draw_batch(
            memory.handle, block, start, batch.block, size, beta, self._normalize,
            self._anchors, self._trained, self._weights, self._subset,
        ):  # fmt: skip
            raise ValueError("the total priority mass is zero: there is nothing to draw from")
        if self._averages:
            batch.set_outcomes(self._outcomes(memory, batch, block, start + size))
        return batch

    def _outcomes(self, memory: Memory, batch: Batch, uniforms: F64, start: int) -> Outcomes:
        """What the targets of a batch are means over."""
        size = batch.size
        starts = np.empty(size + 1, dtype=np.int64)
        if self._trained == GROUP_MEAN:
            count_outcomes(memory.handle, batch.groups, starts)
            slots, shares = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1])
            list_outcomes(memory.handle, batch.groups, starts, slots, shares)
        else:
            most = int(np.minimum(batch.group_sizes, self._subset).sum())
            slots, shares = np.empty(most, dtype=np.int64), np.empty(most)
            list_subsets(
                memory.handle, batch.groups, uniforms, start, self._subset, starts, slots, shares
            )
        remembered = None
        if self._refreshed == ALL_AVERAGED and self._trained == GROUP_MEAN:
            remembered = batch.groups.copy(), batch.group_sizes.copy()  # groups, of so many members
        elif self._refreshed == ALL_AVERAGED:
            remembered = slots.copy(), np.diff(starts)  # siblings, so many an entry
        return memory.new_outcomes(slots, shares, starts, remembered, self._residuals)

    def refresh(
        self, memory: Memory, batch: Batch, errors: F64, signals: Mapping[str, F64]
    ) -> None:
        """Set priorities from the TD errors of a drawn batch."""
        if self._averages or self._refreshed == NOTHING:
            invalid = first_invalid(errors)
            if invalid >= 0:
                refuse_invalid(batch.slots, errors, invalid)
            if self._refreshed == NOTHING:
                return
            outcomes = batch.outcomes
            if isinstance(outcomes, Outcomes):
                outcomes.refuse_unaveraged(self._name)
                if outcomes.remembered is not None:
                    self._refresh_averaged(memory, batch, outcomes, errors)
                    self._set_start(memory, errors)
                    return
        if self._refreshed == NOTED:
            self._note(memory, batch, errors)
            return
        # A batch that was not drawn (`batch_of`) has nothing averaged: its own slots are refreshed.
        rule = LARGEST if self._refreshed == ALL_AVERAGED else self._refreshed
        invalid = refresh_batch(memory.handle, batch.block, errors, rule, *self._rule)
        if invalid != -1:
            refuse_invalid(batch.slots, errors, invalid)
        if self._starts:
            self._set_start(memory, errors)

    def _set_start(self, memory: Memory, errors: F64) -> None:
        _, epsilon, floor = self._rule
        largest = max(float(np.abs(errors).max(initial=0.0)) + epsilon, floor)
        set_start(memory, self._strategy, largest)

    def _note(self, memory: Memory, batch: Batch, errors: F64) -> None:
        invalid = note_batch(memory.handle, batch.block, errors, self._rule[0])
        if invalid != -1:
            refuse_invalid(batch.slots, errors, invalid)
        self._sweep(memory)

    def _sweep(self, memory: Memory) -> None:
        """Count a refresh, and rank everything if it is time."""
        clock = memory.notes.clock
        clock[SWEEP_CLOCK] += 1
        if clock[SWEEP_CLOCK] % self._ranked_every == 0:
            rank_all(memory.handle, memory.live_slots, self._rule[0])

    def _refresh_averaged(
        self, memory: Memory, batch: Batch, outcomes: Outcomes, errors: F64
    ) -> None:
        """Refresh all that was averaged, with the largest error of those that used it."""
        assert outcomes.remembered is not None
        first, counts = outcomes.remembered
        if self._trained == GROUP_MEAN:
            refresh_members(memory.handle, first, counts, errors, batch.added, *self._rule)
            return
        repeated = np.repeat(errors, counts)
        invalid = refresh_slots(memory.handle, first, repeated, batch.added, LARGEST, *self._rule)
        if invalid != -1:
            raise ValueError(f"slot {first[-2 - invalid]} of the batch holds no entry")

    def refresh_rows(self, memory: Memory, draw: Draw, errors: F64, date: int) -> int:
        """Refresh slots read at a date. Returns what `over_memory.refresh_slots` does."""
        slots = draw.slots
        if self._refreshed == NOTHING:
            return int(first_invalid(errors))
        if self._refreshed == NOTED:
            invalid = int(note_slots(memory.handle, slots, errors, date, self._rule[0]))
            if invalid == -1:
                self._sweep(memory)
            return invalid
        invalid = int(
            refresh_slots(memory.handle, slots, errors, date, self._refreshed, *self._rule)
        )
        if invalid == -1 and self._starts:
            self._set_start(memory, errors)
        return invalid
