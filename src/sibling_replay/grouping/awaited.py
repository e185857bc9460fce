"""A map that waits for the entries it is to be fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.fittable import FittableMap, refuse_not_finite
from sibling_replay.grouping.key_map import KeyMap, MapState
from sibling_replay.grouping.leaves import leaves_of


class Awaited(KeyMap):
    """What a buffer groups by until it fits the map it was given: all observations have one key, so
    siblings are entries with equal action (with any, where actions are real numbers).

    What the fit would refuse is refused at once: it could not be named once it is stored.
    """

    def __init__(self, map: FittableMap) -> None:
        self.map = map

    def keys(self, obs: Any, action: Any) -> NDArray[np.int64]:
        for leaf in leaves_of(obs, action):
            refuse_not_finite(leaf.values.reshape(len(leaf.values), -1), leaf.name)
        return np.zeros(len(action), dtype=np.int64)

    def writer(
        self, obs: NDArray[Any], key: NDArray[np.int64], action: np.dtype[Any]
    ) -> Callable[[], None] | None:
        if self.covers(action) or obs.dtype == np.float16:
            return None
        row = obs.reshape(1, -1)

        def write() -> None:
            refuse_not_finite(row)
            key.fill(0)

        return write

    def covers(self, action: np.dtype[Any]) -> bool:
        return self.map.covers(action)

    @property
    def digest(self) -> str:
        return self.map.digest

    def state(self) -> MapState:
        return self.map.state()

    def __repr__(self) -> str:
        return f"{self.map!r}, to be fitted to {self.map.fit_after:,} entries"
