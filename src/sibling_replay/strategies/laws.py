"""The probabilities each strategy promises, exactly, in O(N). Samplers are tested against these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sibling_replay.replay.arrays import F64, I64
from sibling_replay.strategies.view import View


class Law(NamedTuple):
    """The distribution of one draw over the live slots.

    Examples:
        >>> law = Law(*[np.array([0.25, 0.75])] * 3)
        >>> law.trained.tolist()
        [0.25, 0.75]
    """

    anchor: F64  # [N]: the slot that priority draws
    trained: F64  # [N]: the slot whose observation and action are trained
    outcome: F64  # [N]: the slot whose outcome enters the target (its expected share, if averaged)


def prioritized_probabilities(masses: F64) -> F64:
    """u_i / S (eq. 2)."""
    scaled = masses / masses.max()  # masses near 1e300 must not overflow the sum
    return np.asarray(scaled / scaled.sum())


def sibling_probabilities(masses: F64, groups: I64) -> F64:
    """s_g / (S n_g): any of the group's members through any of its members (eq. 9)."""
    by_group = np.bincount(groups, weights=prioritized_probabilities(masses))
    return np.asarray((by_group / np.maximum(np.bincount(groups), 1))[groups])


def prioritized_law(view: View) -> F64:
    """The same of a buffer's live slots."""
    return prioritized_probabilities(view.masses[view.slots])


def sibling_law(view: View) -> F64:
    """The same of a buffer's live slots."""
    return sibling_probabilities(view.masses[view.slots], view.groups(view.slots))
