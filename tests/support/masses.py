"""New masses for slots of an index, whatever their groups."""

from __future__ import annotations

import numpy as np

from sibling_replay.replay.index import Index, assign, look_up_groups


def assign_masses(index: Index, slots: np.ndarray, masses: np.ndarray) -> None:
    groups = np.empty(slots.size, dtype=np.int64)
    look_up_groups(index, slots, groups)
    assign(index, slots, groups, masses)
