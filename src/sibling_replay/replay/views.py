"""Other views of an array, in kernels.

NumPy's own, `a.view(dtype)` and `a[i:j]`, check what may go wrong with any array and bring messages
for it, which take a second or two to compile. These trust their caller.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


@intrinsic
def view_as(typingctx: Any, array: Any, dtype: Any) -> Any:
    """A C-contiguous array's bytes as one vector of numbers of another type."""
    kind = types.Array(dtype.dtype, 1, "C")
    if array.layout != "C":
        raise TypingError("only a C-contiguous array has its bytes in one piece")

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = context.make_array(signature.args[0])(context, builder, arguments[0])
        old, new = (signature.args[0].dtype.bitwidth // 8, kind.dtype.bitwidth // 8)
        size = builder.mul(source.nitems, source.nitems.type(old))
        size = builder.udiv(size, size.type(new))
        view = new_view(context, builder, kind, source.data, [size], source)
        return impl_ret_borrowed(context, builder, kind, view)

    return kind(array, dtype), codegen


@intrinsic
def part(typingctx: Any, array: Any, start: Any, count: Any) -> Any:
    """The `count` elements of a vector from `start` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        source = context.make_array(kind)(context, builder, arguments[0])
        _, first, length = arguments
        (stride,) = cgutils.unpack_tuple(builder, source.strides, 1)
        if kind.layout == "C":
            stride = stride.type(kind.dtype.bitwidth // 8)
        data = cgutils.pointer_add(builder, source.data, builder.mul(first, stride))
        view = new_view(context, builder, kind, data, [length], source, [stride])
        return impl_ret_borrowed(context, builder, kind, view)

    return array(array, types.int64, types.int64), codegen


def new_view(
    context: Any,
    builder: Any,
    kind: Any,
    data: Any,
    shape: list[Any],
    source: Any = None,
    strides: list[Any] | None = None,
) -> Any:
    """An array of a type and shape at a pointer; it keeps alive what its source does. Without
    strides it is C-contiguous."""
    array = context.make_array(kind)(context, builder)
    itemsize = shape[0].type(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    if strides is None:
        strides = [itemsize]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        array,
        data=builder.bitcast(data, array.data.type),
        shape=shape,
        strides=strides,
        itemsize=itemsize,
        meminfo=None if source is None else source.meminfo,
        parent=None if source is None else source.parent,
    )
    return array._getvalue()
