"""Numbers as rows of bytes, which a sampler compares: equal values have equal bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sibling_replay.replay.arrays import U8
from sibling_replay.staging import as_array


def cells_of(name: str, values: Any, count: int) -> U8:
    """Numbers as one row of bytes an entry, [count, width]; of None, rows of no bytes.

    values: an array with an entry in each row, or a tuple of such arrays (a tuple of numbers is an
        array).
    Equal values are equal bytes: -0.0 is 0.0, and every kind of true is one.
    """
    if values is None:
        return np.empty((count, 0), dtype=np.uint8)
    several = isinstance(values, tuple) and all(np.ndim(column) for column in values)
    columns = values if several else (_whole(name, as_array(name, values)),)
    parts = [_column_cells(name, as_array(name, column), count) for column in columns]
    if not parts or sum(part.shape[1] for part in parts) == 0 < count:
        raise TypeError(f"{name} are made of at least one number an entry")
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _whole(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """One number is a row; single integers of whatever width are one kind."""
    if array.dtype.kind in "iu" and array.ndim < 2:
        if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name}: {array.max()} is out of range for int64")
        array = array.astype(np.int64)
    return array.reshape(1) if array.ndim == 0 else array


def _column_cells(name: str, array: NDArray[Any], count: int) -> U8:
    """The bytes of each row of an array of numbers."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers, not {array.dtype}")
    if len(array) != count:
        raise ValueError(f"{name}: expected one for each of {count} slots, got {len(array)}")
    if array.dtype.itemsize > 8:  # some of its bytes belong to no number and hold anything
        raise TypeError(f"numbers of at most 64 bits are needed, not {array.dtype}: cast them")
    if array.dtype.kind == "f":
        array = array + array.dtype.type(0)
    elif array.dtype.kind == "b":
        array = array.view(np.uint8) != 0
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    width = array.dtype.itemsize * (array.size // count if count else 0)
    return np.ascontiguousarray(array).view(np.uint8).reshape(count, width)
