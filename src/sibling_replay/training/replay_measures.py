"""What a buffer does with rare outcomes, measured by its law now and then in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay import ReplayBuffer

MEASURES = ("tail_ratio", "groups_per_entry", "largest_mass")
PURITY = "purity"  # of groups, where the learner's values are at hand
CPU_SECONDS = "cpu_seconds"  # of training up to an evaluation, where they are kept


def measures_of(timed: bool) -> tuple[str, ...]:
    """What is kept at every evaluation."""
    return (*MEASURES, CPU_SECONDS) if timed else MEASURES


def replay_measures(
    buffer: ReplayBuffer, tail_magnitude: float, batch_size: int
) -> tuple[float, ...]:
    """Share of draws that train an outcome of the tail over its share of the entries, exactly
    (nan: none is stored, or draws have a second stage, which hangs on present errors); G / N (nan:
    no groups are kept); share of the entries that hold the largest mass, which newcomers do."""
    rare = buffer.transitions()["reward"] < -0.5 * tail_magnitude
    law = buffer.probabilities(batch_size).trained
    known = rare.any() and not buffer.strategy.needs.candidates
    ratio = law[rare].sum() / rare.mean() if known else np.nan
    groups, masses = buffer.groups, buffer.masses
    kept = np.unique(groups).size / groups.size if groups[0] >= 0 else np.nan
    return float(ratio), float(kept), float((masses == masses.max()).mean())


def purity(buffer: ReplayBuffer, values: Callable[[Any, Any], NDArray[Any]]) -> float:
    """How alike the entries of a group are to the learner: the share of the variance of its values,
    over entries, that lies between groups. 1 in exact groups; nan where no groups are kept."""
    groups = buffer.groups
    if groups[0] < 0:
        return float("nan")
    columns = buffer.transitions()
    found = np.asarray(values(columns["obs"], columns["action"]), np.float64)
    _, owner = np.unique(groups, return_inverse=True)
    means = np.bincount(owner, found) / np.bincount(owner)
    total = found.var()
    return float(1.0 - ((found - means[owner]) ** 2).mean() / total) if total > 0 else 1.0
