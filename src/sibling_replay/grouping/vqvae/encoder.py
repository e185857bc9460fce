"""The frozen encoder: an observation's codes, packed into one integer.

Compiled, one observation at a time, each sum in one fixed order and no reassociation: a code does
not depend on what else is in a batch, on the number of threads, or on the processor's vector width.
Most inputs are zero, so the first layer adds up the kernel rows of the bits that are set.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sibling_replay.grouping.key_map import KeyMap, MapState

SIDE = 10
HALF = 5  # positions each way after the first convolution
QUARTER = 3  # and after the second


class Weights(NamedTuple):
    """The encoder's arrays, inputs before outputs so that the inner loops run along a row."""

    first: NDArray[np.float32]  # [3, 3, C, H]
    first_bias: NDArray[np.float32]  # [H]
    second: NDArray[np.float32]  # [3, 3, H, H]
    second_bias: NDArray[np.float32]  # [H]
    to_code: NDArray[np.float32]  # [H, D]
    to_code_bias: NDArray[np.float32]  # [D]
    codebook: NDArray[np.float32]  # [K, D]


class FrozenEncoder(KeyMap):
    """phi: observation -> packed codes, in [0, K^cells). The action is not looked at.

    Compiled code does not check its indices: weights are checked here, once, and observations at
    every call.
    """

    def __init__(self, weights: Weights, grid: tuple[int, int]) -> None:
        self.weights = _checked(weights)
        check_form(grid, len(self.weights.codebook))
        self.grid = grid
        self.codes = len(self.weights.codebook)
        self.cells = grid[0] * grid[1]
        self.channels = self.weights.first.shape[2]
        self._shape = (SIDE, SIDE, self.channels)  # of an observation
        hidden, dimensions = self.weights.to_code.shape
        self._scratch = (
            np.empty((HALF, HALF, hidden), np.float32),
            np.empty((QUARTER, QUARTER, hidden), np.float32),
            np.empty(hidden, np.float32),
            np.empty(dimensions, np.float32),
        )

    @property
    def most_keys(self) -> int:
        """How many packed codes there can be."""
        return int(self.codes**self.cells)

    def __call__(self, obs: NDArray[np.bool_], action: Any = None) -> int:
        """The packed code of one observation [10, 10, C]."""
        self._check(obs, self._shape)
        return int(_encode(obs, self.weights, *self.grid, *self._scratch))

    def keys(self, obs: NDArray[np.bool_], action: Any = None) -> NDArray[np.int64]:
        """The packed code of each observation [N, 10, 10, C]."""
        self._check(obs, (*np.shape(obs)[:1], *self._shape))
        packed = np.empty(len(obs), np.int64)
        _encode_all(obs, self.weights, *self.grid, *self._scratch, packed)
        return packed

    def unpack(self, packed: NDArray[np.int64]) -> NDArray[np.int64]:
        """[N, cells]: the code of each cell."""
        return np.asarray(packed)[:, None] // self.codes ** np.arange(self.cells) % self.codes

    def _check(self, obs: NDArray[np.bool_], shape: tuple[int, ...]) -> None:
        if isinstance(obs, np.ndarray) and obs.dtype == np.bool_ and obs.shape == shape:
            return
        kind = getattr(obs, "dtype", type(obs).__name__)
        expected = "x".join(map(str, self._shape))
        raise ValueError(
            f"this encoder takes boolean arrays of {expected} cells, got {kind} of shape "
            f"{np.shape(obs)}: give it observations of the game it was trained on"
        )

    def __repr__(self) -> str:
        rows, columns = self.grid
        form = f"{rows}x{columns} codes of {self.codes}"
        return f"<{type(self).__name__}: {form}, digest {self.digest[:8]}>"

    @property
    def digest(self) -> str:
        """Names what this encoder computes: grid and weights."""
        digest = hashlib.blake2b(repr((self.grid, self.codes)).encode(), digest_size=16)
        for array in self.weights:
            digest.update(array.tobytes())
        return digest.hexdigest()

    def state(self) -> MapState:
        return MapState({"kind": "FrozenEncoder", "grid": list(self.grid)}, self.weights._asdict())

    @staticmethod
    def from_state(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FrozenEncoder:
        """The encoder of a state."""
        rows, columns = spec["grid"]
        return FrozenEncoder(Weights(**arrays), (int(rows), int(columns)))


def check_form(grid: tuple[int, int], codes: int) -> None:
    """Refuse a grid or a codebook that no encoder can have."""
    if len(grid) != 2 or not all(1 <= cells <= QUARTER for cells in grid):
        raise ValueError(f"grid must have 1 to {QUARTER} cells each way, got {grid}")
    if not 2 <= codes <= 65_536:
        raise ValueError(f"codes must be from 2 to 65536, got {codes}")
    cells = grid[0] * grid[1]
    if cells * math.log2(codes) > 60:  # which leaves three bits for an action
        raise ValueError(
            f"{cells} codes of {codes} and an action do not fit an integer of 64 bits: "
            "choose a smaller grid or fewer codes"
        )


def _checked(weights: Weights) -> Weights:
    """The weights as the kernels take them, if their shapes fit together and all are finite."""
    arrays = Weights(*(np.ascontiguousarray(w, dtype=np.float32) for w in weights))
    channels, hidden = (*arrays.first.shape, 0, 0, 0, 0)[2:4]
    dimensions = (0, *arrays.to_code.shape)[-1]
    codes = (*arrays.codebook.shape, 0)[0]
    shapes: tuple[tuple[int, ...], ...] = (
        (3, 3, channels, hidden),
        (hidden,),
        (3, 3, hidden, hidden),
        (hidden,),
        (hidden, dimensions),
        (dimensions,),
        (codes, dimensions),
    )
    for name, array, shape in zip(Weights._fields, arrays, shapes, strict=True):
        if array.shape != shape or array.size == 0:
            raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite")
    return arrays


@njit(cache=True)
def _encode(obs, weights, rows, columns, half, quarter, pooled, vector):
    """codes[0] + codes[1] K + codes[2] K^2 + ...: positional, so two grids never collide."""
    half[:] = weights.first_bias
    for y in range(obs.shape[0]):
        for x in range(obs.shape[1]):
            for channel in range(obs.shape[2]):
                if obs[y, x, channel]:
                    _scatter(half, weights.first, y, x, channel)
    np.maximum(half, np.float32(0.0), half)
    for v in range(QUARTER):
        for u in range(QUARTER):
            out = quarter[v, u]
            out[:] = weights.second_bias
            for dy in range(max(0, 1 - 2 * v), min(3, HALF + 1 - 2 * v)):
                for dx in range(max(0, 1 - 2 * u), min(3, HALF + 1 - 2 * u)):
                    inputs = half[2 * v + dy - 1, 2 * u + dx - 1]
                    _accumulate(out, inputs, weights.second[dy, dx])
    np.maximum(quarter, np.float32(0.0), quarter)
    packed = np.int64(0)
    place = np.int64(1)
    for row in range(rows):
        for column in range(columns):
            # the cell's window, as adaptive average pooling cuts it
            top, bottom = row * QUARTER // rows, -(-(row + 1) * QUARTER // rows)
            left, right = column * QUARTER // columns, -(-(column + 1) * QUARTER // columns)
            pooled[:] = 0
            for v in range(top, bottom):
                for u in range(left, right):
                    for channel in range(pooled.size):
                        pooled[channel] += quarter[v, u, channel]
            area = np.float32((bottom - top) * (right - left))
            for channel in range(pooled.size):
                pooled[channel] /= area
            vector[:] = weights.to_code_bias
            _accumulate(vector, pooled, weights.to_code)
            packed += place * _nearest(vector, weights.codebook)
            place *= weights.codebook.shape[0]
    return packed


@njit(cache=True)
def _encode_all(obs, weights, rows, columns, half, quarter, pooled, vector, packed):
    for i in range(obs.shape[0]):
        packed[i] = _encode(obs[i], weights, rows, columns, half, quarter, pooled, vector)


@njit(cache=True)
def _scatter(half, kernel, y, x, channel):
    """Add a set bit's kernel rows to the outputs that see it (stride 2, padding 1)."""
    for dy in range(3):
        v, odd_row = divmod(y + 1 - dy, 2)
        if odd_row or not 0 <= v < HALF:
            continue
        for dx in range(3):
            u, odd_column = divmod(x + 1 - dx, 2)
            if odd_column or not 0 <= u < HALF:
                continue
            row = kernel[dy, dx, channel]
            out = half[v, u]
            for i in range(out.size):
                out[i] += row[i]


@njit(cache=True)
def _accumulate(out, inputs, matrix):
    """out += inputs @ matrix, input by input; rectified inputs are often zero."""
    for i in range(inputs.size):
        value = inputs[i]
        if value != 0:
            row = matrix[i]
            for j in range(out.size):
                out[j] += value * row[j]


@njit(cache=True)
def _nearest(vector, codebook):
    best, least = 0, np.float32(np.inf)
    for code in range(codebook.shape[0]):
        distance = np.float32(0.0)
        for i in range(vector.size):
            gap = vector[i] - codebook[code, i]
            distance += gap * gap
        if distance < least:
            best, least = code, distance
    return best


def weights_of(arrays: dict[str, NDArray[Any]]) -> Weights:
    """The encoder's part of a trained model, from convolution kernels [out, in, y, x]."""
    first, second = (arrays[f"model/{name}.weight"] for name in ("first", "second"))
    return Weights(
        first=first.transpose(2, 3, 1, 0),
        first_bias=arrays["model/first.bias"],
        second=second.transpose(2, 3, 1, 0),
        second_bias=arrays["model/second.bias"],
        to_code=arrays["model/to_code.weight"][:, :, 0, 0].T,
        to_code_bias=arrays["model/to_code.bias"],
        codebook=arrays["model/codebook"],
    )
