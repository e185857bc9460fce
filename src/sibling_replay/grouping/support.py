"""How well groups are filled: how much of what selection adds a correction can take away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.grouping.key_map import KeyMap, checked_keys

_FEW_COLUMNS = 4


@dataclass(frozen=True)
class Support:
    """Groups of N entries.

    groups_per_entry, G / N, is also the *noise kept*: where siblings share an outcome law, a rare
    outcome that prioritized replay draws R times as often as it is stored is drawn
    1 + (R - 1) G / N times as often by SiblingSample. 1: every group is a single entry, and the
    sibling strategies are prioritized replay. 1 / N: all entries are one group, uniform replay.

    Examples:
        >>> found = support(Exact(), np.array([[1.0], [1.0], [2.0]]), np.zeros(3, dtype=int))
        >>> found.groups, found.median_bucket
        (2, 1.5)
    """

    entries: int
    groups: int
    groups_per_entry: float
    median_bucket: float  # entries of the median group
    singletons: float  # share of entries that are alone in their group
    in_hundreds: float  # share of entries in groups of at least 100
    key: str = ""  # what makes siblings
    reason: str = ""  # why that

    def __str__(self) -> str:
        text = (
            f"{self.entries:,} entries in {self.groups:,} groups (G/N "
            f"{self.groups_per_entry:.4f}): median {self.median_bucket:g} entries, "
            f"{self.singletons:.1%} alone, {self.in_hundreds:.1%} in groups of 100 or more"
        )
        text += f"\nkey: {self.key}" if self.key else ""
        return text + (f"\nbecause: {self.reason}" if self.reason else "")


def support_of_groups(groups: ArrayLike, key: str = "", reason: str = "") -> Support:
    """Of entries whose groups have these numbers; the numbers themselves mean nothing."""
    _, sizes = np.unique(np.asarray(groups), return_counts=True)
    entries = int(sizes.sum())
    nan = float("nan")
    return Support(
        entries=entries,
        groups=sizes.size,
        groups_per_entry=sizes.size / entries if entries else nan,
        median_bucket=float(np.median(sizes)) if entries else nan,
        singletons=float((sizes == 1).sum() / entries) if entries else nan,
        in_hundreds=float(sizes[sizes >= 100].sum() / entries) if entries else nan,
        key=key,
        reason=reason,
    )


def support(key: KeyMap, obs: Any, action: Any) -> Support:
    """Of the groups that a map makes of observations and actions.

    Examples:
        >>> obs, actions = np.array([[1.0], [1.0], [2.0]]), np.array([0, 1, 0])
        >>> support(Exact(), obs, actions).groups
        3
    """
    return support_of_groups(group_numbers(checked_keys(key, obs, action), action), repr(key))


def group_numbers(keys: ArrayLike, action: Any = None) -> NDArray[np.int64]:
    """Entries of equal key and action, numbered from 0. Actions that are real numbers are in the
    keys."""
    columns = [np.asarray(keys)]
    columns[0] = columns[0].reshape(len(columns[0]), -1)
    if action is not None:
        actions = np.asarray(action)
        if actions.dtype.kind != "f":
            columns.append(actions.reshape(len(actions), -1).astype(np.int64))
    whole = np.ascontiguousarray(np.concatenate(columns, axis=1))
    if whole.shape[1] > _FEW_COLUMNS:  # sorting rows takes longer than looking them up
        seen: dict[bytes, int] = {}
        return np.array([seen.setdefault(row.tobytes(), len(seen)) for row in whole], np.int64)
    numbers = np.zeros(len(whole), dtype=np.int64)
    for column in whole.T:
        _, found = np.unique(column, return_inverse=True)
        _, numbers = np.unique(numbers * (found.max(initial=0) + 1) + found, return_inverse=True)
    return numbers


def explained(groups: NDArray[np.int64], values: ArrayLike) -> float:
    """The share of the variance of the ranks of values that lies between groups, beyond what as
    many random groups would explain (adjusted R^2). 0 where all values are equal or all groups are
    single entries."""
    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - 0.5 * counts)[places]  # of equal values the middle
    ranks -= ranks.mean()
    sizes = np.bincount(groups)
    total, spare = float(ranks @ ranks), ranks.size - np.count_nonzero(sizes)
    if total == 0.0 or spare <= 0:
        return 0.0
    means = np.bincount(groups, ranks) / np.maximum(sizes, 1)
    within = float(((ranks - means[groups]) ** 2).sum())
    return float(1.0 - (within / spare) / (total / (ranks.size - 1)))
