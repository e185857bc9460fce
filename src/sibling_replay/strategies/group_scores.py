"""Scores of groups from the numbers that their members have in a column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.api import Strategy
from sibling_replay.strategies.view import View

SCORES = ("mean", "neyman", "relo", "shrunk")
_ROUNDING = 1e-12  # of a difference, beside what it was taken from
_LOST = 1e-6  # of the squares that leave a sum, so little remains: digits are lost


def refuse_initial(strategy: Strategy) -> None:
    """Of a strategy that draws by scores: there newcomers have no say."""
    if strategy.initial != "largest":
        raise ValueError(
            f"{strategy.name} draws by scores of groups, and a new group has the largest: initial "
            f"cannot be {strategy.initial!r}"
        )


class Sums(NamedTuple):
    """Of a column, by group."""

    groups: I64
    known: F64  # members that have a number
    total: F64
    squares: F64


def sums_of(groups: I64, values: F64) -> Sums:
    """Sums of values, given the group of each."""
    found, place = np.unique(groups, return_inverse=True)
    count, total, squares = (
        np.asarray(np.bincount(place, each), dtype=np.float64)
        for each in (np.ones(values.size), values, values**2)
    )
    return Sums(found, count, total, squares)


def sums_after(view: View, column: str, slots: I64, values: F64) -> Sums:
    """The sums that a column has in the groups of some slots once these values are written; of a
    slot named twice the last counts."""
    slots, last = np.unique(slots[::-1], return_index=True)
    values = values[::-1][last]
    groups, place = np.unique(view.groups(slots), return_inverse=True)
    before = view.column(column)[slots]
    known = np.isfinite(before)
    before = np.where(known, before, 0.0)
    count, total, squares = view.column_sums(column, groups)
    count += np.bincount(place, ~known)
    total += np.bincount(place, values - before)
    squares += np.bincount(place, values**2 - before**2)
    for lost in np.flatnonzero(squares <= _LOST * np.bincount(place, before**2)):
        members = view.members(groups[lost])
        numbers = view.column(column)[members]
        own = np.flatnonzero(np.isin(members, slots))
        numbers[own] = values[np.searchsorted(slots, members[own])]
        numbers = numbers[np.isfinite(numbers)]
        total[lost], squares[lost] = numbers.sum(), (numbers**2).sum()
    return Sums(groups, count, total, squares)


def scores_of(kind: str, sums: Sums, beyond: Sums | None = None) -> F64:
    """Scores of groups by their TD errors, and, for "relo", by those against the target network's
    values."""
    square = (sums.total / sums.known) ** 2  # of the mean
    if kind == "neyman":
        square = sums.squares / sums.known
    elif beyond is not None:
        square = _rest(square, (beyond.total / beyond.known) ** 2)
    elif kind == "shrunk":
        spread = np.maximum(sums.squares - sums.known * square, 0.0)
        pooled = spread.sum() / max((sums.known - 1.0).sum(), 1.0)
        square = _rest(square, (spread + pooled) / sums.known**2)  # as if it had one error more
    return np.asarray(np.sqrt(square))


def _rest(square: F64, less: F64) -> F64:
    """What is left of a square; rounding, whose root would be large beside nothing, is nothing."""
    rest = square - less
    return np.where(rest > _ROUNDING * square, rest, 0.0)
