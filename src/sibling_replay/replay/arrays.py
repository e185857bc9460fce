"""Array types and allocation shared by the kernels' callers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

F64: TypeAlias = NDArray[np.float64]
F32: TypeAlias = NDArray[np.float32]
I64: TypeAlias = NDArray[np.int64]
I32: TypeAlias = NDArray[np.int32]
U8: TypeAlias = NDArray[np.uint8]
U32: TypeAlias = NDArray[np.uint32]


def aligned_zeros(size: int, dtype: np.dtype[Any], alignment: int) -> NDArray[Any]:
    """A zeroed 1-D array whose first element lies on a multiple of `alignment` bytes."""
    raw = np.zeros(size * dtype.itemsize + alignment, dtype=np.uint8)
    shift = -raw.ctypes.data % alignment
    return raw[shift : shift + size * dtype.itemsize].view(dtype)
