"""The paper's performance numbers of one run, from its evaluation curve.

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
    50,000 therefore scores 2 (1 - 500 / 50,000) = 1.98, the Bandit's ceiling. One evaluation has no
    area: nan, since 0 would look like a score.
    """
    x, y = _curve(step, value)
    if x[0] == x[-1]:
        return math.nan
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


class Scores(NamedTuple):
    """The six numbers of one run that the paper's tables average over seeds."""

    auc_return: float
    auc_success: float
    late_return: float
    late_success: float
    final_return: float
    final_success: float


def scores_of(result: RunResult) -> Scores:
    step, horizon = result.eval_step, result.config.steps
    curves = (result.eval_return, result.eval_success)
    aucs = [auc(step, curve, horizon) for curve in curves]
    lates = [late(step, curve, horizon) for curve in curves]
    return Scores(*aucs, *lates, *(final(step, curve) for curve in curves))


def _curve(step: ArrayLike, value: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x = np.asarray(step, dtype=np.float64)
    y = np.asarray(value, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise ValueError(f"expected one value per evaluation, got shapes {x.shape}, {y.shape}")
    if np.any(np.diff(x) < 0):
        raise ValueError("evaluation steps must not decrease")
    return x, y
