"""Ours beside the paper's: frames of numbers in, one comparison frame out, no ink.

Each row of a comparison is one published or publishable number: our mean and standard error over
the seeds at hand, the paper's, and the distance in combined standard errors (`statistics.distance`,
beyond the paper's rounding). A cell of which we have no run is left out; a number that the paper
does not print has nulls beside ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.experiments import published
from sibling_replay.experiments.published import COMPARISONS
from sibling_replay.experiments.spec import (
    EXACT_METHODS,
    GRID_ALPHAS,
    GRID_BETAS,
    GRID_ENVS,
    LAKES,
    study,
)
from sibling_replay.experiments.statistics import (
    distance,
    iqm,
    mean_se,
    paired_interval,
    probability_of_improvement,
)
from sibling_replay.experiments.summaries import (
    measured,
    rare_outcome,
    sampled_shift,
    whole_mean,
)

# paper's metric -> our column; the last two are late-window numbers on FrozenLake, else final ones
EXACT_METRICS = ("auc_return", "auc_success", "late_or_final_return", "late_or_final_success")
SHIFT_CELL = (0.6, 0.4)  # (alpha, beta) of the table of target shifts

COMPARED: dict[str, Any] = {
    "seeds": pl.Int64,
    "mean": pl.Float64,
    "se": pl.Float64,
    "paper_mean": pl.Float64,
    "paper_se": pl.Float64,
    "distance": pl.Float64,
}


def of_the_paper(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The runs that the paper has, too. Runs with seeds of one's own are no part of a comparison:
    how many seeds there are, and which, belongs to the published experiment."""
    return frame.filter(pl.col("run").is_in([run.id for run in study(name)]))


def column_of(env: str, metric: str) -> str:
    """Which of our summary columns the paper's `late_or_final_*` means in this environment."""
    return metric.replace("late_or_final", "late" if env in LAKES else "final")


def compare_exact(frame: pl.DataFrame) -> pl.DataFrame:
    """The paper's table of tabular metrics; `frame` holds runs of study `exact`."""
    numbers = published.exact()
    rows = []
    for env, methods in EXACT_METHODS.items():
        for method in methods:
            runs = frame.filter((pl.col("env") == env) & (pl.col("method") == method))
            for metric in EXACT_METRICS if runs.height else ():
                column = column_of(env, metric)
                ours = beside_paper(runs[column].to_list(), numbers.get((env, method, metric)))
                rows.append({"env": env, "method": method, "metric": column, **ours})
    keys = {"env": pl.String, "method": pl.String, "metric": pl.String}
    return pl.DataFrame(rows, schema={**keys, **COMPARED})


def compare_grid(frame: pl.DataFrame) -> pl.DataFrame:
    """The three sweep tables; `frame` holds runs of study `grid`.

    Differences are SAMPLE minus PER on the seeds both have, with our 95 % simultaneous interval
    over the paper's 48 comparisons in `low` and `high`, which one pair does not have (null).
    """
    numbers = published.grid()
    rows = []
    for env, alpha, beta, cell in _cells(frame):
        scores = {
            method: dict(cell.filter(method=method).select("seed", "auc_return").rows())
            for method in ("PER", "SAMPLE")
        }
        shared = sorted(scores["PER"].keys() & scores["SAMPLE"].keys())
        values = {
            "per_auc": list(scores["PER"].values()),
            "sample_auc": list(scores["SAMPLE"].values()),
            "diff": [scores["SAMPLE"][seed] - scores["PER"][seed] for seed in shared],
        }
        for column, ours in values.items():
            if not ours:
                continue
            interval = paired_interval(ours, COMPARISONS) if column == "diff" else None
            known = interval is not None and not math.isnan(interval.low)
            low, high = interval[1:] if interval and known else (None, None)
            key = {"env": env, "alpha": alpha, "beta": beta, "metric": column}
            compared = beside_paper(ours, numbers.get((env, alpha, beta, column)))
            rows.append({**key, **compared, "low": low, "high": high})
    keys = {"env": pl.String, "alpha": pl.Float64, "beta": pl.Float64, "metric": pl.String}
    return pl.DataFrame(rows, schema={**keys, **COMPARED, "low": pl.Float64, "high": pl.Float64})


