"""Reading memory before it is needed, so that the waits for many cache lines overlap.

A loop that does some work on each of 256 scattered entries waits for them one by one, or nearly so:
the processor looks ahead only a few entries' work. A loop that merely touches them looks ahead far
enough to have dozens of lines on their way at a time. (Prefetch instructions would do the same
without waiting, but a processor drops them where it has no address translation at hand: for large
tables, which are what this is for.)
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic
def touch(typingctx: Any, array: Any, place: Any) -> Any:
    """Read element `place` of a C-contiguous array, counted flat, and make nothing of it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, arguments[0]).data
        # An atomic load is a plain one to the processor; to the compiler, one it may not drop.
        builder.load_atomic(
            builder.gep(data, [arguments[1]]), "monotonic", kind.dtype.bitwidth // 8
        )
        return context.get_dummy_value()

    return types.void(array, place), codegen
