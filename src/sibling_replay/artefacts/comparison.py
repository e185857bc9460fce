"""Ours beside the paper's: each number with its error, the paper's, and how far they are apart.

A row of a comparison is one published or publishable number: our mean and standard error over the
seeds at hand, the paper's, and the distance in combined standard errors (`statistics.distance`,
beyond the paper's rounding). A cell of which we have no run is left out; a number that the paper
does not print has nulls beside ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from sibling_replay.artefacts.statistics import distance, mean_se

COMPARED: dict[str, Any] = {
    "seeds": pl.Int64,
    "mean": pl.Float64,
    "se": pl.Float64,
    "paper_mean": pl.Float64,
    "paper_se": pl.Float64,
    "distance": pl.Float64,
}


@dataclass(frozen=True)
class Published:
    """A printed number: its value, its standard error if there is one, and its precision."""

    mean: float
    se: float | None
    rounding: float  # half the last printed digit of the mean


def beside_paper(values: list[float], paper: Published | None) -> dict[str, Any]:
    """Our mean and error, the paper's, and the distance if both have an error."""
    mean, se = mean_se(values)
    row: dict[str, Any] = {"seeds": len(values), "mean": mean, "se": se}
    row |= {"paper_mean": None, "paper_se": None, "distance": None}
    if paper is not None:
        row |= {"paper_mean": paper.mean, "paper_se": paper.se}
        if paper.se is not None and not math.isnan(se):
            row["distance"] = distance(mean, se, paper.mean, paper.se, paper.rounding)
    return row


def within(compared: pl.DataFrame, errors: float) -> tuple[int, int]:
    """How many published numbers lie within so many combined standard errors, and of how many."""
    distances = compared["distance"].drop_nulls().abs()
    return int((distances <= errors).sum()), distances.len()
