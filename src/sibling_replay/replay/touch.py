"""Asking for memory before it is needed, so that the waits for many cache lines overlap.

A loop that does some work on each of 256 scattered entries waits for them one by one, or nearly so:
the processor looks ahead only a few entries' work. A loop that merely *touches* them looks ahead
far enough to have dozens of lines on their way at a time. To *fetch* a line waits for nothing, but
a processor may drop the request where it has no address translation at hand: it is for what will be
needed only much later.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def touch(typingctx: Any, array: Any, place: Any) -> Any:
    """Read element `place` of a C-contiguous array, counted flat, and make nothing of it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        # An atomic load is a plain one to the processor; to the compiler, one it may not drop.
        builder.load_atomic(
            _pointer(context, builder, kind, arguments), "monotonic", kind.dtype.bitwidth // 8
        )
        return context.get_dummy_value()

    return types.void(array, place), codegen


@intrinsic
def fetch(typingctx: Any, array: Any, place: Any) -> Any:
    """Ask for the cache line of element `place` of a C-contiguous array, counted flat."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = builder.bitcast(
            _pointer(context, builder, signature.args[0], arguments), cgutils.voidptr_t
        )
        number = ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [line.type], ir.FunctionType(ir.VoidType(), [line.type, *[number] * 3])
        )
        builder.call(prefetch, [line, number(0), number(3), number(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(array, place), codegen


def _pointer(context: Any, builder: Any, kind: Any, arguments: Any) -> Any:
    """To an element, given the array and its place."""
    data = context.make_array(kind)(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])
