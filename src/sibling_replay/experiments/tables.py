"""Ours beside the paper's: frames of numbers in, one comparison frame out, no ink.

Each row of a comparison is one published or publishable number: our mean and standard error over
the seeds at hand, the paper's, and the distance in combined standard errors (`metrics.distance`,
beyond the paper's rounding). A cell of which we have no run is left out; a number that the paper
does not print has nulls beside ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from sibling_replay.experiments import published
from sibling_replay.experiments.metrics import distance, mean_se, paired_interval
from sibling_replay.experiments.spec import EXACT_METHODS, GRID_ALPHAS, GRID_BETAS, GRID_ENVS, LAKES

# paper's metric -> our column; the last two are late-window numbers on FrozenLake, else final ones
EXACT_METRICS = ("auc_return", "auc_success", "late_or_final_return", "late_or_final_success")
COMPARISONS = len(GRID_ENVS) * len(GRID_ALPHAS) * len(GRID_BETAS)  # 48, for Bonferroni

_COLUMNS: dict[str, Any] = {
    "seeds": pl.Int64,
    "mean": pl.Float64,
    "se": pl.Float64,
    "paper_mean": pl.Float64,
    "paper_se": pl.Float64,
    "distance": pl.Float64,
}


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
                ours = _ours(runs[column].to_list(), numbers.get((env, method, metric)))
                rows.append({"env": env, "method": method, "metric": column, **ours})
    keys = {"env": pl.String, "method": pl.String, "metric": pl.String}
    return pl.DataFrame(rows, schema={**keys, **_COLUMNS})


def compare_grid(frame: pl.DataFrame) -> pl.DataFrame:
    """The three sweep tables; `frame` holds runs of study `grid`.

    Differences are SAMPLE minus PER on the seeds both have, with our 95 % simultaneous interval
    over the paper's 48 comparisons in `low` and `high`.
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
            low, high = paired_interval(ours, COMPARISONS)[1:] if column == "diff" else (None, None)
            key = {"env": env, "alpha": alpha, "beta": beta, "metric": column}
            compared = _ours(ours, numbers.get((env, alpha, beta, column)))
            rows.append({**key, **compared, "low": low, "high": high})
    keys = {"env": pl.String, "alpha": pl.Float64, "beta": pl.Float64, "metric": pl.String}
    return pl.DataFrame(rows, schema={**keys, **_COLUMNS, "low": pl.Float64, "high": pl.Float64})


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


def _ours(values: list[float], paper: published.Published | None) -> dict[str, Any]:
    mean, se = mean_se(values)
    row: dict[str, Any] = {"seeds": len(values), "mean": mean, "se": se}
    row |= {"paper_mean": None, "paper_se": None, "distance": None}
    if paper is not None:
        row |= {"paper_mean": paper.mean, "paper_se": paper.se}
        if paper.se is not None and not math.isnan(se):
            row["distance"] = distance(mean, se, paper.mean, paper.se, paper.rounding)
    return row
