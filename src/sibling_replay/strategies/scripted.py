"""How a strategy in NumPy is carried out on a memory: what it says is checked, then done."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.batch import Batch, Outcomes
from sibling_replay.replay.memory import MOST_ADDED, Memory
from sibling_replay.replay.memory_view import DROPPED
from sibling_replay.replay.notes import SWEEP_CLOCK
from sibling_replay.rng import Uniforms
from sibling_replay.strategies.api import Draw, Strategy, Terms, Values
from sibling_replay.strategies.guard import (
    checked_draw,
    checked_refresh,
    checked_selection,
    refuse_invalid,
)
from sibling_replay.strategies.noting import set_start, write_refresh
from sibling_replay.strategies.over_memory import find_stale, write_batch
from sibling_replay.strategies.view import Stream, View

_ENOUGH_ERRORS = 1_000  # all of one sign, before a strategy that needs signs says so


class ScriptedReplay:
    """Draws and refreshes as a strategy in NumPy says."""

    def __init__(self, strategy: Strategy, capacity: int) -> None:
        if type(strategy).draw is Strategy.draw:
            raise TypeError(f"{strategy.name} defines no draw: it cannot be used")
        self._strategy = strategy
        self._needs = strategy.needs
        self.values: Values | None = None  # of the learner, by slot
        self._unsigned = 0  # errors seen, as long as none was negative

    def draw(self, memory: Memory, size: int, beta: float, uniforms: Uniforms) -> Batch:
        """Draw a minibatch from a memory that has entries."""
        before = uniforms.state_dict()
        try:
            said = self._strategy.draw(View(memory), size, Stream(uniforms), beta)
            drawn = checked_draw(self._strategy, memory, said, size)
        except BaseException:
            uniforms.load_state_dict(before)
            raise
        batch = memory.new_batch(size)
        assert drawn.anchors is not None and drawn.outcome_slots is not None
        assert drawn.weights is not None
        write_batch(
            memory.handle,
            drawn.slots,
            drawn.anchors,
            drawn.outcome_slots,
            drawn.weights,
            batch.block,
        )
        outcomes = None
        if drawn.terms is not None:
            starts, slots, shares = (column.copy() for column in drawn.terms)
            whole = self._needs.residuals
            outcomes = memory.new_outcomes(slots, shares, starts, residuals=whole)
        batch.set_outcomes(outcomes)
        batch.set_draw(drawn)
        return batch

    def select(
        self, memory: Memory, batch: Batch, errors: F64, size: int, uniforms: Uniforms
    ) -> Batch:
        """A batch of some of the rows of another, by their TD errors."""
        invalid = np.flatnonzero(~np.isfinite(errors))
        if invalid.size:
            refuse_invalid(batch.slots, errors, int(invalid[0]))
        before = uniforms.state_dict()
        try:
            said = self._strategy.select(errors.astype(np.float64), size, Stream(uniforms))
            places, weights = checked_selection(self._strategy, memory, said, batch.size, size)
        except BaseException:
            uniforms.load_state_dict(before)
            raise
        selected = memory.new_batch(size)
        selected.record["added"] = batch.record["added"]  # as old as the candidates
        for name in selected.columns:
            selected.record[name][...] = batch.record[name][places]
        selected.weights[:] = weights
        selected.set_outcomes(None)
        selected.set_draw(None)
        return selected

    def refresh(
        self, memory: Memory, batch: Batch, errors: F64, signals: Mapping[str, F64]
    ) -> None:
        """Refresh what was drawn, as the strategy says."""
        invalid = np.flatnonzero(~np.isfinite(errors))
        if invalid.size:
            refuse_invalid(batch.slots, errors, int(invalid[0]))
        outcomes = batch.outcomes
        if isinstance(outcomes, Outcomes):
            outcomes.refuse_unaveraged(self._strategy.name)
        drawn = batch.drawn
        if drawn is None:  # a batch of somebody's own choice (`batch_of`)
            slots = batch.slots.copy()
            drawn = Draw(
                slots=slots, anchors=slots, outcome_slots=slots, weights=np.ones(slots.size)
            )
        self._carry_out(memory, drawn, errors, signals, batch.added)

    def refresh_rows(self, memory: Memory, draw: Draw, errors: F64, date: int) -> int:
        """Refresh rows read at a date. Returns -1, or the place of the first invalid error, or -2
        minus the place of a slot without entry."""
        invalid = np.flatnonzero(~np.isfinite(errors))
        if invalid.size:
            return int(invalid[0])
        if memory.stamps.size and date == memory.added:
            empty = np.flatnonzero(memory.stamps[draw.slots] == MOST_ADDED)
            if empty.size:
                return -2 - int(empty[0])
        self._carry_out(memory, draw, errors, {}, date)
        return -1

    def _carry_out(
        self, memory: Memory, drawn: Draw, errors: F64, signals: Mapping[str, F64], date: int
    ) -> None:
        self._watch_signs(errors)
        rows = ~find_stale(memory.handle, drawn.slots, date)
        dropped = rows.size - np.count_nonzero(rows)
        said: Any = None
        if rows.any():
            current = _current_rows(memory, drawn, rows, date)
            given = {name: values[rows] for name, values in signals.items()}
            said = self._strategy.refresh(View(memory), current, errors[rows], given)
        refresh = None if said is None else checked_refresh(self._strategy, memory, said)
        memory.counts[DROPPED] += dropped
        if refresh is not None:
            write_refresh(memory, refresh, self._strategy.alpha)
        self._sweep(memory)
        if self._strategy.initial != "largest":
            written = None if refresh is None else refresh.priorities
            largest = float(np.abs(errors).max(initial=0.0)) + self._strategy.epsilon
            if written is not None and written.size:
                largest = float(written.max())
            set_start(memory, self._strategy, largest)

    def _sweep(self, memory: Memory) -> None:
        """Count a refresh, and rescore everything if it is time."""
        every = self._needs.sweep
        if not every:
            return
        memory.notes.clock[SWEEP_CLOCK] += 1
        if memory.notes.clock[SWEEP_CLOCK] % every == 0 and memory.live:
            said = self._strategy.rescore(View(memory), self.values)
            if said is not None:
                refresh = checked_refresh(self._strategy, memory, said, "rescore")
                write_refresh(memory, refresh, self._strategy.alpha)

    def _watch_signs(self, errors: F64) -> None:
        """Warn once if a strategy that needs signs sees none."""
        if not self._needs.signed or self._unsigned < 0:
            return
        if (errors < 0.0).any():
            self._unsigned = -1
            return
        self._unsigned += errors.size
        if self._unsigned >= _ENOUGH_ERRORS:
            self._unsigned = -1
            warnings.warn(
                f"{self._strategy.name} needs TD errors with their sign (target minus value), and "
                f"none of the first {_ENOUGH_ERRORS:,} was negative: are they absolute values?",
                stacklevel=5,
            )


def _current_rows(memory: Memory, drawn: Draw, rows: Any, date: int) -> Draw:
    """The rows of a draw whose trained slot still holds its entry, without what has gone."""

    def current(slots: I64) -> I64:
        kept: I64 = slots[rows].copy()
        kept[find_stale(memory.handle, kept, date)] = -1
        return kept

    assert drawn.anchors is not None and drawn.outcome_slots is not None
    assert drawn.weights is not None
    return replace(
        drawn,
        slots=drawn.slots[rows],
        anchors=current(drawn.anchors),
        outcome_slots=current(drawn.outcome_slots),
        weights=drawn.weights[rows],
        shift=None if drawn.shift is None else drawn.shift[rows],
        terms=None if drawn.terms is None else _current_terms(memory, drawn.terms, rows, date),
    )


def _current_terms(memory: Memory, terms: Terms, rows: Any, date: int) -> Terms:
    owner = np.repeat(np.arange(rows.size), np.diff(terms.starts))
    kept = rows[owner] & ~find_stale(memory.handle, terms.slots, date)
    counts = np.bincount(owner[kept], minlength=rows.size)[rows]
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Terms(starts, terms.slots[kept], terms.shares[kept])
