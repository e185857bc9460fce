"""Sides of random hyperplanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.fittable import check_array, check_whole
from sibling_replay.grouping.kernels import hash_all, projections
from sibling_replay.grouping.row_map import CompiledMap, standardised

_MOST_BITS = 62  # in one integer
_OFF_CENTRE = 0.3  # the share of fitted observations on one side of a hyperplane, at the least


@dataclass(eq=False, repr=False)
class SimHash(CompiledMap):
    """Siblings lie on the same side of each of `bits` random hyperplanes.

    Directions are drawn for centred and scaled observations (those of an image share one scale),
    and each plane is moved to where 30 to 70 percent of the fitted observations lie on one side, a
    random share: planes through one point would part observations by direction alone, and sparse
    images hardly at all.

    It nests: the first b bits of a key are the key of `coarser(b)`, and of SimHash(b) with the same
    seed and fit.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> obs = rng.normal(size=(1_000, 8))
        >>> key = SimHash(6).fit(obs)
        >>> support(key, obs, np.zeros(1_000, dtype=int)).groups <= 2**6
        True
    """

    bits: int = 12
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bits = check_whole("bits", self.bits, 1, _MOST_BITS)
        self.seed = check_whole("seed", self.seed, 0, 2**63)

    def _learn(self, x: NDArray[Any], unit: NDArray[np.int64]) -> None:
        _, scale = standardised(x, unit)
        rng = np.random.default_rng(self.seed)
        weights = np.empty((x.shape[1], self.bits))
        shares = np.empty(self.bits)
        for bit in range(self.bits):  # one after the other, so that fewer bits are the first ones
            weights[:, bit] = rng.standard_normal(x.shape[1]) * scale
            shares[bit] = rng.uniform(_OFF_CENTRE, 1.0 - _OFF_CENTRE)
        found = np.empty((len(x), self.bits))
        projections(x, weights, found)
        found.sort(axis=0)
        places = (shares * len(x)).astype(np.int64)
        self._learnt = {"weights": weights, "thresholds": found[places, np.arange(self.bits)]}

    def _complete(self, width: int) -> None:
        check_array("weights", self._learnt["weights"], np.float64, (width, self.bits))
        check_array("thresholds", self._learnt["thresholds"], np.float64, (self.bits,))

    def _kernel(self) -> tuple[Callable[..., int], tuple[NDArray[Any], ...]]:
        return hash_all, (self._learnt["weights"], self._learnt["thresholds"])

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(range(1, self.bits + 1))

    def _at(self, level: int) -> SimHash:
        weights, thresholds = self._learnt["weights"], self._learnt["thresholds"]
        return self._same_fit(
            {"bits": level},
            {"weights": weights[:, :level].copy(), "thresholds": thresholds[:level].copy()},
        )
