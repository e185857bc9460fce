"""One number a run from the diagnostics it recorded: averages over its checkpoints.

"We first average checkpoints within each seed, then report mean and SE across seeds" (appendix
"Measurements across the parameter sweep"). Each function takes a frame of runs and gives one value
a run, in the frame's order.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.running.store import DIAGNOSTIC

F64 = NDArray[np.float64]


def series(row: dict[str, object], name: str) -> F64:
    """A run's recorded diagnostic, a value per checkpoint."""
    values = row.get(DIAGNOSTIC + name)
    if values is None:
        raise ValueError(f"{row['run']} recorded no diagnostic {name!r}")
    return np.asarray(values, dtype=np.float64)


def measured(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The runs that recorded a diagnostic."""
    column = DIAGNOSTIC + name
    return frame.filter(pl.col(column).is_not_null()) if column in frame.columns else frame.clear()


def late_window(steps: int) -> int:
    """Environment steps: "the final max(25k, 0.2T)"."""
    return max(25_000, steps // 5)


def whole_mean(frame: pl.DataFrame, name: str) -> list[float]:
    """Mean over all checkpoints of each run."""
    return [float(series(row, name).mean()) for row in frame.iter_rows(named=True)]


def late_mean(frame: pl.DataFrame, name: str) -> list[float]:
    """Mean over the checkpoints in the late window of each run. Those before the first update have
    measured nothing and do not count; nan if that is all there is."""
    found = []
    for row in frame.iter_rows(named=True):
        values = series(row, name)
        late = series(row, "step") > row["steps"] - late_window(row["steps"])
        known = values[late & ~np.isnan(values)]
        found.append(float(known.mean()) if known.size else math.nan)
    return found


def sampled_shift(frame: pl.DataFrame) -> list[float]:
    """sum_tb w (Y - mean Y of its group) / sum_tb w over the logged minibatches of each run."""
    return [
        float(series(row, "shift_sum").sum() / series(row, "weight_sum").sum())
        for row in frame.iter_rows(named=True)
    ]
