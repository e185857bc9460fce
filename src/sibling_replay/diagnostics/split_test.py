"""Is a group one thing? A rank test of its entries, split by where they lie inside the group.

Targets have heavy tails: tests of means miss what they are looking for, so ranks are compared
(Kruskal-Wallis), and many groups are judged at once at a false-discovery rate (Benjamini-Hochberg).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

FALSE_DISCOVERIES = 0.01  # share of the groups called heterogeneous that are not
LEAST_CHILD = 5  # entries: with fewer, the chi-square law of the statistic is off
_DIRECTIONS = 6  # in which a group is split
_ROWS = 1_000  # from which directions of wide observations are found
_CHUNK = 2**22  # numbers at a time


def split_test(groups: ArrayLike, children: ArrayLike, values: ArrayLike) -> F64:
    """[G] p-values, groups in ascending order: whether values differ between a group's children.

    groups: [N].
    children: [N], or [N, S] for S ways to split. The least of S p-values counts S-fold.
    values: [N], or [N, V] for V values, in the same way.

    Children of fewer than 5 entries are left out; NaN for a group that has no two others.
    """
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    splits, tested = (_columns(array, group.size) for array in (children, values))
    found = [_kruskal_wallis(group, child, value) for child in splits.T for value in tested.T]
    p = np.array(found).reshape(len(found), -1)
    tries = np.count_nonzero(~np.isnan(p), axis=0)
    least = np.min(np.where(np.isnan(p), np.inf, p), axis=0, initial=np.inf)
    return np.where(tries > 0, np.minimum(1.0, least * np.maximum(tries, 1)), np.nan)


def heterogeneous(p_values: ArrayLike, rate: float = FALSE_DISCOVERIES) -> NDArray[np.bool_]:
    """Which of many tests found something, at a false-discovery rate. NaN never did."""
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.sort(p[~np.isnan(p)])
    under = np.flatnonzero(tested <= rate * np.arange(1, tested.size + 1) / max(1, tested.size))
    return p <= (tested[under[-1]] if under.size else -1.0)


def halves(groups: ArrayLike, positions: ArrayLike) -> NDArray[np.bool_]:
    """[N, S] whether an entry lies above the mean of its group, for each of S positions.

    Of the mean, not the median: where half the entries share a value, that would not split them.
    """
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    where = _columns(positions, group.size).astype(np.float64)
    size = np.bincount(group)
    means = [(np.bincount(group, column) / size)[group] for column in where.T]
    return where > np.stack(means, axis=1)


def positions_of(obs: ArrayLike, action: ArrayLike | None = None) -> F64:
    """[N, S] where entries lie: the dimensions themselves, or of more than 6 the 6 principal
    directions of the standardised ones. Actions that are real numbers are dimensions, too."""
    parts = [np.asarray(obs)]
    if action is not None and np.asarray(action).dtype.kind == "f":
        parts.append(np.asarray(action))
    rows = [part.reshape(len(part), -1) for part in parts]

    def taken(which: I64 | slice) -> F64:
        return np.concatenate([part[which].astype(np.float64) for part in rows], axis=1)

    count = len(rows[0])
    if sum(part.shape[1] for part in rows) <= _DIRECTIONS:
        return taken(slice(None))
    some = taken(np.arange(min(_ROWS, count)) * count // min(_ROWS, count))
    spread = some.std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    some = (some - some.mean(axis=0)) * scale
    # The eigenvectors of the rows' products: images have more dimensions than rows are needed.
    _, vectors = np.linalg.eigh(some @ some.T)
    directions = (some.T @ vectors[:, -_DIRECTIONS:]) * scale[:, None]
    step = max(1, _CHUNK // len(scale))
    chunks = [taken(slice(i, i + step)) @ directions for i in range(0, count, step)]
    return np.concatenate(chunks)


def _columns(array: ArrayLike, entries: int) -> NDArray[np.generic]:
    found = np.asarray(array)
    if found.ndim not in (1, 2) or len(found) != entries or found.size == 0:
        raise ValueError(f"expected {entries} rows as there are entries, got shape {found.shape}")
    return found.reshape(entries, -1)


def _kruskal_wallis(group: I64, child: NDArray[np.generic], value: NDArray[np.generic]) -> F64:
    """[G] p-values of one split and one value; `group` is numbered from 0."""
    groups = int(group.max()) + 1
    _, label = np.unique(child, return_inverse=True)
    cells, cell = np.unique(group * (int(label.max()) + 1) + label, return_inverse=True)
    kept = np.bincount(cell)[cell] >= LEAST_CHILD
    group, cell, value = group[kept], cell[kept], value[kept]
    size = np.bincount(cell, minlength=cells.size)
    owner = cells // (int(label.max()) + 1)
    children = np.bincount(owner[size > 0], minlength=groups)

    ranks = _ranks(group, value)
    entries = np.bincount(group, minlength=groups)
    ranks -= ((entries + 1) / 2)[group]
    sums = np.bincount(cell, ranks, minlength=cells.size)
    between = np.bincount(owner, sums**2 / np.maximum(size, 1), minlength=groups)
    total = np.bincount(group, ranks**2, minlength=groups)
    # With ranks that equal values share, this ratio is the statistic corrected for ties.
    varied = total > 0
    statistic = np.where(varied, (entries - 1) * between / np.where(varied, total, 1.0), 0.0)
    p = np.full(groups, np.nan)
    for count in np.unique(children[children >= 2]).tolist():
        p[children == count] = _chi_square_tail(statistic[children == count], count - 1)
    return p


def _ranks(group: I64, value: NDArray[np.generic]) -> F64:
    """[n] ranks from 1 inside groups; equal values share their mean rank."""
    if group.size == 0:
        return np.zeros(0)
    order = np.lexsort((value, group))
    g, v = group[order], value[order]
    changes = np.flatnonzero(np.append(True, (g[1:] != g[:-1]) | (v[1:] != v[:-1])))
    runs = np.diff(np.append(changes, g.size))
    first = np.searchsorted(g, g[changes])  # where the run's group begins
    ranks = np.empty(group.size)
    ranks[order] = np.repeat(changes - first + (runs + 1) / 2, runs)
    return ranks


def _chi_square_tail(x: F64, dof: int) -> F64:
    """P(X > x): the closed forms of 1 and 2 degrees of freedom, and a term for every two more."""
    half = x / 2
    if dof % 2:
        tail = np.array([math.erfc(math.sqrt(h)) for h in half.tolist()])
    else:
        tail = np.exp(-half)
    logs = np.log(half, out=np.full(half.size, -np.inf), where=half > 0)
    for k in range(2 - dof % 2, dof, 2):  # from k degrees of freedom to k + 2
        tail = tail + np.exp(k / 2 * logs - half - math.lgamma(k / 2 + 1))
    return np.asarray(np.minimum(tail, 1.0))
