"""A learner's values of what is stored, asked for by slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling_replay.replay.arrays import I64
from sibling_replay.replay.memory import Memory
from sibling_replay.staging import as_array


def values_by_slot(
    memory: Callable[[], Memory], values: Callable[[Any, Any], ArrayLike]
) -> Callable[[I64], NDArray[np.float64]]:
    """What a sweep asks: the values of entries in slots, from a function of observations and
    actions. `memory` gives the present one."""

    def by_slot(slots: I64) -> NDArray[np.float64]:
        now, wanted = memory(), np.asarray(slots)
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < now.live:
            raise ValueError(f"values are of slots from 0 to {now.live - 1}, not {slots}")
        columns = now.read(wanted.astype(np.int64))
        obs = now.layout.fields["obs"].opened(columns["obs"])
        found = as_array("values", values(obs, columns["action"]))
        if found.shape != wanted.shape or found.dtype.kind not in "fiu":
            raise ValueError(f"expected {wanted.size} values, got {found.dtype} {found.shape}")
        if not np.isfinite(found).all():
            raise ValueError(f"values must be finite, got {found[~np.isfinite(found)][0]}")
        return found.astype(np.float64)

    return by_slot
