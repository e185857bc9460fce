"""One number a run from the diagnostics it recorded: averages over its checkpoints.

"We first average checkpoints within each seed, then report mean and SE across seeds" (appendix
"Measurements across the parameter sweep"). Each function takes a frame of runs and gives one value
a run, in the frame's order.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.experiments.store import DIAGNOSTIC
from sibling_replay.training.tabular import tabular_model

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


class RareOutcome(NamedTuple):
    """Bandit's rare reward at each checkpoint of a run."""

    step: F64
    frequency: F64  # f_g(100)
    probability: F64  # q_g(100)
    effective: F64  # its share under unnormalised IS (eq. 6)
    reward: float

    @property
    def shift_before_is(self) -> F64:
        return self.reward * (self.probability - self.frequency)

    @property
    def shift_after_is(self) -> F64:
        return self.reward * (self.effective - self.frequency)


def rare_outcome(row: dict[str, object]) -> RareOutcome:
    """How a run of OutlierBandit met and replayed its rare reward. The other outcome of the arm is
    0, so the outcome TV distance of the arm is |q - f| and its target shift reward * (q - f)."""
    group, rare, reward = _rare_cell(str(row["env"]))

    def share(name: str) -> F64:
        cells = {
            key.removeprefix(DIAGNOSTIC): series(row, key.removeprefix(DIAGNOSTIC))
            for key in row
            if key.startswith(f"{DIAGNOSTIC}{name}/g{group}/")
        }
        return np.asarray(cells[f"{name}/g{group}/o{rare}"] / sum(cells.values()))

    step = series(row, "step")
    return RareOutcome(step, share("count"), share("mass"), share("corrected"), reward)


@cache
def _rare_cell(env: str) -> tuple[int, int, float]:
    """Group, outcome (numbered as the trainer does) and reward of the largest reward there is."""
    model = tabular_model(env)
    state, action, listed = np.unravel_index(model.reward.argmax(), model.reward.shape)
    outcome = 2 * int(model.outcome_id[state, action, listed])
    reward = float(model.reward[state, action, listed])
    return int(state) * model.n_actions + int(action), outcome, reward
