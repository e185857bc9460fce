"""The paper's performance numbers, from one run's evaluation curve and across seeds.

Definitions are those of the appendix "Performance Metrics". Everything is a pure function of
arrays; steps are environment steps and T is the length of training.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.training.results import RunResult

LATE_WINDOW = 25_000  # environment steps: "late return and success average the final 25k steps"


def auc(step: ArrayLike, value: ArrayLike, horizon: int) -> float:
    """Area under the evaluation curve over the horizon T.

    Trapezoids from the first recorded evaluation on, divided by T and not by the recorded span:
    "we do not add an unobserved time-zero evaluation". A curve that is 2 from step 500 to step
    50,000 therefore scores 2 (1 - 500 / 50,000) = 1.98, the Bandit's ceiling.
    """
    x, y = _curve(step, value)
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1])) / 2.0 / horizon)


def late(step: ArrayLike, value: ArrayLike, horizon: int, window: int = LATE_WINDOW) -> float:
    """Mean over the evaluations made during the final `window` steps, T - window < step <= T.

    The final evaluation is at T, so the window is never empty.
    """
    x, y = _curve(step, value)
    return float(y[x > horizon - window].mean())


def final(step: ArrayLike, value: ArrayLike) -> float:
    """The last evaluation."""
    return float(_curve(step, value)[1][-1])


class Summary(NamedTuple):
    """The six numbers of one run that the paper's tables average over seeds."""

    auc_return: float
    auc_success: float
    late_return: float
    late_success: float
    final_return: float
    final_success: float


def summarize(result: RunResult) -> Summary:
    step, horizon = result.eval_step, result.config.steps
    curves = (result.eval_return, result.eval_success)
    aucs = [auc(step, curve, horizon) for curve in curves]
    lates = [late(step, curve, horizon) for curve in curves]
    return Summary(*aucs, *lates, *(final(step, curve) for curve in curves))


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


def paired_interval(difference: ArrayLike, comparisons: int) -> tuple[float, float, float]:
    """Mean and two-sided 95 % t interval of paired seed differences, Bonferroni-corrected.

    The sweep makes 48 comparisons, so its critical value is t_{9, 1 - 0.05 / (2 * 48)}.
    """
    from scipy.stats import t  # slow to import, and only the grid's table needs it

    mean, se = mean_se(difference)
    n = np.asarray(difference).size
    half = float(t.ppf(1.0 - 0.05 / (2 * comparisons), n - 1)) * se if n > 1 else math.nan
    return mean, mean - half, mean + half


def _curve(step: ArrayLike, value: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x = np.asarray(step, dtype=np.float64)
    y = np.asarray(value, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise ValueError(f"expected one value per evaluation, got shapes {x.shape}, {y.shape}")
    if np.any(np.diff(x) < 0):
        raise ValueError("evaluation steps must not decrease")
    return x, y
