"""A buffer at one moment, counted: how often each outcome of each group is stored, and how much
priority mass lies on it.

Every full-buffer diagnostic is a function of these counts. A *cell* is one outcome
o = (s', r, term, trunc) of one group g; entries that share it are pooled, as the paper does before
it compares frequencies (appendix "Outcome frequencies").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.grouping.leaves import parts_of

OUTCOME_FIELDS = ("next_obs", "reward", "terminated", "truncated")

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Census:
    """O cells, of G occupied groups. Masses are relative: only their ratios mean anything.

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> census.count.tolist(), np.round(census.mass, 6).tolist()  # per cell: a group's outcome
        ([3, 1], [0.6, 1.0])
    """

    outcome: I64  # [O] the caller's number of the outcome
    owner: I64  # [O] place of the cell's group below
    count: I64  # [O] n_{g,o}
    mass: F64  # [O] sum of u_i
    corrected: F64  # [O] sum of u_i^(1 - beta): unnormalised importance weighting (eq. 6)
    group: I64  # [G] the caller's number of the group
    group_count: I64  # [G] n_g
    group_mass: F64  # [G] s_g
    group_corrected: F64  # [G]
    group_squares: F64  # [G] sum of u_i^2

    def by_group(self, cell_values: ArrayLike) -> F64:
        """The sum over each group's cells."""
        values = np.asarray(cell_values, dtype=np.float64)
        return np.bincount(self.owner, weights=values, minlength=len(self.group)).astype(np.float64)

    @property
    def probability(self) -> F64:
        """[O] q_g(o), how often PER replays the outcome once it is in the group."""
        return np.asarray(self.mass / self.group_mass[self.owner])

    @property
    def frequency(self) -> F64:
        """[O] f_g(o), how often the outcome happened."""
        return np.asarray(self.count / self.group_count[self.owner])

    @property
    def effective(self) -> F64:
        """[O] the outcome's share of the group's expected update under pi_beta (eq. 6)."""
        return np.asarray(self.corrected / self.group_corrected[self.owner])

    @property
    def group_probability(self) -> F64:
        """[G] s_g / S (eq. 5)."""
        return np.asarray(self.group_mass / self.group_mass.sum())


