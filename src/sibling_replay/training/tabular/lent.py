"""Nested tuples of arrays that a kernel uses in place, as one pointer.

A run is some hundred arrays and numbers in nested tuples. Numba hands tuples on by value and counts
the references to every array in them: as a whole, a run took a third of a step of SAMPLE to count,
and half of a minute to compile. A kernel that is lent a run has a pointer to a table of addresses
and numbers, and reads what it names: `run.network.theta` is one look into the table. Inside a
kernel a lent tuple is a tuple by its field names alone: it cannot be indexed, unpacked or returned.

Lending costs 1.5 microseconds a call, as Numba asks Python for the type: nothing for a call that
trains for thousands of steps. Calls that last microseconds get a handle (`replay/handles.py`).
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import (
    NativeValue,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype

from sibling_replay.replay.views import new_view

_WORD = ir.IntType(64)


class Lent:
    """A named tuple of C-contiguous arrays, numbers and such tuples, for kernels to use.

    It keeps the arrays alive; the tuple cannot change, and what is in its arrays may.
    """

    def __init__(self, lender: Any) -> None:
        self.lender = lender
        words: list[int] = []
        self.kind = _kind_of(lender, words)
        self._words = np.array(words, np.int64)
        self.address = int(self._words.ctypes.data)


class _Place(NamedTuple):
    """Where a field is: its type, and its first word in the table of the tuple it is in."""

    kind: types.Type
    first: int


class LentType(types.Type):
    """Of a tuple with these fields. Two are one if they agree in names, types and places."""

    def __init__(self, name: str, places: dict[str, _Place]) -> None:
        self.places = places
        digest = blake2b(repr(places).encode(), digest_size=8).hexdigest()
        super().__init__(name=f"Lent{name}_{digest}")  # short: it is part of every symbol


def _kind_of(value: Any, words: list[int]) -> types.Type:
    """The type a kernel sees; what its table holds is appended to `words`."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ValueError("only C-contiguous arrays can be lent")
        words += [value.ctypes.data, *value.shape]
        return types.Array(from_dtype(value.dtype), value.ndim, "C")
    if isinstance(value, (bool, int, np.integer)):
        words.append(int(value))
        return types.boolean if isinstance(value, bool) else types.int64
    if isinstance(value, (float, np.floating)):
        words += struct.unpack("q", struct.pack("d", value))
        return types.float64
    if not hasattr(value, "_fields"):
        raise ValueError(f"only arrays, numbers and named tuples can be lent, not {value!r}")
    start = len(words)
    places = {}
    for name, field in zip(value._fields, value, strict=True):
        first = len(words) - start
        places[name] = _Place(_kind_of(field, words), first)
    return LentType(type(value).__name__, places)


register_model(LentType)(models.OpaqueModel)


@typeof_impl.register(Lent)
def _typeof(value: Lent, context: Any) -> types.Type:
    return value.kind


@unbox(LentType)
def _unbox(kind: Any, value: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(address, cgutils.voidptr_t))


@infer_getattr
class _Fields(AttributeTemplate):
    key = LentType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return kind.places[name].kind if name in kind.places else None


@lower_getattr_generic(LentType)
def _look_up(context: Any, builder: Any, kind: LentType, table: Any, name: str) -> Any:
    """A field: the table of a tuple, a number, or an array at its address."""
    field, first = kind.places[name]
    at = builder.gep(builder.bitcast(table, _WORD.as_pointer()), [_WORD(first)])
    if isinstance(field, LentType):
        return builder.bitcast(at, cgutils.voidptr_t)

    def word(place: int) -> Any:
        """It never changes, so loops may read it once: without this they would not vectorise."""
        loaded = builder.load(builder.gep(at, [_WORD(place)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(field, types.Array):
        address, *shape = (word(i) for i in range(field.ndim + 1))
        return new_view(
            context, builder, field, builder.inttoptr(address, cgutils.voidptr_t), shape
        )
    if field == types.boolean:
        return builder.icmp_signed("!=", word(0), _WORD(0))
    return word(0) if field == types.int64 else builder.bitcast(word(0), ir.DoubleType())
