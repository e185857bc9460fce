"""Arrays that a kernel uses without owning them.

Numba counts the references to every array, with an atomic instruction whenever one is passed on,
also to an inlined function. A run is some hundred arrays in nested tuples: counting them took a
third of a step of SAMPLE and two thirds of one of AVG-g2. Whoever calls the kernel holds the arrays
anyway, so for as long as it runs they need not be counted; but it must not return one.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def borrowed(typingctx: Any, value: Any) -> Any:
    """The same arrays, in the same nested tuples, uncounted: the caller keeps them alive."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _disown(context, builder, value, arguments[0])

    return value(value), codegen


def _disown(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        for i, inner in enumerate(kinds.types):
            part = builder.extract_value(value, i)
            value = builder.insert_value(value, _disown(context, builder, inner, part), i)
    return value
