"""One number for many environments: how far a method is above another, in units that can be added.

A gain is the paired difference of two scores over the same seeds, [seeds, environments], over the
standard deviation that a third method, the yardstick, has over seeds in that environment (but at
least a hundredth of its mean: where it hardly varies, that deviation is luck); the mean over
environments is what hypotheses are about. Intervals and p-values are by a bootstrap over
seeds, each environment's drawn anew by itself; the unit is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.artefacts.statistics import CONFIDENCE, F64, RESAMPLES, Interval

LEAST_UNIT = 0.01  # of the size of the yardstick's mean


def units(yardstick: ArrayLike) -> F64:
    """What a gain is measured in, [environments]: from the yardstick's scores, [seeds,
    environments]."""
    scores = np.asarray(yardstick, np.float64)
    found = np.maximum(scores.std(axis=0, ddof=1), LEAST_UNIT * np.abs(scores.mean(axis=0)))
    if not (found > 0).all():
        raise ValueError("the yardstick is zero for every seed of some environment: no unit")
    return np.asarray(found)


class Gain(NamedTuple):
    """With its 95 % interval, and p of the hypothesis that it is not above zero."""

    value: float
    low: float
    high: float
    p: float
    by_task: tuple[float, ...]  # whose mean the value is

    @property
    def above(self) -> int:
        """In how many environments it is above zero."""
        return sum(each > 0.0 for each in self.by_task)

    @property
    def median(self) -> float:
        """Over environments: the mean may be the work of one whose unit is small."""
        return float(np.median(self.by_task))

    @property
    def least(self) -> float:
        """The smallest mean that leaving out one environment gives: whether one carries it all."""
        if len(self.by_task) == 1:
            return self.value
        total = sum(self.by_task)
        return min((total - each) / (len(self.by_task) - 1) for each in self.by_task)

    @property
    def interval(self) -> Interval:
        return Interval(self.value, self.low, self.high)


def gain(
    scores: ArrayLike,
    others: ArrayLike,
    yardstick: ArrayLike,
    rng: np.random.Generator,
    share: float = 1.0,
    base: ArrayLike | None = None,
) -> Gain:
    """Of `scores` over `others`, [seeds, environments] each, the seeds in the same order.

    share, base: with these, of scores over base + share (others - base): whether at least a share
    of what others gain over a base is kept.
    """
    ours, theirs, unit = (np.asarray(each, np.float64) for each in (scores, others, yardstick))
    if ours.shape != theirs.shape or ours.ndim != 2 or unit.shape[1] != ours.shape[1]:
        raise ValueError(f"scores are [seeds, tasks], got {ours.shape}, {theirs.shape}")
    start = np.zeros_like(ours) if base is None else np.asarray(base, np.float64)
    if base is None and share != 1.0:
        raise ValueError("a share is of what others gain over a base: give it")
    apart = ((ours - start) - share * (theirs - start)) / units(unit)
    n, tasks = apart.shape
    sums = np.zeros(RESAMPLES)
    for task in range(tasks):  # an environment at a time: all at once would take gigabytes
        sums += apart[rng.integers(n, size=(RESAMPLES, n)), task].mean(axis=1)
    found = sums / tasks
    tail = 100 * (1.0 - CONFIDENCE) / 2
    low, high = np.percentile(found, [tail, 100 - tail])
    p = (1 + np.count_nonzero(found <= 0.0)) / (RESAMPLES + 1)
    by_task = tuple(apart.mean(axis=0).tolist())
    return Gain(float(apart.mean()), float(low), float(high), float(p), by_task)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values adjusted for their number (Holm, 1979): each is compared with 0.05 itself."""
    order = sorted(p, key=lambda name: p[name])
    adjusted, least = {}, 0.0
    for place, name in enumerate(order):
        least = max(least, min(1.0, (len(order) - place) * p[name]))
        adjusted[name] = least
    return {name: adjusted[name] for name in p}


def performance_profile(scores: ArrayLike, levels: ArrayLike) -> F64:
    """The share of runs above each level, averaged over tasks; scores [runs, tasks], normalised."""
    x = np.asarray(scores, np.float64)
    return np.asarray([(x > level).mean() for level in np.asarray(levels)])


def mean_ranks(scores: NDArray[np.float64]) -> F64:
    """[methods, tasks] the rank of each method's mean, 1 the best; equal ones share theirs."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-scores, axis=0))
