"""The groups that prioritized replay bends most, outcome by outcome."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sibling_replay.diagnostics.microscope import Findings

ROUNDING = 1e-12  # a TV distance below it is zero: equal masses may be summed in any order


@dataclass(frozen=True)
class OutcomeFinding:
    """One outcome of one group.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> outcome = most_distorted(findings, top=1)[0].outcomes[0]
        >>> outcome.count, outcome.frequency, outcome.probability
        (1, 0.25, 0.625)
    """

    entry: int  # the first that has it
    count: int
    frequency: float  # f_g(o): stored, and what SAMPLE replays
    probability: float  # q_g(o): what PER replays
    target: float  # mean over its entries


@dataclass(frozen=True)
class GroupFinding:
    """One group. SAMPLE keeps its probability and mean, and makes the distances zero.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> group = most_distorted(findings, top=1)[0]
        >>> group.siblings, group.distinct, group.tv
        (4, 2, 0.375)
    """

    entry: int  # the first of its siblings
    siblings: int
    distinct: int  # outcomes in all
    probability: float  # s_g / S
    tv: float
    mean: float  # empirical mean target
    shift: float
    corrected_shift: float
    concentration: float
    outcomes: tuple[OutcomeFinding, ...]  # those with the largest |q - f|


def most_distorted(
    findings: Findings, top: int = 10, outcomes: int = 6
) -> tuple[GroupFinding, ...]:
    """The groups with most misplaced probability, (s_g / S) D_g; none in which D_g is zero.

    Examples:
        >>> names = ("obs", "action", "next_obs", "reward", "terminated", "truncated")
        >>> columns = {name: np.zeros(4) for name in names}
        >>> columns["reward"][3] = 8.0
        >>> findings = examine_transitions(columns, masses=[1.0, 1.0, 1.0, 5.0])
        >>> most_distorted(findings, top=1)[0].shift
        3.0
    """
    misplaced = findings.census.group_probability * findings.tv
    order = np.argsort(-misplaced, kind="stable")
    bent = order[findings.tv[order] > ROUNDING]
    return tuple(_group(findings, int(place), outcomes) for place in bent[:top])


def _group(findings: Findings, place: int, shown: int) -> GroupFinding:
    census = findings.census
    entries = np.flatnonzero(findings.groups == census.group[place])
    cells = np.flatnonzero(census.owner == place)  # by outcome number, as `np.unique` gives them
    _, first, which = np.unique(findings.outcomes[entries], return_index=True, return_inverse=True)
    count = census.count[cells]
    target = np.bincount(which, weights=findings.targets[entries]) / count
    frequency = count / census.group_count[place]
    probability = census.mass[cells] / census.group_mass[place]
    order = np.argsort(-np.abs(probability - frequency), kind="stable")
    return GroupFinding(
        entry=int(entries[0]),
        siblings=int(census.group_count[place]),
        distinct=len(cells),
        probability=float(census.group_probability[place]),
        tv=float(findings.tv[place]),
        mean=float(findings.mean[place]),
        shift=float(findings.shift[place]),
        corrected_shift=float(findings.corrected_shift[place]),
        concentration=float(findings.concentration[place]),
        outcomes=tuple(
            OutcomeFinding(
                entry=int(entries[first[o]]),
                count=int(count[o]),
                frequency=float(frequency[o]),
                probability=float(probability[o]),
                target=float(target[o]),
            )
            for o in order[:shown]
        ),
    )
