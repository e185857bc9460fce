"""Bins of each dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.fittable import check_array, check_whole
from sibling_replay.grouping.kernels import grid_cells
from sibling_replay.grouping.row_map import CompiledMap

_MOST_BINS = 65_536
_ROOM = 2**62  # for the bins of several dimensions in one integer


@dataclass(eq=False, repr=False)
class Grid(CompiledMap):
    """Each dimension is cut into bins; siblings are in the same bin of every one.

    bins: of each dimension. With 1, all observations are siblings.
    edges: "quantile", so that each bin of a dimension has as many of the fitted observations, or
        "uniform", of equal width from the least of them to the greatest. Values beyond belong to
        the outer bins. A dimension with fewer different values has fewer bins, a constant one none.
    dims: the dimensions that count, numbered as in a flattened observation; all by default.

    It nests: `coarser(b)` for every b that divides `bins`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> key = Grid(4).fit(rng.normal(size=(1_000, 2)))
        >>> obs = np.array([[-9.0, 0.0], [-8.0, 0.0], [9.0, 0.0]])
        >>> key.keys(obs, np.zeros(3, dtype=int)).ravel().tolist()
        [2, 2, 14]
    """

    bins: int = 4
    edges: Literal["quantile", "uniform"] = "quantile"
    dims: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bins = check_whole("bins", self.bins, 1, _MOST_BINS)
        if self.edges not in ("quantile", "uniform"):
            raise ValueError(f'edges must be "quantile" or "uniform", not {self.edges!r}')
        if self.dims is not None:
            self.dims = tuple(int(dim) for dim in self.dims)
            if not self.dims or min(self.dims) < 0 or len(set(self.dims)) < len(self.dims):
                raise ValueError(f"dims must be different whole numbers from 0, not {self.dims}")

    def _learn(self, x: NDArray[Any], unit: NDArray[np.int64]) -> None:
        dims = range(x.shape[1]) if self.dims is None else self.dims
        if max(dims) >= x.shape[1]:
            raise ValueError(f"dims has {max(dims)}, and observations have {x.shape[1]} dimensions")
        columns = [np.sort(x[:, dim].astype(np.float64)) for dim in dims]
        self._learnt = {
            "dims": np.array(dims, dtype=np.int64),
            "least": np.array([values[0] for values in columns]),
            "edges": np.stack([self._edges(values) for values in columns]),
        }

    def _edges(self, ordered: NDArray[np.float64]) -> NDArray[np.float64]:
        """[bins - 1] where one bin ends and the next begins: an edge belongs to the bin above."""
        places = np.arange(1, self.bins)
        if self.edges == "quantile":
            return np.asarray(ordered[len(ordered) * places // self.bins])
        low, high = ordered[0], ordered[-1]
        # Halves first: the span of large values may be infinite.
        return np.asarray(low + 2 * ((high / 2 - low / 2) * (places / self.bins)))

    def _complete(self, width: int) -> None:
        dims, least, edges = (self._learnt[name] for name in ("dims", "least", "edges"))
        check_array("dims", dims, np.int64, (None,))
        check_array("least", least, np.float64, (dims.size,))
        check_array("edges", edges, np.float64, (dims.size, self.bins - 1))
        if not ((dims >= 0) & (dims < width)).all():
            raise ValueError(f"dims {dims.tolist()} are not of {width} dimensions")
        # Equal edges are one, and one at the least value has nothing below it.
        cut = [np.unique(row[row > low]) for row, low in zip(edges, least, strict=True)]
        used = [place for place, inner in enumerate(cut) if inner.size]
        cut = [cut[place] for place in used]
        most = max((inner.size for inner in cut), default=0)
        self._edges_used = np.full((len(used), most), np.inf)
        for row, inner in zip(self._edges_used, cut, strict=True):
            row[: inner.size] = inner
        radix = [inner.size + 1 for inner in cut]
        # Which integer holds a dimension's bin: nothing is merged to fit into one.
        word, product = [], 1
        self._words = 1
        for count in radix:
            if product * count > _ROOM:
                self._words, product = self._words + 1, 1
            product *= count
            word.append(self._words - 1)
        self._columns = np.array([dims[used], radix, word], dtype=np.int64).T.copy()

    def _kernel(self) -> tuple[Callable[..., int], tuple[NDArray[Any], ...]]:
        return grid_cells, (self._columns, self._edges_used)

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(bins for bins in range(1, self.bins + 1) if self.bins % bins == 0)

    def _at(self, level: int) -> Grid:
        step = self.bins // level
        edges = self._learnt["edges"][:, step - 1 :: step][:, : level - 1]
        return self._same_fit({"bins": level}, {**self._learnt, "edges": edges.copy()})