def take_census(groups: ArrayLike, outcomes: ArrayLike, masses: ArrayLike, beta: float) -> Census:
    """Count N live entries, given the group, the outcome and the mass u_i > 0 of each.

    Outcomes are numbers, equal for equal outcomes; the same number in two groups is two cells.

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> census.group_count.tolist()
        [4]
    """
    group, outcome = np.asarray(groups, dtype=np.int64), np.asarray(outcomes, dtype=np.int64)
    mass = np.asarray(masses, dtype=np.float64)
    if mass.ndim != 1 or mass.size == 0 or group.shape != mass.shape or outcome.shape != mass.shape:
        raise ValueError(
            f"expected one group, outcome and mass per entry, got shapes "
            f"{group.shape}, {outcome.shape}, {mass.shape}"
        )
    bad = np.flatnonzero(~((mass > 0) & np.isfinite(mass)))
    if bad.size:
        raise ValueError(f"the mass of entry {bad[0]} is {mass[bad[0]]}: it must be positive")
    if not 0.0 <= beta <= 1.0:
        raise ValueError(f"beta must be from 0 to 1, got {beta}")
    group_number, group_place = np.unique(group, return_inverse=True)
    outcome_number, outcome_place = np.unique(outcome, return_inverse=True)
    # one number per (group, outcome) there is, whatever the caller's numbers are
    joint, cell = np.unique(group_place * outcome_number.size + outcome_place, return_inverse=True)
    place = joint % outcome_number.size
    pooled = _pool(cell, joint.size, mass, beta)
    return _assemble(outcome_number[place], joint // outcome_number.size, group_number, pooled)


def take_tabular_census(
    outcomes: NDArray[np.integer[Any]], masses: F64, width: int, cells: int, beta: float
) -> Census:
    """The same where outcomes are numbered g * width + o, below `cells`, as the compiled trainer
    numbers them. Without sorting: a few passes over the entries.

    Examples:
        >>> outcomes = np.array([0, 0, 3])  # 0 and 1 are of group 0, 2 and 3 of group 1
        >>> census = take_tabular_census(outcomes, np.ones(3), width=2, cells=4, beta=0.4)
        >>> census.group_count.tolist()
        [2, 1]
    """
    pooled = _pool(outcomes, cells, masses, beta)
    cell = np.flatnonzero(pooled.count)
    group_number, owner = np.unique(cell // width, return_inverse=True)
    return _assemble(cell, owner, group_number, pooled.at(cell))


@dataclass(frozen=True)
class _Pooled:
    """Sums over the entries of each cell."""

    count: I64
    mass: F64
    corrected: F64
    squares: F64

    def at(self, cells: I64) -> _Pooled:
        return _Pooled(
            self.count[cells], self.mass[cells], self.corrected[cells], self.squares[cells]
        )


def _pool(cell: NDArray[np.integer[Any]], cells: int, masses: F64, beta: float) -> _Pooled:
    mass = masses / masses.max()  # masses near 1e300 must not overflow a square

    def summed(values: F64) -> F64:
        return np.bincount(cell, weights=values, minlength=cells).astype(np.float64)

    count = np.bincount(cell, minlength=cells)
    # the two ends without a power, which costs as much as everything else here
    if beta == 0.0:
        corrected = summed(mass)
    elif beta == 1.0:
        corrected = count.astype(np.float64)
    else:
        corrected = summed(mass ** (1.0 - beta))
    return _Pooled(count, summed(mass), corrected, summed(mass * mass))


def _assemble(outcome: I64, owner: I64, group: I64, pooled: _Pooled) -> Census:
    def summed(values: NDArray[Any]) -> F64:
        return np.bincount(owner, weights=values, minlength=len(group)).astype(np.float64)

    return Census(
        outcome=outcome,
        owner=owner,
        count=pooled.count,
        mass=pooled.mass,
        corrected=pooled.corrected,
        group=group,
        group_count=summed(pooled.count).astype(np.int64),
        group_mass=summed(pooled.mass),
        group_corrected=summed(pooled.corrected),
        group_squares=summed(pooled.squares),
    )


def outcome_numbers(columns: Mapping[str, NDArray[Any]]) -> I64:
    """Equal (s', r, term, trunc), equal number. Takes stored columns.

    Examples:
        >>> columns = {"next_obs": np.array([4, 4]), "reward": np.array([0.0, 1.0]),
        ...            "terminated": np.zeros(2, dtype=bool), "truncated": np.zeros(2, dtype=bool)}
        >>> outcome_numbers(columns).tolist()
        [0, 1]
    """
    missing = [name for name in OUTCOME_FIELDS if name not in columns]
    if missing:
        raise ValueError(f"outcomes need the columns {', '.join(missing)}")
    return equal_rows([columns[name] for name in OUTCOME_FIELDS])


def equal_rows(columns: Sequence[NDArray[Any]]) -> I64:
    """Numbers for the rows of some columns, equal where the rows are: by value, so -0.0 is 0.0.

    Examples:
        >>> equal_rows([np.array([1.0, 2.0, 1.0]), np.array([0, 0, 0])]).tolist()
        [1, 0, 1]
    """
    arrays = [np.asarray(part) for column in columns for part in parts_of(column)]
    numbers = np.zeros(len(arrays[0]), dtype=np.int64)
    for array in arrays:
        values = array.reshape(len(numbers), -1)
        if values.dtype.kind == "f":
            values = values + 0.0  # -0.0 becomes 0.0
        row = np.dtype((np.void, values.itemsize * values.shape[1]))
        _, place = np.unique(np.ascontiguousarray(values).view(row).ravel(), return_inverse=True)
        # joined column by column, so numbers stay below N^2
        joined = numbers * (int(place.max(initial=0)) + 1) + place
        _, numbers = np.unique(joined, return_inverse=True)
    return numbers
