"""Checked input: transitions as the caller has them become a block, or an error names the field.

Nothing of the buffer is touched here, so input that is refused leaves no trace. Floats are stored
with +0.0 for -0.0, so that equal values are equal bytes.

One transition of plain Python or NumPy scalars and arrays of the right dtype takes a fast path;
everything else takes the road of `stage_many`, which converts or names what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import isfinite
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.replay.arrays import U8
from sibling_replay.replay.payload import Field, Layout
from sibling_replay.schema import GROUP_KEY, TRANSITION, KeyFunction

_STRUCT_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip

# What `struct` may be trusted with: it would also take any object's truth value for a boolean and
# drop the imaginary part of a complex number. Integers it checks itself.
_BOOLS = frozenset({bool, np.bool_})
_REALS = frozenset({int, float, np.float64, np.float32, np.float16, np.int64, np.int32})
_REWARD, _TERMINATED, _TRUNCATED = (
    TRANSITION.index(name) for name in ("reward", "terminated", "truncated")
)


class Staging:
    """Turns the values of one transition, or columns of several, into a block of a layout.

    `names` is the order in which values are given; it begins with the six of a transition.
    """

    def __init__(self, layout: Layout, names: Sequence[str]) -> None:
        self._layout = layout
        self._names = tuple(names)
        assert self._names[: len(TRANSITION)] == TRANSITION
        self._fields = layout.fields
        places, size = layout.columns(1)
        self.block: U8 = np.zeros(size, dtype=np.uint8)  # used again for every transition
        scalars = sorted(
            (name for name in names if self._fields[name].shape == ()),
            key=lambda name: places[name][2],
        )
        code, end = "=", 0
        for name in scalars:
            dtype, offset = places[name][1], places[name][2]
            code += f"{offset - end}x{_STRUCT_CODES[dtype.kind + str(dtype.itemsize)]}"
            end = offset + dtype.itemsize
        self._pack: Callable[..., None] = struct.Struct(code).pack_into
        self._pick = itemgetter(*(self._names.index(name) for name in scalars))
        # (place among the values, view into the block, its dtype, shape, whether it is a float)
        self._arrays = [
            (
                self._names.index(name),
                np.ndarray(field.shape, field.dtype, self.block, places[name][2]),
                field.dtype,
                field.shape,
                field.dtype.kind == "f",
            )
            for name, field in self._fields.items()
            if field.shape != ()
        ]
        _, dtype, offset = places["reward"]
        self._reward = np.ndarray((1,), dtype, self.block, offset)
        # Rewards from here to zero are stored as zero.
        self._least_reward = -float(np.finfo(dtype).smallest_subnormal) / 2
        # Scalars beyond the transition's own whose type `struct` does not check by itself, and
        # those of them that are floats, each as an array of one element in the block.
        others = [name for name in scalars if self._fields[name].dtype.kind in "bf"]
        others = [n for n in others if n not in ("reward", "terminated", "truncated")]
        self._typed = [
            (self._names.index(name), _BOOLS if self._fields[name].dtype.kind == "b" else _REALS)
            for name in others
        ]
        self._float_scalars = [
            np.ndarray((1,), places[name][1], self.block, places[name][2])
            for name in others
            if self._fields[name].dtype.kind == "f"
        ]

    def stage(self, values: tuple[Any, ...]) -> U8:
        """The block of one transition, given its values in the order of `names`."""
        reward = values[_REWARD]
        if not (
            type(reward) in _REALS
            and type(values[_TERMINATED]) in _BOOLS
            and type(values[_TRUNCATED]) in _BOOLS
        ):
            return self._stage_slowly(values)
        for place, types in self._typed:
            if type(values[place]) not in types:
                return self._stage_slowly(values)
        try:
            if not isfinite(reward):
                return self._stage_slowly(values)
            self._pack(self.block, 0, *self._pick(values))
            if self._least_reward <= reward <= 0.0:
                self._reward[0] = 0.0
            for scalar in self._float_scalars:
                scalar += 0.0
            for place, view, dtype, shape, is_float in self._arrays:
                value = values[place]
                if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                    return self._stage_slowly(values)
                if is_float:
                    np.add(value, 0.0, out=view)
                else:
                    view[...] = value
        except (struct.error, TypeError, ValueError, OverflowError):
            return self._stage_slowly(values)
        return self.block

    def _stage_slowly(self, values: tuple[Any, ...]) -> U8:
        """The same for values that need converting, or an error that names the field."""
        columns = []
        for name, value in zip(self._names, values, strict=True):
            array = self.converted(name, value)
            if array.shape != self._fields[name].shape:
                raise ValueError(
                    f"{_label(name)}: expected shape {self._fields[name].shape}, got {array.shape}"
                )
            columns.append(array[np.newaxis])
        self._fill(self.block, columns, 1)
        return self.block

    def stage_many(self, values: Sequence[Any]) -> tuple[U8, int]:
        """The block of several transitions given as columns, and how many they are."""
        columns: list[NDArray[Any]] = []
        for name, value in zip(self._names, values, strict=True):
            column = self.converted(name, value)
            shape = self._fields[name].shape
            if column.ndim == 0 or column.shape[1:] != shape:
                raise ValueError(
                    f"{_label(name)}: expected a column of entries of shape {shape}, "
                    f"got an array of shape {column.shape}"
                )
            if columns and len(column) != len(columns[0]):
                raise ValueError(
                    f"{_label(name)}: expected {len(columns[0])} entries, as many as of "
                    f"{self._names[0]}, got {len(column)}"
                )
            columns.append(column)
        count = len(columns[0])
        block = np.zeros(self._layout.columns(count)[1], dtype=np.uint8)
        self._fill(block, columns, count)
        return block, count

    def _fill(self, block: U8, columns: Sequence[NDArray[Any]], count: int) -> None:
        """Write converted columns to their places in a block."""
        places, _ = self._layout.columns(count)
        for name, column in zip(self._names, columns, strict=True):
            shape, dtype, offset = places[name]
            view: NDArray[Any] = np.ndarray(shape, dtype, block, offset)
            if dtype.kind == "f":
                if name == "reward" and not np.isfinite(column).all():
                    place = int(np.flatnonzero(~np.isfinite(column))[0])
                    raise ValueError(
                        f"reward{f' {place}' if count > 1 else ''} is {column[place]}: "
                        f"it must be finite"
                    )
                np.add(column, 0.0, out=view)
            elif dtype.kind == "b":  # memory viewed as booleans may hold other bytes than 0 and 1
                np.not_equal(column.view(np.uint8), 0, out=view)
            else:
                view[...] = column

    def converted(self, name: str, value: Any) -> NDArray[Any]:
        """A value as an array of its field's dtype, if that loses nothing of its kind."""
        field = self._fields[name]
        try:
            array = np.asarray(value)
        except Exception as error:  # whatever the caller's object raises on the way to an array
            raise ValueError(f"{_label(name)}: cannot be read as an array: {error}") from error
        return array if array.dtype == field.dtype else _cast(array, field, _label(name))

    def key_of(self, key: KeyFunction, obs: Any, action: Any) -> Any:
        """A key function is given what is stored: elements of the fields' own dtypes."""
        return key(self.converted("obs", obs)[()], self.converted("action", action)[()])

    def keys_of(self, key: KeyFunction, obs: Any, action: Any) -> list[Any]:
        """The keys of several transitions."""
        columns = [self.converted("obs", obs), self.converted("action", action)]
        if any(column.ndim == 0 for column in columns) or len(columns[0]) != len(columns[1]):
            raise ValueError(
                f"obs and action: expected as many entries of the one as of the other, got arrays "
                f"of shapes {columns[0].shape} and {columns[1].shape}"
            )
        return [key(o, a) for o, a in zip(*columns, strict=True)]


def _label(name: str) -> str:
    """How the caller knows a field."""
    return "group" if name == GROUP_KEY else name


def _cast(array: NDArray[Any], field: Field, label: str) -> NDArray[Any]:
    """Real numbers as floats, whole numbers in range as integers, 0 and 1 as booleans; no more."""
    kind, to = array.dtype.kind, field.dtype.kind
    if kind not in "biuf" or (kind == "f" and to != "f"):
        raise TypeError(f"{label}: expected dtype {field.dtype}, got {array.dtype}")
    if to == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            cast = array.astype(field.dtype)
        unfit = np.isinf(cast) & np.isfinite(array)
    else:
        limits = np.iinfo(field.dtype) if to != "b" else None
        least, most = (limits.min, limits.max) if limits else (0, 1)
        unfit = np.zeros(0, dtype=bool) if kind == "b" else (array < least) | (array > most)
        cast = array.astype(field.dtype)
    if unfit.any():
        raise ValueError(f"{label}: {array[unfit].ravel()[0]} is out of range for {field.dtype}")
    return cast
