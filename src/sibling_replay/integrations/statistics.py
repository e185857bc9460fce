"""What an adapter logs of a buffer: how far its priorities bend the groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.buffer import ReplayBuffer
from sibling_replay.replay.payload import OUTCOME_FIELDS


def effective_sample_size(weights: ArrayLike) -> float:
    """(sum w)^2 / sum w^2 (appendix "Variation in importance weights")."""
    w = np.asarray(weights, dtype=np.float64)
    return float(w.sum() ** 2 / (w @ w))


def group_statistics(buffer: ReplayBuffer) -> dict[str, float]:
    """Of PER's conditional probabilities u_i / s_g on this buffer, averaged over groups by mass:

    within_group_concentration: C (appendix "Sampling individual buffer entries").
    outcome_tv: the total variation distance of outcomes (eq. 15), where observations are whole
        numbers, so that outcomes can be equal.

    Nothing, if the buffer keeps no groups. O(N), and for outcome_tv a sort.
    """
    groups = buffer.groups
    if groups.size == 0 or groups[0] < 0:
        return {}
    mass = buffer.masses / buffer.masses.max()  # squares must not overflow
    size, total, squares = (np.bincount(groups, weights=w) for w in (None, mass, mass**2))
    live = size > 0
    size, total, squares = size[live], total[live], squares[live]
    share = total / total.sum()
    found = {"within_group_concentration": float(share @ (size * squares / total**2 - 1.0))}
    return found
