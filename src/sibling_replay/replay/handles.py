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
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from sibling_replay.replay.arrays import I64
from sibling_replay.replay.views import new_view


def handle_of(arrays: Sequence[NDArray[Any]]) -> I64:
    """The addresses and sizes of C-contiguous arrays, in order."""
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError("a handle can only point at C-contiguous arrays")
    return np.array([(array.ctypes.data, array.size) for array in arrays], dtype=np.int64)


@intrinsic
def open_vector(typingctx: Any, handle: Any, which: Any, dtype: Any) -> Any:
    """Array `which` of a handle, in one dimension."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, size = _entry(context, builder, signature, arguments)
        return new_view(context, builder, signature.return_type, data, [size])

    return types.Array(dtype.dtype, 1, "C")(handle, types.int64, dtype), codegen


@intrinsic
def open_table(typingctx: Any, handle: Any, which: Any, width: Any, dtype: Any) -> Any:
    """Array `which` of a handle, as rows of `width`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, size = _entry(context, builder, signature, arguments)
        shape = [builder.sdiv(size, arguments[2]), arguments[2]]
        return new_view(context, builder, signature.return_type, data, shape)

    return types.Array(dtype.dtype, 2, "C")(handle, types.int64, types.int64, dtype), codegen


@intrinsic
def open_columns(typingctx: Any, handle: Any, which: Any, count: Any, dtype: Any) -> Any:
    """Array `which` of a handle, as `count` columns, each in one piece."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, size = _entry(context, builder, signature, arguments)
        shape = [arguments[2], builder.sdiv(size, arguments[2])]
        return new_view(context, builder, signature.return_type, data, shape)

    return types.Array(dtype.dtype, 2, "C")(handle, types.int64, types.int64, dtype), codegen


def _entry(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any]:
    """The address of an array, as a pointer, and its size."""
    table = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    place = builder.shl(arguments[1], arguments[1].type(1))
    address = builder.load(builder.gep(table, [place]))
    size = builder.load(builder.gep(table, [builder.add(place, place.type(1))]))
    return builder.inttoptr(address, cgutils.voidptr_t), size
