"""Draws whose TD errors have not come back yet, and which of them given errors belong to.

A host comes back with slots and their errors, not with the draw. It may hand back a draw late, in
parts, several draws at once, or after the buffer has been restored or emptied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sibling_replay.checkpoint import StateError
from sibling_replay.replay.arrays import F64, I64

_MOST_DRAWS, _MOST_ENTRIES = 1_024, 2**20  # remembered; the last draw is, whatever its size
_COLUMNS, _FIRST_COLUMNS = 6, 4  # of a saved row; as older versions saved it
_NOT_OF_THIS_MEMORY = -1  # the date of draws from before the buffer was emptied or restored


class Drawn(NamedTuple):
    """Rows of a draw, with what a strategy's refresh may ask of them."""

    slots: I64  # [n]: as the host got them
    refreshed: I64  # [n]: what their errors refresh (SiblingModel: the anchors)
    anchors: I64  # [n]
    weights: F64  # [n]

    def at(self, places: I64) -> Drawn:
        slots, refreshed, anchors, weights = self
        return Drawn(slots[places], refreshed[places], anchors[places], weights[places])


class Claim(NamedTuple):
    """Errors that belong to one draw."""

    places: I64  # [n]: which of the given errors
    rows: Drawn  # [n]: the rows they are of
    date: int | None  # of the draw; None if what it read is gone


@dataclass(eq=False)
class _Draw:
    rows: Drawn
    date: int
    whole: bytes  # the slots, to look for; empty once a part of the errors has come


class OpenDraws:
    """The draws that await their errors, the oldest first."""

    def __init__(self) -> None:
        self._draws: list[_Draw] = []
        self._entries = 0

    def add(self, rows: Drawn, date: int) -> None:
        self._draws.append(_Draw(rows, date, rows.slots.tobytes()))
        self._entries += rows.slots.size
        while len(self._draws) > _MOST_DRAWS or (
            self._entries > _MOST_ENTRIES and len(self._draws) > 1
        ):
            self._entries -= self._draws.pop(0).rows.slots.size

    def claim(self, slots: I64) -> list[Claim]:
        """Which draws the errors for these slots belong to; they no longer await them.

        A whole draw, the oldest of equal ones: if it read an entry that has been overwritten since,
        its error is dropped, which is safe; the other way round it would reach a newer entry.
        Otherwise errors go to the draw that awaits most of them, until no draw awaits any.
        """
        whole = slots.tobytes()
        for draw in self._by_preference():
            if draw.whole == whole and slots.size:
                self._remove(draw)
                return [_claim(np.arange(slots.size), draw, draw.rows)]
        claims = []
        left = np.arange(slots.size)
        while left.size and self._draws:
            draws = self._by_preference()
            awaited = [np.isin(slots[left], draw.rows.slots).sum() for draw in draws]
            if max(awaited) == 0:
                break
            draw = draws[int(np.argmax(awaited))]  # the first of equals
            places, entries = _pairs(slots[left], draw.rows.slots)
            claims.append(_claim(left[places], draw, draw.rows.at(entries)))
            left = np.delete(left, places)
            draw.rows = draw.rows.at(np.delete(np.arange(draw.rows.slots.size), entries))
            draw.whole = b""
            self._entries -= entries.size
            if draw.rows.slots.size == 0:
                self._remove(draw)
        return claims

    def _by_preference(self) -> list[_Draw]:
        """Oldest first, but after all others those that were drawn from what is gone: a restored
        random stream repeats old draws, and the errors are of the new ones."""
        return sorted(self._draws, key=lambda draw: draw.date == _NOT_OF_THIS_MEMORY)

    def _remove(self, draw: _Draw) -> None:
        self._draws.remove(draw)
        self._entries -= draw.rows.slots.size

    def forget_memory(self) -> None:
        """What the draws have read is gone: their errors are known, but refresh nothing."""
        for draw in self._draws:
            draw.date = _NOT_OF_THIS_MEMORY

    def rows(self) -> I64:
        """All of it as numbers: [entries, 6] of draw, date, slot, refreshed slot, anchor, and the
        bits of the weight."""
        parts = [
            np.column_stack(
                [
                    np.full_like(draw.rows.slots, number),
                    np.full_like(draw.rows.slots, draw.date),
                    *draw.rows[:3],
                    draw.rows.weights.view(np.int64),
                ]
            )
            for number, draw in enumerate(self._draws)
        ]
        return np.concatenate(parts) if parts else np.empty((0, _COLUMNS), np.int64)

    def add_rows(self, rows: I64) -> None:
        """Add what `checked_rows` has let pass."""
        for number in np.unique(rows[:, 0]):
            _, date, slots, refreshed, anchors, weights = rows[rows[:, 0] == number].T.copy()
            self.add(Drawn(slots, refreshed, anchors, weights.view(np.float64)), int(date[0]))


def checked_rows(saved: object, capacity: int) -> I64:
    """What `rows` gave, or nothing if it was never saved; an error if it cannot be that."""
    if saved is None:
        return np.empty((0, _COLUMNS), np.int64)
    rows = np.asarray(saved)
    if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] not in (_FIRST_COLUMNS, _COLUMNS):
        raise StateError(f"draws that await their errors: got {rows.dtype} {rows.shape}")
    if rows.shape[1] == _FIRST_COLUMNS:  # of the strategies of then, none asked for more
        ones = np.ones(len(rows)).view(np.int64)
        rows = np.column_stack([rows, rows[:, 3], ones])
    if ((rows[:, 2:5] < 0) | (rows[:, 2:5] >= capacity)).any():
        raise StateError(f"draws that await their errors name slots outside 0 to {capacity - 1}")
    weights = np.ascontiguousarray(rows[:, 5]).view(np.float64)
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise StateError("draws that await their errors have weights that are none")
    return rows


def _claim(places: I64, draw: _Draw, rows: Drawn) -> Claim:
    return Claim(places, rows, None if draw.date == _NOT_OF_THIS_MEMORY else draw.date)


def _pairs(slots: I64, drawn: I64) -> tuple[I64, I64]:
    """Places in `slots` and in `drawn` that hold the same slot, no place twice."""
    waiting: dict[int, list[int]] = {}
    for entry in reversed(range(drawn.size)):
        waiting.setdefault(int(drawn[entry]), []).append(entry)
    pairs = [
        (place, waiting[slot].pop())
        for place, slot in enumerate(slots.tolist())
        if waiting.get(slot)
    ]
    places, entries = np.array(pairs, dtype=np.int64).T
    return places, entries
