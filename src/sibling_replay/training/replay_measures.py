"""What a buffer does with rare outcomes, measured by its law now and then in a run."""

from __future__ import annotations

import numpy as np

from sibling_replay import ReplayBuffer

MEASURES = ("tail_ratio", "groups_per_entry", "largest_mass")
CPU_SECONDS = "cpu_seconds"  # of training up to an evaluation, where they are kept


def measures_of(timed: bool) -> tuple[str, ...]:
    """What is kept at every evaluation."""
    return (*MEASURES, CPU_SECONDS) if timed else MEASURES


def replay_measures(buffer: ReplayBuffer, tail_magnitude: float) -> tuple[float, ...]:
    """Share of draws that train an outcome of the tail over its share of the entries, exactly
    (nan: none is stored); G / N (nan: no groups are kept); share of the entries that hold the
    largest mass, which newcomers do."""
    rare = buffer.transitions()["reward"] < -0.5 * tail_magnitude
    law = buffer.probabilities().trained
    ratio = law[rare].sum() / rare.mean() if rare.any() else np.nan
    groups, masses = buffer.groups, buffer.masses
    kept = np.unique(groups).size / groups.size if groups[0] >= 0 else np.nan
    return float(ratio), float(kept), float((masses == masses.max()).mean())
