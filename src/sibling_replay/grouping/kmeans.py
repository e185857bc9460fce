"""The nearest of k centres."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.fittable import check_array, check_whole
from sibling_replay.grouping.kernels import fold, lloyd, nearest_all, spread_centres
from sibling_replay.grouping.row_map import CompiledMap, standardised

_MOST_CENTRES = 65_536
# Rows a centre that a fit looks at, and that centres start from: more hardly move them.
_ROWS_A_CENTRE, _START_ROWS, _LEAST_ROWS = 16, 4, 2_048
_ROUNDS = 12


@dataclass(eq=False, repr=False)
class KMeans(CompiledMap):
    """Siblings have the same nearest centre, in centred and scaled observations (those of an image
    share one scale). Centres start by k-means++. Of fewer different observations there are fewer.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> obs = rng.normal(size=(1_000, 2))
        >>> key = KMeans(16).fit(obs)
        >>> support(key, obs, np.zeros(1_000, dtype=int)).groups
        16
    """

    k: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.k = check_whole("k", self.k, 1, _MOST_CENTRES)
        self.seed = check_whole("seed", self.seed, 0, 2**63)

    def _learn(self, x: NDArray[Any], unit: NDArray[np.int64]) -> None:
        rng = np.random.default_rng(self.seed)
        mean, scale = standardised(x, unit)
        rows = _some(x, _ROWS_A_CENTRE * self.k, rng)
        start = (_some(rows, _START_ROWS * self.k, rng) - mean) * scale
        chosen = spread_centres(np.ascontiguousarray(start.T), rng.random(self.k))
        centres = np.ascontiguousarray(start[chosen])
        lloyd(rows, mean, scale, centres, _ROUNDS)
        self._learnt = {"mean": mean, "scale": scale, "centres": centres}

    def _complete(self, width: int) -> None:
        mean, scale, centres = (self._learnt[name] for name in ("mean", "scale", "centres"))
        check_array("mean", mean, np.float64, (width,))
        check_array("scale", scale, np.float64, (width,))
        check_array("centres", centres, np.float64, (None, width))
        if not 1 <= len(centres) <= self.k:
            raise ValueError(f"{len(centres)} centres of {self.k}")
        self._weights, self._bias = fold(mean, scale, np.ascontiguousarray(centres))

    def _kernel(self) -> tuple[Callable[..., int], tuple[NDArray[Any], ...]]:
        return nearest_all, (self._weights, self._bias)


def _some(x: NDArray[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """So many rows, in their order, or all if they are fewer."""
    count = max(count, _LEAST_ROWS)
    return x if len(x) <= count else x[np.sort(rng.choice(len(x), count, replace=False))]
