"""What an adapter logs of a buffer: how its groups are filled, and how priorities bend them."""

from __future__ import annotations

import numpy as np

from sibling_replay.buffer import ReplayBuffer
from sibling_replay.diagnostics import (
    by_mass,
    entry_concentration,
    outcome_numbers,
    outcome_tv,
    take_census,
)


def group_statistics(buffer: ReplayBuffer, *, outcomes: bool) -> dict[str, float]:
    """How well the groups of this buffer are filled, and what priority alone would do within them:

    groups_per_entry: G / N. 1: every entry is alone, and the sibling strategies do what Prioritized
        does. 1 / N: all are one group, and they do what Uniform does.
    noise_kept: of what Prioritized adds to the share of a rare outcome, the part that the sibling
        strategies still add: (R - 1) of theirs over (R - 1) of Prioritized. An entry's mass moves
        its own draw by 1 / n in a group of n, and the mean of that over entries is G / N.
    within_group_concentration: C, of entries, averaged over groups by mass.
    outcome_tv: misplaced probability of outcomes, averaged in the same way, if `outcomes` (they are
        read and sorted).

    Nothing, if the buffer has no groups.
    """
    groups = buffer.groups
    if groups.size == 0 or groups[0] < 0:
        return {}
    numbers = outcome_numbers(buffer.transitions()) if outcomes else np.zeros_like(groups)
    census = take_census(groups, numbers, buffer.masses, beta=0.0)
    share = np.unique(groups).size / groups.size
    found = {
        "groups_per_entry": share,
        "noise_kept": share,  # by the law of granularity (see `Support`)
        "within_group_concentration": by_mass(census, entry_concentration(census)),
    }
    if outcomes:
        found["outcome_tv"] = by_mass(census, outcome_tv(census))
    return found
