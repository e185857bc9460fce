"""What a grouping would do for a buffer: how much of what selection adds it keeps, what its groups
tell apart, and what they mix. Pure functions of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.diagnostics.split_test import mixed_draws
from sibling_replay.grouping.support import explained, support_of_groups

F64 = NDArray[np.float64]

MOST_RARE = 0.05  # share of entries that may be called rare
_TOP = 0.02  # share of entries of the largest masses, in the place of a rare reward


@dataclass(frozen=True)
class RareOutcome:
    """An outcome that prioritized replay draws more often than it is stored, `ratio` times.

    Examples:
        >>> rare = rare_outcome([0.0] * 99 + [50.0], [1.0] * 99 + [9.0])
        >>> int(rare.entries.sum())
        1
    """

    entries: NDArray[np.bool_]  # [N]
    by: Literal["reward", "mass"]
    share: float  # of the entries
    ratio: float  # R: share of PER's draws over share of the entries


def rare_outcome(rewards: ArrayLike, masses: ArrayLike) -> RareOutcome:
    """The rewards that are farthest from the median, up to 5 percent of the entries. Where so few
    have none of their own, as if all rewards are equal, the 2 percent of the largest masses.

    Examples:
        >>> rare = rare_outcome([0.0] * 98 + [50.0] * 2, [1.0] * 98 + [9.0] * 2)
        >>> rare.by, rare.share, round(rare.ratio, 2)
        ('reward', 0.02, 7.76)
    """
    reward, mass = (np.asarray(array, dtype=np.float64) for array in (rewards, masses))
    far = np.abs(reward - np.median(reward))
    values, counts = np.unique(far, return_counts=True)
    few = np.cumsum(counts[::-1])[::-1] <= MOST_RARE * reward.size
    by: Literal["reward", "mass"] = "reward" if few.any() else "mass"
    if few.any():
        entries = far >= values[few][0]
    else:
        entries = mass >= np.sort(mass)[-max(1, int(_TOP * mass.size))]
    return RareOutcome(entries, by, float(entries.mean()), _ratio(mass, entries))


@dataclass(frozen=True)
class Entries:
    """What is known of N entries before they are grouped.

    Examples:
        >>> n = 100
        >>> rewards, masses = np.array([0.0] * 98 + [50.0] * 2), np.ones(n)
        >>> ends, where = np.zeros(n, dtype=bool), np.zeros((n, 1))
        >>> rare = rare_outcome(rewards, masses)
        >>> entries = Entries(masses, rewards, ends, rewards, where, rare)
        >>> entries.masses.size
        100
    """

    masses: F64  # [N]
    rewards: F64  # [N]
    ends: NDArray[np.bool_]  # [N] terminated
    tested: NDArray[np.generic]  # [N, V] in which siblings should not differ by where they lie
    positions: F64  # [N, S] where they lie
    rare: RareOutcome


@dataclass(frozen=True)
class Granularity:
    """A grouping of N entries, measured. Shares of variance are of ranks, and beyond chance.

    Examples:
        >>> n = 100
        >>> rewards, masses = np.array([0.0] * 98 + [50.0] * 2), np.ones(n)
        >>> ends, where = np.zeros(n, dtype=bool), np.zeros((n, 1))
        >>> rare = rare_outcome(rewards, masses)
        >>> entries = Entries(masses, rewards, ends, rewards, where, rare)
        >>> granularity(np.arange(n) % 4, entries).groups_per_entry
        0.04
    """

    groups: int
    groups_per_entry: float  # G / N, the noise kept
    median_bucket: float  # entries of the median group
    in_tens: float  # share of entries in groups of at least 10
    in_hundreds: float
    predicted_ratio: float  # R of SAMPLE, where siblings share an outcome law
    measured_ratio: float  # R of SAMPLE's law on these entries
    explained_priority: float
    explained_reward: float
    explained_end: float
    heterogeneous_draws: float  # share of draws from groups that the split test finds mixed


def granularity(groups: NDArray[np.int64], entries: Entries) -> Granularity:
    """Measure a grouping; groups are numbered from 0.

    Examples:
        >>> n = 100
        >>> rewards, masses = np.array([0.0] * 98 + [50.0] * 2), np.ones(n)
        >>> ends, where = np.zeros(n, dtype=bool), np.zeros((n, 1))
        >>> rare = rare_outcome(rewards, masses)
        >>> entries = Entries(masses, rewards, ends, rewards, where, rare)
        >>> found = granularity(np.arange(n) % 4, entries)
        >>> found.groups, found.median_bucket
        (4, 25.0)
    """
    size = np.bincount(groups)
    mass = np.bincount(groups, entries.masses)
    support = support_of_groups(groups)
    kept = support.groups_per_entry
    return Granularity(
        groups=support.groups,
        groups_per_entry=kept,
        median_bucket=support.median_bucket,
        in_tens=float(size[size >= 10].sum() / size.sum()),
        in_hundreds=support.in_hundreds,
        predicted_ratio=1.0 + (entries.rare.ratio - 1.0) * kept,
        measured_ratio=_ratio((mass / size)[groups], entries.rare.entries),
        explained_priority=explained(groups, entries.masses),
        explained_reward=explained(groups, entries.rewards),
        explained_end=explained(groups, entries.ends),
        heterogeneous_draws=mixed_draws(groups, entries.masses, entries.positions, entries.tested),
    )


def _ratio(weights: F64, entries: NDArray[np.bool_]) -> float:
    """Share of draws over share of entries."""
    return float(weights[entries].sum() / weights.sum() / entries.mean())
