"""From stored runs to curves averaged over seeds.

A frame has one row per run (`store`); its evaluation curve is in list columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.artefacts.panels import Curve

STEPS = "environment steps"
WINDOWS = 100  # equal parts of training over which a curve's evaluations are averaged

Array = NDArray[np.float64]


def runs_of(frame: pl.DataFrame, **equal: object) -> pl.DataFrame:
    """The rows whose columns equal the given values, by seed."""
    return frame.filter(*(pl.col(name) == value for name, value in equal.items())).sort("seed")


def windowed(step: Array, value: Array, horizon: int, windows: int = WINDOWS) -> Array:
    """[windows] mean of the evaluations in each equal part (a, b] of training; nan where none.

    Seeds are evaluated at steps of their own (an evaluation follows a number of episodes), so a
    mean over seeds needs common places first.
    """
    place = np.ceil(step * windows / horizon).astype(np.int64) - 1
    place = np.clip(place, 0, windows - 1)
    count = np.bincount(place, minlength=windows)
    total = np.bincount(place, weights=value, minlength=windows)
    mean: Array = np.divide(total, count, out=np.full(windows, np.nan), where=count > 0)
    return mean


def mean_curve(style: str, label: str, x: Sequence[float], per_seed: Sequence[Array]) -> Curve:
    """Mean and standard error over seeds at every x that at least one seed has."""
    stacked = np.stack([np.asarray(values, dtype=np.float64) for values in per_seed])
    known = np.isfinite(stacked)
    count = known.sum(axis=0)
    keep = count > 0
    filled = np.where(known, stacked, 0.0)
    mean = filled.sum(axis=0)[keep] / count[keep]
    squares = (np.where(known[:, keep], stacked[:, keep] - mean, 0.0) ** 2).sum(axis=0)
    many = count[keep] > 1
    variance = np.divide(squares, count[keep] - 1, out=np.full(mean.size, np.nan), where=many)
    se = np.sqrt(variance / count[keep])
    places = np.asarray(x, dtype=np.float64)[keep]
    return Curve(style, label, *(tuple(part.tolist()) for part in (places, mean, se)))


def evaluation_curve(frame: pl.DataFrame, style: str, name: str = "eval_return") -> Curve | None:
    """A method's evaluation curve over windows of training, in environment steps."""
    if frame.is_empty():
        return None
    horizon = int(frame["steps"][0])
    middles = (np.arange(WINDOWS) + 0.5) * horizon / WINDOWS
    curves = [
        windowed(np.asarray(step), np.asarray(value), horizon)
        for step, value in frame.select("eval_step", name).rows()
    ]
    return mean_curve(style, style, middles.tolist(), curves)
