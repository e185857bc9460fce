"""Images made small first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sibling_replay.grouping.exact import Exact
from sibling_replay.grouping.fittable import (
    Arrays,
    FittableMap,
    check_array,
    check_whole,
    refuse_not_finite,
)
from sibling_replay.grouping.kernels import cell_means, to_levels
from sibling_replay.grouping.leaves import Leaf, is_image, joined, leaves_of, units
from sibling_replay.grouping.row_map import RowMap, Write

_THEN = "then/"  # before the names of that map's arrays
_RANGES = "ranges"


@dataclass(eq=False, repr=False)
class Downscale(FittableMap):
    """Images as the means over a grid of windows, mapped by another map.

    shape: rows and columns of windows, at most as many as the image has.
    shades: means are rounded down to so many, from the least to the greatest there was in the fit;
        None: they are left as they are.
    then: the map that gets the small images.
    channels: "last", "first", or "auto": first, if the first axis is shorter than the last.

    Every channel is kept: frames stacked as channels tell velocities. Of a Dict or Tuple the images
    (entries of two or three axes) are made small and the rest is handed on as it is.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> images = rng.integers(0, 256, size=(200, 84, 84, 1), dtype=np.uint8)
        >>> key = Downscale(then=KMeans(8)).fit(images)
        >>> len(key.keys(images[:3], np.zeros(3, dtype=int)))
        3
    """

    shape: tuple[int, int] = (11, 8)
    shades: int | None = 8
    then: RowMap = field(default_factory=Exact)
    channels: Literal["auto", "first", "last"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shape) != 2:
            raise ValueError(f"shape must be rows and columns, not {self.shape}")
        rows, columns = self.shape
        self.shape = check_whole("rows", rows, 1, 4096), check_whole("columns", columns, 1, 4096)
        if self.shades is not None:
            self.shades = check_whole("shades", self.shades, 2, 256)
        if not isinstance(self.then, RowMap):
            raise TypeError(f"then must be Exact, Grid, SimHash or KMeans, not {self.then!r}")
        if self.channels not in ("auto", "first", "last"):
            raise ValueError(f'channels must be "auto", "first" or "last", not {self.channels!r}')
        self._then = self.then.unfitted()
        self._ranges = np.zeros((0, 2))  # of each image, the least and the greatest mean

    def fit(self, obs: Any, action: Any = None) -> Downscale:
        leaves = self._leaves_to_fit(obs, action)
        small = [self._small(leaf) for leaf in leaves]
        images = [cells for leaf, cells in zip(leaves, small, strict=True) if is_image(leaf)]
        if not images:
            raise ValueError(
                "Downscale is for images, of two or three axes, and there are none in observations "
                f"of shape {', '.join(str(leaf.values.shape[1:]) for leaf in leaves)}"
            )
        self._ranges = np.array([[cells.values.min(), cells.values.max()] for cells in images])
        small = self._shaded(small)
        rows = joined(small)
        self._then._learn(rows, units(small))
        self._then._complete(rows.shape[1])
        self._form = [leaf.form for leaf in leaves]
        return self

    def keys(self, obs: Any, action: Any = None) -> NDArray[np.int64]:
        leaves = leaves_of(obs, action)
        self._check_form(leaves)
        return self._then._codes(self._matrix(leaves))

    def _matrix(self, leaves: Sequence[Leaf]) -> NDArray[Any]:
        """What `then` sees of a batch."""
        return joined(self._shaded([self._small(leaf) for leaf in leaves]))

    def _small(self, leaf: Leaf) -> Leaf:
        """Means over windows, [n, before, rows, columns, after]; what is no image as it is."""
        if not is_image(leaf):
            return leaf
        values = leaf.values
        before, height, width, after = self._axes(leaf.name, values.shape[1:])
        images = values.reshape(len(values), before, height, width * after)
        rows, columns = min(self.shape[0], height), min(self.shape[1], width)
        means = np.empty((len(values), before, rows, columns, after))
        cell_means(images, after, rows, columns, means)
        return Leaf(leaf.name, means)

    def _axes(self, name: str, shape: Sequence[int]) -> tuple[int, int, int, int]:
        """Channels before, height, width, channels after."""
        if len(shape) == 2:
            return 1, shape[0], shape[1], 1
        if len(shape) != 3:
            raise ValueError(f"{name or 'an image'} has shape {tuple(shape)}: expected 2 or 3 axes")
        first = shape[0] < shape[2] if self.channels == "auto" else self.channels == "first"
        return (*shape, 1) if first else (1, *shape)  # type: ignore[return-value]

    def _shaded(self, small: Sequence[Leaf]) -> list[Leaf]:
        """Means as whole numbers, if that is wanted."""
        if self.shades is None:
            return list(small)
        ranges = iter(self._ranges)
        found = []
        for leaf in small:
            if is_image(leaf):
                means = leaf.values.reshape(len(leaf.values), -1)
                shades = np.empty(means.shape, dtype=np.uint8)
                low, high = next(ranges)
                wrong = to_levels(means, low, high, self.shades, shades)
                refuse_not_finite(means, leaf.name, place=int(wrong))
                leaf = Leaf(leaf.name, shades.reshape(leaf.values.shape))
            found.append(leaf)
        return found

    def writer(
        self, obs: NDArray[Any], key: NDArray[np.int64], action: np.dtype[Any]
    ) -> Write | None:
        if not self._suits_writer(obs, action):
            return None
        before, height, width, after = self._axes("", obs.shape)
        image = obs.reshape(1, before, height, width * after)
        cells = (min(self.shape[0], height), min(self.shape[1], width))
        means = np.empty((1, before, *cells, after))
        flat = means.reshape(1, -1)
        shades = flat if self.shades is None else np.empty(flat.shape, dtype=np.uint8)
        inner = self._then._row_writer(shades, key)
        if inner is None:
            return None
        low, high = self._ranges[0]

        def write() -> None:
            cell_means(image, after, *cells, means)
            if self.shades is not None:
                wrong = to_levels(flat, low, high, self.shades, shades)
                if wrong >= 0:
                    refuse_not_finite(flat, place=wrong)
            inner()

        return write

    # ------------------------------------------------------------------------------- state

    def _arrays(self) -> Arrays:
        nested = {_THEN + name: array for name, array in self._then._arrays().items()}
        return {_RANGES: self._ranges, **nested} if self.fitted else {}

    def _restore(self, spec: Mapping[str, Any], arrays: Arrays) -> None:
        own = {name.removeprefix(_THEN): a for name, a in arrays.items() if name != _RANGES}
        images = sum(len(shape) > 1 for _, shape in spec["form"])
        check_array(_RANGES, arrays.get(_RANGES), np.float64, (images, 2))
        self._ranges = arrays[_RANGES]
        self._then._restore({"form": self._small_form(spec["form"])}, own)

    def _small_form(self, form: Any) -> list[Any]:
        """Of what `then` gets."""
        found = []
        for name, shape in form:
            if len(shape) > 1:
                before, height, width, after = self._axes(name, shape)
                small = (before, min(self.shape[0], height), min(self.shape[1], width), after)
                shape = [math.prod(small)]
            found.append([name, shape])
        return found

    @property
    def levels(self) -> tuple[int, ...]:
        return self.then.levels

    def _at(self, level: int) -> Downscale:
        self._then._form = self._small_form(self._form)  # only known here
        inner = self._then.coarser(level)
        found = replace(self, then=inner.unfitted())
        found._ranges, found._form, found._then = self._ranges, self._form, inner
        return found
