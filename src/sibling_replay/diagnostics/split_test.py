"""Is a group one thing? A rank test of its entries, split by where they lie inside the group.

Targets have heavy tails: tests of means miss what they are looking for, so ranks are compared, as
normal scores (van der Waerden), and many groups are judged at once at a false-discovery rate
(Benjamini-Hochberg).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.grouping.leaves import parts_of

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

FALSE_DISCOVERIES = 0.01  # share of the groups called heterogeneous that are not
LEAST_CHILD = 5  # entries of a child: with fewer, the law of the statistic is off
LEAST_VARIED = 2  # of them that do not have the commonest value, if it has its share of these
_TELLING = 0.05  # p-value up to which other groups speak for a split
_DIRECTIONS = 6  # in which a group is split
_ROWS = 1_000  # from which directions of wide observations are found
_CHUNK = 2**22  # numbers at a time


def split_test(groups: ArrayLike, children: ArrayLike, values: ArrayLike) -> F64:
    """[G] p-values, groups in ascending order: whether values differ between a group's children.

    groups: [N].
    children: [N], or [N, S] for S ways to split.
    values: [N], or [N, V] for V values.

    Of several p-values for a group the least counts, divided by its share of the level: half of the
    level is spread evenly, half by how often a split and value told something in the *other* groups
    (a weighted Bonferroni correction; of a single group, the plain one).
    A child takes part if it has at least 5 entries, and at least 2 of the entries without the
    group's commonest value would be its share: rewards that are nearly all equal need larger
    groups. NaN for a group that has no two such children.

    Examples:
        >>> children = np.repeat([0, 1], 20)
        >>> p = split_test(np.zeros(40, dtype=int), children, np.arange(40.0))
        >>> bool(p[0] < 0.001)
        True
    """
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    splits, tested = (_columns(array, group.size) for array in (children, values))
    scored = [_normal_scores(group, value) for value in tested.T]
    p = np.array([_differences(group, child, *found) for child in splits.T for found in scored])
    least = np.min(np.where(np.isnan(p), np.inf, p / _level_shares(p)), axis=0)
    return np.where(np.isinf(least), np.nan, np.minimum(1.0, least))


def _level_shares(p: F64) -> F64:
    """[tests, G] which sum to one over the tests of a group, and do not depend on its p-values, so
    that its false positives stay those of the level."""
    tested = ~np.isnan(p)
    told = p <= _TELLING
    votes = tested * (1 + np.count_nonzero(told, axis=1, keepdims=True) - told)
    even, by_others = (share / np.maximum(share.sum(axis=0), 1) for share in (tested, votes))
    return np.where(tested, (even + by_others) / 2, 1.0)


def heterogeneous(p_values: ArrayLike, rate: float = FALSE_DISCOVERIES) -> NDArray[np.bool_]:
    """Which of many tests found something, at a false-discovery rate. NaN never did.

    Examples:
        >>> heterogeneous([1e-6, 0.5, np.nan]).tolist()
        [True, False, False]
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.sort(p[~np.isnan(p)])
    under = np.flatnonzero(tested <= rate * np.arange(1, tested.size + 1) / max(1, tested.size))
    return p <= (tested[under[-1]] if under.size else -1.0)


def halves(groups: ArrayLike, positions: ArrayLike) -> NDArray[np.bool_]:
    """[N, S] whether an entry lies above the mean of its group, for each of S positions.

    Of the mean, not the median: where half the entries share a value, that would not split them.

    Examples:
        >>> halves([0, 0, 0, 0], np.array([[1.0], [2.0], [3.0], [9.0]])).ravel().tolist()
        [False, False, False, True]
    """
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    where = _columns(positions, group.size).astype(np.float64)
    size = np.bincount(group)
    means = [(np.bincount(group, column) / size)[group] for column in where.T]
    return where > np.stack(means, axis=1)


def mixed_draws(
    groups: ArrayLike, masses: ArrayLike, positions: ArrayLike, values: ArrayLike
) -> float:
    """The share of draws by mass from groups whose values differ by where entries lie.

    groups, masses: [N]. positions: [N, S]. values: [N], or [N, V].

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> where = rng.normal(size=(200, 1))
        >>> values = where[:, 0]  # they follow the positions
        >>> mixed_draws(np.zeros(200, dtype=int), np.ones(200), where, values)
        1.0
    """
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    drawn = np.bincount(group, np.asarray(masses, dtype=np.float64))
    mixed = heterogeneous(split_test(group, halves(group, positions), values))
    return float(drawn[mixed].sum() / drawn.sum())


def positions_of(obs: Any, action: ArrayLike | None = None) -> F64:
    """[N, S] where entries lie: the dimensions themselves, or of more than 6 the 6 principal
    directions of the standardised ones. Actions that are real numbers are dimensions, too. What is
    not finite counts as zero.

    Examples:
        >>> positions_of(np.zeros((5, 3))).shape
        (5, 3)
    """
    parts = [np.asarray(part) for part in parts_of(obs)]
    if action is not None and np.asarray(action).dtype.kind == "f":
        parts.append(np.asarray(action))
    rows = [part.reshape(len(part), -1) for part in parts]

    def taken(which: I64 | slice) -> F64:
        found: F64 = np.concatenate([part[which].astype(np.float64) for part in rows], axis=1)
        np.nan_to_num(found, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        return found

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


def _normal_scores(group: I64, value: NDArray[np.generic]) -> tuple[F64, I64]:
    """[N] what normal numbers of these ranks inside their groups would be, of equal values one; and
    [G] how many entries do not have the commonest value of their group."""
    from scipy.special import ndtri  # slow to import

    order = np.lexsort((value, group))
    g, v = group[order], value[order]
    begins = np.flatnonzero(np.append(True, (g[1:] != g[:-1]) | (v[1:] != v[:-1])))
    ties = np.diff(np.append(begins, g.size))
    size = np.bincount(group)
    first = np.cumsum(size) - size  # where a group begins
    owner = g[begins]
    ranks = begins - first[owner] + (ties + 1) / 2  # from 1
    scores = np.empty(group.size)
    scores[order] = np.repeat(ndtri(ranks / (size[owner] + 1)), ties)
    commonest = np.zeros_like(size)
    np.maximum.at(commonest, owner, ties)
    return scores, size - commonest


def _differences(group: I64, child: NDArray[np.generic], scores: F64, varied: I64) -> F64:
    """[G] p-values of one split and one value; `group` is numbered from 0."""
    from scipy.special import betainc

    groups = varied.size
    _, label = np.unique(child, return_inverse=True)
    labels = int(label.max()) + 1
    cells, cell = np.unique(group * labels + label, return_inverse=True)
    owner, size = cells // labels, np.bincount(cell)
    share = size / np.bincount(group)[owner]
    tested = (size >= LEAST_CHILD) & (share * varied[owner] >= LEAST_VARIED)
    children = np.bincount(owner, tested, groups)
    entries = np.bincount(owner, tested * size, groups)
    means = np.bincount(owner, tested * np.bincount(cell, scores), groups) / np.maximum(entries, 1)
    away = scores - means[group]
    between = np.bincount(owner, tested * np.bincount(cell, away) ** 2 / size, groups)
    total = np.bincount(group, tested[cell] * away**2, groups)
    p = np.full(groups, np.nan)
    fit = (children >= 2) & (total > 0)
    within = np.clip(1.0 - between[fit] / total[fit], 0.0, 1.0)
    # The law of this share where scores are normal: of an F test.
    p[fit] = betainc((entries[fit] - children[fit]) / 2, (children[fit] - 1) / 2, within)
    return p
