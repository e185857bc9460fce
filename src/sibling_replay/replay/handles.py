"""One argument instead of thirty: a compiled function finds its arrays through their addresses.

Handing an array to a compiled function costs about 0.1 microseconds, more than the work it does on
it for a small batch. A `handle` is a table of (address, size), one row an array; kernels open the
arrays they need from it. Whoever makes a handle keeps the arrays alive and never replaces one
without making the handle anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from sibling_replay.replay.arrays import I64


def handle_of(arrays: Sequence[NDArray[Any]]) -> I64:
    """The addresses and sizes of C-contiguous arrays, in order."""
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError("a handle can only point at C-contiguous arrays")
    return np.array([(array.ctypes.data, array.size) for array in arrays], dtype=np.int64)


@intrinsic
def _as_pointer(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@njit(cache=True, forceinline=True)
def open_vector(handle, which, dtype):
    """Array `which` of a handle, in one dimension."""
    return carray(_as_pointer(handle[which, 0]), handle[which, 1], dtype)


@njit(cache=True, forceinline=True)
def open_table(handle, which, width, dtype):
    """Array `which` of a handle, as rows of `width`."""
    return carray(_as_pointer(handle[which, 0]), (handle[which, 1] // width, width), dtype)


@njit(cache=True, forceinline=True)
def open_columns(handle, which, count, dtype):
    """Array `which` of a handle, as `count` columns, each in one piece."""
    return carray(_as_pointer(handle[which, 0]), (count, handle[which, 1] // count), dtype)
