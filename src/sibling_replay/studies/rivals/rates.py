"""The learning rate that each contender of the bench has in each environment, from its trials."""

from __future__ import annotations

import polars as pl

from sibling_replay.studies.rivals.declared import FACTORS, RATE_SEEDS, Rates
from sibling_replay.studies.rivals.scores import with_contender


def whole_trials(frame: pl.DataFrame) -> pl.DataFrame:
    """Of the environments and contenders of which all trials are there."""
    cell = with_contender(frame).select("env", "contender")
    count = cell.with_columns(pl.len().over("env", "contender").alias("count"))["count"]
    return frame.filter(count == len(FACTORS) * len(RATE_SEEDS))


def rates_in(frame: pl.DataFrame) -> Rates:
    """The rates that the bench's own runs have, which `Study.compared` has checked to be alike."""
    cells = with_contender(frame).unique(["env", "contender"]).to_dicts()
    return {(row["env"], row["contender"]): row["learning_rate"] for row in cells}


def chosen_rates(frame: pl.DataFrame) -> Rates:
    """The rate of largest mean AUC of each contender in each environment; of equal ones the
    smaller."""
    named = with_contender(frame)
    means = named.group_by("env", "contender", "learning_rate").agg(pl.col("auc_return").mean())
    best = means.sort("auc_return", "learning_rate", descending=[True, False])
    chosen = best.unique(["env", "contender"], keep="first", maintain_order=True)
    return {(row["env"], row["contender"]): row["learning_rate"] for row in chosen.to_dicts()}
