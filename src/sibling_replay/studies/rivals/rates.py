"""The learning rate that each contender of the bench has in each environment, from its trials."""

from __future__ import annotations

import polars as pl

from sibling_replay.studies.rivals.declared import Rates
from sibling_replay.studies.rivals.scores import with_contender


def chosen_rates(frame: pl.DataFrame) -> Rates:
    """The rate of largest mean AUC of each contender in each environment; of equal ones the
    smaller."""
    named = with_contender(frame)
    means = named.group_by("env", "contender", "learning_rate").agg(pl.col("auc_return").mean())
    best = means.sort("auc_return", "learning_rate", descending=[True, False])
    chosen = best.unique(["env", "contender"], keep="first", maintain_order=True)
    return {(row["env"], row["contender"]): row["learning_rate"] for row in chosen.to_dicts()}