def compare_distortion(frame: pl.DataFrame) -> pl.DataFrame:
    """The table of target shifts and the text's numbers on Bandit's risky arm; `frame` holds runs
    of study `grid`. All of them are at alpha = 0.6, beta = 0.4."""
    numbers = published.distortion()
    rows = []
    for env, alpha, beta, cell in _cells(measured(frame, "outcome_tv")):
        if (alpha, beta) != SHIFT_CELL:
            continue
        per, sample = cell.filter(method="PER"), cell.filter(method="SAMPLE")
        values = {
            "per_conditional_abs_before_is": whole_mean(per, "shift_before_is"),
            "per_conditional_abs_after_is": whole_mean(per, "shift_after_is"),
            "sampled_signed_per": sampled_shift(per),
            "sampled_signed_sample": sampled_shift(sample),
        }
        if env == "OutlierBandit":
            rare = [rare_outcome(row) for row in per.iter_rows(named=True)]
            values |= {
                "risky_outcome_tv": [
                    float(abs(run.probability - run.frequency).mean()) for run in rare
                ],
                "risky_shift_before_is": [float(run.shift_before_is.mean()) for run in rare],
                "risky_shift_after_is": [float(run.shift_after_is.mean()) for run in rare],
            }
        for metric, ours in values.items():
            if ours:
                compared = beside_paper(ours, numbers.get((env, metric)))
                rows.append({"env": env, "metric": metric, **compared})
    return pl.DataFrame(rows, schema={"env": pl.String, "metric": pl.String, **COMPARED})


def improvements(exact: pl.DataFrame, grid: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Beyond the paper: the interquartile mean of AUC return, and the probability that a run beats
    a run of PER, with 95 % bootstrap intervals.

    Of each method of the main comparison; and of SAMPLE in the whole sweep of an environment, where
    the cells are tasks. Frames may be empty.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for env, methods in EXACT_METHODS.items():
        runs = exact.filter(pl.col("env") == env)
        scores = {method: _scores(runs, method) for method in methods}
        rows += _improvements("exact", env, scores, rng)
    for env in GRID_ENVS:
        cells = [cell for name, _, _, cell in _cells(grid) if name == env]
        columns = {m: [_scores(cell, m) for cell in cells] for m in ("PER", "SAMPLE")}
        if {len(column) for each in columns.values() for column in each} == {published.SEEDS}:
            tasks = {method: np.stack(each, axis=1) for method, each in columns.items()}
            rows += _improvements("grid", env, tasks, rng)
    keys = {"study": pl.String, "env": pl.String, "method": pl.String, "runs": pl.Int64}
    estimates = [f"{name}{end}" for name in ("iqm", "beats_per") for end in ("", "_low", "_high")]
    return pl.DataFrame(rows, schema={**keys, **dict.fromkeys(estimates, pl.Float64)})


def _scores(runs: pl.DataFrame, method: str) -> NDArray[np.float64]:
    return runs.filter(pl.col("method") == method).sort("seed")["auc_return"].to_numpy()


def _improvements(
    study: str, env: str, scores: dict[str, NDArray[np.float64]], rng: np.random.Generator
) -> list[dict[str, Any]]:
    rows = []
    for method, values in scores.items():
        if not values.size:
            continue
        estimates = {"iqm": iqm(values, rng)}
        if method != "PER" and scores["PER"].size:
            estimates["beats_per"] = probability_of_improvement(values, scores["PER"], rng)
        row: dict[str, Any] = {"study": study, "env": env, "method": method, "runs": values.size}
        for name, estimate in estimates.items():
            row |= {name: estimate.value}
            row |= {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        rows.append(row)
    return rows


def within(compared: pl.DataFrame, errors: float) -> tuple[int, int]:
    """How many published numbers lie within so many combined standard errors, and of how many."""
    distances = compared["distance"].drop_nulls().abs()
    return int((distances <= errors).sum()), distances.len()


def _cells(frame: pl.DataFrame) -> Iterator[tuple[str, float, float, pl.DataFrame]]:
    for env in GRID_ENVS:
        for alpha in GRID_ALPHAS:
            for beta in GRID_BETAS:
                cell = frame.filter(
                    (pl.col("env") == env)
                    & (pl.col("alpha") == alpha)
                    & (pl.col("beta_start") == beta)
                    & (pl.col("beta_end") == beta)
                )
                yield env, alpha, beta, cell


def beside_paper(values: list[float], paper: published.Published | None) -> dict[str, Any]:
    """Our mean and error, the paper's, and the distance if both have an error."""
    mean, se = mean_se(values)
    row: dict[str, Any] = {"seeds": len(values), "mean": mean, "se": se}
    row |= {"paper_mean": None, "paper_se": None, "distance": None}
    if paper is not None:
        row |= {"paper_mean": paper.mean, "paper_se": paper.se}
        if paper.se is not None and not math.isnan(se):
            row["distance"] = distance(mean, se, paper.mean, paper.se, paper.rounding)
    return row
