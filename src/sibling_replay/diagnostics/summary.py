"""Findings in a few numbers, and in one sentence by stated rules.

"Draws" are PER's: a share of draws is a share of the priority mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sibling_replay.diagnostics.distortion import by_mass
from sibling_replay.diagnostics.microscope import Findings
from sibling_replay.diagnostics.worst import ROUNDING

QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
TAIL = (0.5, 0.9, 0.99, 1.0)
SUPPORTS = (2, 10, 100)
TV_EDGES = (ROUNDING, 0.01, 0.05, 0.1, 0.25, 1.0)


@dataclass(frozen=True)
class Summary:
    """Every number of a diagnosis that is not about one group.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> summarize(findings).groups
        1
    """

    entries: int
    groups: int
    siblings: tuple[float, ...]  # QUARTILES of n_g over groups
    singletons: float  # share of groups
    entries_with: tuple[float, ...]  # share of entries in groups of at least SUPPORTS siblings
    draws_with_siblings: float  # share of draws from groups of at least 2
    draws_with_outcomes: float  # share of draws from groups of at least 2 different outcomes
    repeated: float  # of the entries with siblings, those that share their outcome with one
    tv: float  # mass-weighted
    tv_quantiles: tuple[float, ...]  # TAIL, over groups
    tv_groups: tuple[int, ...]  # groups with D_g up to each of TV_EDGES
    tv_draws: tuple[float, ...]  # their shares of draws
    shift: float  # mass-weighted absolute, before importance weighting
    shift_largest: float  # signed
    corrected_shift: float  # the same after it
    corrected_shift_largest: float
    spread: float  # standard deviation of targets within a group: root mass-weighted variance
    shift_in_spreads: float
    corrected_shift_in_spreads: float
    concentration: float  # C, mass-weighted
    concentration_largest: float
    batch_size: int
    prioritized_ess: float  # expected, of a minibatch's weights
    sibling_ess: float
    beta: float
    rewards_as_targets: bool
    equal_masses: bool  # of all entries: no priority was ever refreshed, or alpha is 0


def summarize(findings: Findings) -> Summary:
    """Findings in a few numbers: means by mass, quantiles over groups, shares of draws.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> summary = summarize(findings)
        >>> round(summary.tv, 3), round(summary.shift, 3)
        (0.375, 3.0)
    """
    census = findings.census
    size, drawn = census.group_count, census.group_probability
    spread = math.sqrt(by_mass(census, findings.variance))
    shift = by_mass(census, np.abs(findings.shift))
    corrected = by_mass(census, np.abs(findings.corrected_shift))
    bins = np.searchsorted(TV_EDGES, findings.tv)
    bins = np.minimum(bins, len(TV_EDGES) - 1)  # a distance of 1 may exceed it by rounding
    paired = size >= 2
    with_siblings = int(size[paired].sum())
    shared = int(census.count[paired[census.owner] & (census.count >= 2)].sum())
    return Summary(
        entries=findings.entries,
        groups=len(size),
        siblings=_quantiles(size, QUARTILES),
        singletons=float((size == 1).mean()),
        entries_with=tuple(float(size[size >= n].sum() / size.sum()) for n in SUPPORTS),
        draws_with_siblings=float(drawn[paired].sum()),
        draws_with_outcomes=float(drawn[findings.distinct >= 2].sum()),
        repeated=shared / with_siblings if with_siblings else 0.0,
        tv=by_mass(census, findings.tv),
        tv_quantiles=_quantiles(findings.tv, TAIL),
        tv_groups=tuple(np.bincount(bins, minlength=len(TV_EDGES)).tolist()),
        tv_draws=tuple(np.bincount(bins, weights=drawn, minlength=len(TV_EDGES)).tolist()),
        shift=shift,
        shift_largest=_largest(findings.shift),
        corrected_shift=corrected,
        corrected_shift_largest=_largest(findings.corrected_shift),
        spread=spread,
        shift_in_spreads=shift / spread if spread else 0.0,
        corrected_shift_in_spreads=corrected / spread if spread else 0.0,
        concentration=by_mass(census, findings.concentration),
        concentration_largest=float(findings.concentration.max()),
        batch_size=findings.batch_size,
        prioritized_ess=findings.prioritized_ess,
        sibling_ess=findings.sibling_ess,
        beta=findings.beta,
        rewards_as_targets=findings.rewards_as_targets,
        equal_masses=findings.equal_masses,
    )


def _quantiles(values: np.ndarray, at: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(np.quantile(values, at).tolist())


def _largest(signed: np.ndarray) -> float:
    return float(signed[np.abs(signed).argmax()])
