"""What naive laws and refreshes read: a buffer and a draw as plain Python data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np


class Entry(NamedTuple):
    """A live entry.

    Examples:
        >>> Entry(slot=0, mass=1.5, key=7, outcome=0, age=3).key
        7
    """

    slot: int
    mass: float  # priority^alpha
    key: int  # entries with equal keys are siblings
    outcome: int  # entries with equal outcomes led to the same
    age: int  # how many entries were added (or slots emptied) after it
    columns: Mapping[str, float] = {}  # what the strategy notes of it
    score: float = 1.0  # of its group


class Update(NamedTuple):
    """What a refresh or a sweep writes for an entry; None or nothing stays as it was.

    Examples:
        >>> Update(slot=3, priority=0.5).columns
        {}
    """

    slot: int
    priority: float | None = None  # before alpha
    columns: Mapping[str, float] = {}
    score: float | None = None  # of the entry's group


class Row(NamedTuple):
    """A row of a drawn batch and what came back for it. Slots are those of the draw.

    Examples:
        >>> Row._fields
        ('slot', 'anchor', 'outcome_slot', 'terms', 'siblings', 'td_error', 'signals')
    """

    slot: int  # trained
    anchor: int
    outcome_slot: int
    terms: tuple[int, ...]  # the slots averaged over; without averages the outcome's alone
    siblings: tuple[int, ...]  # of the anchor, at the draw, the anchor among them
    td_error: float  # target minus value
    signals: Mapping[str, float]


NaiveLaw: TypeAlias = Callable[[list[Entry], int], Sequence[Any]]
"""law(entries, size): the probabilities of one row of a batch of that size to have each entry as
anchor, as trained slot and as outcome: three sequences in the order of the entries. A fourth may
follow, where the two are drawn one from the other: the chance of anchor i and outcome j together,
for every pair [N][N]."""

NaiveRefresh: TypeAlias = Callable[[list[Entry], list[Row]], Iterable[Update | tuple[int, float]]]
"""refresh(entries, rows): an `Update`, or a pair of a slot and its new priority, for each
update; of several for one slot the last stays. Updates of entries that have gone need no thought:
they are left out of what is expected."""

NaiveSweep: TypeAlias = Callable[[list[Entry]], Iterable[Update | tuple[int, float]]]
"""sweep(entries): what comes after every `needs.sweep` refreshes."""


class NaiveRule(Protocol):
    """Both, for a rule that remembers something between refreshes.

    Examples:
        >>> NaiveRule.refresh.__name__, NaiveRule.sweep.__name__
        ('refresh', 'sweep')
    """

    def refresh(
        self, entries: list[Entry], rows: list[Row]
    ) -> Iterable[Update | tuple[int, float]]: ...

    def sweep(self, entries: list[Entry]) -> Iterable[Update | tuple[int, float]]: ...


WeightedBy: TypeAlias = Literal["trained", "outcome", "ones"] | None
"""The law whose importance weights rows get: (N P)^-beta of the trained slot, with P from the
trained or from the outcome law; weights of one; or None, and weights are not checked."""

MakeSignals: TypeAlias = Callable[[np.random.Generator, int], Mapping[str, Any]]
"""signals(rng, size): the signals that go with `size` TD errors."""
