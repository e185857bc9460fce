"""The microscope: everything the paper measures of one buffer, from plain arrays.

`examine` looks at a live buffer and `examine_transitions` at columns, so it can be called inside
any training loop; both only read. What they return is about PER on this buffer as it is: how it
would choose groups, and what it would show of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.diagnostics import distortion
from sibling_replay.diagnostics.census import (
    F64,
    I64,
    Census,
    equal_rows,
    outcome_numbers,
    take_census,
)
from sibling_replay.diagnostics.minibatch import expected_ess
from sibling_replay.grouping.key_map import Key, KeyMap, as_key, checked_keys

EXACT_KEY = ("obs", "action")
WIDEST_RANGE = 1e150  # of masses: squares of their ratios must stay numbers


class Replay(Protocol):
    """What `examine` needs of a buffer; `ReplayBuffer` has it."""

    def transitions(self) -> Mapping[str, NDArray[Any]]: ...

    @property
    def masses(self) -> F64: ...

    @property
    def groups(self) -> I64: ...


@dataclass(frozen=True)
class Findings:
    """N entries in G groups, measured. Shifts are of targets, or of rewards in their place.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> findings.tv.tolist(), findings.shift.tolist()  # of each group
        ([0.375], [3.0])
    """

    census: Census  # by outcome (s', r, term, trunc)
    beta: float
    groups: I64  # [N]
    outcomes: I64  # [N] equal numbers, equal outcomes
    targets: F64  # [N]
    rewards_as_targets: bool
    tv: F64  # [G] D_g
    shift: F64  # [G] B_g, before importance weighting
    corrected_shift: F64  # [G] after it, unnormalised
    mean: F64  # [G] empirical mean target
    variance: F64  # [G] of the targets, each sibling counting the same
    concentration: F64  # [G] C_g
    distinct: I64  # [G] different outcomes
    batch_size: int
    prioritized_ess: float  # expected, of a minibatch of PER's
    sibling_ess: float  # of SAMPLE's
    equal_masses: bool  # of all entries

    @property
    def entries(self) -> int:
        return len(self.groups)


def examine(
    buffer: Replay,
    *,
    key: Key = None,
    beta: float = 0.4,
    targets: ArrayLike | None = None,
    batch_size: int = 32,
) -> Findings:
    """Look at a live buffer, by its own groups; where it keeps none, by equal (obs, action). With a
    `key`, by the groups that it would make.

    `targets` has one Bellman target per live slot, in order; without it rewards stand in.

    Examples:
        >>> buffer = ReplayBuffer.for_env(gym.make("FrozenLake-v1"), 10, Prioritized(), seed=0)
        >>> buffer.add(0, 1, 0.5, 4, False, False)
        >>> examine(buffer, beta=0.4).tv.tolist()  # one entry: nothing is misplaced
        [0.0]
    """
    if buffer.masses.size == 0:
        raise ValueError("the buffer is empty: there is nothing to look at")
    groups = buffer.groups
    kept = key is None and groups.size > 0 and bool((groups >= 0).all())
    return examine_transitions(
        buffer.transitions(),
        buffer.masses,
        groups=groups if kept else None,
        key=key,
        beta=beta,
        targets=targets,
        batch_size=batch_size,
    )


def examine_transitions(
    columns: Mapping[str, NDArray[Any]],
    masses: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    key: Key = None,
    beta: float = 0.4,
    targets: ArrayLike | None = None,
    batch_size: int = 32,
) -> Findings:
    """Look at N transitions given as columns, with the mass u_i = priority^alpha of each.

    Siblings are entries of equal `groups`, or of equal key and action: `key` is a `KeyMap`, a
    function key(obs, action), or "exact", equal (obs, action), as it is without either.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> findings.shift.tolist()  # PER's mean reward minus the empirical one
        [3.0]
    """
    mass = np.asarray(masses, dtype=np.float64)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    outcomes = outcome_numbers(columns)
    if groups is None:
        groups = _groups(columns, key)
    elif key is not None:
        raise ValueError("groups and key both say what makes siblings: give one of them")
    group = np.asarray(groups, dtype=np.int64)
    census = take_census(group, outcomes, mass, beta)
    if mass.max() / WIDEST_RANGE > mass.min():
        raise ValueError(
            f"the masses range from {mass.min():.3g} (entry {mass.argmin()}) to {mass.max():.3g} "
            f"(entry {mass.argmax()}): too far apart to compare"
        )
    target = np.asarray(columns["reward"] if targets is None else targets, dtype=np.float64)
    if target.shape != mass.shape:
        raise ValueError(f"expected one target per entry, {mass.shape}, got {target.shape}")
    unfit = np.flatnonzero(~np.isfinite(target))
    if unfit.size:
        raise ValueError(f"the target of entry {unfit[0]} is {target[unfit[0]]}")

    # Entries of one outcome may have different targets, if those were computed at different times:
    # shifts are sums over targets, so they are taken over cells of equal targets.
    values, number = np.unique(target, return_inverse=True)
    by_target = take_census(group, number, mass, beta)
    cell_targets = values[by_target.outcome]
    mean = distortion.mean_target(by_target, cell_targets)
    deviation = cell_targets - mean[by_target.owner]
    return Findings(
        census=census,
        beta=beta,
        groups=group,
        outcomes=outcomes,
        targets=target,
        rewards_as_targets=targets is None,
        tv=distortion.outcome_tv(census),
        # of deviations: the shift is the same, and a large common level cannot drown it
        shift=distortion.target_shift(by_target, deviation),
        corrected_shift=distortion.corrected_shift(by_target, deviation),
        mean=mean,
        variance=by_target.by_group(by_target.frequency * deviation**2),
        concentration=distortion.entry_concentration(census),
        distinct=np.bincount(census.owner, minlength=len(census.group)),
        batch_size=batch_size,
        prioritized_ess=_ess(mass, mass / mass.max(), beta, batch_size),
        sibling_ess=_ess(
            census.group_mass / census.group_count, census.group_probability, beta, batch_size
        ),
        equal_masses=bool(mass.min() == mass.max()),
    )


def _groups(columns: Mapping[str, NDArray[Any]], key: Key) -> I64:
    found = as_key("exact" if key is None else key, True, "examine")
    if found == "given":
        raise ValueError('key="given" needs the groups: give them as `groups`')
    obs, action = (columns[name] for name in EXACT_KEY)
    if not isinstance(found, KeyMap):
        return equal_rows([obs, action])
    keys = checked_keys(found, obs, action)
    return equal_rows([keys] if found.covers(action.dtype) else [keys, action])


def _ess(mean_masses: F64, probabilities: F64, beta: float, batch_size: int) -> float:
    """Of weights m^-beta, up to a factor. m is the mass u_i behind each entry that PER draws, or
    the mean mass s_g / n_g behind each group that SAMPLE draws (eq. 3, eq. 10)."""
    weights = (mean_masses.min() / mean_masses) ** beta
    return expected_ess(weights, probabilities, batch_size)
