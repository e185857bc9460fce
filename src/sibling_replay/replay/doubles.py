"""Unaligned float64 access in an int32 array: vectors of group members have their sum in front."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

_WORD_BYTES = 4  # what an int32 array is aligned to, and so a double in it


@intrinsic
def load_double(typingctx: Any, words: Any, place: Any) -> Any:
    """The double in words `place` and `place + 1`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_pointer(context, builder, signature, arguments))
        value.align = _WORD_BYTES
        return value

    return types.float64(words, place), codegen


@intrinsic
def store_double(typingctx: Any, words: Any, place: Any, value: Any) -> Any:
    """Write a double into words `place` and `place + 1`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature, arguments)
        builder.store(arguments[2], pointer).align = _WORD_BYTES
        return context.get_dummy_value()

    return types.void(words, place, types.float64), codegen


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    double = context.get_value_type(types.float64).as_pointer()
    return builder.bitcast(builder.gep(data, [arguments[1]]), double)
