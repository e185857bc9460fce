"""What a strategy says, checked: nothing it returns can corrupt a buffer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.replay.memory import MOST_ADDED, Memory
from sibling_replay.strategies.api import Draw, InvalidTDErrors, Refresh, Strategy, Terms
from sibling_replay.strategies.laws import Law
from sibling_replay.strategies.view import View

_SHARES_OFF = 1e-6  # from one, at most


def refuse_invalid(slots: I64, errors: F64, place: int) -> NoReturn:
    """Raise for the error at `place` (or the slot at -2 - `place`), naming the slot."""
    if place < 0:
        raise ValueError(f"slot {slots[-2 - place]} of the batch holds no entry")
    raise InvalidTDErrors(
        f"TD error {place} of the batch (slot {slots[place]}) is {errors[place]}: "
        f"it must be finite. No priority was changed."
    )


class _Said:
    """Columns that a strategy returned from a method."""

    def __init__(self, strategy: Strategy, method: str, memory: Memory) -> None:
        self._who = f"{strategy.name}.{method}"
        # A sweep follows a refresh, which has been made by then.
        self._effect = "Nothing was rescored" if method == "rescore" else "Nothing was changed"
        self._memory = memory

    def wrong(self, what: str) -> NoReturn:
        raise ValueError(f"{self._who} returned {what}. {self._effect}")

    def slots(self, name: str, given: Any, count: int | None) -> I64:
        """Live slots, `count` of them, as a copy of our own."""
        array = self._array(name, given, "iu", count)
        slots: I64 = array.astype(np.int64)
        memory = self._memory
        bound = memory.capacity if memory.stamps.size else memory.live
        outside = slots[(slots < 0) | (slots >= bound)]
        if outside.size == 0 and memory.stamps.size:
            outside = slots[memory.stamps[slots] == MOST_ADDED]
        if outside.size:
            self.wrong(f"{name} with slot {outside[0]}, which holds no entry")
        return slots

    def groups(self, given: Any) -> I64:
        """Groups that have members."""
        groups: I64 = self._array("groups", given, "iu", None).astype(np.int64)
        sizes = self._memory.index.vec[:, 0]
        outside = groups[(groups < 0) | (groups >= sizes.size)]
        if outside.size == 0:
            outside = groups[sizes[groups] == 0]
        if outside.size:
            self.wrong(f"group {outside[0]}, which has no members")
        return groups

    def numbers(self, name: str, given: Any, count: int | None) -> F64:
        """Finite numbers, `count` of them."""
        array: F64 = self._array(name, given, "fiu", count).astype(np.float64)
        if not np.isfinite(array).all():
            self.wrong(f"{name} with {array[~np.isfinite(array)][0]}")
        return array

    def _array(self, name: str, given: Any, kinds: str, count: int | None) -> Any:
        array = np.asarray(given)
        if array.size == 0 and count in (0, None) and array.ndim == 1:
            return array.astype(np.int64 if "f" not in kinds else np.float64)
        if array.dtype.kind not in kinds or array.ndim != 1:
            self.wrong(f"{name} of {array.dtype} and shape {array.shape}")
        if count is not None and array.size != count:
            self.wrong(f"{array.size} {name}, expected {count}")
        return array


def checked_draw(strategy: Strategy, memory: Memory, given: Any, size: int) -> Draw:
    """A draw with every column there and right, or an error that names what is wrong."""
    said = _Said(strategy, "draw", memory)
    if not isinstance(given, Draw):
        said.wrong(f"{given!r}, expected a Draw")
    slots = said.slots("slots", given.slots, size)
    columns = {
        name: slots if column is None else said.slots(name, column, size)
        for name, column in (("anchors", given.anchors), ("outcome_slots", given.outcome_slots))
    }
    given_weights = np.ones(size) if given.weights is None else given.weights
    weights = said.numbers("weights", given_weights, size)
    if (weights < 0.0).any():
        said.wrong(f"weights with {weights.min()}")
    shift = None if given.shift is None else said.numbers("shift", given.shift, size)
    for name, column, needed in (
        ("terms", given.terms, strategy.needs.averages),
        ("shift", given.shift, strategy.needs.shifts),
    ):
        if column is not None and not needed:
            said.wrong(f"{name}, but its `needs` do not say so, and a host may not know them")
    if columns["outcome_slots"] is not slots and not strategy.needs.other_outcomes:
        if not np.array_equal(columns["outcome_slots"], slots):
            said.wrong("outcome_slots of other entries, but its `needs` do not say other_outcomes")
    terms = None if given.terms is None else _checked_terms(said, given.terms, size)
    return replace(given, slots=slots, weights=weights, shift=shift, terms=terms, **columns)


def _checked_terms(said: _Said, given: Terms, size: int) -> Terms:
    if not isinstance(given, Terms):
        said.wrong(f"terms {given!r}, expected Terms")
    starts = np.asarray(given.starts)
    if starts.dtype.kind not in "iu" or starts.shape != (size + 1,):
        said.wrong(f"starts of {starts.dtype} and shape {starts.shape}, expected {size + 1}")
    starts = starts.astype(np.int64)
    slots = said.slots("slots of terms", given.slots, None)
    if starts[0] != 0 or starts[-1] != slots.size or (np.diff(starts) < 1).any():
        said.wrong("starts that do not give every row a term, one row after the other")
    shares = said.numbers("shares", given.shares, slots.size)
    off = np.abs(np.add.reduceat(shares, starts[:-1]) - 1.0)
    if (shares < 0.0).any() or off.max() > _SHARES_OFF:
        said.wrong("shares that are negative or do not add up to one in every row")
    return Terms(starts, slots, shares)


def checked_selection(
    strategy: Strategy, memory: Memory, given: Any, candidates: int, size: int
) -> tuple[I64, F64]:
    """Places among the candidates, and weights."""
    said = _Said(strategy, "select", memory)
    if not (isinstance(given, tuple) and len(given) == 2):
        said.wrong(f"{given!r}, expected places and weights")
    places = np.asarray(given[0])
    if places.dtype.kind not in "iu" or places.shape != (size,):
        said.wrong(f"places of {places.dtype} and shape {places.shape}, expected {size}")
    if not ((places >= 0) & (places < candidates)).all():
        said.wrong(f"a place that is none of {candidates} candidates")
    weights = said.numbers("weights", given[1], size)
    if (weights < 0.0).any():
        said.wrong(f"weights with {weights.min()}")
    return places.astype(np.int64), weights


def checked_refresh(
    strategy: Strategy, memory: Memory, given: Any, method: str = "refresh"
) -> Refresh:
    """A refresh whose slots hold entries and whose priorities can be drawn by."""
    said = _Said(strategy, method, memory)
    if not isinstance(given, Refresh):
        said.wrong(f"{given!r}, expected a Refresh or None")
    slots = said.slots("slots", () if given.slots is None else given.slots, None)
    priorities = None
    if given.priorities is not None:
        priorities = said.numbers("priorities", given.priorities, slots.size)
        if (priorities <= 0.0).any():
            said.wrong(f"priorities with {priorities.min()}: they must be positive")
    unknown = [name for name in given.columns if name not in memory.noted]
    if unknown:
        said.wrong(f"columns {unknown}, which its `needs` do not name")
    columns = {
        name: said.numbers(f"column {name}", column, slots.size)
        for name, column in given.columns.items()
    }
    groups = scores = None
    if given.groups is not None or given.scores is not None:
        if memory.notes.scores.size == 0:
            said.wrong("scores, but its `needs` do not name them, or no groups are kept")
        groups = said.groups(given.groups)
        scores = said.numbers("scores", given.scores, groups.size)
        if (scores <= 0.0).any():
            said.wrong(f"scores with {scores.min()}: they must be positive")
    return Refresh(
        slots=slots, priorities=priorities, columns=columns, groups=groups, scores=scores
    )


def checked_law(strategy: Strategy, view: View, size: int) -> Law:
    """A law that is one: a probability for every live slot, adding up to one."""
    law = strategy.law(view, size)
    if not isinstance(law, Law):
        raise TypeError(f"{strategy.name}.law returned {law!r}, expected a Law")
    for name, part in law._asdict().items():
        found = np.asarray(part)
        if found.shape != (view.size,) or not (found >= 0.0).all():
            raise ValueError(
                f"{strategy.name}.law gives {name} of shape {found.shape}, expected a probability "
                f"for each of {view.size} slots"
            )
        if not abs(found.sum() - 1.0) < _SHARES_OFF:
            raise ValueError(f"{strategy.name}.law gives {name} that adds up to {found.sum()}")
    return law
