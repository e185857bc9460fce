"""What can be said across seeds: the paper's statistics, and the field's.

The paper: mean and standard error, paired differences, paired t intervals, Bonferroni intervals
over its 48 comparisons. Beyond it, what Agarwal et al. (2021, "Deep RL at the edge of the
statistical precipice") made the convention: interquartile mean with stratified bootstrap
intervals, and the probability of improvement. Scores are [runs, tasks]: a resample draws runs anew
within each task.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 10_000
CONFIDENCE = 0.95

F64 = NDArray[np.float64]


class Interval(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_se(values: ArrayLike) -> tuple[float, float]:
    """Mean and standard error over seeds (sample deviation, n - 1); one seed has no error: nan."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"expected one value per seed, got an array of shape {x.shape}")
    se = float(x.std(ddof=1) / math.sqrt(x.size)) if x.size > 1 else math.nan
    return float(x.mean()), se


def distance(
    mean: float, se: float, other_mean: float, other_se: float, rounding: float = 0.0
) -> float:
    """How far `mean` lies from `other_mean`, signed, in combined standard errors.

    The combined error of two independent means is sqrt(se^2 + other_se^2). `rounding` is how far
    the printed `other_mean` may be from the number it stands for (half its last digit); only the
    part of the gap beyond it counts. Without this, "1.97 +- 0.00" would be many errors away from
    1.974 +- 0.0005, though they agree to every digit printed.
    """
    gap = mean - other_mean
    gap = math.copysign(max(0.0, abs(gap) - rounding), gap)
    if gap == 0.0:
        return 0.0
    combined = math.hypot(se, other_se)
    return gap / combined if combined != 0.0 else math.copysign(math.inf, gap)


def paired_interval(difference: ArrayLike, comparisons: int = 1) -> Interval:
    """Mean and two-sided 95 % t interval of paired seed differences.

    With several comparisons it is Bonferroni's simultaneous interval: the sweep makes 48, so its
    critical value is t_{9, 1 - 0.05 / (2 * 48)}.
    """
    mean, se = mean_se(difference)
    half = critical_value(np.asarray(difference).size, comparisons) * se
    return Interval(mean, mean - half, mean + half)


def critical_value(n: int, comparisons: int = 1) -> float:
    """t_{n - 1, 1 - 0.05 / (2 * comparisons)}; nan for one seed."""
    from scipy.stats import t  # slow to import, and only tables of differences need it

    return float(t.ppf(1.0 - (1.0 - CONFIDENCE) / (2 * comparisons), n - 1)) if n > 1 else math.nan


def interquartile_mean(scores: ArrayLike, axis: int | None = None) -> F64:
    """The mean of the middle half: a quarter of the scores is cut off at each end."""
    from scipy.stats import trim_mean

    return np.asarray(trim_mean(np.asarray(scores, dtype=np.float64), 0.25, axis=axis))


def iqm(scores: ArrayLike, rng: np.random.Generator) -> Interval:
    """Interquartile mean over all runs of all tasks [runs, tasks], with its interval."""
    x = _scores(scores)
    return _bootstrap(
        [x], lambda sets: interquartile_mean(sets[0].reshape(len(sets[0]), -1), 1), rng
    )


def probability_of_improvement(x: ArrayLike, y: ArrayLike, rng: np.random.Generator) -> Interval:
    """P(X > Y) + P(X = Y) / 2 for a random run of each, averaged over tasks; [runs, tasks] each."""
    a, b = _scores(x), _scores(y)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"the two have {a.shape[1]} and {b.shape[1]} tasks")

    def wins(sets: list[F64]) -> F64:
        gap = sets[0][:, :, None, :] - sets[1][:, None, :, :]
        return np.asarray((np.sign(gap) / 2.0 + 0.5).mean(axis=(1, 2, 3)))

    return _bootstrap([a, b], wins, rng)


def _bootstrap(
    sets: list[F64], statistic: Callable[[list[F64]], F64], rng: np.random.Generator
) -> Interval:
    """Percentile interval; `statistic` maps sets of [resamples, runs, tasks] to [resamples]."""
    value = float(statistic([x[None] for x in sets])[0])
    found = []
    for _ in range(10):  # in parts: all resamples at once would take gigabytes for wide scores
        drawn = [
            np.take_along_axis(
                x[None], rng.integers(len(x), size=(RESAMPLES // 10, *x.shape)), axis=1
            )
            for x in sets
        ]
        found.append(statistic(drawn))
    tail = 100 * (1.0 - CONFIDENCE) / 2
    low, high = np.percentile(np.concatenate(found), [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def _scores(scores: ArrayLike) -> F64:
    x = np.asarray(scores, dtype=np.float64)
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"expected scores of shape [runs, tasks], got {x.shape}")
    return x
