"""Beyond the paper: the field's robust statistics on the runs of the main comparison and the sweep.
A chapter of the report, without runs of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sibling_replay.artefacts.entries import Frames, Section, TableEntry
from sibling_replay.artefacts.layout import Count, Shape, Table, intervals
from sibling_replay.artefacts.statistics import iqm, probability_of_improvement
from sibling_replay.artefacts.words import WORDS
from sibling_replay.studies import exact, grid
from sibling_replay.studies.paper import numbers as published


def improvements(main: pl.DataFrame, sweep: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Beyond the paper: the interquartile mean of AUC return, and the probability that a run beats
    a run of PER, with 95 % bootstrap intervals.

    Of each method of the main comparison; and of SAMPLE in the whole sweep of an environment, where
    the cells are tasks. Frames may be empty.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for env, methods in exact.METHODS.items():
        runs = main.filter(pl.col("env") == env)
        scores = {method: _scores(runs, method) for method in methods}
        rows += _improvements("exact", env, scores, rng)
    for env in grid.ENVS:
        cells = [cell for name, _, _, cell in grid.cells(sweep) if name == env]
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


def _improvement_table(frames: Frames) -> tuple[Table, Count]:
    whole = pl.when(pl.col("study") == "grid").then(pl.lit(", the whole sweep, cells as tasks"))
    where = pl.concat_str("env", whole.otherwise(pl.lit(""))).alias("where")
    frame = improvements(frames["exact"], frames["grid"]).with_columns(where)
    columns = {"iqm": "IQM of AUC return", "beats_per": "P(beats PER)"}
    shape = Shape(rows=("method", "runs"), block="where", words=WORDS)
    return intervals(frame, shape, columns), Count()


SECTIONS = (
    Section(
        "beyond",
        "Beyond the paper",
        "The field's robust statistics on the same runs.",
        (
            TableEntry(
                "improvement",
                "Not in the paper",
                "Interquartile mean and probability of improvement",
                "Estimates with 95 % stratified bootstrap intervals. P(beats PER) is the chance "
                "that a run has a higher AUC return than a run of PER.",
                exact.needs(),
                _improvement_table,
            ),
        ),
    ),
)
