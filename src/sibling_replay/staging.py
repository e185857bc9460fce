"""Checked input: transitions as the caller has them become a block, or an error names the field.

Nothing of the buffer is touched here, so input that is refused leaves no trace. Floats are stored
with +0.0 for -0.0, so that equal values are equal bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.replay.arrays import U8
from sibling_replay.replay.payload import Field, Layout

_STRUCT_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip


class Staging:
    """Turns the values of one transition, or columns of several, into a block of a layout.

    `names` is the order in which values are given.
    """

    def __init__(self, layout: Layout, names: Sequence[str]) -> None:
        self._layout = layout
        self._names = tuple(names)
        self._fields = layout.fields
        places, size = layout.columns(1)
        self.block: U8 = np.zeros(size, dtype=np.uint8)
        scalars = sorted(
            (name for name in names if self._fields[name].shape == ()),
            key=lambda name: places[name][2],
        )
        code, end = "=", 0
        for name in scalars:
            dtype, offset = places[name][1], places[name][2]
            code += f"{offset - end}x{_STRUCT_CODES[dtype.kind + str(dtype.itemsize)]}"
            end = offset + dtype.itemsize
        self._pack = struct.Struct(code).pack_into
        order = [self._names.index(name) for name in scalars]
        self._pick = itemgetter(*order) if len(order) > 1 else lambda values: (values[order[0]],)
        # (place among the values, name, view into the block, its dtype, whether it is a float)
        self._arrays = [
            (
                self._names.index(name),
                name,
                np.ndarray(field.shape, field.dtype, self.block, places[name][2]),
                field.dtype,
                field.dtype.kind == "f",
            )
            for name, field in self._fields.items()
            if field.shape != ()
        ]
        self._zero_reward = np.ndarray((1,), places["reward"][1], self.block, places["reward"][2])
        self._reward = self._names.index("reward")
        # Float scalars, each as an array of one element in the block.
        self._float_scalars = [
            np.ndarray((1,), places[name][1], self.block, places[name][2])
            for name in scalars
            if self._fields[name].dtype.kind == "f" and name != "reward"
        ]

    def stage(self, values: tuple[Any, ...]) -> U8:
        """The block of one transition, given its values in the order of `names`."""
        try:
            reward = values[self._reward]
            if not isfinite(reward):
                raise ValueError("reward")
            self._pack(self.block, 0, *self._pick(values))
            if reward == 0:
                self._zero_reward[0] = 0.0
            for scalar in self._float_scalars:
                scalar += 0.0
            for place, name, view, dtype, is_float in self._arrays:
                value = values[place]
                if type(value) is not np.ndarray or value.dtype != dtype:
                    value = self._converted(name, value)
                if value.shape != view.shape:
                    raise ValueError("shape")
                if is_float:
                    np.add(value, 0.0, out=view)
                else:
                    view[...] = value
        except (struct.error, TypeError, ValueError, OverflowError) as error:
            self._explain(values, error)
        return self.block

    def stage_many(self, values: Sequence[Any]) -> tuple[U8, int]:
        """The block of several transitions given as columns, and how many they are."""
        columns = []
        for name, value in zip(self._names, values, strict=True):
            column = self._converted(name, value)
            expected = (len(columns[0]) if columns else -1, *self._fields[name].shape)
            if column.ndim == 0 or (columns and column.shape[0] != expected[0]):
                raise ValueError(
                    f"{name}: expected a column of {max(expected[0], 1)} entries, "
                    f"got shape {column.shape}"
                )
            if column.shape[1:] != expected[1:]:
                raise ValueError(
                    f"{name}: expected entries of shape {expected[1:]}, got {column.shape[1:]}"
                )
            columns.append(column)
        count = len(columns[0])
        places, size = self._layout.columns(count)
        block = np.zeros(size, dtype=np.uint8)
        for name, column in zip(self._names, columns, strict=True):
            shape, dtype, offset = places[name]
            view: NDArray[Any] = np.ndarray(shape, dtype, block, offset)
            if dtype.kind == "f":
                np.add(column, 0.0, out=view)
                if name == "reward" and not np.isfinite(view).all():
                    place = int(np.flatnonzero(~np.isfinite(view))[0])
                    raise ValueError(f"reward {place} is {view[place]}: it must be finite")
            else:
                view[...] = column
        return block, count

    def _converted(self, name: str, value: Any) -> NDArray[Any]:
        """A value as an array of its field's dtype, if that loses nothing of its kind."""
        field = self._fields[name]
        array = np.asarray(value)
        if array.dtype == field.dtype:
            return array
        if _fits(array, field):
            return array.astype(field.dtype)
        raise TypeError(f"{name}: expected dtype {field.dtype}, got {array.dtype}")

    def _explain(self, values: tuple[Any, ...], cause: Exception) -> None:
        """Raise an error that names the field that was wrong."""
        for name, value in zip(self._names, values, strict=True):
            field = self._fields[name]
            array = np.asarray(value) if not isinstance(value, str) else np.array(value)
            if array.shape != field.shape:
                raise ValueError(
                    f"{name}: expected shape {field.shape}, got {array.shape}"
                ) from cause
            self._converted(name, value)
            if name == "reward" and not isfinite(float(value)):
                raise ValueError(f"reward is {value}: it must be finite") from cause
        raise cause


def _fits(array: NDArray[Any], field: Field) -> bool:
    """Whether values may be stored: floats in floats, whole numbers that are in range, 0/1 as bool."""
    kind, to = array.dtype.kind, field.dtype.kind
    if to == "f":
        return kind in "fiu"
    if to in "iu" and kind in "iu":
        limits = np.iinfo(field.dtype)
        return array.size == 0 or bool(array.min() >= limits.min and array.max() <= limits.max)
    if to == "b" and kind in "iu":
        return bool(((array == 0) | (array == 1)).all())
    return False
