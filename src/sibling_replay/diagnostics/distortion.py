"""How far prioritized replay bends what a group's stored outcomes say: frequencies and targets.

Each function takes a `Census` and gives one number per group, [G]; `by_mass` averages them over
groups as PER chooses them. They are fixed-buffer quantities: with the group given, SAMPLE has zero
of each by identity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.diagnostics.census import Census

F64 = NDArray[np.float64]


def outcome_tv(census: Census) -> F64:
    """D_g = 1/2 sum_o |q_g(o) - f_g(o)| (eq. 15): the probability mass that is misplaced.

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> outcome_tv(census).tolist()  # outcome 1: a quarter of the entries, 5/8 of the mass
        [0.375]
    """
    return census.by_group(np.abs(census.probability - census.frequency)) / 2.0


def target_shift(census: Census, targets: ArrayLike) -> F64:
    """B_g = sum_o (q_g(o) - f_g(o)) Y(o): PER's mean target minus the empirical one, before IS
    (appendix "Bias of PER's within-group target"). `targets` has one Y per cell.

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> target_shift(census, [0.0, 8.0]).tolist()
        [3.0]
    """
    return census.by_group((census.probability - census.frequency) * np.asarray(targets))


def corrected_shift(census: Census, targets: ArrayLike) -> F64:
    """Delta_{g,beta}: the same under the effective weights pi_beta of unnormalised IS (eq. 6).

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> np.round(corrected_shift(census, [0.0, 8.0]), 3).tolist()
        [1.734]
    """
    return census.by_group((census.effective - census.frequency) * np.asarray(targets))


def mean_target(census: Census, targets: ArrayLike) -> F64:
    """The empirical mean target of each group, what SAMPLE trains toward (eq. 7).

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> mean_target(census, [0.0, 8.0]).tolist()
        [2.0]
    """
    return census.by_group(census.frequency * np.asarray(targets))


def entry_concentration(census: Census) -> F64:
    """C_g = n_g sum_i q_g(i)^2 - 1: unequal sampling of entries, even of one outcome.

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> np.round(entry_concentration(census), 6).tolist()
        [0.75]
    """
    squares = census.group_squares / census.group_mass**2
    return np.asarray(census.group_count * squares - 1.0)


def range_bound(census: Census, targets: ArrayLike) -> F64:
    """(max Y - min Y) D_g, which |B_g| cannot exceed (appendix "Outcome frequencies").

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> range_bound(census, [0.0, 8.0]).tolist()
        [3.0]
    """
    values = np.asarray(targets, dtype=np.float64)
    highest = np.full(len(census.group), -np.inf)
    lowest = np.full(len(census.group), np.inf)
    np.maximum.at(highest, census.owner, values)
    np.minimum.at(lowest, census.owner, values)
    return np.asarray((highest - lowest) * outcome_tv(census))


def variance_bound(census: Census, targets: ArrayLike) -> F64:
    """sqrt(C_g Var_U(Y)), which |B_g| cannot exceed either (Cauchy-Schwarz).

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> np.round(variance_bound(census, [0.0, 8.0]), 3).tolist()
        [3.0]
    """
    values = np.asarray(targets, dtype=np.float64)
    deviation = values - mean_target(census, values)[census.owner]
    variance = census.by_group(census.frequency * deviation**2)
    return np.sqrt(np.maximum(entry_concentration(census), 0.0) * variance)


def by_mass(census: Census, group_values: ArrayLike) -> float:
    """sum_g (s_g / S) x_g: the average over groups as PER selects them.

    Examples:
        >>> census = take_census([0, 0, 0, 0], [0, 0, 0, 1], [1.0, 1.0, 1.0, 5.0], beta=0.4)
        >>> by_mass(census, outcome_tv(census))
        0.375
    """
    return float(census.group_probability @ np.asarray(group_values))
