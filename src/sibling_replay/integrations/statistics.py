"""What an adapter logs of a buffer: how far its priorities bend the groups."""

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
    """What priority alone would do within the groups of this buffer, averaged over them by mass:

    within_group_concentration: C, of entries.
    outcome_tv: misplaced probability of outcomes, if `outcomes` (they are read and sorted).

    Nothing, if the buffer has no groups.
    """
    groups = buffer.groups
    if groups.size == 0 or groups[0] < 0:
        return {}
    numbers = outcome_numbers(buffer.transitions()) if outcomes else np.zeros_like(groups)
    census = take_census(groups, numbers, buffer.masses, beta=0.0)
    found = {"within_group_concentration": by_mass(census, entry_concentration(census))}
    if outcomes:
        found["outcome_tv"] = by_mass(census, outcome_tv(census))
    return found
