"""Python values with NumPy in them as JSON data, and back, type for type.

Types matter: a game that counts with `np.bool_` differences or list elements of `np.int64` must go
on with the same, or a restored episode could differ from the one that was saved.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """The value as JSON data: arrays, NumPy scalars, tuples and dicts become tagged lists."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray):
        return ["array", value.dtype.str, list(value.shape), value.ravel().tolist()]
    if isinstance(value, np.generic):
        return ["scalar", value.dtype.str, value.item()]
    if type(value) is list:
        return ["list", [plain(item) for item in value]]
    if type(value) is tuple:
        return ["tuple", [plain(item) for item in value]]
    if type(value) is dict and all(type(key) is str for key in value):
        return ["dict", {key: plain(item) for key, item in value.items()}]
    raise TypeError(f"{value!r} has no plain form")


def restored(value: Any) -> Any:
    """What `plain` was given."""
    if type(value) is not list:
        return value
    kind, *rest = value
    match kind:
        case "array":
            dtype, shape, items = rest
            return np.array(items, dtype=dtype).reshape(shape)
        case "scalar":
            return np.dtype(rest[0]).type(rest[1])
        case "list":
            return [restored(item) for item in rest[0]]
        case "tuple":
            return tuple(restored(item) for item in rest[0])
        case "dict":
            return {key: restored(item) for key, item in rest[0].items()}
    raise ValueError(f"unknown plain form {kind!r}")
